"""The inspector of the page map: one byte, and what it is to every layer that shares it."""

from collections.abc import Iterator

from workbench.core.byte_map.groups import Meaning
from workbench.core.byte_map.tensors import ByteMap
from workbench.views.bytes.text import layers_text, sharing_groups
from workbench.views.html import Html, join, note, table, tag

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
        yield "misplaced", f"it is in page {meaning.page:,}"
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
        yield "byte of the value", str(meaning.byte_in_value)
