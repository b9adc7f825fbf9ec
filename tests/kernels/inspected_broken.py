"""A kernel that cannot compile."""

from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.language import tl, triton


@triton.jit
def broken_kernel(p_out):
    tl.store(p_out, nothing_of_this_name)  # noqa: F821


INSPECTED = (KernelSpec("broken", broken_kernel, {}),)
