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


def _copy(name: str, aligned: tuple[str, ...]) -> KernelSpec:
    signature = {"p_in": "*i32", "p_out": "*i32", "stride": "i64", "SIZE": "constexpr"}
    return KernelSpec(name, copy_kernel, signature, {"SIZE": 1024}, aligned)


def _division(name: str, bits: int) -> KernelSpec:
    signature = {"p_in": f"*i{bits}", "p_out": f"*i{bits}", "divisor": f"i{bits}"}
    return KernelSpec(
        name, division_kernel, {**signature, "SIZE": "constexpr"}, {"SIZE": 128}, ("p_in", "p_out")
    )


_TILE = {"p_a": "*fp32", "p_b": "*fp32", "p_out": "*fp32", "SIZE": "constexpr"}
_DOT = {"p_a": "*fp16", "p_b": "*fp16", "p_out": "*fp32", "SIZE": "constexpr", "DEPTH": "constexpr"}

INSPECTED = (
    _copy("copy, aligned", ("p_in", "p_out", "stride")),
    _copy("copy, unknown", ()),
    _division("division, 32 bits", 32),
    _division("division, 64 bits", 64),
    KernelSpec("too many registers", registers_kernel, _TILE, {"SIZE": 128}, num_warps=2),
    KernelSpec(
        "much shared memory", shared_kernel, _DOT, {"SIZE": 64, "DEPTH": 512}, tuple(_DOT)[:3]
    ),
)
