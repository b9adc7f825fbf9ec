"""Weights of families whose layers are like no other: Llama 4, LongCat, Nemotron-NAS and more."""

from collections.abc import Callable
from math import ceil

from workbench.core.formats import Format
from workbench.core.ranks import ONE_STAGE, SHARED_EXPERT
from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.compressed import compressed_layer, joined_streams, target_streams
from workbench.models.weights.decoders import OF_LLAMA, Decoder, Moe
from workbench.models.weights.gemma4 import gemma3n_layer, gemma3n_rest, gemma4_layer, gemma4_rest
from workbench.models.weights.kinds import by_release, unscaled
from workbench.models.weights.listed_experts import LISTED_EXPERTS
from workbench.models.weights.mimo_v2 import mimo_v2_layer
from workbench.models.weights.minimax_m3 import M3, minimax_m3_layer
from workbench.models.weights.moondream import moondream_layer
from workbench.models.weights.older import OLDER, OLDER_REST
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    column,
    experts,
    latent,
    mlp,
    norms,
    vocabulary,
    whole,
)
from workbench.models.weights.rarer import RARER, RARER_REST, mpt_end
from workbench.models.weights.rotated_encoders import (
    ROTATED,
    ROTATED_BY_FILE,
    rotated_layer,
    rotated_rest,
)
from workbench.models.weights.routed import ROUTED
from workbench.models.weights.speech import whisper_layer, whisper_rest
from workbench.models.weights.states import kimi_delta
from workbench.models.weights.step5 import step5_layer
from workbench.models.weights.stored import LATENT, Unknown
from workbench.models.weights.streams import (
    alice_layer,
    connected_layer,
    connected_rest,
    hy_layer,
    pooled_layer,
    weighed_states,
)

FFN_MULTIPLE = 256
RATIO = "ngram_vocab_size_ratio"
"""Field of LongCat's rows of n-grams, for every word."""
SMALLER = "routed_expert_hidden_size"
"""Field of the space of Kimi K3's routed experts, which projections lead to and from."""


class Llama4Moe(Moe):
    """Experts in every n-th layer, with one shared expert as large as each of them."""

    def has(self, config: Config, number: int) -> bool:
        """Return whether a layer has experts."""
        step = config.size("interleave_moe_layer_step", default=1)
        return step > 0 and (number + 1) % step == 0

    def parts(self, config: Config, _number: int) -> list[Part]:
        """Return router, routed experts and the shared one."""
        count, inner = config.size("num_local_experts"), config.size("intermediate_size")
        return [
            whole(f"{self.name}.router", count, inputs=config.hidden),
            *experts(config, f"{self.name}.experts", count, inner),
            *mlp(config, f"{self.name}.shared_expert", inner, repeated=SHARED_EXPERT),
        ]


def _llama4(config: Config, number: int) -> list[Part]:
    moe = Llama4Moe("feed_forward")
    if moe.has(config, number):
        feed = moe.parts(config, number)
    else:
        feed = mlp(config, "feed_forward", config.size("intermediate_size_mlp"))
    return [*attention(config), *feed, *norms(config, 2)]


class KimiMoe(Moe):
    """Experts whose shares 0.33 fills up, a whole kernel for the ranks of one engine."""

    def routed(self, config: Config, name: str, count: int, inner: int) -> list[Part]:
        """Return the routed experts of every version."""
        least = config.size("min_moe_intermediate_per_partition", default=256)
        small = config.size(SMALLER, default=0)
        plain = experts(config, name, count, inner, kind=EARLIER)
        later = [one._replace(kind=LATER, least=least) for one in plain]
        if not small:
            return [*plain, *later]
        first, second = (one._replace(kind="") for one in later)  # no earlier version has it
        hidden, place = config.hidden, name.removesuffix(".experts")
        return [
            whole(f"{place}.routed_expert_down_proj", small, inputs=hidden, is_linear=True),
            *[whole(f"{place}.norm", small)] * config.flag("latent_moe_use_norm"),
            whole(f"{place}.routed_expert_up_proj", hidden, inputs=small, is_linear=True),
            first._replace(inputs=small),
            second._replace(outputs=((small, 1),)),
        ]


def _kimi(config: Config, number: int) -> list[Part]:
    layer = Decoder(
        moe=KimiMoe(
            "block_sparse_moe",
            every="moe_layer_freq",
            counts_from=0,
            shared=("num_shared_experts",),
            correction=True,
            correction_kinds=((EARLIER, None), (LATER, "float32")),
            repeated=ONE_STAGE,
        ),
        repeated=ONE_STAGE,
    )
    mixer = _kimi_latent(config, number) if config.attends(number) else kimi_delta(config)
    streams = 2 * kimi_residual(config)
    return [*mixer, *layer.feed_forward(config, number), *norms(config, 2), *streams]


def _kimi_latent(config: Config, number: int) -> list[Part]:
    """Return attention with latents, in Kimi K3 with a gate of its output."""
    first, *rest = latent(config, number)
    if config.flag("mla_use_output_gate"):
        if not first.name.endswith("fused_qkv_a_proj"):
            raise Unknown("the gate of Kimi's attention with whole queries is not described")
        units = [(1, size) for size, _ in first.outputs]
        gate = (config.attention.num_heads, config.size("v_head_dim"))
        first = column(first.name, *units, gate, inputs=first.inputs)
        rest = unscaled(rest, LATENT)
    else:  # 0.33 builds it with Kimi K3's class, which no quantization method gives scales
        rest = by_release(rest, unscaled(rest, LATENT))
    return [first, *rest, whole("self_attn.one_scale", 1, dtype="float32", kind=LATER)]


def kimi_residual(config: Config) -> list[Part]:
    """Return what Kimi K3 weighs the states of earlier layers by: once per half, and at the end."""
    return [] if config.raw("attn_res_block_size") is None else weighed_states(config)


def longcat_half(config: Config, number: int) -> list[Part]:
    """Return one layer of LongCat, without experts: two make a block, and one drafts."""
    inner = config.size("ffn_hidden_size", "intermediate_size")
    return [*latent(config, number), *mlp(config, "mlps", inner), *norms(config, 2)]


def _longcat(config: Config, number: int) -> list[Part]:
    """Return a block of LongCat: two layers, and the experts of both."""
    layer, hidden = longcat_half(config, number), config.hidden
    count = config.size("n_routed_experts")
    routed = count + config.size("zero_expert_num", default=0)
    bias = config.flag("router_bias")
    return [
        *layer,
        *layer,
        whole("mlp.router.correction", routed, dtype="float32"),
        whole("mlp.router", routed, inputs=hidden, bias=bias, dtype="float32"),
        *experts(
            config,
            "mlp.experts",
            count,
            config.size("moe_intermediate_size", "expert_ffn_hidden_size"),
        ),
    ]


def _n_grams(config: Config) -> list[Part]:
    """Return LongCat's embeddings of n-grams, all tables in one, and the numbers that hash them."""
    if config.raw(RATIO) is None:
        return []
    near, hidden = config.size("emb_neighbor_num"), config.hidden
    count = config.size("emb_split_num") * (near - 1)
    rows = count * config.size(RATIO) * config.size("vocab_size") + count**2
    return [
        vocabulary("oe_embedder", rows, hidden // count),
        whole("oe_projection", hidden // count * count, inputs=hidden),
        whole("hashes", count * (near + 2) + 1, stored=Format(32)),
    ]


def _searched(config: Config, number: int) -> list[Part]:
    """Return a block of Nemotron-NAS, which may lack attention or MLP."""
    block = config.raw("block_configs")[number]
    feed, parts = block["ffn"], []
    if config.attends(number):
        found = next(one for one in config.model.layers if one.number == number)
        heads = config.attention.of_layer(found)
        parts += [*OF_LLAMA.attention(config, heads=heads), *norms(config, 1)]
    if feed.get("no_op"):
        return parts
    if (times := feed.get("ffn_mult")) is not None:
        inner = ceil(int(2 * times * config.hidden / 3) / FFN_MULTIPLE) * FFN_MULTIPLE
    else:
        inner = feed["intermediate_size"]
    return [*parts, *mlp(config, "mlp", inner, bias=config.flag("mlp_bias")), *norms(config, 1)]


NEWER: dict[str, Block] = {
    **LISTED_EXPERTS,
    **OLDER,
    **dict.fromkeys((*ROTATED, *ROTATED_BY_FILE), rotated_layer),
    **RARER,
    "moondream3": moondream_layer,
    **ROUTED,
    **dict.fromkeys(("gemma4", "gemma4_text"), gemma4_layer),
    "gemma3n_text": gemma3n_layer,
    **dict.fromkeys(("llama4", "llama4_text"), _llama4),
    "kimi_linear": _kimi,
    "longcat_flash": _longcat,
    "mimo_v2_flash": mimo_v2_layer,
    **dict.fromkeys(M3, minimax_m3_layer),
    "deepseek_v4": compressed_layer,
    "step5": step5_layer,
    "hy_v4": hy_layer,
    "alice_ai": alice_layer,
    "glm5_next_text": pooled_layer,
    "qwen4_exp_text": connected_layer,
    "nemotron-nas": _searched,
    "whisper": whisper_layer,
}
REST: dict[str, Callable[[Config], list[Part]]] = {
    **dict.fromkeys(
        ("gemma", "gemma2", "gemma3", "gemma3_text", "vaultgemma"),
        lambda _config: [whole("normalizer", 1)],
    ),
    **dict.fromkeys(("gemma4", "gemma4_text"), gemma4_rest),
    "gemma3n_text": gemma3n_rest,
    **OLDER_REST,
    **dict.fromkeys((*ROTATED, *ROTATED_BY_FILE), rotated_rest),
    "deepseek_v4": target_streams,
    **RARER_REST,
    "qwen4_exp_text": connected_rest,
    "whisper": whisper_rest,
}
"""model_type -> what it has in addition to layers and vocabularies."""
ENDS: dict[str, Callable[[Config], list[Part]]] = {
    "kimi_linear": kimi_residual,
    "mpt": mpt_end,
    "step5": lambda config: norms(config, 1, dtype=config.raw("norm_dtype")),
    "hy_v4": joined_streams,
    "alice_ai": weighed_states,
}
"""model_type -> what its last pipeline stage has in addition to the last norm."""
STARTS: dict[str, Callable[[Config], list[Part]]] = {"longcat_flash": _n_grams}
"""model_type -> what its first pipeline stage has in addition to the vocabulary."""
