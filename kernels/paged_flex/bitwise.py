"""Whether a request's bits depend on anything but the request: run it in many ways, and compare.

Every trial computes the same queries over the same keys and values. What changes is the batch
around them, the pages under them, or the steps in which they come.
"""

from dataclasses import dataclass
from typing import Literal

import torch

from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.settings import Settings

Kind = Literal["batch", "padding", "pages", "page size", "chunks"]
KINDS: tuple[Kind, ...] = ("batch", "padding", "pages", "page size", "chunks")

_WORDS = {2: torch.int16, 4: torch.int32}


@dataclass(frozen=True, slots=True)
class Trial:
    """One other way to compute the request's [tokens, heads, dim], against the request alone."""

    kind: Kind
    detail: str
    elements: int
    """How many were compared."""
    differing: int
    """How many have other bits."""
    first: tuple[int, ...] | None
    """The place of the first of them."""
    largest: float
    """The largest difference in value."""

    @property
    def equal(self) -> bool:
        """Return whether all bits are identical."""
        return self.differing == 0


def promised(settings: Settings) -> tuple[Kind, ...]:
    """Return the kinds of trials in which these settings promise identical bits.

    "chunks" is promised on a GPU only: a matrix instruction treats all rows of a tile equally,
        while numpy's products in the interpreter change with a row's place.
    """
    sizes: tuple[Kind, ...] = ("page size",)
    # only a GPU copies by descriptors, unless they are forced
    described = triton_mode().mode == "gpu" or settings.path == "descriptors"
    if settings.depends_on_page_size and described:
        sizes = ()
    if settings.depends_on_batch:
        return ("pages", *sizes)
    kinds: tuple[Kind, ...] = ("batch", "padding", "pages", *sizes)
    # numpy, in the interpreter, sums a row in another order at another place of the matrix
    if not settings.depends_on_chunks and triton_mode().mode == "gpu":
        kinds += ("chunks",)
    return kinds


def compare_bits(kind: Kind, detail: str, alone: torch.Tensor, other: torch.Tensor) -> Trial:
    """Count the elements whose bits differ; two NaNs of the same bits are equal."""
    # as integers: -0.0 and 0.0 differ, a NaN equals itself
    word = _WORDS[alone.element_size()]
    differs = alone.contiguous().view(word) != other.contiguous().view(word)
    places = differs.nonzero()
    first = tuple(int(i) for i in places[0]) if len(places) else None
    gap = (alone.double() - other.double()).abs()[differs]
    largest = float(gap.max()) if len(gap) else 0.0
    return Trial(
        kind=kind,
        detail=detail,
        elements=alone.numel(),
        differing=len(places),
        first=first,
        largest=largest,
    )
