"""What is wrong with the loops of a compiled attention kernel; nothing runs for it."""

import re
from collections.abc import Sequence

from workbench.kernels.inspection.loops import DESCRIPTOR_COPY, Loop
from workbench.kernels.inspection.report import KernelReport

NARROWEST_WGMMA = 64
"""Keys or dims of a Hopper matrix instruction: below, shared memory cannot feed it."""
_COPIES = ("LDGSTS.128", DESCRIPTOR_COPY)
_WGMMA = re.compile(r"^HGMMA\.64x(\d+)x")


def judged_loops(report: KernelReport) -> tuple[Loop, ...]:
    """Return the loops of a call whose values are all finite.

    The other half come after them, omit values that are not, and run where there is one.
    """
    return report.loops[: len(report.loops) // 2]


def loop_faults(
    report: KernelReport, per_score: Sequence[float], in_flight: float = 1
) -> list[str]:
    """Return a line for everything that keeps a loop from the speed that its kernel was made for.

    per_score: for each loop the budget of instructions per score, of one warp, in a tile without a
    mask; in_flight: the tiles that its stages were chosen for.
    """
    loops = judged_loops(report)
    faults = [] if loops else ["has no loop with matrix instructions"]
    if len(loops) != len(per_score):
        faults += [f"{len(loops)} loops; {len(per_score)} expected"]
    for number, (loop, budget) in enumerate(zip(loops, per_score, strict=False)):
        narrow = [int(n) for n in map(_keys, loop.matrix) if n and int(n) < NARROWEST_WGMMA]
        other = sorted(set(loop.copies) - set(_COPIES))
        found = {
            f"{loop.tiles_in_flight:g} tiles in flight; at least {in_flight:g}": (
                loop.tiles_in_flight < in_flight
            ),
            f"copies by {', '.join(other)}; {' or '.join(_COPIES)}": other or not loop.copies,
            f"{report.per_score(loop):.3f} instructions per score; at most {budget}": (
                report.per_score(loop) > budget
            ),
            f"wgmma of {narrow} columns; at least {NARROWEST_WGMMA}": narrow,
            f"{loop.local_accesses} accesses to local memory; none": loop.local_accesses,
        }
        faults += [f"loop {number}: {text} expected" for text, wrong in found.items() if wrong]
    return faults


def _keys(instruction: str) -> str | None:
    found = _WGMMA.match(instruction)
    return found.group(1) if found else None
