"""Weights of encoders like BERT whose positions are rotated: Nomic, GTE, Jina.

Source: `BertWithRope` and its classes of model_executor/models/bert_with_rope.py, and
`NomicBertModelConfig`, `GteNewModelConfig`, `JinaRobertaModelConfig` of config.py, 0.23 and 0.33.
"""

from workbench.core.weights import Part
from workbench.models.weights.older import OLDER, OLDER_REST
from workbench.models.weights.parts import (
    Config,
    attention,
    column,
    mlp,
    norms,
    row,
    vocabulary,
    whole,
)

NOMIC = "nomic_bert"
GTE = ("gte", "new")
ROTATED = (NOMIC, *GTE)
"""model_types of classes that always rotate."""
ROTATED_BY_FILE = ("roberta", "xlm-roberta")
"""Those that do where the file says so (`RobertaEmbeddingModel._build_model`)."""
INNER = ("n_inner", "intermediate_size")
GATED = ("activation_function=swiglu", "hidden_act=silu", "hidden_act=geglu")
"""What says that an MLP has a gate."""


def is_rotated(config: Config) -> bool:
    """Return whether positions of an encoder are rotated, and no table of vectors is added."""
    if config.kind in ROTATED_BY_FILE:
        return str(config.raw("position_embedding_type", "absolute")) != "absolute"
    return config.kind in ROTATED


def rotated_layer(config: Config, number: int) -> list[Part]:
    """Return a layer: queries, keys and values, an MLP or experts, and norms after both."""
    if not is_rotated(config):
        return OLDER[config.kind](config, number)
    is_nomic = config.kind == NOMIC
    bias = config.flag("qkv_proj_bias" if is_nomic else "bias", default=not is_nomic)
    inner, every = config.size(*INNER), config.size("moe_every_n_layers", default=0)
    if every and number % every == 1 % every:
        feed = _experts(config, inner)
    else:
        is_gte = config.kind in GTE  # which has geglu whatever it says
        is_gated = is_gte or any(map(config.flag, GATED))
        first, second = mlp(config, "mlp", inner, gated=is_gated, bias=bias)
        feed = [first._replace(bias=bias and not is_gte), second]  # GteNewModel.__init__
    mixer = attention(config, "attention", bias=bias, out_bias=bias, out="dense")
    return [*mixer, *feed, *norms(config, 2, bias=True)]


def _experts(config: Config, inner: int) -> list[Part]:
    """Return the experts of `NomicMoE`, plain tensors of one matrix in and one out, and a bias."""
    count, hidden = config.size("num_experts"), config.hidden
    return [
        whole("mlp.router", count, inputs=hidden),
        column("mlp.w1", *[inner] * count, inputs=hidden, is_linear=False),
        row("mlp.w2", inner, count * hidden, is_linear=False),
        whole("mlp.bias", hidden),
    ]


def rotated_rest(config: Config) -> list[Part]:
    """Return the vectors of kinds of tokens, none where the file has no kinds."""
    if not is_rotated(config):
        return OLDER_REST[config.kind](config)
    kinds = config.size("type_vocab_size", default=2)
    return [vocabulary("token_types", kinds, config.hidden)] if kinds else []
