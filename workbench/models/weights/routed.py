"""Weights of decoders that differ from others, or by release, in one place.

Source: `step3_text.py`, `hunyuan_v1.py`, `olmo2.py`, `flex_olmo.py`, `mellum.py`, `seed_oss.py`,
`hyperclovax.py`, `param2moe.py` and `sarvam.py` in `model_executor/models`, 0.23 and 0.33, and the
classes of transformers that 0.33 runs instead of some.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.decoders import LLAMA, OF_LLAMA, QWEN, Decoder, Moe, of_releases
from workbench.models.weights.kinds import by_release
from workbench.models.weights.listed_experts import ROUTER_DTYPES, is_enumerated, ling_feed
from workbench.models.weights.parts import (
    Block,
    Config,
    cache_scales,
    column,
    experts,
    latent,
    mlp,
    norms,
    row,
    whole,
)
from workbench.models.weights.stored import Unknown

SHARED_SIZE = "moe_shared_expert_intermediate_size"
HUNYUAN_DENSE = (
    Decoder(out_bias="attention_bias", norm="?use_qk_norm"),
    Decoder(out_bias="attention_bias", norm="head"),
)
"""Hunyuan in the oldest and the newest release: the class of the library always has norms."""
CWM = (OF_LLAMA, Decoder(bias=False, mlp_bias="mlp_bias"))
"""CWM: a Llama in the oldest release, and a class of the library with fewer biases."""
MELLUM = (
    Decoder(norm="head", moe=replace(QWEN, router_is_linear=True)),
    Decoder(norm="head", out_bias="attention_bias", moe=QWEN),
)
"""Mellum, whose routers the library never quantizes."""
OLMO = (Decoder(norm="whole", bias=False), Decoder(norm="whole", out_bias="attention_bias"))
"""OLMo 2 and 3, whose own class in the oldest release has no biases."""
FLEX_OLMO = (replace(OLMO[0], moe=Moe(is_plain=True)), replace(OLMO[1], moe=Moe()))
"""FlexOlmo, whose own class never quantizes the experts."""
SEED_OSS = (Decoder(bias=True), Decoder(out_bias="attention_out_bias", mlp_bias="mlp_bias"))
"""Seed-OSS, whose own class reads no biases from a file."""


def _step3(config: Config, number: int) -> list[Part]:
    """Return a layer of Step 3, whose queries come from a small vector, and one head of keys."""
    found, hidden, name = config.attention, config.hidden, "self_attn"
    small, size = config.size("share_q_dim", default=hidden), found.head_size
    parts = [
        whole(f"{name}.qkv_proj", small + 2 * size, inputs=hidden, is_linear=True),
        whole(f"{name}.inter_norm", small),
        column(f"{name}.wq", (found.num_heads, size), inputs=small),
        row(f"{name}.o_proj", found.num_heads * size, hidden),
        cache_scales(name),  # its class reads none from a checkpoint
        *norms(config, 2),
    ]
    if not is_enumerated(config, number):
        return [*parts, *mlp(config, "mlp", config.size("intermediate_size"))]
    count, inner = config.size("moe_num_experts"), config.size("moe_intermediate_size")
    return [
        *parts,
        whole("moe.gate", count, inputs=hidden),
        *mlp(config, "share_expert", config.size("share_expert_dim")),
        *experts(config, "moe.experts", count, inner),
    ]


def _of_layer(config: Config, key: str, number: int) -> int:
    """Return a size that may be one for all layers, or a list."""
    found = config.raw(key)
    return int(found[number] if isinstance(found, list) else found)


@dataclass(frozen=True)
class HunyuanMoe(Moe):
    """Experts in all layers, with a shared one as wide as the layers would be without."""

    def has(self, config: Config, _number: int) -> bool:
        """Return whether a layer has experts."""
        count = config.raw("num_experts", 0)
        return bool((max(count) if isinstance(count, list) else count) > 1)

    def parts(self, config: Config, number: int) -> list[Part]:
        """Return router, routed and shared experts."""
        wide, count = config.size("intermediate_size"), config.size("num_experts")
        given = config.raw("moe_intermediate_size") is not None
        inner = _of_layer(config, "moe_intermediate_size", number) if given else wide
        shared = config.flag("use_mixed_mlp_moe") and _of_layer(config, "num_shared_expert", number)
        # the class of the library always has one
        own, library = (mlp(config, "mlp.shared_mlp", wide * n) if n else [] for n in (shared, 1))
        return [
            whole("mlp.gate", count, inputs=config.hidden, kind=EARLIER),
            whole("mlp.gate.wg", count, inputs=config.hidden, kind=LATER, is_linear=True),
            *by_release(own, library),
            *experts(config, "mlp.experts", count, inner),
        ]


HUNYUAN = HunyuanMoe()


def _hyperclova(config: Config, number: int) -> list[Part]:
    """Return a layer of HyperCLOVA X, which may norm what its halves return as well."""
    return replace(LLAMA, norms=2 + 2 * config.flag("use_post_norm")).layer(config, number)


def _hunyuan_moe(config: Config, number: int) -> list[Part]:
    if config.flag("use_cla") and config.size("cla_share_factor", default=1) > 1:
        raise Unknown("layers of Hunyuan that share keys are not described")
    return of_releases(*(replace(one, moe=HUNYUAN) for one in HUNYUAN_DENSE))(config, number)


def _param2(config: Config, number: int) -> list[Part]:
    """Return a layer of Param 2, whose routers have 32 bits from 0.33 on."""
    shared = config.size("num_shared_experts", default=1) * config.size("moe_intermediate_size")
    shared = shared and config.size(SHARED_SIZE, default=shared)
    return [
        *Decoder(bias="use_qkv_bias", out_bias="use_bias", norm="?use_qk_norm").attention(config),
        *norms(config, 2),
        *ling_feed(config, number, shared, (None, "float32"), corrects=True),
    ]


def _sarvam_latent(config: Config, number: int) -> list[Part]:
    """Return a layer of Sarvam's with latents, whose routers have a dtype of their own in 0.23."""
    stated = config.fields.text.get("router_dtype", "fp32")
    dtypes = (ROUTER_DTYPES.get(stated, "bfloat16"), None)
    each = config.size(SHARED_SIZE, "moe_intermediate_size")
    shared = each * config.size("num_shared_experts", default=1)
    feed = ling_feed(config, number, shared, dtypes, corrects=True)
    return [*latent(config, number), *norms(config, 2), *feed]


ROUTED: Mapping[str, Block] = {
    "cwm": of_releases(*CWM),
    "flex_olmo": of_releases(*FLEX_OLMO),
    "hunyuan_v1_dense": of_releases(*HUNYUAN_DENSE),
    "hyperclovax": _hyperclova,
    "mellum": of_releases(*MELLUM),
    **dict.fromkeys(("olmo2", "olmo3"), of_releases(*OLMO)),
    "seed_oss": of_releases(*SEED_OSS),
    "step3_text": _step3,
    "hunyuan_v1_moe": _hunyuan_moe,
    "param2moe": _param2,
    "sarvam_mla": _sarvam_latent,
}
"""model_type -> its layers."""
