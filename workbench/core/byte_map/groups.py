"""One layer of a KV-cache group as it fills a tensor: whose a byte is, and which bytes it has."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from workbench.core.byte_map.cuts import BYTE, PADDING, Part
from workbench.core.layouts.error import layout_error, require_index, require_known
from workbench.core.layouts.shapes import HEADS, NUM_BLOCKS, TOKENS
from workbench.core.layouts.view import dense_run_end, joined, next_byte, overlaps

STATE_HEAD_DIMENSIONS = 3
"""A state with so many dimensions has one matrix a head, and the head is the first of them."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one byte is to one group."""

    group: int
    layer: str
    page: int
    block: int
    """The manager block that keeps the value, where `page` is the one whose bytes these are; both
    are equal unless the layout is wrong."""
    part: str
    kernel_block: int | None = None
    """Number inside the manager block."""
    kernel_token: int | None = None
    """Number inside the kernel block."""
    token: int | None = None
    """Number inside the manager block."""
    head: int | None = None
    value: int | None = None
    last_value: int | None = None
    """`value` and `last_value` are of this token and head (of this state); a packed byte holds
    several. Padding has neither."""
    byte_in_value: int = 0
    state_index: tuple[int, ...] = ()

    @property
    def is_padding(self) -> bool:
        """Return whether no layer of this group uses the byte."""
        return self.part == PADDING

    @property
    def is_misplaced(self) -> bool:
        """Return whether the byte is in the page of another block."""
        return self.block != self.page


@dataclass(frozen=True)
class GroupBytes:
    """One layer of a group and the views that it has of its tensor.

    Errors: LayoutError where the views leave the tensor or write bytes twice: then byte ownership
    is ambiguous.
    """

    number: int
    """Of the group in the plan."""
    kind: str
    layer: str
    parts: tuple[Part, ...]
    page_bytes: int
    """Distance from one manager block to the next."""
    raw_bytes: int
    kernel_blocks: int = 1
    """In one manager block."""
    kernel_tokens: int | None = None
    """In one kernel block, None for states."""
    tokens_per_state: int = 1
    """Tokens in one stored vector: bytes of it belong to the first of them."""
    rewritten: bool = False
    """Whether its strides were rewritten (#37236)."""

    def __post_init__(self) -> None:
        for part in self.parts:
            if part.view.storage_bytes > self.raw_bytes or overlaps(part.view):
                raise layout_error(
                    "bytes_have_two_owners",
                    operands={"shape": part.view.shape, "strides": part.view.strides},
                    part=part,
                )

    @property
    def is_state(self) -> bool:
        """Return whether a block holds a state instead of tokens."""
        return self.kernel_tokens is None

    def part_at(self, byte: int) -> tuple[Part, tuple[int, ...]] | None:
        """Return the part that holds `byte` of the tensor, and the element of its view."""
        for part in self.parts:
            if (index := part.view.index_of(byte)) is not None:
                return part, index
        return None

    def meaning(self, byte: int) -> Meaning:
        """Return what `byte` of the tensor is."""
        if (found := self.part_at(byte)) is not None:
            return self._stored(*found, byte)
        page = byte // self.page_bytes
        return Meaning(group=self.number, layer=self.layer, page=page, block=page, part=PADDING)

    def _stored(self, part: Part, index: tuple[int, ...], byte: int) -> Meaning:
        view = part.view
        place = dict(zip(view.axes, index, strict=True))
        block, kernel_block = divmod(place[NUM_BLOCKS], self.kernel_blocks)
        stored = 0
        for axis in part.value_axes:
            stored = stored * view.shape[axis] + index[axis]
        # A packed value may begin or end inside of a byte.
        first_bit = (stored * view.itemsize + byte % view.itemsize) * BYTE
        inside = tuple(index[axis] for axis in part.value_axes) if self.is_state else ()
        token, head = place.get(TOKENS), place.get(HEADS)
        token = None if token is None else token * self.tokens_per_state
        # One matrix for each head, so the first number is the head.
        if len(inside) == STATE_HEAD_DIMENSIONS:
            head = inside[0]
        return Meaning(
            group=self.number,
            layer=self.layer,
            page=byte // self.page_bytes,
            block=block,
            part=part.name,
            kernel_block=None if self.is_state else kernel_block,
            kernel_token=token,
            token=None if token is None else kernel_block * (self.kernel_tokens or 0) + token,
            head=head,
            value=first_bit // part.bits,
            last_value=(first_bit + BYTE - 1) // part.bits,
            byte_in_value=first_bit % part.bits // BYTE,
            state_index=inside,
        )

    def ranges(
        self,
        block: int,
        *,
        kernel_block: int | None = None,
        part: str | None = None,
        token: int | None = None,
        head: int | None = None,
        value: int | None = None,
    ) -> tuple[range, ...]:
        """Return the bytes of a manager block, or of what the other numbers single out, ascending.

        token: in the kernel block where one is named, else in the manager block. value: of one
        token and head, or of one state, counted over all of its dimensions. The padding of a block
        is `part="padding"`. Errors: LayoutError for a part or number that does not exist.
        """
        self._check(part, block=block, kernel_block=kernel_block, token=token, value=value)
        if part == PADDING and not any(known.name == PADDING for known in self.parts):
            return self.padding(block)
        if token is not None and kernel_block is None and self.kernel_tokens is not None:
            kernel_block, token = divmod(token, self.kernel_tokens)
        kernels = range(self.kernel_blocks)
        if kernel_block is not None and not self.is_state:
            kernels = range(kernel_block, kernel_block + 1)
        found: list[range] = []
        for known in self.parts:
            if part not in {None, known.name}:
                continue
            vector = None if token is None else token // self.tokens_per_state
            named = {TOKENS: vector, HEADS: head}
            if self.is_state:
                named = {known.view.axes[1]: head} if _has_heads(known) else {}
            fixed = {axis: n for axis, n in named.items() if n is not None}
            for inside in kernels:
                fixed[NUM_BLOCKS] = block * self.kernel_blocks + inside
                for values in _value_indices(known, value):
                    found += known.view.byte_ranges({**fixed, **values})
        return joined(found)

    def _check(self, part: str | None, **numbers: int | None) -> None:
        """Raise LayoutError unless the part and every number that is given exist."""
        if part is not None:
            require_known("part", part, {*(known.name for known in self.parts), PADDING}, "part")
        if numbers["token"] is not None and self.kernel_tokens is None:
            raise layout_error("no_tokens", self=self)
        blocks = self.kernel_blocks if numbers["kernel_block"] is None else 1
        values = [known.values for known in self.parts if part in {None, known.name}]
        counts = {
            "block": self.raw_bytes // self.page_bytes,
            "kernel_block": self.kernel_blocks,
            "token": (self.kernel_tokens or 0) * blocks,
            "value": max(values, default=0),
        }
        for name, number in numbers.items():
            if number is not None:
                require_index(name, number, counts[name])

    def padding(self, block: int) -> tuple[range, ...]:
        """Return the bytes of page `block` that this group never touches."""
        start, stop = block * self.page_bytes, (block + 1) * self.page_bytes
        gaps, byte = [], start
        while byte < stop:
            used = self.next_used(byte)
            end = stop if used is None else min(used, stop)
            if end > byte:
                gaps.append(range(byte, end))
            byte = stop if end == stop else self._used_until(end)
        return tuple(gaps)

    def _used_until(self, byte: int) -> int:
        """Return the end of the used run that holds `byte`, in its kernel block if possible."""
        if self.kernel_span is not None:
            inside = (byte - self.kernel_span.start) % self.kernel_step_bytes
            return byte - inside + len(self.kernel_span)
        found = self.part_at(byte)
        assert found is not None, "next_used names bytes of a view"
        return dense_run_end(found[0].view, found[1], frozenset())

    def next_used(self, byte: int) -> int | None:
        """Return the first byte from `byte` on that a view has; None after the last one."""
        found = [first for part in self.parts if (first := next_byte(part.view, byte)) is not None]
        return min(found, default=None)

    @cached_property
    def kernel_span(self) -> range | None:
        """Return the bytes of kernel block 0 if every kernel block is one piece."""
        steps = {
            part.view.strides[part.view.block_axis] * part.view.itemsize for part in self.parts
        }
        pieces = joined(
            piece for part in self.parts for piece in part.view.byte_ranges({NUM_BLOCKS: 0})
        )
        return pieces[0] if len(pieces) == 1 and len(steps) == 1 else None

    @property
    def kernel_step_bytes(self) -> int:
        """Return the bytes from one kernel block to the next, in the first part."""
        view = self.parts[0].view
        return view.strides[view.block_axis] * view.itemsize


def _has_heads(part: Part) -> bool:
    return len(part.value_axes) == STATE_HEAD_DIMENSIONS


def _value_indices(part: Part, value: int | None) -> Iterator[dict[str, int]]:
    """Yield the indices that hold a value, one per element; one without indices for no value."""
    if value is None:
        yield {}
        return
    view = part.view
    bits = view.itemsize * BYTE
    for stored in range(value * part.bits // bits, ((value + 1) * part.bits - 1) // bits + 1):
        rest, found = stored, {}
        for axis in reversed(part.value_axes):
            rest, found[view.axes[axis]] = divmod(rest, view.shape[axis])
        if not rest:
            yield found
