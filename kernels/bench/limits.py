"""What no implementation can beat: bytes at this GPU's copy bandwidth, and launches."""

from dataclasses import dataclass
from typing import Literal

from workbench.kernels.bench.workloads import Workload

LAUNCHES = 2
"""The fewest that are known: apply, and everything that reads what it wrote."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Measured in the run they are used in: bytes read and written a second, and one launch."""

    copy_bytes_per_s: float
    launch_s: float

    def floor_s(self, moved_bytes: int, launches: int = LAUNCHES) -> float:
        """Return the larger of the two limits."""
        return max(moved_bytes / self.copy_bytes_per_s, launches * self.launch_s)


def moved_bytes(workload: Workload, piece: Literal["step", "gather", "slots"] = "step") -> int:
    """Count the bytes that a step must read and write: ids compact, tables expanded.

    apply: 16 bytes and 4 per id a write read, 4 per id written. gather: 4 per live manager block
    read, 4 per kernel block written. slots, for each group and token: position 8, table entry 4,
    slot 8; padding 8.
    """
    groups = range(len(workload.groups))
    apply = 16 * workload.writes + 8 * workload.new_ids
    gather = sum(4 * workload.live_blocks(g) + 4 * workload.live_kernel_blocks(g) for g in groups)
    tokens, padding = workload.tokens, workload.max_tokens - workload.tokens
    slots = len(workload.groups) * (20 * tokens + 8 * padding)
    return {"step": apply + gather + slots, "gather": gather, "slots": slots}[piece]
