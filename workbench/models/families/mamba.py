"""Families with Mamba layers: Jamba, Bamba and its relatives, PLaMo2, Nemotron-H."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.core.dtypes import STATE_DTYPES
from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import Mamba1, Mamba2, State
from workbench.models.family import Part, nothing, read_state, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import (
    BOTH,
    NEITHER,
    Words,
    first_list,
    listed,
    to_layers,
)
from workbench.models.listed import listed_name

WORDS: Words = {"mamba": SSM, "attention": FULL}
NEMOTRON_WORDS: Words = {**WORDS, "moe": NEITHER, "mlp": NEITHER}
WITH_STATE_DTYPE = (
    *("NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronH_Nano_VL_V2", None),
)
"""Architectures in vLLM's `MODELS_CONFIG_MAP`, which writes a dtype of their states."""
NEMOTRON_PATTERN: Words = {"M": SSM, "*": FULL, "-": NEITHER, "E": NEITHER}
UNFILLED_KEY = "mamba_d_head"
UNFILLED = "The dimensions for the Mamba head state do not match the model intermediate_size"
"""What the classes of Bamba, Falcon-H1 and Granite 4 say of these heads, in transformers."""


def _expanded(fields: Fields, key: str = "mamba_expand") -> int:
    """Return the channels of the state space: the hidden size, expanded."""
    inner = int(fields.number(key, 2) * fields.integer("hidden_size"))
    fields.note("intermediate_size", inner, f"{key} * hidden_size")
    return inner


def check_filled(fields: Fields, key: str, inner: int, heads: int, head_dim: int) -> None:
    """Check that the heads of a state have all its channels. Errors: ConfigError."""
    if heads * head_dim != inner:
        origin = fields.origins["intermediate_size"]
        raise fields.contradiction(
            key,
            f"{heads} heads of {head_dim} do not fill {inner} channels ({origin})",
            UNFILLED if key == UNFILLED_KEY else None,
        )


def mamba2_state(
    fields: Fields, inner: int, heads: int, head_dim: int, groups: Part, state: Part, conv: Part
) -> Mamba2:
    """Return a state whose other sizes are in the named fields, or have a value without them."""
    return read_state(
        Mamba2,
        fields,
        intermediate_size=inner,
        n_groups=groups,
        num_heads=heads,
        head_dim=head_dim,
        state_size=state,
        conv_kernel=conv,
    )


def _jamba_layers(fields: Fields) -> tuple[Layer, ...]:
    period = fields.integer("attn_layer_period", 8)
    offset = fields.integer("attn_layer_offset", 4, minimum=0)
    if offset >= period:
        raise fields.contradiction(
            "attn_layer_offset", f"{offset} never occurs in a period of {period} layers"
        )
    count = fields.layer_count()
    return to_layers([FULL if index % period == offset else SSM for index in range(count)])


def _jamba_state(fields: Fields) -> Mamba1:
    return read_state(
        Mamba1,
        fields,
        intermediate_size=_expanded(fields),
        state_size=("mamba_d_state", 16),
        conv_kernel=("mamba_d_conv", 4),
    )


def _bamba_state(fields: Fields) -> Mamba2:
    """Return state geometry in Bamba's field names (also Granite 4 and Falcon-H1)."""
    if fields.model_type == "falcon_h1" and fields.has("mamba_d_ssm"):
        inner = fields.integer("mamba_d_ssm", name="intermediate_size")
    else:
        inner = _expanded(fields)
    heads = fields.integer("mamba_n_heads", 128)
    if fields.raw("mamba_d_head") in (None, "auto"):
        head_dim = inner // heads
        fields.note("head_dim", head_dim, "intermediate size // mamba_n_heads")
    else:
        head_dim = fields.integer("mamba_d_head")
    check_filled(fields, UNFILLED_KEY, inner, heads, head_dim)
    rest = ("mamba_n_groups", 1), ("mamba_d_state", 256), ("mamba_d_conv", 4)
    return mamba2_state(fields, inner, heads, head_dim, *rest)


def _bamba_layers(fields: Fields) -> tuple[Layer, ...]:
    count = fields.layer_count()
    attention = fields.index_list("attn_layer_indices") or frozenset()
    return to_layers([FULL if index in attention else SSM for index in range(count)])


def _plamo_layers(fields: Fields) -> tuple[Layer, ...]:
    count, step = fields.layer_count(), fields.integer("mamba_step", minimum=2)
    if count <= step // 2:
        return to_layers([SSM] * (count - 1) + [FULL])
    return to_layers([FULL if index % step == step // 2 else SSM for index in range(count)])


def _plamo_state(fields: Fields) -> Mamba2:
    heads = fields.integer("mamba_num_heads")
    head_dim = fields.integer("hidden_size_per_head", name="head_dim")
    state = mamba2_state(
        fields, heads * head_dim, heads, head_dim, 0, "mamba_d_state", "mamba_d_conv"
    )
    return replace(state, checks_groups=False)


def _pure_state(fields: Fields) -> Mamba2:
    inner = _expanded(fields, "expand")
    heads, head_dim = fields.integer("num_heads", 128), fields.integer("head_dim", 64)
    check_filled(fields, "num_heads", inner, heads, head_dim)
    # Mamba2DecoderLayer.__init__ prefers the field, which Mamba2Config does not check.
    inner = fields.integer("intermediate_size", inner)
    rest = ("n_groups", 8), ("state_size", 128), ("conv_kernel", 4)
    return mamba2_state(fields, inner, heads, head_dim, *rest)


_NEMOTRON_LISTS = listed(
    {
        "layers_block_type": NEMOTRON_WORDS,
        "layer_types": NEMOTRON_WORDS,
        "hybrid_override_pattern": NEMOTRON_PATTERN,
    }
)


def _nemotron_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return as many layers as are listed: NemotronHConfig ignores `num_hidden_layers`."""
    written = fields.raw("num_hidden_layers")
    fields.omit("num_hidden_layers")
    layers = _NEMOTRON_LISTS(fields)
    ignores_number(fields, written)
    return layers


def ignores_number(fields: Fields, written: Any) -> None:
    """Remark on a number of layers that is not that of the list which vLLM goes by."""
    if isinstance(written, int) and fields.listed_layers not in {0, written}:
        fields.remarks.append(
            f"num_hidden_layers = {written} is ignored: the list of kinds has "
            f"{fields.listed_layers} entries, and vLLM builds as many layers."
        )


def _nemotron_state(fields: Fields) -> Mamba2:
    heads, head_dim = fields.integer("mamba_num_heads"), fields.integer("mamba_head_dim")
    rest = ("n_groups", 8), ("ssm_state_size", 128), ("conv_kernel", 4)
    return mamba2_state(fields, heads * head_dim, heads, head_dim, *rest)


def _nemotron_state_dtype(fields: Fields) -> str | None:
    """Return float32 unless the checkpoint says otherwise; None for wrappers without this rule."""
    if listed_name(fields.top, "") not in WITH_STATE_DTYPE:
        return None
    requested = fields.word("mamba_ssm_cache_dtype", STATE_DTYPES)
    if requested is None:
        fields.note("mamba_ssm_cache_dtype", "float32", "the family's default")
    return requested or "float32"


def _register_pure(
    name: str, model_types: dict[str, tuple[str, ...]], state: Callable[[Fields], State]
) -> None:
    """Add a family of SSM layers alone."""
    register(
        name,
        model_types,
        lambda fields: to_layers([SSM] * fields.layer_count()),
        state,
        attention=nothing,
        is_attention_free=True,
        supports_all_mode=True,
    )


register(
    "jamba", {"jamba": ("JambaForCausalLM",)}, _jamba_layers, _jamba_state, supports_all_mode=True
)
_register_pure(
    "mamba",
    {"mamba": ("MambaForCausalLM",), "falcon_mamba": ("FalconMambaForCausalLM",)},
    partial(
        read_state,
        Mamba1,
        intermediate_size="intermediate_size",
        state_size=("state_size", 16),
        conv_kernel=("conv_kernel", 4),
    ),
)
register(
    "bamba", {"bamba": ("BambaForCausalLM",)}, _bamba_layers, _bamba_state, supports_all_mode=True
)
register(
    "granitemoehybrid",
    {"granitemoehybrid": ("GraniteMoeHybridForCausalLM",)},
    listed(
        {"layer_types": WORDS, "layers_block_type": WORDS},
        lambda fields: [SSM] * fields.layer_count(),
    ),
    _bamba_state,
    supports_all_mode=True,
    # All layers of granite-4.0-micro are attention.
    is_ordinary=lambda fields: set(first_list(fields, {"layer_types": WORDS}) or ()) == {FULL},
)
register(
    "falcon_h1",
    {"falcon_h1": ("FalconH1ForCausalLM",)},
    lambda fields: to_layers([BOTH] * fields.layer_count()),
    _bamba_state,
    supports_all_mode=True,
    names_attention_layers=False,
)
register(
    "plamo2",
    {"plamo2": ("Plamo2ForCausalLM",)},
    _plamo_layers,
    _plamo_state,
    # CacheConfig.sliding_window is that of every layer: no list of layer types undoes it
    slides=True,
    names_attention_layers=False,
)
_register_pure("mamba2", {"mamba2": ("Mamba2ForCausalLM",)}, _pure_state)
register(
    "nemotron_h",
    {"nemotron_h": ("NemotronHForCausalLM",), "nemotron_h_puzzle": ("NemotronHPuzzleForCausalLM",)},
    _nemotron_layers,
    _nemotron_state,
    # num_hidden_layers of NemotronHConfig in transformers 5, which no one can set
    goes_by_list=True,
    # NemotronHAttention hands it to every layer
    slides=True,
    supports_all_mode=True,
    ssm_cache_dtype=_nemotron_state_dtype,
)
