"""A stretch of a tensor cut into pieces of one meaning, as fine as a limit of pieces allows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise

from workbench.core.byte_map.cuts import Part
from workbench.core.byte_map.groups import GroupBytes, Meaning
from workbench.core.layouts.shapes import HEADS, NUM_BLOCKS, TOKENS
from workbench.core.layouts.view import dense_run_end

BLOCK, KERNEL_BLOCK, PART, TOKEN, HEAD, VALUE = DETAILS = (
    "block", "kernel block", "part", "token", "head", "value"
)  # fmt: skip
"""How finely meanings are distinguished, coarsest first."""
STRETCH, ALL_PARTS = "stretch", "all parts"
"""Cut evenly, since even the coarsest pieces would be too many; a piece may hold many blocks."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Bytes from `start` up to `stop` that mean the same; `first` and `last` are those of its ends.

    detail: what is the same in all of its bytes; for a stretch, nothing.
    """

    start: int
    stop: int
    first: Meaning
    last: Meaning
    detail: str

    @property
    def is_padding(self) -> bool:
        """Return whether no layer of the group uses these bytes."""
        return self.first.is_padding and self.last.is_padding

    @property
    def is_misplaced(self) -> bool:
        """Return whether the bytes are in another block's page."""
        return self.first.is_misplaced or self.last.is_misplaced


def segments(
    group: GroupBytes,
    start: int,
    stop: int,
    *,
    finest: str = VALUE,
    limit: int,
    stretches: int = 100,
) -> tuple[Segment, ...]:
    """Return the bytes from `start` up to `stop` as `group` sees them, in at most `limit` segments.

    stretches: even cuts, where `limit` segments are too few to distinguish even blocks.
    finest: meanings are not distinguished more finely than this.
    """
    start, stop = max(start, 0), min(stop, group.raw_bytes)
    found: tuple[Segment, ...] = ()
    for detail in DETAILS[: DETAILS.index(finest) + 1]:
        if detail in {BLOCK, KERNEL_BLOCK} and group.kernel_span is None:
            continue
        finer = tuple(islice(_pieces(group, start, stop, detail), limit + 1))
        # The finest detail that still fits the limit is shown.
        if len(finer) > limit:
            break
        found = finer
    return found or _stretches(group, start, stop, stretches)


def _stretches(group: GroupBytes, start: int, stop: int, count: int) -> tuple[Segment, ...]:
    edges = [start + (stop - start) * n // count for n in range(count + 1)]
    found = []
    for low, high in pairwise(edges):
        if low < high:
            piece = _segment(group, low, high, STRETCH)
            if group.kernel_span is not None and piece.first.block != piece.last.block:
                first, last = (replace(end, part=ALL_PARTS) for end in (piece.first, piece.last))
                piece = replace(piece, first=first, last=last)
            found.append(piece)
    return tuple(found)


def _segment(group: GroupBytes, start: int, stop: int, detail: str) -> Segment:
    return Segment(start, stop, group.meaning(start), group.meaning(stop - 1), detail)


def _pieces(group: GroupBytes, start: int, stop: int, detail: str) -> Iterator[Segment]:
    byte = start
    while byte < stop:
        end = min(_piece_stop(group, byte, detail), stop)
        yield _segment(group, byte, end, detail)
        byte = end


def _piece_stop(group: GroupBytes, byte: int, detail: str) -> int:
    """Return where the meaning of `byte` ends, distinguished as finely as `detail`."""
    if detail in {BLOCK, KERNEL_BLOCK}:
        return _block_stop(group, byte, detail)
    if (found := group.part_at(byte)) is not None:
        part, index = found
        return dense_run_end(part.view, index, _apart(group, part, detail))
    page_end = (byte // group.page_bytes + 1) * group.page_bytes
    used = group.next_used(byte)
    return page_end if used is None else min(used, page_end)


def _apart(group: GroupBytes, part: Part, detail: str) -> frozenset[str]:
    if detail == VALUE:
        return frozenset(part.view.axes)
    # Of a state the outermost dimensions take the place of tokens and heads.
    named = part.view.axes[1:] if group.is_state else (TOKENS, HEADS)
    return frozenset({NUM_BLOCKS, *named[: DETAILS.index(detail) - DETAILS.index(PART)]})


def _block_stop(group: GroupBytes, byte: int, detail: str) -> int:
    """Return the same for whole blocks."""
    # By arithmetic: a page may have more pieces than can be walked.
    span, step = group.kernel_span, group.kernel_step_bytes
    assert span is not None
    page_end = (byte // group.page_bytes + 1) * group.page_bytes
    kernel, inside = divmod(byte - span.start, step)
    if kernel < 0:
        return span.start
    if inside >= len(span):
        return min(page_end, span.start + (kernel + 1) * step)
    if detail == BLOCK and len(span) == step:
        last = kernel - kernel % group.kernel_blocks + group.kernel_blocks
        return span.start + last * step
    return span.start + kernel * step + len(span)
