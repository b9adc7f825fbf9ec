"""Which chunk sizes to take: the finest hits, the connector's usual size, the least memory."""

from typing import TYPE_CHECKING, NamedTuple

from workbench.core.chunks.connectors import OWN

WORTH_PERCENT, LOST_PERCENT = 10, 5
"""A second size is named if it stores so much less, and gives back at most so much less."""
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
    totals = {size: _total(found, size) for size in sizes}
    best = _cheapest(totals, near)
    # Nothing to compare where a prompt gets nothing back, as one shorter than the chunk.
    if best == near or not totals[near].loaded:
        return tuple(taken)
    percent = 100 - 100 * totals[best].stored // totals[near].stored
    if percent >= WORTH_PERCENT:
        back = 100 * totals[best].loaded // totals[near].loaded
        reason = (
            f"a prompt of {found.prompt_tokens:,} tokens stores {percent} % less and gets {back} % "
            f"of the tokens back, but a shared prefix below {best:,} tokens never hits"
        )
        taken.append(Recommended(best, reason))
    return tuple(taken)


class _Total(NamedTuple):
    """What the prompt costs and gets back, over all engines."""

    stored: int
    loaded: int
    hits: int


def _total(found: "Chunks", size: int) -> _Total:
    costs = found.costs(size)
    return _Total(
        sum(cost.stored_bytes for cost in costs),
        sum(cost.loadable_tokens for cost in costs),
        sum(cost.hit_percent for cost in costs),
    )


def _cheapest(totals: dict[int, _Total], near: int) -> int:
    """Return the size with the fewest stored bytes that hits and gives back nearly as much."""
    least = totals[near].loaded * (100 - LOST_PERCENT) // 100
    good = [
        size
        for size, total in totals.items()
        if total.loaded >= least and total.hits >= totals[near].hits
    ]
    return min(good, key=lambda size: (totals[size].stored, size))
