"""What a run measures."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.kernels.bench.ratios import QUICK_ROUNDS, ROUNDS
from workbench.kernels.bench.workloads import Workload

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `say` gets a line whenever something is begun or omitted."""

    workloads: tuple[Workload, ...]
    quick: bool
    say: Say

    @property
    def rounds(self) -> int:
        """Return the number of A B B A rounds."""
        return QUICK_ROUNDS if self.quick else ROUNDS
