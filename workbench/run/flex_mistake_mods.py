# ruff: noqa: ANN001, ANN201, ARG001, N803 - device functions have no Python types
"""Masks written wrongly on purpose: device functions that paged attention has to refuse."""

from workbench.kernels.language import tl, triton


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
