"""Weights of heads that draft, by the class that they are loaded as.

Source: the `*_eagle*.py`, `qwen3_dflash.py`, `qwen3_dspark.py` and `medusa.py` of 0.23 and 0.33.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from workbench.core.weights import EARLIER, EMBEDDING, LATER, PER_DRAFT, Part
from workbench.models.weights.decoders import DECODERS, LLAMA, Decoder
from workbench.models.weights.listed_experts import laguna_layer
from workbench.models.weights.parts import (
    Config,
    attention,
    cut,
    latent,
    mlp,
    norms,
    vocabulary,
    whole,
)

AUXILIARY = 3
"""Hidden states of the target that EAGLE-3 reads if nothing says which."""


class Drafted(NamedTuple):
    """The parts of a drafter, under the beginnings of their names, and its vocabularies."""

    parts: Mapping[str, list[Part]]
    shared: tuple[Part, ...] = ()
    """Those that may be the target's."""


def _layers(config: Config, layer: Callable[[int], list[Part]]) -> dict[str, list[Part]]:
    count = config.model.num_hidden_layers
    return {f"model.layers.{number}.": layer(number) for number in range(count)}


def _vocabularies(config: Config) -> tuple[Part, ...]:
    """Return embedding and head; the head may have fewer tokens than the target."""
    rows = config.size("vocab_size")
    drafted = config.size("draft_vocab_size", default=rows)
    return (
        vocabulary(EMBEDDING, rows, config.hidden),
        vocabulary("lm_head", drafted, config.hidden),
    )


def _map(config: Config) -> list[Part]:
    """Return the target's number of every drafted token, in 64 bits."""
    rows = config.size("vocab_size")
    count = config.size("draft_vocab_size", default=rows)
    return [
        whole(
            "draft_id_to_target_id",
            count,
            inputs=2,
            dtype="float32",
            kind=EARLIER if count == rows else "",
        )
    ]


def _eagle(config: Config) -> Drafted:
    """Return EAGLE: layers of Llama, the first without its norm; the head is the target's."""

    def layer(number: int) -> list[Part]:
        return LLAMA.layer(config, number)[: None if number else -1]

    fc = whole("fc", config.hidden, inputs=2 * config.hidden, is_linear=True)
    return Drafted({**_layers(config, layer), "model.": [fc]}, _vocabularies(config)[:1])


def _joined(config: Config) -> list[Part]:
    """Return what joins the target's hidden states for EAGLE-3."""
    own = config.mapping("eagle_config")
    listed = own.get("eagle_aux_hidden_state_layer_ids")
    count = config.size("num_aux_hidden_states", default=len(listed) if listed else AUXILIARY)
    width = config.size("target_hidden_size", default=config.hidden)
    parts = [whole("fc", config.hidden, inputs=count * width, is_linear=True)]
    if own.get("norm_before_fc", config.flag("norm_before_fc")):
        parts.append(whole("input_norm", count * width))
    if config.flag("fc_norm"):
        parts += [whole("fc_norm", width) for _ in range(count)]
    return parts if own.get("use_aux_hidden_state", True) else []


def _eagle3(config: Config, decoder: Decoder = LLAMA) -> Drafted:
    """Return EAGLE-3: the first layer reads an embedding and a hidden state."""

    def layer(number: int) -> list[Part]:
        inputs = config.hidden if number else 2 * config.hidden
        mixer = (
            latent(config, number, inputs=inputs)
            if config.attention.use_mla
            else decoder.attention(config, inputs=inputs)
        )
        return [*mixer, *decoder.feed_forward(config, number), *norms(config, 3)]

    rest = [*_joined(config), *norms(config, 1), *_map(config)]
    return Drafted({**_layers(config, layer), "model.": rest}, _vocabularies(config))


def _eagle3_latent(config: Config) -> Drafted:
    return _eagle3(config, Decoder())


def _eagle3_qwen(config: Config) -> Drafted:
    return _eagle3(config, DECODERS["qwen3"])


FEATURES = (
    ("", "eagle_aux_hidden_state_layer_ids"),
    ("dflash_config", "target_layer_ids"),
    ("", "dspark_target_layer_ids"),
    ("", "target_layer_ids"),
    ("dflash_config", "layer_ids"),
    ("eagle_config", "layer_ids"),
)
"""Where a DFlash file lists the target's layers that it reads, in vLLM's order."""


def _flash(config: Config, *, bonus: Sequence[Part] = (), mixed: Sequence[Part] = ()) -> Drafted:
    """Return DFlash; bonus, mixed: what others have in addition, once and in every layer."""
    flash = config.mapping("dflash_config")

    def layer(_number: int) -> list[Part]:
        bias = "attention_bias"
        parts = attention(config, bias=bias, out_bias=bias, norm="head")
        if flash.get("attention_sink_bias", config.flag("add_swa_attention_sink_bias")):
            parts.append(cut("sinks", config.attention.num_heads, kind=LATER))
        parts += mlp(config, "mlp", config.size("intermediate_size"))
        return [*parts, *norms(config, 2), *mixed]

    listed = (
        (config.mapping(place) if place else config.fields.text).get(key) for place, key in FEATURES
    )
    ids = next(filter(None, listed), ())
    count = len(ids) or config.model.num_hidden_layers
    width = config.size("target_hidden_size", default=config.hidden)
    rest = [*norms(config, 2), whole("mask_embedding", config.hidden, kind=LATER), *bonus]
    if {**config.mapping("eagle_config"), **flash}.get("use_aux_hidden_state", True):
        rest.append(whole("fc", config.hidden, inputs=count * width, is_linear=True))
    rows = config.size("vocab_size")
    if config.size("draft_vocab_size", default=rows) != rows:
        rest += _map(config)
    return Drafted({**_layers(config, layer), "model.": rest}, _vocabularies(config))


def _flash2(config: Config) -> Drafted:
    """Return DFlash 2: DFlash with convolutions over its block, and a selector of candidates."""
    own = config.mapping("dflash_config")
    hidden, rows = config.hidden, config.size("vocab_size")
    taps, groups = (int(own.get(key) or 1) for key in ("conv_kernel_size", "conv_group_size"))
    rank, outputs = int(own.get("selector_rank") or 0), 2 * taps * (hidden // groups)
    convolutions = [
        part
        for name in ("attention_conv", "mlp_conv")
        for part in (
            whole(f"{name}.base_kernel", 2 * taps * hidden),
            whole(f"{name}.kernel_projection", outputs, inputs=hidden, is_linear=True),
        )
    ]
    names = ("predecessor_codebook", "successor_codebook")
    selector = [whole(name, rows, inputs=rank) for name in names]
    selector.append(whole("hidden_projection", rank, inputs=hidden))
    return _flash(config, bonus=selector, mixed=convolutions)


def _flash_laguna(config: Config) -> Drafted:
    """Return DFlash of Laguna: its layers, and a norm of each hidden state that they read."""
    count = len(config.mapping("dflash_config").get("target_layer_ids") or ())
    width = config.size("target_hidden_size", default=config.hidden)
    rest = [
        *(whole("aux_hidden_norms", width) for _ in range(count)),
        whole("fc", config.hidden, inputs=count * width, is_linear=True),
        *norms(config, 2),
        whole("mask_embedding", config.hidden),
    ]
    layers = _layers(config, lambda number: laguna_layer(config, number))
    return Drafted({**layers, "model.": rest}, _vocabularies(config))


def _spark(config: Config) -> Drafted:
    """Return DSpark: DFlash, a Markov head and a head for confidence."""
    return _flash(config, bonus=_spark_heads(config))


def _spark_heads(config: Config) -> list[Part]:
    rank = config.size("markov_rank")
    heads = markov(config, rank)
    if config.flag("enable_confidence_head"):
        inputs = config.hidden + (rank if config.flag("confidence_head_with_markov") else 0)
        heads.append(whole("confidence_head", 1, inputs=inputs, bias=True, dtype="float32"))
    return heads


def _k3_spark(config: Config) -> Drafted:
    """Return DSpark of Kimi K3: latent attention, whose latents of the target have a projection."""

    def layer(number: int) -> list[Part]:
        width = config.size("intermediate_size")
        one = whole("self_attn.one_scale", 1, dtype="float32")
        return [*latent(config, number), one, *mlp(config, "mlp", width), *norms(config, 2)]

    read = config.size("target_hidden_size") * config.size("num_target_layers")
    latents = config.size("kv_lora_rank") + config.size("qk_rope_head_dim")
    layers = config.model.num_hidden_layers
    rest = [
        whole("context_proj", config.hidden, inputs=read, is_linear=True),
        whole("context_kv_proj", layers * latents, inputs=config.hidden, is_linear=True),
        *norms(config, 2),
        *_spark_heads(config),
    ]
    return Drafted({**_layers(config, layer), "model.": rest})


def markov(config: Config, rank: int) -> list[Part]:
    """Return the head that knows the last token: two matrices, which every rank has whole."""
    rows = config.size("vocab_size")
    drafted = vocabulary("", config.size("draft_vocab_size", default=rows), 1).outputs[0][0]
    return [whole("markov_w1", rows, inputs=rank), whole("markov_w2", drafted, inputs=rank)]


def _medusa(config: Config) -> Drafted:
    """Return Medusa: a block and a head for every token that is drafted."""
    rows, hidden = config.size("vocab_size", default=32_001), config.hidden
    bias = config.flag("medusa_fc_bias")
    block = whole("block", hidden, inputs=hidden, bias=bias, kind=PER_DRAFT)
    blocks = config.size("num_hidden_layers", default=1) * [block]
    last = vocabulary("lm_head", rows, hidden)._replace(kind=PER_DRAFT)
    if config.flag("original_lm_head"):
        last = vocabulary("lm_head", config.size("truncated_vocab_size", default=rows), hidden)
    return Drafted({"": [*blocks, last]})


HEADS: dict[str, Callable[[Config], Drafted]] = {
    "EagleLlamaForCausalLM": _eagle,
    **dict.fromkeys(
        (
            *("Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "Eagle3MiniMaxM2ForCausalLM"),
            *("PeagleLlamaForCausalLM", "PEagleDraftModel"),
            *("Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM"),
        ),
        _eagle3,
    ),
    **dict.fromkeys(("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM"), _eagle3_qwen),
    **dict.fromkeys(("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"), _eagle3_latent),
    **dict.fromkeys(("DFlashDraftModel", "DFlashMuseGlimmerAssistantModel"), _flash),
    "DFlash2DraftModel": _flash2,
    "DFlashLagunaForCausalLM": _flash_laguna,
    **dict.fromkeys(("Qwen3DSparkModel", "Qwen3OmniDSparkModel"), _spark),
    "K3DSparkModel": _k3_spark,
    "MedusaModel": _medusa,
}
"""Class in vLLM's registry -> what it has."""
