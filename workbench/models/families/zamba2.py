"""Zamba2: mamba layers, some of them after a shared attention block."""

from __future__ import annotations

from workbench.core.model import SSM, Attention, Layer
from workbench.core.states import Mamba2
from workbench.models.attention import read_attention
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import BOTH, check_length, first_list, to_layers

DEFAULT_LAYERS = 54
DEFAULT_HYBRID = frozenset({6, 12, 18, 24, 30, 36, 42, 47, 51})
"""Layers with attention when config.json has no list."""

WORDS: dict[object, str] = {"mamba": SSM, "hybrid": BOTH}


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layers_block_type", "layer_types"), WORDS)
    if kinds is None:
        kinds = tuple(BOTH if index in DEFAULT_HYBRID else SSM for index in range(DEFAULT_LAYERS))
        check_length(fields, "layers_block_type", kinds)
        fields.note("layers", f"{DEFAULT_LAYERS} layers", "the family's default pattern")
    return to_layers(kinds)


def _attention(fields: Fields) -> Attention:
    """Return the shared block's geometry: two hidden states, heads of 2 * hidden / heads."""
    heads = fields.integer("num_attention_heads", name="num_heads")
    size = 2 * fields.integer("hidden_size") // heads
    if not size:
        raise fields.contradiction("num_attention_heads", f"{heads} heads, and no element for each")
    attention = read_attention(fields)
    fields.note("head_size", size, "2 * hidden_size // num_attention_heads")
    return Attention(num_heads=heads, num_kv_heads=attention.num_kv_heads, head_size=size)


def _state(fields: Fields) -> Mamba2:
    inner = int(fields.number("mamba_expand", 2) * fields.integer("hidden_size"))
    heads = fields.integer("n_mamba_heads", 8)
    fields.note("intermediate_size", inner, "mamba_expand * hidden_size")
    fields.note("head_dim", inner // heads, "intermediate size // n_mamba_heads")
    return Mamba2(
        intermediate_size=inner,
        n_groups=fields.integer("mamba_ngroups", 1),
        num_heads=heads,
        head_dim=inner // heads,
        state_size=fields.integer("mamba_d_state", 64),
        conv_kernel=fields.integer("mamba_d_conv", 4),
    )


register(
    Family(
        "zamba2",
        model_types={"zamba2": ("Zamba2ForCausalLM",)},
        layers=_layers,
        state=_state,
        attention=_attention,
        supports_all_mode=True,
        names_attention_layers=False,
    )
)
