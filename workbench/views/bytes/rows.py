"""The rows of the page map: pages, attention, the compared rewrite rule, and states."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any, Final, NamedTuple

from workbench.core.arithmetic import cdiv
from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.byte_map.segments import ALL_PARTS, Segment, segments
from workbench.core.byte_map.tensors import ByteMap
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import GUESSED, GUESSED_UNCHECKED, NEVER
from workbench.core.plan import Plan
from workbench.views.bytes import places
from workbench.views.bytes.places import LEVELS, MapPlace
from workbench.views.bytes.text import HIDDEN, label, layers_text, segment_words, sharing_groups
from workbench.views.units import bytes_text, counted

LIMIT = 280
"""Bars in one row, at most."""
STRETCHES = 100
"""Pages in the row of pages at most, and stretches where blocks are too many to be drawn singly."""
MAX_TENSORS = 10
"""Tensors in the rows of a pool at most: those around the chosen one."""
MAX_PAGES_OVER_IT = 4
"""With more pages than this the layers of other groups that overlap a tensor are not drawn."""
TITLE_COLUMNS = 120
PLAIN = ("K", "V", "latent", HIDDEN, "conv", "recurrent")
"""Parts that are a class of their own."""
COMPARISONS: Final = {NEVER: "no rewrite", GUESSED: "guessed from the shape"}
"""Rewrite rules that the map can be compared with."""


class Bar(NamedTuple):
    """Bytes of one class, with the text inside and that of the hover."""

    kind: str
    start: int
    stop: int
    text: str
    hover: str


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the map."""

    name: str
    bars: tuple[Bar, ...]
    states: bool | None = None
    """Whether it shows states; None for a row of neither states nor attention."""


@dataclass(frozen=True, slots=True)
class MapPicture:
    """Content of the map: rows over the bytes of `window`, below a title; values only."""

    title: str
    subtitle: str
    window: tuple[int, int]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The same tensor under another rewrite rule; `error_text`: vLLM's assertion, if it fails."""

    name: str
    pool: ByteMap | None
    error_text: str | None = None


def compared(plan: Plan, rule: str, **options: Any) -> Comparison:
    """Return the byte map under `rule`, unchecked where its own assertion would stop it.

    Errors: LayoutError for what has nothing to do with the rule.
    """
    if rule not in COMPARISONS:
        raise LayoutError(
            "unknown_rule",
            f"compare = {rule!r} is not known. Allowed: {', '.join(COMPARISONS)}.",
            field="compare",
        )
    name, error_text = COMPARISONS[rule], None
    if rule == GUESSED:
        try:
            byte_map(plan, **options, rule=GUESSED)
        except LayoutError as error:
            if error.code != "ambiguous_shape":
                raise
            error_text = error.vllm_text
        rule = GUESSED_UNCHECKED
    try:
        return Comparison(name, byte_map(plan, **options, rule=rule), error_text)
    except LayoutError as error:
        if error.code != "bytes_have_two_owners":
            raise
        return Comparison(name, None, "blocks overlap: bytes have two owners")


def map_picture(pool: ByteMap, place: MapPlace, other: Comparison | None = None) -> MapPicture:
    """Return the rows to draw. Errors: LayoutError for a place that does not exist."""
    place = places.checked(pool, place)
    window = places.shown_window(pool, place)
    title = places.breadcrumb(pool, place)
    size = bytes_text(window[1] - window[0])
    words = f"bytes {window[0]:,} to {window[1] - 1:,} of tensor {place.tensor}: {size}"
    if place.level == "pool" and place.window is None:
        rows = list(_tensor_rows(pool, place))
        words = _tensor_sizes(pool)
        words += f"; {len(rows)} of them shown" if len(rows) < len(pool.tensors) else ""
        return MapPicture(title, words, window, tuple(rows))
    finest = places.FINEST["head"] if place.window else places.FINEST[place.level]
    rows = [_page_row(pool.tensor(place.tensor).page_bytes, window)]
    for groups in sharing_groups(pool, place.tensor):
        name = layers_text(groups)
        if groups[0].rewritten:
            name += "<br>strides rewritten"
        rows.append(_group_row(name, groups[0], window, finest))
        if other is not None and not groups[0].is_state:
            name = f"the same with<br>{other.name}"
            if other.pool is None:
                rows.append(Row(name, ()))
            else:
                theirs = other.pool.layers[groups[0].layer][0]
                rows.append(_group_row(name, theirs, window, finest))
    rows += _overlapping_rows(pool, place.tensor, window, finest)
    if place.depth >= LEVELS.index("block"):
        rows.append(_selected_row(pool, place, window))
        pieces = len(places.place_ranges(pool, place))
        words += f"; this {place.level} is in {pieces:,} pieces" if pieces > 1 else ""
    return MapPicture(title, words + _verdict(other, place.tensor), window, tuple(rows))


def _tensor_sizes(pool: ByteMap) -> str:
    """Return a text like "8 tensors of 6 MiB" or "32 tensors: 4 of 192 KiB, 28 of 50.2 KiB"."""
    sizes = Counter(tensor.raw_bytes for tensor in pool.tensors)
    many = f"{len(pool.tensors)} {'places in one allocation' if pool.places else 'tensors'}"
    if len(sizes) == 1:
        return f"{many} of {bytes_text(*sizes)}"
    each = ", ".join(f"{count} of {bytes_text(size)}" for size, count in sizes.items())
    return f"{many}: {each}"


def _verdict(other: Comparison | None, number: int) -> str:
    if other is None:
        return ""
    if other.pool is None:
        return f"<br>{other.name}: {other.error_text}"
    tensor = other.pool.tensor(number)
    wrong = f"{tensor.misplaced_bytes:,} of {tensor.raw_bytes:,} bytes misplaced"
    stops = f"; vLLM stops: {other.error_text}" if other.error_text else ""
    return "<br>" + "<br>".join(wrap(f"{other.name}: {wrong}{stops}", TITLE_COLUMNS))


def _tensor_rows(pool: ByteMap, place: MapPlace) -> tuple[Row, ...]:
    rows = []
    first = place.tensor - place.tensor % MAX_TENSORS
    for tensor in range(first, min(first + MAX_TENSORS, len(pool.tensors))):
        kinds = sharing_groups(pool, tensor)
        text = "; ".join(map(layers_text, kinds))
        names = ", ".join(group.layer for groups in kinds for group in groups)
        size = pool.tensors[tensor].raw_bytes
        bar = "selected" if tensor == place.tensor else "page"
        hover = f"<b>tensor {tensor}</b>, shared by<br>{names}"
        rows.append(Row(f"tensor {tensor}", (Bar(bar, 0, size, text, hover),)))
    return tuple(rows)


def _page_row(page_bytes: int, window: tuple[int, int]) -> Row:
    start, stop = window
    first, last = start // page_bytes, (stop - 1) // page_bytes
    step = max(1, cdiv(last - first + 1, STRETCHES))
    bars = []
    for page in range(first, last + 1, step):
        end = min(page + step, last + 1)
        name = f"page {page:,}" if step == 1 else f"pages {page:,} to {end - 1:,}"
        low, high = page * page_bytes, end * page_bytes
        hover = f"<b>{name}</b><br>bytes {low:,} to {high - 1:,}"
        bars.append(Bar("page", max(low, start), min(high, stop), name, hover))
    return Row("page", tuple(bars))


def _group_row(name: str, group: GroupBytes, window: tuple[int, int], finest: str) -> Row:
    pieces = segments(group, *window, finest=finest, limit=LIMIT)
    with_block = window[1] - window[0] > group.page_bytes
    bars = (_bar(piece, group, with_block=with_block) for piece in pieces)
    return Row(name, tuple(bars), group.is_state)


def _overlapping_rows(
    pool: ByteMap, tensor: int, window: tuple[int, int], finest: str
) -> Iterator[Row]:
    """Yield layers of other groups over a few pages of this tensor, one row per kind."""
    start, stop = window
    page_bytes = pool.tensor(tensor).page_bytes
    if stop - start > MAX_PAGES_OVER_IT * page_bytes:
        return
    drawn: dict[int, tuple[dict[str, GroupBytes], list[Bar]]] = {}
    byte = start
    while byte < stop:
        here = tuple(pool.elsewhere(tensor, byte))
        ends = (byte + group.page_bytes - there % group.page_bytes for group, there in here)
        end = min(stop, (byte // page_bytes + 1) * page_bytes, *ends)
        limit = max(1, LIMIT * (end - byte) // (stop - start))
        for group, there in here:
            layers, bars = drawn.setdefault(group.number, ({}, []))
            layers[group.layer] = group
            last, shift = there + end - byte, byte - there
            pieces = segments(group, there, last, finest=finest, limit=limit, stretches=1)
            bars += (_bar(piece, group, with_block=True, shift=shift) for piece in pieces)
        byte = end
    equal: dict[object, tuple[dict[str, GroupBytes], list[Bar]]] = {}
    for layers, bars in drawn.values():
        equal.setdefault(tuple(bar[:4] for bar in bars), ({}, bars))[0].update(layers)
    for layers, bars in equal.values():
        yield Row(f"overlapping:<br>{layers_text(tuple(layers.values()))}", tuple(bars))


def _bar(piece: Segment, group: GroupBytes, *, with_block: bool, shift: int = 0) -> Bar:
    kind = "misplaced" if piece.is_misplaced else _class(piece, group)
    text = label(piece, with_block=with_block or piece.is_misplaced)
    return Bar(kind, piece.start + shift, piece.stop + shift, text, segment_words(piece))


def _class(piece: Segment, group: GroupBytes) -> str:
    if piece.is_padding:
        return "padding"
    first, last = piece.first.part, piece.last.part
    if first == last and first in PLAIN:
        return first
    if group.is_state:
        return "whole state"
    if first == last != ALL_PARTS:
        return "scale, norm or rope"
    alone = group.parts[0].name
    return alone if alone in {"latent", HIDDEN} else "K and V"


def _selected_row(pool: ByteMap, place: MapPlace, window: tuple[int, int]) -> Row:
    """Return the row with the bytes of the place, all parts of them, inside the window."""
    start, stop = window
    ranges = places.place_ranges(pool, place)
    pieces = [range(max(piece.start, start), min(piece.stop, stop)) for piece in ranges]
    pieces = [piece for piece in pieces if piece]
    name = f"this {place.level}"
    hover = f"<b>{name}</b>: {counted(len(pieces), 'piece')}"
    if len(pieces) > LIMIT:
        pieces = [range(pieces[0].start, pieces[-1].stop)]
        hover += " in this stretch"
    ends = ((piece.start, piece.stop) for piece in pieces)
    bars = (
        Bar("selected", low, high, "", f"{hover}<br>bytes {low:,} to {high - 1:,}")
        for low, high in ends
    )
    return Row(name, tuple(bars))
