"""What an inspector needs to compile a kernel for a target without a GPU, and what to expect.

A module for an inspector exports `INSPECTED = (PublicCall(...), KernelSpec(...), ...)`. Importing
this module imports neither torch nor triton.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PublicCall:
    """A call of a public function: an inspector reports on every kernel that it launches.

    It takes the whole way to the launch, for a target without its GPU: see `dry_driver`.
    """

    name: str
    run: Callable[[], object]
    limited: bool = True
    """What exceeds the target's limits is refused, as there; else it is reported on, too."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One specialisation of a kernel that no public function of ours launches."""

    name: str
    function: Any
    constexprs: Mapping[str, Any]
    """Compile-time parameter -> its value."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Parameter -> Triton's type, where it is neither "*i32" for a pointer (its name begins with
    `p_`) nor "i32" for a number."""
    aligned: tuple[str, ...] = ()
    """Numbers that the launcher promises to be multiples of 16."""
    unaligned: bool = False
    """Addresses are not promised to be multiples of 16 bytes, as they are by default."""
    num_warps: int = 4

    def __post_init__(self) -> None:
        """Refuse a specification that names parameters which the kernel does not have."""
        if unknown := {*self.constexprs, *self.types, *self.aligned} - set(self.signature):
            raise ValueError(f"{self.name}: {self.function} has no parameters {unknown}")

    @property
    def signature(self) -> dict[str, str]:
        """Return the type of every parameter in order, "constexpr" for those of compile time."""
        names = inspect.signature(self.function.fn).parameters
        return {
            name: "constexpr"
            if name in self.constexprs
            else self.types.get(name, "*i32" if name.startswith("p_") else "i32")
            for name in names
        }

    @property
    def multiples_of_16(self) -> tuple[str, ...]:
        """Return the parameters that the launcher promises to be multiples of 16."""
        pointers = (name for name, kind in self.signature.items() if kind.startswith("*"))
        return self.aligned if self.unaligned else (*pointers, *self.aligned)
