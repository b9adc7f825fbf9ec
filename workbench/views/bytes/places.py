"""Places of the page map: a level of zoom, a position in the pool, and the visible bytes."""

from dataclasses import dataclass, replace
from typing import Final

from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.segments import HEAD, PART, TOKEN, VALUE
from workbench.core.byte_map.tensors import ByteMap
from workbench.core.layouts.error import LayoutError, require_index, require_known

LEVELS: Final = ("pool", "tensor", "block", "kernel block", "token", "head")
"""From the whole pool down to the values of one head."""
OF_TOKENS = ("kernel block", "token")
"""Levels that a state does not have."""
FINEST: Final = {
    "pool": PART,
    "tensor": PART,
    "block": TOKEN,
    "kernel block": TOKEN,
    "token": HEAD,
    "head": VALUE,
}
"""Level -> the finest distinction between its bytes."""
SCATTERED, BEFORE, AFTER = 64, 4, 20
"""A token in scattered pieces is shown around its first one: so many pieces before and after."""


@dataclass(frozen=True, slots=True)
class MapPlace:
    """A level, and the numbers that lead there; those below the level are not used."""

    level: str = "block"
    tensor: int = 0
    block: int = 0
    kernel_block: int = 0
    token: int = 0
    """Number in the kernel block."""
    head: int = 0
    states: bool = False
    """Whether the states of a tensor are counted that attention shares."""
    part: str | None = None
    """The part whose token and head are shown, such as "V"; the first one by default."""
    window: tuple[int, int] | None = None
    """Bytes to show instead of those of the level."""

    @property
    def depth(self) -> int:
        """Depth of the level, 0 for the pool."""
        return LEVELS.index(self.level)


def reference_group(pool: ByteMap, place: MapPlace) -> GroupBytes:
    """Return the group whose tokens or heads are counted: attention first, or states."""
    return min(pool.tensor(place.tensor).groups, key=lambda group: group.is_state != place.states)


def opened(pool: ByteMap, place: MapPlace, byte: int, level: str | None = None) -> MapPlace:
    """Return the place of a byte of the tensor, by default one level below `place`.

    A level that states do not have is skipped, and so is the only kernel block of a block; padding
    is not opened further than its block.
    """
    group = reference_group(pool, place)
    meaning = group.meaning(byte)
    skipped = OF_TOKENS if group.is_state else OF_TOKENS[: group.kernel_blocks == 1]
    levels = [one for one in LEVELS if one not in skipped]
    if level is None:
        deeper = [one for one in levels if LEVELS.index(one) > place.depth]
        level = deeper[0] if deeper else place.level
    if meaning.is_padding and LEVELS.index(level) > LEVELS.index("block"):
        level = "block"
    return replace(
        place,
        level=level,
        block=meaning.page,
        kernel_block=meaning.kernel_block or 0,
        token=meaning.kernel_token or 0,
        head=meaning.head or 0,
        part=place.part if meaning.is_padding else meaning.part,
        window=None,
    )


def checked(pool: ByteMap, place: MapPlace) -> MapPlace:
    """Return `place` with a part. Errors: LayoutError names the nearest valid place."""
    require_known("level", place.level, LEVELS, "level")
    group = reference_group(pool, place)
    names = [part.name for part in group.parts]
    if place.part is not None:
        require_known("part", place.part, names, "part")
    place = replace(place, part=place.part or names[0])
    limits = place_limits(pool, place)
    for field, count in limits.items():
        require_index(field, getattr(place, field), count)
    if place.window is not None:
        start, stop = place.window
        if not 0 <= start < stop <= group.raw_bytes:
            raise LayoutError(
                "window_outside",
                f"The window {start:,} to {stop:,} is not a range of the tensor's "
                f"{group.raw_bytes:,} bytes.",
                field="window",
            )
    return place


def place_limits(pool: ByteMap, place: MapPlace) -> dict[str, int]:
    """Return the count of everything that a place counts."""
    group = reference_group(pool, place)
    known = next((part for part in group.parts if part.name == place.part), group.parts[0])
    sizes = dict(zip(known.view.axes, known.view.shape, strict=True))
    heads = sizes.get("num_kv_heads", 1)
    if group.is_state and len(known.value_axes) == 3:
        heads = known.view.shape[1]
    return {
        "tensor": len(pool.tensors),
        "block": pool.num_blocks,
        "kernel_block": group.kernel_blocks,
        "token": group.kernel_tokens or 1,
        "head": heads,
    }


def place_ranges(pool: ByteMap, place: MapPlace) -> tuple[range, ...]:
    """Return the byte ranges that the level selects; a token's are those of all its parts."""
    group, depth = reference_group(pool, place), place.depth
    if depth < LEVELS.index("block"):
        return (range(group.raw_bytes),)
    if depth == LEVELS.index("block"):
        return group.ranges(place.block)
    inner = {} if group.is_state else {"kernel_block": place.kernel_block}
    if depth >= LEVELS.index("token") and not group.is_state:
        inner["token"] = place.token
    if depth >= LEVELS.index("head") and place_limits(pool, place)["head"] > 1:
        inner["head"] = place.head
    part = place.part if group.is_state and depth >= LEVELS.index("head") else None
    return group.ranges(place.block, part=part, **inner)


def shown_window(pool: ByteMap, place: MapPlace) -> tuple[int, int]:
    """Return the bytes on the axis: a page, a kernel block, or those around a token or head."""
    if place.window is not None:
        return place.window
    if place.level == "pool":
        return 0, max(tensor.raw_bytes for tensor in pool.tensors)
    group = reference_group(pool, place)
    page = group.page_bytes
    if place.level == "tensor":
        return 0, group.raw_bytes
    if place.level == "block":
        return place.block * page, (place.block + 1) * page
    ranges = place_ranges(pool, place)
    if place.depth >= LEVELS.index("token"):
        own = [piece for piece in ranges if group.meaning(piece.start).part == place.part]
        ranges = tuple(own) or ranges
        first, size = ranges[0], len(ranges[0])
        if ranges[-1].stop - first.start > SCATTERED * sum(map(len, ranges)):
            low = first.start - first.start % page
            start = max(low, first.start - BEFORE * size)
            return start, min(low + page, first.stop + AFTER * size)
    return ranges[0].start, ranges[-1].stop


def breadcrumb(pool: ByteMap, place: MapPlace) -> str:
    """Return "pool of 3 blocks / tensor 0 of 8 / <b>block 1 of 3</b>"; deeper, of two lines."""
    limits, group = place_limits(pool, place), reference_group(pool, place)
    steps = [f"pool of {pool.num_blocks:,} blocks"]
    for level, field in zip(LEVELS[1:], limits, strict=True):
        if group.is_state and level in OF_TOKENS:
            continue
        steps.append(f"{level} {getattr(place, field):,} of {limits[field]:,}")
    count = place.depth + 1
    if group.is_state:  # a state has no kernel blocks or tokens: block, then head
        count = {"pool": 1, "tensor": 2, "head": 4}.get(place.level, 3)
    shown = steps[:count]
    if place.level == "head" or (place.level == "token" and not group.is_state):
        shown.insert(-1, str(place.part))
    shown[-1] = f"<b>{shown[-1]}</b>" + (" (zoomed)" if place.window else "")
    blocks = LEVELS.index("block") + 1
    lines = shown[:blocks], shown[blocks:]
    return " /<br>".join(" / ".join(one) for one in lines if one)
