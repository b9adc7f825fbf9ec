"""A kernel that does nothing: what a launch costs by itself."""

from workbench.kernels.language import triton


@triton.jit
def empty_kernel(p_unused):
    """Do nothing. Grid: any."""
