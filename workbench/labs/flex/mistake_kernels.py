# ruff: noqa: ANN001, ANN201, ARG001, N803 - device functions have no Python types
"""Deliberate mistakes: mask_mods that paged attention refuses, a tile that fits few devices."""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.calls import attention_call
from workbench.kernels.paged_flex.settings import Settings, Tile

TOO_LARGE = Settings(Tile(128, 128, 8), as_given=True)
INSPECTED = (
    attention_call("128 x 128, head 256", TOO_LARGE, head_dim=256, group=1, limited=False),
)
"""Needs more shared memory than most devices have; compiled by an inspector, never launched."""


@triton.jit
def five_parameters(request, head, query, key, p_aux):
    """Show causal keys, but without the parameter PARAM."""
    return key <= query


@triton.jit
def python_if(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Decide once for a whole tile."""
    if query > key:
        return query - key < PARAM
    return query == key
