"""Which heads and which devices a kernel can take, as data that also reads as text."""

from dataclasses import dataclass

Capability = tuple[int, int]
"""Compute capability of a CUDA device, (major, minor)."""


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Which head sizes a kernel can take: an explicit list, or a range with a step."""

    exact: tuple[int, ...] = ()
    multiple_of: int = 1
    at_least: int = 1
    at_most: int | None = None

    def accepts(self, head_size: int) -> bool:
        """Return whether a head of `head_size` elements is supported."""
        if self.exact:
            return head_size in self.exact
        fits = self.at_most is None or head_size <= self.at_most
        return head_size % self.multiple_of == 0 and head_size >= self.at_least and fits

    def __str__(self) -> str:
        if self.exact:
            return ", ".join(map(str, self.exact))
        parts = [f"multiple of {self.multiple_of}"] if self.multiple_of > 1 else []
        if self.at_least > 1:
            parts.append(f">= {self.at_least}")
        if self.at_most is not None:
            parts.append(f"<= {self.at_most}")
        return ", ".join(parts) or "any"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Which compute capabilities a kernel runs on: some generations, exact ones, or a range."""

    majors: tuple[int, ...] = ()
    exact: tuple[Capability, ...] = ()
    at_least: Capability | None = None
    at_most: Capability | None = None

    def accepts(self, capability: Capability) -> bool:
        """Return whether a device of this capability is supported."""
        if self.majors or self.exact:
            return capability[0] in self.majors or capability in self.exact
        fits = self.at_most is None or capability <= self.at_most
        return fits and (self.at_least is None or capability >= self.at_least)

    def __str__(self) -> str:
        listed = [f"{major}.x" for major in self.majors] + [_text(exact) for exact in self.exact]
        if listed:
            return ", ".join(listed)
        parts = [] if self.at_least is None else [f">= {_text(self.at_least)}"]
        if self.at_most is not None:
            parts.append(f"<= {_text(self.at_most)}")
        return ", ".join(parts) or "any"


ANY_HEAD = HeadSizes()
ANY_DEVICE = Capabilities()


def _text(capability: Capability) -> str:
    return ".".join(map(str, capability))
