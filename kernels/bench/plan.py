"""What a run is asked to do."""

from collections.abc import Callable
from dataclasses import dataclass

from workbench.kernels.bench.ratios import QUICK_ROUNDS, ROUNDS
from workbench.kernels.bench.workloads import Workload

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `say` gets a line whenever something is begun or left out."""

    workloads: tuple[Workload, ...]
    quick: bool
    say: Say

    @property
    def rounds(self) -> int:
        """A B B A so many times."""
        return QUICK_ROUNDS if self.quick else ROUNDS
