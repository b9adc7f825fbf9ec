"""Weights of drafters: heads, and what the target's checkpoint has, by model_type.

Source: the `*_mtp.py` of 0.23 and 0.33, and `mtp.py` and `dspark.py` in `vllm/models` of 0.33.
"""

from collections.abc import Callable

from workbench.core.weights import DSPARK_PART, MTP_PART, Part
from workbench.models.weights.compressed import compressed_joint, compressed_layer, joined_streams
from workbench.models.weights.decoders import DECODERS, LLAMA
from workbench.models.weights.heads import HEADS, Drafted, markov
from workbench.models.weights.hybrids import nemotron_layer, qwen_layer
from workbench.models.weights.mimo_v2 import mimo_v2_draft
from workbench.models.weights.minimax_m3 import M3, minimax_m3_draft
from workbench.models.weights.newer import longcat_half
from workbench.models.weights.parts import Block, Config, column, norms, whole
from workbench.models.weights.positions import positions
from workbench.models.weights.stored import Unknown
from workbench.models.weights.streams import connected_draft, connected_ends, pooled_draft

OWN_LAYERS = {
    "glm5_next_text": pooled_draft,
    "mimo_v2_flash": mimo_v2_draft,
    "deepseek_v4": compressed_layer,
    "longcat_flash": longcat_half,
    **dict.fromkeys(M3, minimax_m3_draft),
}
"""model_type -> its layers for multi-token prediction, where they differ from the model's."""


def _joint(config: Config) -> list[Part]:
    """Return the projection of an embedding and a hidden state to one vector."""
    return [whole("eh_proj", config.hidden, inputs=2 * config.hidden)]


def _quantized_joint(config: Config) -> list[Part]:
    return [part._replace(is_linear=True) for part in _joint(config)]


JOINTS = {
    "deepseek_v4": compressed_joint,
    **dict.fromkeys(("longcat_flash", *M3), _quantized_joint),
}
"""model_type -> what joins the two, where it is another one."""


def _after(config: Config) -> Drafted:
    """Return layers like the last ones of the model, each with a projection."""
    kind = config.kind
    layer = OWN_LAYERS[kind] if kind in OWN_LAYERS else DECODERS[kind].layer
    joint = JOINTS.get(kind, _joint)(config)
    return Drafted(_following(config, layer, [*joint, *norms(config, 3)]))


def _following(config: Config, layer: Block, own: list[Part]) -> dict[str, list[Part]]:
    """Return the MTP layers, which follow those of the model. own: what each has in addition."""
    mtp = config.model.mtp
    numbers = sorted({one.number for one in mtp.layers}) if mtp is not None else []
    return {f"model.layers.{number}.": [*layer(config, number), *own] for number in numbers}


def _ernie(config: Config) -> Drafted:
    """Return layers of Llama, whose positions turn other elements than the model's."""
    layers = _following(config, LLAMA.layer, [*_joint(config), *norms(config, 2)])
    tables = [table._replace(name=f"Llama's {table.name}") for table in positions(config)]
    return Drafted({**layers, "": tables})


def _counted(config: Config, layer: Block, count: int, ends: list[Part]) -> Drafted:
    """Return so many layers with numbers of their own, and what is around them."""
    layers = {f"mtp.layers.{number}.": layer(config, number) for number in range(count)}
    return Drafted({**layers, "mtp.": ends})


def _qwen(config: Config, key: str) -> Drafted:
    """Return layers of full attention after one projection, which NVFP4 files do not quantize."""
    quantization = config.fields.top.get("quantization_config") or {}
    is_plain = quantization.get("quant_algo") == "NVFP4"
    fc = column("fc", config.hidden, inputs=2 * config.hidden, is_linear=not is_plain)
    return _counted(config, qwen_layer, config.size(key, default=1), [fc, *norms(config, 3)])


def _exaone(config: Config) -> Drafted:
    """Return layers as the model's after one projection."""
    fc = column("fc", config.hidden, inputs=2 * config.hidden)
    count = int(config.fields.top.get("num_nextn_predict_layers", 1))
    return _counted(config, DECODERS["exaone4"].layer, count, [fc, *norms(config, 3)])


def _streamed(config: Config) -> Drafted:
    """Return layers between residual streams, and what joins them."""
    count = config.size("mtp_num_hidden_layers", default=1)
    return _counted(config, connected_draft, count, connected_ends(config))


def _nemotron(config: Config) -> Drafted:
    """Return the layers of a pattern, between a projection and a norm."""
    kinds = config.raw("mtp_layers_block_type") or config.raw("mtp_hybrid_override_pattern") or "*E"
    parts = {
        f"mtp.layers.{at}.": nemotron_layer(config, str(kind)) for at, kind in enumerate(kinds)
    }
    joint = column("eh_proj", config.hidden, inputs=2 * config.hidden)
    ends = {"mtp.layers.0.ends.": [joint, *norms(config, 3)]}
    return Drafted({**parts, **ends})


def _compressed_spark(config: Config) -> Drafted:
    """Return DeepSeek-V4's own DSpark: layers that compress nothing; vocabularies are shared."""
    hidden, rank = config.hidden, config.size("dspark_markov_rank")
    size = config.size("head_dim")
    count, first = len(config.model.dspark), config.model.num_hidden_layers
    layers = {
        f"model.layers.{number}.": compressed_layer(config, number)
        for number in range(first, first + count)
    }
    read = len(config.raw("dspark_target_layer_ids"))
    rest = [
        whole("main_proj", hidden, inputs=read * hidden, is_linear=True),
        whole("context_wkv_proj", *count * [size], inputs=hidden, is_linear=True),
        *norms(config, 2),
        *joined_streams(config),
        *markov(config, rank),
    ]
    if config.flag("enable_confidence_head", default=True):
        rest.append(whole("confidence_head", 1, inputs=hidden + rank, dtype="float32"))
    return Drafted({**layers, "model.": rest})


MTP: dict[str, Callable[[Config], Drafted]] = {
    **dict.fromkeys(
        (
            *("deepseek_v3", "deepseek_v32", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "mimo"),
            *OWN_LAYERS,
        ),
        _after,
    ),
    "exaone4_5_text": _exaone,
    "qwen4_exp_text": _streamed,
    "ernie4_5_moe": _ernie,
    "qwen3_next": lambda config: _qwen(config, "num_nextn_predict_layers"),
    **dict.fromkeys(
        ("qwen3_5_text", "qwen3_5_moe_text"), lambda config: _qwen(config, "mtp_num_hidden_layers")
    ),
    "nemotron_h": _nemotron,
}
"""model_type of the text model -> its layers for multi-token prediction, which always have the
vocabularies of the target."""

IN_TARGET: dict[str, dict[str, Callable[[Config], Drafted]]] = {
    MTP_PART: MTP,
    DSPARK_PART: {"deepseek_v4": _compressed_spark},
}
"""Part of a target's checkpoint -> model_type -> what drafts."""


def drafted(config: Config, part: str, kind: str) -> Drafted:
    """Return what drafts. Errors: Unknown for what is not described.

    part: one of `IN_TARGET`, or the class of a head; kind: model_type.
    """
    of_target = IN_TARGET.get(part)
    build = HEADS.get(part) if of_target is None else of_target.get(kind)
    if build is None:
        raise Unknown(f"the weights of {part if of_target is None else kind} are not described")
    return build(config)
