"""The layers for multi-token prediction (MTP) that a config.json declares.

Source: `SpeculativeConfig.hf_config_override` and the `*_mtp.py` models of 0.23 and 0.33. Which of
these types a version drafts with is in `core/speculation.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from workbench.core.draft_parts import Mtp
from workbench.core.model import FULL, SLIDING, Layer
from workbench.models.fields import MAX_LAYERS, Fields
from workbench.models.listed import listed_name

COUNT, QWEN_COUNT, M3_COUNT = "num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"
ATTENTION = frozenset({"*", "attention", "full_attention"})
"""Nemotron-H's names of a layer with attention, in its pattern and in its list."""
KINDS, MORE_KINDS = "layer_types", "mtp_layer_types"
WORDS = {FULL: FULL, SLIDING: SLIDING}
Block = Callable[[Fields, int], Sequence[Layer]]
"""Builds what a prediction keeps in the cache, of the given number from 0."""
Reader = Callable[[Fields, str, int], Mtp | None]


def _full(_fields: Fields, _index: int) -> tuple[Layer, ...]:
    return (Layer(number=0, kind=FULL),)


def one_each(
    fields: Fields,
    model_type: str,
    first: int,
    *,
    key: str = COUNT,
    default: int = 0,
    is_named_apart: bool = False,
    targets: frozenset[str] = frozenset(),
    block: Block = _full,
) -> Mtp:
    """Return one block per prediction, numbered from `first`.

    key: the field with their number; default: its value if absent. is_named_apart: vLLM numbers
    them from 0 again, instead of after the model's own. targets: as in `Mtp`.
    """
    if key == COUNT and not fields.has(key) and fields.has("num_mtp_layers"):
        key = "num_mtp_layers"  # another name of it in transformers
    is_declared, count = fields.has(key), default
    if is_declared:
        count = fields.integer(key, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    return Mtp(
        model_type=model_type,
        layers=tuple(
            layer._replace(number=first + index)
            for index in range(count)
            for layer in block(fields, index)
        ),
        first_index=0 if is_named_apart else first,
        predictions=count if is_declared else None,
        is_nested=bool(fields.prefix),
        targets=targets,
        chained=count if is_declared and key == COUNT else 1,
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
    """Return one layer, whatever number is declared; a block has two layers of the model's."""
    count = fields.integer(COUNT, 1, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    return Mtp(
        model_type=model_type,
        layers=(Layer(number=first, kind=FULL),) if count else (),
        first_index=first,
        predictions=count,
        chained=count,
    )


def _listed(first: int, kinds: Sequence[str], counted: Mtp) -> Mtp:
    """Return the counted layers with the kinds of a list, where it has enough."""
    numbers = range(first, first + len(counted.layers))
    found = (*kinds[: len(numbers)], *(FULL for _ in numbers[len(kinds) :]))
    layers = tuple(Layer(number=at, kind=kind) for at, kind in zip(numbers, found, strict=True))
    return replace(counted, layers=layers, is_listed=len(kinds) >= len(numbers))


def _kinds(fields: Fields, key: str) -> tuple[str, ...]:
    return (fields.layer_list(key, WORDS) if fields.has(key) else None) or ()


def _step(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return layers whose kinds follow those of the model in its list, or in one of their own."""
    counted = replace(one_each(fields, model_type, first), is_nested=False)
    after = (*_kinds(fields, KINDS), *_kinds(fields, MORE_KINDS))[first:]
    return _listed(first, after, counted)


def _exaone(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return layers of the kinds of the model's first ones, or of a list of their own."""
    # Exaone 4.5 has the number outside text_config.
    top = Fields({key: value for key, value in fields.top.items() if key != "text_config"})
    counted = one_each(top, model_type, first, default=1, is_named_apart=True)
    return _listed(first, _kinds(fields, MORE_KINDS) or _kinds(fields, KINDS), counted)


def _glm_ocr(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return the layers that the text model declares; the limit is declared outside of it."""
    predictions = fields.top.get(COUNT)
    known = predictions if isinstance(predictions, int) else None
    return replace(one_each(fields, model_type, first), predictions=known, is_nested=False)


def _every(fields: Fields, model_type: str, first: int) -> Mtp | None:
    """Return as many layers as the model has: the drafter is the class of a head."""
    # EagleMistralLarge3ForCausalLM
    if fields.model_type not in {"deepseek_v3", "deepseek_v32"}:
        return None
    counted = one_each(fields, model_type, first)
    numbers = range(first, 2 * first) if counted.predictions != 0 else ()
    return replace(counted, layers=tuple(Layer(number=at, kind=FULL) for at in numbers))


def _assistant(_fields: Fields, model_type: str, first: int) -> Mtp:
    """Return a small decoder without keys and values: it drafts a token with all of its layers."""
    # Gemma4Proposer of 0.23 and Gemma4Speculator of 0.33, _setup_gemma4_kv_sharing
    return Mtp(
        model_type=model_type,
        layers=(),
        first_index=first,
        predictions=1,
        targets=GEMMA,
        reads_target=True,
    )


def _intern(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return Qwen3.5's layers; both versions look for their number in the text model."""
    own = frozenset({model_type, fields.model_type})
    return replace(_qwen(fields, model_type, first), is_nested=False, targets=own)


# Qwen3_5MultiTokenPredictor and Qwen3NextMultiTokenPredictor, 0.23 and 0.33; the class of a MoE
# drafter looks for experts in its layers.
QWEN_MOE = frozenset({"qwen3_5_moe", "qwen3_5_moe_text"})
QWEN = QWEN_MOE | {"qwen3_5", "qwen3_5_text"}
_qwen = partial(one_each, key=QWEN_COUNT, default=1, is_named_apart=True, targets=QWEN)
_qwen_moe = partial(_qwen, targets=QWEN_MOE)
_qwen_next = partial(one_each, default=1, is_named_apart=True, targets=frozenset({"qwen3_next"}))
GEMMA = frozenset({"gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text"})
READERS: dict[str, Reader] = {
    "BailingMoeV3VLForConditionalGeneration": one_each,
    "GlmOcrForConditionalGeneration": _glm_ocr,
    "MiMoForCausalLM": one_each,
    "MistralLarge3ForCausalLM": _every,
    "NemotronH_Omni_Reasoning_V3": _nemotron,
    "NemotronH_Super_Omni_Reasoning_V3": _nemotron,
    "Step3p5ForCausalLM": _step,
    "Step3p7ForConditionalGeneration": _step,
    "bailing_hybrid": partial(one_each, default=1),
    "deepseek_v3": partial(one_each, default=1),
    "deepseek_v32": partial(one_each, default=1),
    "ernie4_5_moe": one_each,
    "exaone4_5": _exaone,
    "exaone_moe": _exaone,
    **dict.fromkeys(("gemma4_assistant", "gemma4_unified_assistant"), _assistant),
    "glm4_moe": partial(one_each, default=1),
    "glm4_moe_lite": one_each,
    "glm_moe_dsa": one_each,
    "hy_v3": one_each,
    "hy_v4": partial(one_each, default=1),
    "intern_s2_preview": _intern,
    "interns2_mobius": _intern,
    "kimi_k3": one_each,
    "longcat_flash": _longcat,
    "nemotron_h": _nemotron,
    "nemotron_h_puzzle": _nemotron,
    "pangu_ultra_moe": one_each,
    "qwen3_5": _qwen,
    "qwen3_5_moe": _qwen_moe,
    "qwen3_5_moe_text": _qwen_moe,
    "qwen3_5_text": _qwen,
    "qwen3_next": _qwen_next,
    "step3p5": _step,
    "step3p7": _step,
}
"""Architecture, or model_type of the whole file -> its reader."""
BY_CLASS = {"glm4_moe": "Glm4MoeForCausalLM", "glm4_moe_lite": "Glm4MoeLiteForCausalLM"}
"""Types of which `hf_config_override` asks the class: a head may have the type, too."""


def read_mtp(fields: Fields, first: int) -> Mtp | None:
    """Return the MTP layers, numbered from `first`; None if vLLM knows none for the type."""
    architecture = listed_name(fields.top, "")
    for kind in (architecture, fields.top.get("model_type") or fields.model_type):
        if not isinstance(kind, str) or kind not in READERS:
            continue
        if architecture in {"", BY_CLASS.get(kind, architecture)}:
            return READERS[kind](fields, kind, first)
    return None
