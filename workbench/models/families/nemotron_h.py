"""Nemotron-H: one character per layer, and a float32 state unless the checkpoint says otherwise."""

from __future__ import annotations

from workbench.core.dtypes import STATE_DTYPES
from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import Mamba2
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import NEITHER, check_length, first_list, to_layers

PATTERN = {"M": SSM, "*": FULL, "-": NEITHER, "E": NEITHER}
WORDS: dict[object, str] = {"mamba": SSM, "attention": FULL, "moe": NEITHER, "mlp": NEITHER}


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layers_block_type", "layer_types"), WORDS)
    if kinds is None:
        key = "hybrid_override_pattern"
        kinds = fields.layer_list(key, PATTERN)
        if kinds is None:
            raise fields.missing(key, "the kinds of layers")
        check_length(fields, key, kinds)
    return to_layers(kinds)


def _state(fields: Fields) -> Mamba2:
    heads = fields.integer("mamba_num_heads")
    head_dim = fields.integer("mamba_head_dim")
    return Mamba2(
        intermediate_size=heads * head_dim,
        n_groups=fields.integer("n_groups", 8),
        num_heads=heads,
        head_dim=head_dim,
        state_size=fields.integer("ssm_state_size", 128),
        conv_kernel=fields.integer("conv_kernel", 4),
    )


def _ssm_cache_dtype(fields: Fields) -> str:
    requested = fields.word("mamba_ssm_cache_dtype", STATE_DTYPES)
    if requested is None:
        fields.note("mamba_ssm_cache_dtype", "float32", "the family's default")
    return requested or "float32"


register(
    Family(
        "nemotron_h",
        model_types={
            "nemotron_h": ("NemotronHForCausalLM",),
            "nemotron_h_puzzle": ("NemotronHPuzzleForCausalLM",),
        },
        layers=_layers,
        state=_state,
        supports_all_mode=True,
        ssm_cache_dtype=_ssm_cache_dtype,
    )
)
