"""The layers for multi-token prediction (MTP) that a config.json declares.

Source: `SpeculativeConfig.hf_config_override` and the `*_mtp.py` models of 0.23 and 0.33. Which of
these types a version drafts with is in `core/speculation.py`.
"""

from collections.abc import Callable
from functools import partial

from workbench.core.model import FULL, Layer, Mtp
from workbench.models.fields import MAX_LAYERS, Fields

COUNT, QWEN_COUNT = "num_nextn_predict_layers", "mtp_num_hidden_layers"
ATTENTION = frozenset({"*", "attention", "full_attention"})
"""Nemotron-H's names of a layer with attention, in its pattern and in its list."""


def _full(_fields: Fields) -> Layer:
    return Layer(number=0, kind=FULL)


def one_each(
    fields: Fields,
    model_type: str,
    first: int,
    *,
    key: str = COUNT,
    default: int = 0,
    is_named_apart: bool = False,
    layer: Callable[[Fields], Layer] = _full,
) -> Mtp:
    """Return one layer per prediction, numbered from `first`.

    key: the field with their number; default: its value if absent. is_named_apart: vLLM numbers
    them from 0 again, instead of after the model's own. layer: builds one, of any number.
    """
    if key == COUNT and not fields.has(key) and fields.has("num_mtp_layers"):
        key = "num_mtp_layers"  # another name of it in transformers
    is_declared, count = fields.has(key), default
    if is_declared:
        count = fields.integer(key, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    return Mtp(
        model_type=model_type,
        layers=tuple(layer(fields)._replace(number=first + index) for index in range(count)),
        first_index=0 if is_named_apart else first,
        predictions=count if is_declared else None,
        is_nested=bool(fields.prefix),
        chained=count if is_declared and key != QWEN_COUNT else 1,
    )


def _nemotron(fields: Fields, model_type: str, first: int) -> Mtp | None:
    """Return one prediction, whose layers a pattern names; those with attention keep a cache."""
    count = fields.integer(COUNT, 0, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    if not count:
        return None
    kinds = fields.raw("mtp_layers_block_type") or fields.raw("mtp_hybrid_override_pattern") or "*E"
    if not isinstance(kinds, str | list):
        raise fields.wrong("mtp_layers_block_type", kinds, "a list with a word per layer")
    return Mtp(
        model_type=model_type,
        layers=tuple(
            Layer(number=first + at, kind=FULL)
            for at, kind in enumerate(kinds)
            if kind in ATTENTION
        ),
        first_index=0,
        predictions=count,
        max_predictions=1,
        chained=count,
    )


def _longcat(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return one layer, whatever number is declared."""
    count = fields.integer(COUNT, 1, name="mtp_layers", maximum=MAX_LAYERS)
    return Mtp(
        model_type=model_type,
        layers=(Layer(number=first, kind=FULL),),
        first_index=first,
        predictions=count,
        chained=count,
    )


_qwen = partial(one_each, key=QWEN_COUNT, default=1, is_named_apart=True)
READERS: dict[str, Callable[[Fields, str, int], Mtp | None]] = {
    "bailing_hybrid": one_each,
    "deepseek_v3": one_each,
    "deepseek_v32": one_each,
    "ernie4_5_moe": one_each,
    "glm4_moe": one_each,
    "glm4_moe_lite": one_each,
    "glm_moe_dsa": one_each,
    "intern_s2_preview": _qwen,
    "interns2_mobius": _qwen,
    "longcat_flash": _longcat,
    "nemotron_h": _nemotron,
    "nemotron_h_puzzle": _nemotron,
    "pangu_ultra_moe": one_each,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen,
    "qwen3_5_moe_text": _qwen,
    "qwen3_5_text": _qwen,
    "qwen3_next": partial(one_each, default=1, is_named_apart=True),
}
"""model_type of the whole file -> its reader."""


def read_mtp(fields: Fields, first: int) -> Mtp | None:
    """Return the MTP layers, numbered from `first`; None if vLLM knows none for the type."""
    model_type = fields.top.get("model_type") or fields.model_type
    if not isinstance(model_type, str) or model_type not in READERS:
        return None
    return READERS[model_type](fields, model_type, first)
