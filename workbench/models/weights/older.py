"""Weights of decoders that are older, or rarer: what their layers have, as data.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from workbench.core.formats import Format
from workbench.core.ranks import SHARED_EXPERT
from workbench.core.weights import EARLIER, LATER, WHOLE, Part
from workbench.models.weights.decoders import DECODERS, LLAMA, OF_LLAMA, Decoder, Moe
from workbench.models.weights.kinds import by_release
from workbench.models.weights.listed_experts import ListedMoe
from workbench.models.weights.parts import (
    Block,
    Config,
    attention,
    column,
    cut,
    experts,
    mlp,
    norms,
    row,
    shared_mlp,
    vocabulary,
    whole,
)

PLAIN = Decoder(bias=False)
MODERN_BERT = "modernbert"
BERTS = ("bert", "roberta", "xlm-roberta")
"""Encoders, whose norm is that of their embeddings."""
OPT_OFFSET = 2
"""Positions that OPT skips."""
SPARSE = Moe("block_sparse_moe")
GRANITE_MOE = Decoder(bias=False, moe=SPARSE)
HY = Moe(
    shared=("num_shared_experts",),
    correction=True,
    correction_kinds=((EARLIER, None), (LATER, "float32")),
    router_dtype="float32",
)
INNER = "intermediate_size"
LENGTHS = ("max_position_embeddings", "n_positions")


@dataclass(frozen=True)
class Classic:
    """A layer whose MLP has no gate, and whose norms have biases."""

    bias: str | bool = True
    inner: str = INNER
    """Field; four times the hidden size without one, or where the file has none."""
    norms: int = 2
    mlp_bias: str | bool | None = None
    """None is that of attention."""
    out_bias: str | bool | None = None

    def layer(self, config: Config, _number: int) -> list[Part]:
        """Return the parts of one layer."""
        wide = 4 * config.hidden
        inner = (config.size(self.inner, default=wide) or wide) if self.inner else wide
        of_mlp, of_out = (
            self.bias if one is None else one for one in (self.mlp_bias, self.out_bias)
        )
        return [
            *attention(config, bias=self.bias, out_bias=of_out),
            *mlp(config, "mlp", inner, gated=False, bias=config.flag(of_mlp)),
            *norms(config, self.norms, bias=True),
        ]


def _phi(config: Config, number: int) -> list[Part]:
    """Return a layer of Phi: its class in 0.23 reads another size of the MLP, and no norms."""
    own, library = (Classic(inner=key, norms=1).layer(config, number) for key in ("n_inner", INNER))
    size, count = config.hidden // config.attention.num_heads, config.flag("qk_layernorm")
    library += 2 * count * [whole("qk_layernorm", size, bias=True)]
    return by_release(own, library)


def _falcon(config: Config, number: int) -> list[Part]:
    """Return a layer of Falcon, whose new kind has a norm of its own for the MLP."""
    is_new = config.flag("new_decoder_architecture")
    apart = (config.size("num_ln_in_parallel_attn", default=2) == 2) if is_new else False
    count = 2 if apart or not (is_new or config.flag("parallel_attn", default=True)) else 1
    return Classic("bias", "", norms=count).layer(config, number)


def _internlm2(config: Config, number: int) -> list[Part]:
    """Return a layer of InternLM2, whose class for images has an MLP for them, too."""
    of_images = config.model.layer_class == "InternLM2VEForCausalLM"
    more = PLAIN.feed_forward(config, number) if of_images else []
    return [*PLAIN.layer(config, number), *more]


def _chatglm(config: Config, _number: int) -> list[Part]:
    bias, inner = config.flag("add_bias_linear"), config.size("ffn_hidden_size")
    of_queries = bias or config.flag("add_qkv_bias")
    return [
        *attention(config, "self_attention", bias=of_queries, out_bias=bias, out="dense"),
        *mlp(config, "mlp", inner, bias=bias),
        *norms(config, 2, bias=not config.flag("rmsnorm", default=True)),
    ]


def _qwen(config: Config, _number: int) -> list[Part]:
    """Return a layer of the first Qwen, whose size of the MLP counts the gate as well."""
    return [
        *attention(config, "attn", bias=True, out="c_proj"),
        *mlp(config, "mlp", config.size("intermediate_size") // 2),
        *norms(config, 2),
    ]


def _minicpm3(config: Config, number: int) -> list[Part]:
    """Return a layer of MiniCPM3, which has MLA's projections and caches whole heads."""
    hidden, heads = config.hidden, config.size("num_attention_heads")
    q_rank, rank = config.size("q_lora_rank"), config.size("kv_lora_rank")
    rope, nope = config.size("qk_rope_head_dim"), config.size("qk_nope_head_dim")
    value, name = config.size("v_head_dim", default=hidden // heads), "self_attn"
    return [
        whole(f"{name}.q_a_proj", q_rank, inputs=hidden, is_linear=True),
        whole(f"{name}.q_a_layernorm", q_rank),
        column(f"{name}.q_b_proj", (heads, nope + rope), inputs=q_rank),
        whole(f"{name}.kv_a_proj_with_mqa", rank + rope, inputs=hidden, is_linear=True),
        whole(f"{name}.kv_a_layernorm", rank),
        column(f"{name}.kv_b_proj", (heads, nope + value), inputs=rank),
        row(f"{name}.o_proj", heads * value, hidden),
        *attention(config)[2:],
        *PLAIN.feed_forward(config, number),
        *norms(config, 2),
    ]


def _dbrx(config: Config, _number: int) -> list[Part]:
    """Return a layer of DBRX, whose sizes of experts are in an object of their own."""
    ffn = config.mapping("ffn_config")
    count, inner = int(ffn["moe_num_experts"]), int(ffn["ffn_hidden_size"])
    return [
        *attention(config, "norm_attn_norm.attn", out="out_proj"),
        whole("ffn.router.layer", count, inputs=config.hidden),
        *experts(config, "ffn.experts", count, inner),
        *norms(config, 2),
    ]


AFMOE = Decoder(
    bias=False,
    norm="head",
    norms=4,
    moe=Moe(
        first="num_dense_layers",
        shared=("num_shared_experts",),
        correction=True,
        router_dtype="float32",
    ),
)
AXK1 = ListedMoe(shared=("n_shared_experts",), correction=True, repeated=SHARED_EXPERT)


def _afmoe(config: Config, number: int) -> list[Part]:
    found = config.attention
    gate = column("self_attn.gate_proj", (found.num_heads, found.head_size), inputs=config.hidden)
    return [*AFMOE.layer(config, number), gate]


def embedding_width(config: Config) -> int:
    """Return the elements of a row of the vocabularies, which OPT may have narrower."""
    return config.size(*["word_embed_proj_dim"] * (config.kind == "opt"), default=config.hidden)


def _opt_projections(config: Config) -> list[Part]:
    """Return what is between OPT's vocabularies and layers of another width, on every rank."""
    narrow, wide = embedding_width(config), config.hidden
    if narrow == wide:
        return []
    return [
        whole("project_in", wide, inputs=narrow, is_linear=True),
        whole("project_out", narrow, inputs=wide, is_linear=True),
    ]


def _bigcode(config: Config, number: int) -> list[Part]:
    """Return a layer of GPT-BigCode, whose MLP the Transformers library does not divide."""
    parts = Classic(inner="n_inner").layer(config, number)
    inside = [one for one in parts if one.name.startswith("mlp.")]
    return [
        *(one._replace(kind=EARLIER) if one in inside else one for one in parts),
        *(one._replace(kind=LATER, shard=WHOLE) for one in inside),
    ]


def _granite_shared(config: Config, number: int) -> list[Part]:
    """Return a layer of Granite with experts, and the MLP that every token takes."""
    shared = config.size("shared_intermediate_size", default=0)
    return [*GRANITE_MOE.layer(config, number), *shared_mlp(config, shared)]


def _granite_swa(config: Config, number: int) -> list[Part]:
    """Return a layer of Granite with sinks, dense or with experts."""
    layer = _granite_shared if config.kind == "granitemoe_swa" else LLAMA.layer
    return [*layer(config, number), cut("self_attn.sinks", config.attention.num_heads)]


def _apertus(config: Config, number: int) -> list[Part]:
    """Return a layer of Apertus, whose activation has two parameters and two constants."""
    layer = replace(OF_LLAMA, norm="head", gated=False).layer(config, number)
    return [*layer, whole("mlp.act_fn", 4)]


def _modernbert(config: Config, number: int) -> list[Part]:
    """Return a layer of ModernBERT; the first has no norm before its attention."""
    inner = config.size("intermediate_size")
    first, *rest = mlp(config, "mlp", inner, bias=config.flag("mlp_bias"))
    return [
        *attention(config, bias="attention_bias"),
        first._replace(kind=EARLIER, shard=WHOLE),  # 0.23 does not divide it
        first._replace(kind=LATER),
        *rest,
        *_modern_norms(config, 1 + bool(number)),
    ]


def _modern_norms(config: Config, count: int) -> list[Part]:
    return norms(config, count, bias=config.flag("norm_bias"))


DESCRIBED: dict[str, Decoder | Classic] = {
    "baichuan": PLAIN,
    **dict.fromkeys(("solar", "exaone", "xverse"), LLAMA),
    "orion": replace(PLAIN, norm_bias=True),
    "glm": Decoder(),
    "hy_v3": Decoder(bias=False, norm="?qk_norm", moe=HY),
    "olmo": Decoder(out_bias="attention_bias", norms=0),
    "cohere2_moe": replace(DECODERS["cohere2"], norm="", moe=Moe(shared=("num_shared_experts",))),
    **dict.fromkeys(("qwen2_vl", "qwen2_vl_text", "qwen2_5_omni_text"), Decoder(bias=True)),
    "exaone4_5_text": DECODERS["exaone4"],
    "gpt2": Classic(inner="n_inner"),
    "bloom": Classic(),
    "opt": Classic(inner="ffn_dim"),
    "jais2": Classic("attention_bias", mlp_bias="mlp_bias"),
    "phimoe": Decoder(True, out_bias=True, norm_bias=True, moe=SPARSE),
    "gpt_neox": Classic("attention_bias", mlp_bias=True),
    "gptj": Classic(False, "n_inner", norms=1, mlp_bias=True),
    "AXK1": Decoder(norms=3, moe=AXK1),
    **dict.fromkeys(BERTS, Classic()),
}
OLDER: Mapping[str, Block] = {name: one.layer for name, one in DESCRIBED.items()} | {
    "falcon": _falcon,
    "phi": _phi,
    "internlm2": _internlm2,
    "chatglm": _chatglm,
    "qwen": _qwen,
    "minicpm3": _minicpm3,
    "afmoe": _afmoe,
    "apertus": _apertus,
    MODERN_BERT: _modernbert,
    "dbrx": _dbrx,
    "gpt_bigcode": _bigcode,
    "granitemoeshared": _granite_shared,
    **dict.fromkeys(("granite_swa", "granitemoe_swa"), _granite_swa),
}


def _learned(config: Config) -> list[Part]:
    """Return a vector for every position, and what OPT has on every rank besides."""
    count = config.size(*LENGTHS) + (config.kind == "opt") * OPT_OFFSET
    positions = whole("embed_positions", count, inputs=config.hidden)
    return [positions, *_opt_projections(config)]


def _masked(config: Config) -> list[Part]:
    """Return the same, and a mask that the Transformers library keeps, one byte for every pair."""
    count = config.size(*LENGTHS)
    mask = whole("bias", count, inputs=count, stored=Format(8), kind=LATER)
    return [*_learned(config), mask]


def _embedded(config: Config) -> list[Part]:
    """Return an encoder's vectors of positions and of two kinds of tokens, and numbers (int64)."""
    count, kinds = config.size(*LENGTHS), config.size("type_vocab_size", default=2)
    rows, later = {"positions": count, "token_types": kinds}, "" if config.kind == "bert" else LATER
    tables = [vocabulary(name, size, config.hidden) for name, size in rows.items()]
    # RobertaEmbedding of 0.23 has them whole.
    earlier = [whole(name, size, inputs=config.hidden) for name, size in rows.items()]
    return [
        *(one._replace(kind=later) for one in tables),
        *(one._replace(kind=EARLIER) for one in earlier if later),
        whole("position_ids", count, stored=Format(64)),
    ]


OLDER_REST: Mapping[str, Callable[[Config], list[Part]]] = {
    "gpt_bigcode": _masked,
    **dict.fromkeys(("gpt2", "opt"), _learned),
    "bloom": lambda config: norms(config, 1, bias=True),
    **dict.fromkeys(BERTS, _embedded),
    MODERN_BERT: lambda config: _modern_norms(config, 1),
}
