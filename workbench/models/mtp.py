"""The layers for multi-token prediction (MTP) that a config.json declares.

Source: `SpeculativeConfig.hf_config_override` and the `*_mtp.py` models of 0.23 and 0.33. Which of
these types a version drafts with is in `core/speculation.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from workbench.core.model import FULL, Layer, Mtp
from workbench.models.fields import MAX_LAYERS, Fields

COUNT, QWEN_COUNT = "num_nextn_predict_layers", "mtp_num_hidden_layers"
ATTENTION = frozenset({"*", "attention", "full_attention"})
"""Nemotron-H's names of a layer with attention, in its pattern and in its list."""


class _Declared(NamedTuple):
    """How a family declares its MTP layers, one with full attention per prediction.

    key: the field with their number; default: its value if absent, None for no such layers.
    is_named_apart: vLLM numbers them from 0 again, instead of after the model's own.
    """

    key: str = COUNT
    default: int | None = None
    is_named_apart: bool = False

    def read(self, fields: Fields, model_type: str, first: int) -> Mtp:
        """Return the layers, numbered from `first`."""
        key = self.key
        if key == COUNT and not fields.has(key) and fields.has("num_mtp_layers"):
            key = "num_mtp_layers"  # another name of it in transformers
        is_declared = fields.has(key)
        count = self.default or 0
        if is_declared:
            count = fields.integer(key, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
        return Mtp(
            model_type=model_type,
            layers=tuple(Layer(first + index, FULL) for index in range(count)),
            first_index=0 if self.is_named_apart else first,
            predictions=count if is_declared else None,
            is_nested=bool(fields.prefix),
            chained=count if is_declared and self.key == COUNT else 1,
        )


def _nemotron(fields: Fields, model_type: str, first: int) -> Mtp | None:
    """Return one prediction, whose layers a pattern names; those with attention keep a cache."""
    count = fields.integer(COUNT, 0, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    if not count:
        return None
    kinds = fields.raw("mtp_layers_block_type") or fields.raw("mtp_hybrid_override_pattern") or "*E"
    if not isinstance(kinds, str | list):
        raise fields.wrong("mtp_layers_block_type", kinds, "a list with a word per layer")
    layers = tuple(Layer(first + at, FULL) for at, kind in enumerate(kinds) if kind in ATTENTION)
    return Mtp(
        model_type=model_type,
        layers=layers,
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
        layers=(Layer(first, FULL),),
        first_index=first,
        predictions=count,
        chained=count,
    )


QWEN_NEXT = _Declared(default=1, is_named_apart=True)
QWEN = _Declared(QWEN_COUNT, default=1, is_named_apart=True)
READERS: dict[str, Callable[[Fields, str, int], Mtp | None]] = {
    **dict.fromkeys(
        (
            "bailing_hybrid",
            "deepseek_v3",
            "deepseek_v32",
            "ernie4_5_moe",
            "glm4_moe",
            "glm4_moe_lite",
            "glm_moe_dsa",
            "pangu_ultra_moe",
        ),
        _Declared().read,
    ),
    **dict.fromkeys(("nemotron_h", "nemotron_h_puzzle"), _nemotron),
    **dict.fromkeys(
        (
            "intern_s2_preview",
            "interns2_mobius",
            "qwen3_5",
            "qwen3_5_moe",
            "qwen3_5_moe_text",
            "qwen3_5_text",
        ),
        QWEN.read,
    ),
    "longcat_flash": _longcat,
    "qwen3_next": QWEN_NEXT.read,
}
"""model_type of the whole file -> its reader."""


def read_mtp(fields: Fields, first: int) -> Mtp | None:
    """Return the MTP layers, numbered from `first`; None if vLLM knows none for the type.

    Errors: ConfigError for an invalid number.
    """
    model_type = fields.top.get("model_type") or fields.model_type
    if not isinstance(model_type, str) or model_type not in READERS:
        return None
    return READERS[model_type](fields, model_type, first)
