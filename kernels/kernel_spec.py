"""What an inspector needs to compile a kernel for a target without a GPU, and what to expect.

A module that holds kernels exports `INSPECTED = (KernelSpec(...), ...)`. Importing this module
imports neither torch nor triton.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One specialisation of a kernel, as its launcher launches it.

    `signature` names every parameter in order, with Triton's type ("*i32", "i64") or "constexpr";
    `constexprs` holds the values of the latter. `aligned` lists parameters that the launcher
    promises to be multiples of 16: bytes for a pointer, the value itself for an integer.
    `vector_load_bytes` and `vector_store_bytes` are the widest copies that the kernel declares,
    None where it declares none; `wide_division`: whether 64-bit division is expected.
    """

    name: str
    function: Any
    signature: Mapping[str, str]
    constexprs: Mapping[str, int | bool] = field(default_factory=dict)
    aligned: tuple[str, ...] = ()
    num_warps: int = 4
    vector_load_bytes: int | None = None
    vector_store_bytes: int | None = None
    wide_division: bool = False

    def __post_init__(self) -> None:
        """Refuse a specification that names parameters which the kernel does not have."""
        constants = {name for name, kind in self.signature.items() if kind == "constexpr"}
        if constants != set(self.constexprs):
            raise ValueError(
                f"{self.name}: constexprs {set(self.constexprs)} but needs {constants}"
            )
        if unknown := set(self.aligned) - set(self.signature):
            raise ValueError(f"{self.name}: aligned names unknown parameters {unknown}")

    @property
    def aligned_indices(self) -> tuple[int, ...]:
        """Return the positions of the aligned parameters, as in Triton's attributes."""
        return tuple(i for i, name in enumerate(self.signature) if name in self.aligned)
