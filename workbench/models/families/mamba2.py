"""Families with Mamba-2 layers named in Bamba's words, PLaMo2, and pure Mamba-2."""

from __future__ import annotations

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import Mamba2
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import BOTH, first_list, ssm_everywhere, to_layers

WORDS: dict[object, str] = {"mamba": SSM, "attention": FULL}


def _inner_size(fields: Fields) -> int:
    """Return the state space's channels: Falcon-H1's `mamba_d_ssm`, else expand * hidden."""
    if fields.model_type == "falcon_h1" and fields.has("mamba_d_ssm"):
        return fields.integer("mamba_d_ssm", name="intermediate_size")
    expanded = int(fields.number("mamba_expand", 2) * fields.integer("hidden_size"))
    fields.note("intermediate_size", expanded, "mamba_expand * hidden_size")
    return expanded


def bamba_state(fields: Fields) -> Mamba2:
    """Return state geometry in Bamba's field names (also Granite 4 and Falcon-H1)."""
    inner = _inner_size(fields)
    heads = fields.integer("mamba_n_heads", 128)
    if fields.raw("mamba_d_head") in (None, "auto"):
        head_dim = inner // heads
        fields.note("head_dim", head_dim, "intermediate size // mamba_n_heads")
    else:
        head_dim = fields.integer("mamba_d_head")
    if heads * head_dim != inner:
        raise fields.contradiction(
            "mamba_d_head",
            f"{heads} heads of {head_dim} do not fill {inner} channels "
            f"({fields.origins['intermediate_size']})",
        )
    return Mamba2(
        intermediate_size=inner,
        n_groups=fields.integer("mamba_n_groups", 1),
        num_heads=heads,
        head_dim=head_dim,
        state_size=fields.integer("mamba_d_state", 256),
        conv_kernel=fields.integer("mamba_d_conv", 4),
    )


def _bamba_layers(fields: Fields) -> tuple[Layer, ...]:
    count = fields.layer_count()
    attention = fields.index_list("attn_layer_indices", count) or frozenset()
    return to_layers([FULL if index in attention else SSM for index in range(count)])


def _granite_layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types", "layers_block_type"), WORDS)
    return to_layers([SSM] * fields.layer_count() if kinds is None else kinds)


def _granite_is_ordinary(fields: Fields) -> bool:
    """Return whether every listed layer is attention, as in granite-4.0-micro."""
    kinds = first_list(fields, ("layer_types",), WORDS)
    return bool(kinds) and set(kinds or ()) == {FULL}


def _falcon_layers(fields: Fields) -> tuple[Layer, ...]:
    return to_layers([BOTH] * fields.layer_count())


def _plamo_layers(fields: Fields) -> tuple[Layer, ...]:
    count, step = fields.layer_count(), fields.integer("mamba_step", minimum=2)
    if count <= step // 2:
        return to_layers([SSM] * (count - 1) + [FULL])
    return to_layers([FULL if index % step == step // 2 else SSM for index in range(count)])


def _plamo_state(fields: Fields) -> Mamba2:
    heads = fields.integer("mamba_num_heads")
    head_dim = fields.integer("hidden_size_per_head", name="head_dim")
    return Mamba2(
        intermediate_size=heads * head_dim,
        n_groups=0,
        num_heads=heads,
        head_dim=head_dim,
        state_size=fields.integer("mamba_d_state"),
        conv_kernel=fields.integer("mamba_d_conv"),
        checks_groups=False,
    )


def _pure_state(fields: Fields) -> Mamba2:
    inner = int(fields.number("expand", 2) * fields.integer("hidden_size"))
    fields.note("intermediate_size", inner, "expand * hidden_size")
    heads, head_dim = fields.integer("num_heads", 128), fields.integer("head_dim", 64)
    if heads * head_dim != inner:
        raise fields.contradiction(
            "num_heads", f"{heads} heads of {head_dim} do not fill {inner} channels"
        )
    return Mamba2(
        intermediate_size=inner,
        n_groups=fields.integer("n_groups", 8),
        num_heads=heads,
        head_dim=head_dim,
        state_size=fields.integer("state_size", 128),
        conv_kernel=fields.integer("conv_kernel", 4),
    )


register(
    Family(
        "bamba",
        model_types={"bamba": ("BambaForCausalLM",)},
        layers=_bamba_layers,
        state=bamba_state,
        supports_all_mode=True,
    ),
    Family(
        "granitemoehybrid",
        model_types={"granitemoehybrid": ("GraniteMoeHybridForCausalLM",)},
        layers=_granite_layers,
        state=bamba_state,
        supports_all_mode=True,
        is_ordinary=_granite_is_ordinary,
    ),
    Family(
        "falcon_h1",
        model_types={"falcon_h1": ("FalconH1ForCausalLM",)},
        layers=_falcon_layers,
        state=bamba_state,
        supports_all_mode=True,
        names_attention_layers=False,
    ),
    Family(
        "plamo2",
        model_types={"plamo2": ("Plamo2ForCausalLM",)},
        layers=_plamo_layers,
        state=_plamo_state,
        names_attention_layers=False,
    ),
    Family(
        "mamba2",
        model_types={"mamba2": ("Mamba2ForCausalLM",)},
        layers=ssm_everywhere,
        state=_pure_state,
        attention=lambda _fields: None,
        is_hybrid=False,
        is_attention_free=True,
        supports_all_mode=True,
    ),
)
