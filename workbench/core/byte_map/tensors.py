"""The bytes of all tensors of a plan: one meaning a group for each of them, and back."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workbench.core.byte_map.groups import GroupBytes, Meaning
from workbench.core.layouts.error import require_index, require_known
from workbench.core.layouts.packed import LayerPlace
from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.layouts.view import bytes_outside_their_page


@dataclass(frozen=True, slots=True)
class ByteMeaning:
    """One byte of one tensor: whose page it is in, and what it is to each group.

    page: the manager block whose bytes these are; page_byte: counted from the page's first.
    meanings: in the order of the groups; those of layers with another tensor are in the same bytes
    of the one allocation.
    """

    tensor: int
    byte: int
    page: int
    page_byte: int
    meanings: tuple[Meaning, ...]

    def of_group(self, group: int) -> Meaning:
        """Return what the byte is to `group`. Errors: KeyError where the group does not see it."""
        return {meaning.group: meaning for meaning in self.meanings}[group]


@dataclass(frozen=True, slots=True)
class TensorBytes:
    """One tensor: the pages of its blocks, one after the other, and the layers that see it.

    groups: one layer of every group that has one here, in the order of the groups.
    """

    page_bytes: int
    num_blocks: int
    groups: tuple[GroupBytes, ...]

    @property
    def raw_bytes(self) -> int:
        """Return the bytes of the whole tensor."""
        return self.page_bytes * self.num_blocks

    @property
    def misplaced_bytes(self) -> int:
        """Return the bytes of blocks that are in another block's page."""
        # Layers with the same views count as one.
        return sum(
            bytes_outside_their_page(part.view, self.page_bytes, group.kernel_blocks)
            for group in {group.parts: group for group in self.groups}.values()
            for part in group.parts
        )


@dataclass(frozen=True)
class ByteMap:
    """The bytes of all tensors of a plan.

    views: of the first attention layer (of the states where there is none), with layout name and
    rewrite. places: where each layer is in the one allocation; empty where every tensor is one.
    """

    tensors: tuple[TensorBytes, ...]
    num_blocks: int
    views: CacheViews
    places: Mapping[str, LayerPlace] = field(default_factory=dict)

    def __repr__(self) -> str:
        from workbench.views.bytes.text import map_text

        return map_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.bytes.text import map_html

        return map_html(self)

    @property
    def misplaced_bytes(self) -> int:
        """Return the bytes of the blocks of all tensors that are in another block's page."""
        return sum(tensor.misplaced_bytes for tensor in self.tensors)

    @cached_property
    def layers(self) -> dict[str, tuple[GroupBytes, int]]:
        """Return layer -> its bytes and the number of its tensor."""
        return {
            group.layer: (group, number)
            for number, tensor in enumerate(self.tensors)
            for group in tensor.groups
        }

    def tensor(self, number: int) -> TensorBytes:
        """Return one tensor. Errors: LayoutError names the nearest that exists."""
        require_index("tensor", number, len(self.tensors))
        return self.tensors[number]

    def describe(self, tensor: int, byte: int) -> tuple[str, ...]:
        """Return the meaning of a byte in sentences. Errors: LayoutError as `at`."""
        from workbench.views.bytes.text import byte_words

        return byte_words(self, tensor, byte)

    def at(self, tensor: int, byte: int) -> ByteMeaning:
        """Return what `byte` of `tensor` is. Errors: LayoutError for one that does not exist."""
        found = self.tensor(tensor)
        require_index("byte", byte, found.raw_bytes)
        page, page_byte = divmod(byte, found.page_bytes)
        meanings = [group.meaning(byte) for group in found.groups]
        meanings += (group.meaning(there) for group, there in self.elsewhere(tensor, byte))
        # The byte is one of these at a time: a block belongs to one group.
        meanings.sort(key=lambda meaning: meaning.group)
        return ByteMeaning(tensor, byte, page, page_byte, tuple(meanings))

    def elsewhere(self, tensor: int, byte: int) -> Iterator[tuple[GroupBytes, int]]:
        """Yield the layers of other groups that share this byte, and its place in their tensors."""
        # Only where the groups of one allocation have pages of several sizes.
        if not self.places:
            return
        sharing = {group.number: group.layer for group in self.tensor(tensor).groups}
        address = self.address(next(iter(sharing.values())), byte)
        for group, placed in self._placed.items():
            if group in sharing:
                continue
            for where, names in placed.items():
                if (found := where.locate(address)) is not None:
                    index, block, page_byte = found
                    yield self.layers[names[index]][0], block * where.page_bytes + page_byte

    @cached_property
    def _placed(self) -> dict[int, dict[PagePlacement, dict[int, str]]]:
        """Return group -> where its layers are -> the layer at each index there."""
        found: dict[int, dict[PagePlacement, dict[int, str]]] = {}
        for name, place in self.places.items():
            found.setdefault(place.group, {}).setdefault(place.where, {})[place.index] = name
        return found

    def address(self, layer: str, byte: int) -> int:
        """Return where a layer's byte is, in the one allocation if any. Errors: LayoutError."""
        group, _number = self._find(layer)
        require_index("byte", byte, group.raw_bytes)
        if layer not in self.places:
            return byte
        return self.places[layer].address(*divmod(byte, group.page_bytes))

    def bytes_of(self, *, layer: str, block: int, **inside: Any) -> tuple[range, ...]:
        """Return the bytes of `layer`'s tensor that hold this, ascending; the inverse of `at`.

        inside: kernel_block, part, token, head and value, as of `GroupBytes.ranges`. Errors:
        LayoutError for a layer, part or number that does not exist.
        """
        return self._find(layer)[0].ranges(block, **inside)

    def _find(self, layer: str) -> tuple[GroupBytes, int]:
        require_known("layer", layer, self.layers, "layer")
        return self.layers[layer]
