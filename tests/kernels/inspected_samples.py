"""Small kernels, each with one property that inspection must see."""

from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.language import tl, triton


@triton.jit
def copy_kernel(p_in, p_out, stride, SIZE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    offsets = tl.arange(0, SIZE)
    tl.store(p_out + row + offsets, tl.load(p_in + row + offsets))


@triton.jit
def division_kernel(p_in, p_out, divisor, SIZE: tl.constexpr):
    offsets = tl.arange(0, SIZE)
    tl.store(p_out + offsets, tl.load(p_in + offsets) // divisor)


@triton.jit
def registers_kernel(p_a, p_b, p_out, SIZE: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    tile = rows * SIZE + columns
    a, b = tl.load(p_a + tile), tl.load(p_b + tile)
    total = tl.sum(a, axis=0)[None, :] + tl.sum(b, axis=1)[:, None]
    tl.store(p_out + tile, a * total + b)


@triton.jit
def shared_kernel(p_a, p_b, p_out, SIZE: tl.constexpr, DEPTH: tl.constexpr):
    rows, columns = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    a = tl.load(p_a + rows * DEPTH + tl.arange(0, DEPTH)[None, :])
    b = tl.load(p_b + tl.arange(0, DEPTH)[:, None] * SIZE + columns)
    tl.store(p_out + rows * SIZE + columns, tl.dot(a, b))


def _division(name: str, bits: int) -> KernelSpec:
    types = {"p_in": f"*i{bits}", "p_out": f"*i{bits}", "divisor": f"i{bits}"}
    return KernelSpec(name, division_kernel, {"SIZE": 128}, types)


_TILE = dict.fromkeys(("p_a", "p_b", "p_out"), "*fp32")
_DOT = {"p_a": "*fp16", "p_b": "*fp16", "p_out": "*fp32"}
_COPY = {"stride": "i64"}

INSPECTED = (
    KernelSpec("copy, aligned", copy_kernel, {"SIZE": 1024}, _COPY, ("stride",)),
    KernelSpec("copy, unknown", copy_kernel, {"SIZE": 1024}, _COPY, unaligned=True),
    _division("division, 32 bits", 32),
    _division("division, 64 bits", 64),
    KernelSpec(
        "too many registers", registers_kernel, {"SIZE": 128}, _TILE, unaligned=True, num_warps=2
    ),
    KernelSpec("much shared memory", shared_kernel, {"SIZE": 64, "DEPTH": 512}, _DOT),
)
