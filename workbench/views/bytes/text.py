"""Descriptions of a byte, a segment and a place in the page map."""

from collections.abc import Iterator
from typing import Any

from workbench.core.byte_map import segments
from workbench.core.byte_map.groups import GroupBytes, Meaning
from workbench.core.byte_map.tensors import ByteMap
from workbench.core.groups.layer_classes import layer_number
from workbench.views.html import Html, document, join, note, table, tag, wide_table
from workbench.views.units import counted, range_text

HIDDEN = "hidden state"
NAMED_LAYERS = 4
"""More layers than this are counted, not named."""


def byte_words(pool: ByteMap, tensor: int, byte: int) -> tuple[str, ...]:
    """Describe a byte: one sentence for its place, one for every kind of group that shares it.

    Errors: LayoutError for a tensor or a byte that does not exist.
    """
    found = pool.at(tensor, byte)
    lines = [f"Byte {byte:,} of tensor {tensor} is byte {found.page_byte:,} of page {found.page}."]
    layer = pool.tensor(tensor).groups[0].layer
    if layer in pool.places:
        order = pool.places[layer].where.name
        lines.append(
            f"The tensor is a place in the one allocation: there it is byte "
            f"{pool.address(layer, byte):,} (order {order})."
        )
    for groups in sharing_groups(pool, tensor):
        meaning = found.of_group(groups[0].number)
        lines.append(f"To {layers_text(groups)} it is {meaning_words(meaning)}.")
    for group, there in pool.elsewhere(tensor, byte):
        words = meaning_words(group.meaning(there))
        lines.append(f"{layers_text((group,)).capitalize()} overlaps it: there it is {words}.")
    return tuple(lines)


PARTS_OF_PAGE = ("to", "part", "shape", "strides in elements", "first byte", "dtype")


def map_text(pool: ByteMap) -> str:
    """Return the tensors, and a line for every part that layers see of the first one."""
    lines = (
        f"  {to}: {part} {shape} {dtype}, byte {first:,}"
        for to, part, shape, _strides, first, dtype in _parts_of(pool)
    )
    return "\n".join([_tensors_text(pool), *lines])


def map_html(pool: ByteMap) -> Html:
    """Return the same as a table."""
    return document(note(_tensors_text(pool)), wide_table(PARTS_OF_PAGE, _parts_of(pool)))


def _tensors_text(pool: ByteMap) -> str:
    pages = sorted({one.page_bytes for one in pool.tensors}, reverse=True)
    sizes = " and ".join(f"{one:,}" for one in pages)
    tensors = counted(len(pool.tensors), "tensor")
    return f"{tensors} of {pool.num_blocks:,} blocks, pages of {sizes} bytes. Tensor 0:"


def _parts_of(pool: ByteMap) -> list[tuple[Any, ...]]:
    return [
        (
            layers_text(groups),
            part.name,
            str(part.view.shape),
            str(part.view.strides),
            part.view.offset_bytes,
            part.view.dtype,
        )
        for groups in sharing_groups(pool, 0)
        for part in groups[0].parts
    ]


def meaning_words(meaning: Meaning) -> str:
    """Return a text like "K of block 1, kernel block 2, token 37 (5 in it), value 3, ..."."""
    _part, _block, *inside = _facts(meaning)
    return ", ".join([f"{meaning.part} of block {meaning.block:,}", *map(" ".join, inside)])


def segment_words(segment: segments.Segment) -> str:
    """Describe what all bytes of a segment have in common, for a hover text."""
    first, last, detail = segment.first, segment.last, segment.detail
    blocks = _span("block", first.block, last.block)
    parts = range_text(first.part, last.part)
    words = [f"<b>{parts}</b> of {blocks}"]
    if detail not in {segments.BLOCK, segments.STRETCH}:
        if first.kernel_block is not None:
            words.append(_span("kernel block", first.kernel_block, last.kernel_block))
        if first.token is not None:
            words.append(_span("token", first.token, last.token))
        if first.head is not None and last.head is not None:
            words.append(_span("head", first.head, last.head))
        if detail == segments.VALUE and first.value is not None:
            words.append(_span("value", first.value, last.last_value))
        if first.state_index:
            words.append(f"from {list(first.state_index)}")
    if segment.is_misplaced:
        words.append(f"<b>misplaced</b>: in {_span('page', first.page, last.page)}")
    size = segment.stop - segment.start
    span = f"bytes {segment.start:,} to {segment.stop - 1:,} ({size:,})"
    return "<br>".join([", ".join(words), span])


def label(segment: segments.Segment, *, with_block: bool) -> str:
    """Return the few letters inside a bar."""
    first, detail = segment.first, segment.detail
    if segment.is_padding:
        return "padding"
    kernel = "state" if first.kernel_block is None else f"kernel block {first.kernel_block}"
    block = f" {first.block}" if with_block else ""
    coarse = {
        segments.STRETCH: "",
        segments.BLOCK: f"block {first.block}",
        segments.KERNEL_BLOCK: kernel,
        segments.PART: f"{first.part}{block}",
        segments.VALUE: f"{first.value}",
    }
    if detail in coarse:
        return coarse[detail]
    if first.state_index:
        outer = "row" if first.head is None else "head"
        return f"{first.part} {outer} {first.state_index[0]}"
    if detail == segments.HEAD and first.head is not None:
        return f"t{first.kernel_token} h{first.head}"
    return f"{first.part} {first.kernel_token}"


def sharing_groups(pool: ByteMap, tensor: int) -> tuple[tuple[GroupBytes, ...], ...]:
    """Return the groups that share a tensor, those with equal views together; attention first."""
    found: dict[object, list[GroupBytes]] = {}
    for group in sorted(pool.tensor(tensor).groups, key=lambda group: group.is_state):
        found.setdefault((group.parts, group.kernel_blocks), []).append(group)
    return tuple(tuple(groups) for groups in found.values())


def layers_text(groups: tuple[GroupBytes, ...]) -> str:
    """Return a text like "attention layer 3" or "state layers 0, 1, 2"."""
    kind = "state" if groups[0].is_state else "attention"
    kind = "hidden states" if groups[0].parts[0].name == HIDDEN else kind
    numbers = [str(layer_number(group.layer)) for group in groups]
    shown = ", ".join(numbers[:NAMED_LAYERS]) + (", ..." if len(numbers) > NAMED_LAYERS else "")
    return f"{kind} layer{'' if len(numbers) == 1 else 's'} {shown}"


def _span(what: str, first: int, last: int | None) -> str:
    if last is None or first == last:
        return f"{what} {first:,}"
    low, high = sorted((first, last))
    return f"{what}s {low:,} to {high:,}"


Fact = tuple[str, str]


def byte_inspector(pool: ByteMap, tensor: int, byte: int) -> Html:
    """Return what a byte of a tensor is, a table for every kind of layer that shares it.

    Errors: LayoutError for a tensor or a byte that does not exist.
    """
    found = pool.at(tensor, byte)
    layer = pool.tensor(tensor).groups[0].layer
    parts = [
        tag("p", tag("b", f"Byte {byte:,}"), f" of tensor {tensor}"),
        note(f"Byte {found.page_byte:,} of page {found.page:,}."),
    ]
    if layer in pool.places:
        order, address = pool.places[layer].where.name, pool.address(layer, byte)
        parts.append(note(f"Byte {address:,} of the one allocation (order {order})."))
    parts += (
        _one(f"To {layers_text(groups)}", found.of_group(groups[0].number))
        for groups in sharing_groups(pool, tensor)
    )
    parts += (
        _one(f"To {layers_text((group,))}, which overlaps it", group.meaning(there))
        for group, there in pool.elsewhere(tensor, byte)
    )
    return join(*parts)


def _one(title: str, meaning: Meaning) -> Html:
    return join(tag("p", title), table((), [*_facts(meaning)]))


def _facts(meaning: Meaning) -> Iterator[Fact]:
    """Yield the name and the value of everything that a byte is, from the block to the byte."""
    yield "part", meaning.part
    yield "block", f"{meaning.block:,}"
    if meaning.is_misplaced:
        yield "misplaced", f"in page {meaning.page:,}"
    if meaning.kernel_block is not None:
        yield "kernel block", f"{meaning.kernel_block:,}"
        inside = (
            "" if meaning.token == meaning.kernel_token else f" ({meaning.kernel_token:,} in it)"
        )
        yield "token", f"{meaning.token:,}{inside}"
    if meaning.head is not None:
        yield "head", f"{meaning.head:,}"
    if meaning.value is None:
        return
    last = meaning.last_value
    both = "" if last in {None, meaning.value} else f" and {last:,}"
    yield "value", f"{meaning.value:,}{both}"
    if meaning.state_index:
        yield "index", str(list(meaning.state_index))
    if not both:
        yield "byte", f"{meaning.byte_in_value} of the value"
