"""Zamba 2: Mamba layers, some of which run one of a few shared blocks of attention first.

Source: `zamba2.py` of 0.23 and 0.33, `Zamba2Config` of transformers.
"""

from workbench.core.model import FULL, SSM, Attention, Layer
from workbench.core.states import Mamba2
from workbench.models.attention import read_attention
from workbench.models.families.mamba import check_filled, ignores_number, mamba2_state
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import BOTH, Words, check_length, listed

WORDS: Words = {"mamba": SSM, "hybrid": BOTH}
LAYERS = 54
HYBRID = frozenset({6, 12, 18, 24, 30, 36, 42, 47, 51})
"""Layers with attention when config.json has no list."""


def _default_kinds(fields: Fields) -> list[str]:
    kinds = [BOTH if index in HYBRID else SSM for index in range(LAYERS)]
    check_length(fields, "layers_block_type", kinds)
    fields.note("layers", f"{LAYERS} layers", "the family's default pattern")
    return kinds


_LISTS = listed({"layers_block_type": WORDS, "layer_types": WORDS}, _default_kinds)


def _layers(fields: Fields) -> tuple[Layer, ...]:
    """Return as many layers as are listed: Zamba2Model goes by the list alone."""
    key, written = "hybrid_layer_ids", fields.raw("num_hidden_layers")
    kinds = fields.raw("layers_block_type")
    if isinstance(kinds, list) and len(kinds) != written:
        fields.omit("num_hidden_layers")
    named, layers = fields.index_list(key), _LISTS(fields)
    ignores_number(fields, written)
    hybrid = frozenset(one.number for one in layers if one.kind == FULL)
    if named is None or named == hybrid:
        return layers
    more = sorted(named - hybrid)
    if hybrid - named or more[0] <= layers[-1].number:
        raise fields.contradiction(key, f"the hybrid layers are {sorted(hybrid)}")
    # Zamba2Model.__init__ builds as many layers of attention as are listed, needed or not.
    return *(Layer(number=one, kind=FULL) for one in more), *layers


def _attention(fields: Fields) -> Attention:
    """Return the shared block's geometry: two hidden states, heads of 2 * hidden / heads."""
    heads = fields.integer("num_attention_heads", name="num_heads")
    size = 2 * fields.integer("hidden_size") // heads
    if not size:
        raise fields.contradiction("num_attention_heads", f"{heads} heads, and no element for each")
    attention = read_attention(fields)
    size = fields.integer("attention_head_dim", size, name="head_size")
    if not fields.has("attention_head_dim"):
        fields.note("head_size", size, "2 * hidden_size // num_attention_heads")
    return Attention(num_heads=heads, num_kv_heads=attention.num_kv_heads, head_size=size)


def _state(fields: Fields) -> Mamba2:
    # Read in this order, on which the fingerprints of saved designs depend.
    inner = int(fields.number("mamba_expand", 2) * fields.integer("hidden_size"))
    heads = fields.integer("n_mamba_heads", 8)
    fields.note("intermediate_size", inner, "mamba_expand * hidden_size")
    # get_mamba_state_shape_from_config reads the field, and Zamba2MambaDecoderLayer divides: with
    # others vLLM plans pages that its layers do not fill.
    head_dim = fields.integer("mamba_headdim", inner // heads, name="head_dim")
    if fields.has("mamba_headdim"):
        check_filled(fields, "mamba_headdim", inner, heads, head_dim)
    else:
        fields.note("head_dim", head_dim, "intermediate size // n_mamba_heads")
    rest = ("mamba_ngroups", 1), ("mamba_d_state", 64), ("mamba_d_conv", 4)
    return mamba2_state(fields, inner, heads, head_dim, *rest)


register(
    "zamba2",
    {"zamba2": ("Zamba2ForCausalLM",)},
    _layers,
    _state,
    attention=_attention,
    goes_by_list=True,
    supports_all_mode=True,
    names_attention_layers=False,
)
