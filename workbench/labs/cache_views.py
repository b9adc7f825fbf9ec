"""Which block owns what of a cache, checked through raw bytes and real torch views over them.

    views = cache_views(layout, attention, states, num_blocks=2)
    check_ownership(views).attention.misplaced_bytes

The only module that turns `workbench.core.layouts.view.View` into tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from workbench.core.errors import check_kind
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.layouts.view import View

UNWRITTEN = -1
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""Bytes of an element -> an integer type of that size, so that any bit pattern can be written."""


@dataclass(frozen=True, slots=True)
class PageOwnership:
    """The owners of the bytes in page `block`: itself, other blocks, or none (padding)."""

    block: int
    own_bytes: int
    misplaced_bytes: int
    unwritten_bytes: int


@dataclass(frozen=True)
class Ownership:
    """Who owns the bytes of a tensor after every block was filled through its view.

    itemsize: bytes of one element. overwritten_bytes: written twice, so that one owner lost them.
    """

    pages: tuple[PageOwnership, ...]
    itemsize: int
    overwritten_bytes: int

    @property
    def misplaced_bytes(self) -> int:
        """Count bytes that are in the page of another block than the one that wrote them."""
        return sum(page.misplaced_bytes for page in self.pages)

    @property
    def misplaced_elements(self) -> int:
        """Count the same in elements."""
        return self.misplaced_bytes // self.itemsize

    @property
    def written_elements(self) -> int:
        """Count elements that any block wrote."""
        return sum(page.own_bytes + page.misplaced_bytes for page in self.pages) // self.itemsize

    @property
    def ok(self) -> bool:
        """Return whether every block owns its own page alone."""
        return not self.misplaced_bytes and not self.overwritten_bytes

    def __str__(self) -> str:
        return f"{self.misplaced_elements:,} of {self.written_elements:,} elements misplaced"


@dataclass(frozen=True)
class CacheOwnership:
    """The check for both kinds of layers; None if the cache does not have such a layer."""

    attention: Ownership | None
    states: Ownership | None


def check_ownership(views: CacheViews, device: str = "cpu") -> CacheOwnership:
    """Fill through the attention view, then through the state views, and inspect the raw bytes.

    Errors: ScenarioError for anything but a layout.

    >>> wb.check_ownership(plan.layout(num_blocks=3)).attention.ok
    True
    """
    check_kind("wb.check_ownership", views, CacheViews, "a layout, such as plan.layout(...)")
    attention = states = None
    if views.attention is not None and views.attention_page_bytes is not None:
        attention = ownership(
            (views.attention,),
            page_bytes=_step(views.attention_place, views.attention_page_bytes),
            raw_bytes=views.raw_bytes,
            blocks_per_page=views.kernel_blocks_per_block,
            device=device,
        )
    if views.states and views.state_page_bytes is not None:
        states = ownership(
            views.states,
            page_bytes=_step(views.state_place, views.state_page_bytes),
            raw_bytes=views.raw_bytes,
            device=device,
        )
    return CacheOwnership(attention, states)


def _step(place: PagePlacement | None, page_bytes: int) -> int:
    """Return bytes from one block to the next; the layer shown is the first of the allocation."""
    return page_bytes if place is None else place.block_step[1]


def ownership(
    views: Sequence[View],
    *,
    page_bytes: int,
    raw_bytes: int,
    blocks_per_page: int = 1,
    device: str = "cpu",
) -> Ownership:
    """Fill every manager block with its id through `views`, and verify page by page.

    blocks_per_page: kernel blocks in a manager block. Errors: LayoutError for sizes that do not
    fit together; torch's RuntimeError where a view leaves the storage.
    """
    require_positive(page_bytes, "page_bytes", "byte")
    require_positive(blocks_per_page, "blocks_per_page", "block")
    if not views:
        raise LayoutError("no_view", "Ownership needs at least one view; got none.", field="views")
    if raw_bytes % page_bytes:
        raise LayoutError(
            "tensor_not_whole_pages",
            f"raw_bytes = {raw_bytes:,} is not a multiple of page_bytes = {page_bytes:,}. "
            f"Nearest valid: {max(raw_bytes // page_bytes, 1) * page_bytes:,}.",
            field="raw_bytes",
        )
    owners = byte_owners(views, raw_bytes, blocks_per_page, device).reshape(-1, page_bytes)
    blocks = torch.arange(owners.shape[0], device=owners.device).unsqueeze(1)
    own = (owners == blocks).sum(1).tolist()
    unwritten = (owners == UNWRITTEN).sum(1).tolist()
    pages = tuple(
        PageOwnership(block, mine, page_bytes - mine - free, free)
        for block, (mine, free) in enumerate(zip(own, unwritten, strict=True))
    )
    written = sum(page_bytes - page.unwritten_bytes for page in pages)
    requested = sum(view.elements * view.itemsize for view in views)
    return Ownership(pages, min(view.itemsize for view in views), requested - written)


def byte_owners(
    views: Sequence[View], raw_bytes: int, blocks_per_page: int = 1, device: str = "cpu"
) -> torch.Tensor:
    """Return the manager block that wrote each byte, [bytes] int64; UNWRITTEN if none did.

    Ids are written digit by digit in base 255, one digit per round and the same in every byte of an
    element, so that a byte identifies its owner for any element type.
    """
    raw = torch.zeros(raw_bytes, dtype=torch.int8, device=device)
    blocks = max(view.shape[view.block_axis] for view in views) // blocks_per_page
    owners = torch.zeros(raw_bytes, dtype=torch.int64, device=device)
    weight = 1
    while weight == 1 or weight < blocks:
        raw.zero_()
        for view in views:
            bits = raw.view(BITS[view.itemsize])
            target = torch.as_strided(bits, view.shape, view.strides, view.offset_elements)
            for block in range(view.shape[view.block_axis] // blocks_per_page):
                kernels = target.narrow(view.block_axis, block * blocks_per_page, blocks_per_page)
                pattern = bytes([block // weight % 255 + 1]) * view.itemsize
                kernels.fill_(int.from_bytes(pattern, "little", signed=view.itemsize > 1))
        digits = raw.view(torch.uint8).to(torch.int64)
        owners += (digits - 1) * weight
        weight *= 255
    return torch.where(digits == 0, UNWRITTEN, owners)
