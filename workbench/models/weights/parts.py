"""The building blocks of families: layers that several of them have."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.model import SSM, Attention, Model
from workbench.core.weights import COLUMN, EARLIER, ROW, WHOLE, Part
from workbench.models.built_heads import built_attentions
from workbench.models.fields import Fields
from workbench.models.weights.kinds import SAME_CLASS, TRUE_BY_CLASS

Unit = int | tuple[int, int]
"""Elements that may be cut anywhere, or (units, elements of a unit)."""
ACTIVATIONS = ("mlp_hidden_act", "hidden_activation", "hidden_act")
PADDED = frozenset({"silu", "swish", "relu2"})
"""Activations of FlashInfer's kernels for plain experts (`TrtLlmBf16ExpertsBase`, 0.33)."""
ROUTED_OTHERWISE = frozenset({"ernie4_5_moe", "jamba", "olmoe"})
"""model_types whose scores are not normalized, or are softmax with a correction, which those
kernels do not have (`get_routing_method_type`)."""
VOCAB_MULTIPLE = 64
"""Rows to which an embedding is padded (`VocabParallelEmbedding`)."""


def column(name: str, *outputs: Unit, inputs: int, **more: Any) -> Part:
    """Return a linear layer whose outputs the ranks divide."""
    more = {"shard": COLUMN, "is_linear": True, **more}
    return Part(name, outputs=tuple(_unit(one) for one in outputs), inputs=inputs, **more)


def row(name: str, inputs: int, outputs: int, **more: Any) -> Part:
    """Return a linear layer whose inputs the ranks divide; each has the whole bias."""
    more = {"is_linear": True, **more}
    return Part(name, outputs=((outputs, 1),), inputs=inputs, shard=ROW, **more)


def whole(name: str, *outputs: int, inputs: int = 1, **more: Any) -> Part:
    """Return a tensor that every rank has."""
    return Part(
        name, outputs=tuple(_unit(one) for one in outputs), inputs=inputs, shard=WHOLE, **more
    )


def cut(name: str, *outputs: Unit, inputs: int = 1, **more: Any) -> Part:
    """Return a tensor whose rows the ranks divide, never quantized."""
    return column(name, *outputs, inputs=inputs, is_linear=False, **more)


def vocabulary(name: str, rows: int, hidden: int) -> Part:
    """Return an embedding: whole rows, padded to 64, divided by the ranks."""
    padded = -(-rows // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
    return Part(name, outputs=((padded, 1),), inputs=hidden, shard=COLUMN)


def cache_scales(name: str) -> Part:
    """Return the scales of queries, keys, values and probabilities of an attention layer."""
    return whole(name, 4, dtype="float32")


def _unit(one: Unit) -> tuple[int, int]:
    return (one, 1) if isinstance(one, int) else one


class Config:
    """What a declaration reads: fields of a config.json, and what the model made of them."""

    def __init__(self, fields: Fields, model: Model, built: Attention | None = None) -> None:
        """Read with the heads that a release builds, those of the newest unless given."""
        self.fields = fields
        self._built = built or built_attentions(model)[1]
        self.model = model
        self.hidden = fields.integer("hidden_size")
        self.kinds: dict[int, set[str]] = {}
        for layer in model.layers:
            self.kinds.setdefault(layer.number, set()).add(layer.kind)

    @property
    def kind(self) -> str:
        """Return the model_type whose class builds the layers."""
        found = self.fields.model_type or self.model.model_type
        return SAME_CLASS.get(f"{found} {self.raw('version')}") or SAME_CLASS.get(found, found)

    @property
    def attention(self) -> Attention:
        """Return the geometry of attention. Errors: ConfigError without one."""
        if self._built is None:
            raise self.fields.missing("num_attention_heads", "attention weights")
        return self._built

    @property
    def state(self) -> Any:
        """Return the geometry of the SSM layers."""
        return self.model.state

    def attends(self, number: int) -> bool:
        """Return whether a layer has attention."""
        return any(kind != SSM for kind in self.kinds.get(number, ()))

    def has_state(self, number: int) -> bool:
        """Return whether a layer has a state space."""
        return SSM in self.kinds.get(number, ())

    def flag(self, key: str | bool | tuple[str, ...], default: bool = False) -> bool:
        """Return a truth value: itself, that of a field, or whether "field=value" is so.

        Either of "one|other" is enough. Of several keys it is the first that the file has, else the
        last.
        """
        if isinstance(key, bool):
            return key
        if isinstance(key, tuple):
            key = next(filter(self.fields.has, key), key[-1])
        if "|" in key:
            return any(map(self.flag, key.split("|")))
        name, _, value = key.partition("=")
        usual = default or self.fields.model_type in TRUE_BY_CLASS.get(name, ())
        return self.raw(name) == value if value else bool(self.raw(name, usual))

    def size(self, *keys: str, default: int | None = None) -> int:
        """Return the first of these fields that is there; `default` else, which is 0 for none."""
        for key in keys:
            if self.fields.has(key):
                return self.fields.integer(key, minimum=0)
        if default is None:
            raise self.fields.missing(keys[0], "the size of the weights")
        return default

    def raw(self, key: str, default: Any = None) -> Any:
        """Return any field."""
        found = self.fields.raw(key)
        return default if found is None else found

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return an object inside of the file, empty where there is none."""
        found = self.fields.raw(key)
        return found if isinstance(found, Mapping) else {}


Sizes = Callable[..., int]
"""Return an integer of the vision configuration, by its key and its default."""
Block = Callable[[Config, int], list[Part]]
"""The parts of one layer, by its number."""
Options = Mapping[str, Any]


def attention(
    config: Config,
    name: str = "self_attn",
    *,
    bias: str | bool | tuple[str, ...] = False,
    out_bias: str | bool = False,
    norm: str = "",
    gate: int = 1,
    inputs: int | None = None,
    out: str = "o_proj",
    heads: Attention | None = None,
) -> list[Part]:
    """Return queries, keys and values in one layer, and the output.

    name: empty where the class names them without their module. heads: of this layer, where it has
    others. norm: of queries and keys, "head" by head, "cut" or "whole" over all heads. gate: 2
    where queries have a gate as wide as they are.
    """
    found, hidden = heads or config.attention, config.hidden
    q, kv, size = found.num_heads, found.num_kv_heads, found.head_size
    at = f"{name}." if name else ""
    parts = [
        column(
            f"{at}qkv_proj",
            *((gate * q, size), (kv, size), (kv, size)),
            inputs=inputs or hidden,
            bias=config.flag(bias),
        ),
        row(f"{at}{out}", q * size, hidden, bias=config.flag(out_bias)),
        cache_scales(f"{name or 'self_attn'}.attn"),
    ]
    if norm == "head":
        parts += [whole(f"{at}q_norm", size), whole(f"{at}k_norm", size)]
    elif norm == "cut":
        parts += [cut(f"{at}q_norm", (q, size)), cut(f"{at}k_norm", (kv, size))]
    elif norm == "whole":
        parts += [whole(f"{at}q_norm", q * size), whole(f"{at}k_norm", kv * size)]
    return parts


def latent(config: Config, number: int, *, inputs: int | None = None) -> list[Part]:
    """Return the layers of multi-head latent attention, with an indexer if the layer has one."""
    found, hidden, name = config.attention, config.hidden, "self_attn"
    inputs = inputs or hidden
    rank = config.size("kv_lora_rank")
    rope, nope = found.qk_rope_head_dim or 0, found.qk_nope_head_dim or 0
    value, heads = found.v_head_dim or 0, found.num_heads
    q_rank = config.size("q_lora_rank", default=0)
    queries = (heads, nope + rope)
    if q_rank:
        parts = [
            whole(f"{name}.fused_qkv_a_proj", q_rank, rank + rope, inputs=inputs, is_linear=True),
            whole(f"{name}.q_a_layernorm", q_rank),
            column(f"{name}.q_b_proj", queries, inputs=q_rank),
        ]
    else:
        parts = [
            column(f"{name}.q_proj", queries, inputs=inputs),
            whole(f"{name}.kv_a_proj_with_mqa", rank + rope, inputs=inputs, is_linear=True),
        ]
    return [
        *parts,
        whole(f"{name}.kv_a_layernorm", rank),
        column(f"{name}.kv_b_proj", (heads, nope + value), inputs=rank),
        row(f"{name}.o_proj", heads * value, hidden),
        cache_scales(f"{name}.mla_attn"),
        *_indexer(config, number, q_rank),
    ]


def _indexer(config: Config, number: int, q_rank: int) -> list[Part]:
    indexer = config.attention.indexer
    if indexer is None:
        return []
    heads, size, name = config.size("index_n_heads"), indexer.head_dim, "self_attn.indexer"
    kind = EARLIER if number in indexer.followers else ""
    return [
        whole(f"{name}.wq_b", heads * size, inputs=q_rank, is_linear=True, kind=kind),
        whole(f"{name}.wk_weights_proj", size + heads, inputs=config.hidden, kind=kind),
        whole(f"{name}.k_norm", size, bias=True, dtype="float32", kind=kind),
    ]


def mlp(config: Config, name: str, inner: int, *, gated: bool = True, **more: Any) -> list[Part]:
    """Return a gated or plain MLP of `inner` elements."""
    first = ("gate_up_proj", inner, inner) if gated else ("up_proj", inner)
    return [
        column(f"{name}.{first[0]}", *first[1:], inputs=config.hidden, **more),
        row(f"{name}.down_proj", inner, config.hidden, **more),
    ]


def shared_mlp(config: Config, inner: int) -> list[Part]:
    """Return the MLP of Granite that every token takes, in its names; none without elements."""
    parts = mlp(config, "shared_mlp", inner) if inner else []
    names = ("shared_mlp.input_linear", "shared_mlp.output_linear")
    return [one._replace(name=name) for one, name in zip(parts, names, strict=False)]


def experts(
    config: Config, name: str, count: int, inner: int, *, gated: bool = True, **more: Any
) -> list[Part]:
    """Return the routed experts, which every rank has a share of each of."""
    more = {"runs_padded": _runs_padded(config), **more}
    return [
        column(
            f"{name}.w13",
            *(inner,) * (2 if gated else 1),
            inputs=config.hidden,
            experts=count,
            **more,
        ),
        row(f"{name}.w2", inner, config.hidden, experts=count, **more),
    ]


def _runs_padded(config: Config) -> bool:
    """Return whether kernels that round sizes up have the activation and the router of experts."""
    named = (config.raw(key) for key in ACTIVATIONS)
    is_routed = config.raw("norm_topk_prob") is not False
    is_routed &= config.kind not in ROUTED_OTHERWISE
    return is_routed and next(filter(None, named), "silu") in PADDED


def norms(config: Config, count: int, **more: Any) -> list[Part]:
    """Return so many norms of the hidden size."""
    return [whole(f"norm_{number}", config.hidden, **more) for number in range(count)]
