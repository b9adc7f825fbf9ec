"""Which chunk sizes to take: the finest hits, the connector's usual size, the least memory."""

from typing import TYPE_CHECKING

from workbench.core.chunks.connectors import OWN

FINEST = "the block itself: hits cannot end more finely"

if TYPE_CHECKING:
    from workbench.core.chunks.answer import Chunks, Recommended


def recommended(found: "Chunks") -> tuple["Recommended", ...]:
    """Return the sizes to take, the best of all engines together first, each with its reason."""
    from workbench.core.chunks.answer import Recommended

    sizes, connector = found.compared, found.connector
    if not sizes or not any(member.is_legal for member in found.members):
        return ()
    if connector.sizes == OWN:
        reason = f"nothing else can be set with {connector.name}: hits end on the common block"
        return (Recommended(sizes[0], reason),)
    usual = connector.default_tokens or sizes[0]
    near = min((size for size in sizes if size >= usual), default=sizes[-1])
    first = [f"the smallest legal one from the default of {usual:,} on"]
    if near == connector.default_tokens:
        first = ["the connector's default"]
    if near == sizes[0]:
        first = [*first, "hits cannot end more finely"] if connector.default_tokens else [FINEST]
    taken = [Recommended(near, "; ".join(first))]
    best = _cheapest(found, sizes)
    if (saved := _stored(found, near) - _stored(found, best)) > 0:
        percent = 100 * saved // _stored(found, near)
        reason = (
            f"a prompt of {found.prompt_tokens:,} tokens stores {percent} % less and gets as many "
            f"tokens back, but a shared prefix below {best:,} tokens never hits"
        )
        taken.append(Recommended(best, reason))
    return tuple(taken)


def _cheapest(found: "Chunks", sizes: tuple[int, ...]) -> int:
    """Return the size with the fewest stored bytes that gives back as much as the best one."""
    most = max(_loaded(found, size) for size in sizes)
    best = [size for size in sizes if _loaded(found, size) == most]
    return min(best, key=lambda size: (_stored(found, size), size))


def _loaded(found: "Chunks", size: int) -> tuple[int, int]:
    """Return (prompts that hit, tokens that come back), summed over the engines."""
    costs = found.costs(size)
    return sum(one.hit_percent for one in costs), sum(one.loadable_tokens for one in costs)


def _stored(found: "Chunks", size: int) -> int:
    return sum(cost.stored_bytes for cost in found.costs(size))
