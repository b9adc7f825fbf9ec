"""Kimi-Linear: Kimi delta attention and MLA, both listed with indexes that start at 1."""

from __future__ import annotations

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import KimiDeltaAttention
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

NESTED_KEY = "linear_attn_config"
WORDS: dict[object, str] = {"linear_attention": SSM, "full_attention": FULL}
FLAT_KEYS = ("layer_types", "linear_num_heads")
"""Fields of the configuration class since transformers 5.16, which flattens the nested object."""


def _is_flat(fields: Fields) -> bool:
    """Return whether only the flat fields are there; vLLM reads the nested object."""
    return not fields.has(NESTED_KEY) and any(fields.has(key) for key in FLAT_KEYS)


def _layers(fields: Fields) -> tuple[Layer, ...]:
    return _flat_layers(fields) if _is_flat(fields) else _nested_layers(fields)


def _flat_layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is None:
        raise fields.missing("layer_types", "the kinds of layers")
    fields.remarks.append(
        f"{NESTED_KEY} is absent, and its values are read from the fields that transformers 5.16 "
        f"has instead. vLLM 0.23 and 0.33 read {NESTED_KEY} and stop without it."
    )
    return to_layers(kinds)


def _nested_layers(fields: Fields) -> tuple[Layer, ...]:
    count = fields.layer_count()
    linear = fields.child(NESTED_KEY)
    delta = linear.index_list("kda_layers", count, first=1)
    if delta is None:
        raise linear.missing("kda_layers", "the kinds of layers")
    full = linear.index_list("full_attn_layers", count, first=1)
    if full is not None and (full & delta or len(full | delta) != count):
        raise linear.contradiction(
            "full_attn_layers", f"with kda_layers it must name each of the {count} layers once"
        )
    return to_layers([SSM if index in delta else FULL for index in range(count)])


def _state(fields: Fields) -> KimiDeltaAttention:
    if _is_flat(fields):
        return KimiDeltaAttention(
            num_heads=fields.integer("linear_num_heads", name="kda_num_heads"),
            head_dim=fields.integer("linear_head_dim", name="kda_head_dim"),
            conv_kernel=fields.integer("linear_conv_kernel_dim", 4),
        )
    linear = fields.child(NESTED_KEY)
    return KimiDeltaAttention(
        num_heads=linear.integer("num_heads", name="kda_num_heads"),
        head_dim=linear.integer("head_dim", name="kda_head_dim"),
        conv_kernel=linear.integer("short_conv_kernel_size", 4),
    )


register(
    Family(
        "kimi_linear",
        model_types={"kimi_linear": ("KimiLinearForCausalLM",)},
        layers=_layers,
        state=_state,
        names_attention_layers=False,
    )
)
