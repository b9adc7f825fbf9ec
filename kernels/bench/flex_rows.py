"""The rows of a paged-attention result, and the result as JSON. Times in microseconds."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from workbench.kernels.bench.checking import Verdict
from workbench.kernels.bench.machine import Machine
from workbench.kernels.bench.ratios import Spread
from workbench.kernels.bench.rows import Score, StepRow

NAME = "flex"


@dataclass(frozen=True, slots=True)
class RateRow:
    """The rate of a peer in a case, cold, against this device's limits in the same run.

    flop: of the pairs that the mask shows; bytes: keys, values, queries and results once.
    """

    case: str
    peer: str
    us: float
    flop: int
    bytes: int
    matmul_flop_per_s: float
    copy_bytes_per_s: float

    @property
    def flop_per_s(self) -> float:
        """Return the rate of useful work."""
        return self.flop / self.us * 1e6

    @property
    def of_matmul(self) -> float:
        """Return the share of the measured rate of a large product."""
        return self.flop_per_s / self.matmul_flop_per_s

    @property
    def of_copy(self) -> float:
        """Return the share of the measured copy bandwidth that the necessary bytes reach."""
        return self.bytes / self.us * 1e6 / self.copy_bytes_per_s


@dataclass(frozen=True, slots=True)
class MetadataRow:
    """Bytes that a peer builds for a batch, scratch included, with a pool of this many blocks.

    larger_pool_bytes: the same batch in a pool of twice as many; equal where nothing grows with
    the pool. None where the peer has no pages.
    """

    case: str
    peer: str
    bytes: int
    larger_pool_bytes: int | None


@dataclass(frozen=True, slots=True)
class BitsRow:
    """One request computed in another way: how many elements have other bits.

    way: "alone", without its batch, or "chunk", its last queries as a step of their own. promised:
    whether the settings promise equal bits here.
    """

    case: str
    peer: str
    way: str
    elements: int
    differing: int
    promised: bool


@dataclass(frozen=True, slots=True)
class FlexGateRow:
    """What the compiler made of a kernel, without a GPU; sizes per program, registers per thread.

    shared_limit_bytes: the most that the target gives a program. source: whose tiles they are.
    """

    kernel: str
    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    shared_limit_bytes: int
    matrix_instructions: tuple[str, ...]
    instructions: int
    source: str


@dataclass(slots=True)
class FlexResult:
    """A run. `open_questions` lists what it could not measure, and why."""

    machine: Machine
    quick: bool
    rounds: int
    open_questions: list[str] = field(default_factory=list)
    copy_bytes_per_s: float | None = None
    matmul_flop_per_s: float | None = None
    launch_us: float | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    rates: list[RateRow] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    bits: list[BitsRow] = field(default_factory=list)
    gate: list[FlexGateRow] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the whole result as indented JSON."""
        return json.dumps({"benchmark": NAME, **asdict(self)}, indent=1) + "\n"


_ROWS: dict[str, type] = {
    "verdicts": Verdict,
    "steps": StepRow,
    "rates": RateRow,
    "scores": Score,
    "metadata": MetadataRow,
    "bits": BitsRow,
    "gate": FlexGateRow,
}


def flex_result_from_json(text: str) -> FlexResult:
    """Read the result that `to_json` wrote; ValueError for anything else."""
    values: dict[str, Any] = json.loads(text)
    if values.pop("benchmark", None) != NAME:
        raise ValueError("this is not a result of the flex benchmark")
    if unknown := set(values) - {entry.name for entry in fields(FlexResult)}:
        raise ValueError(f"a result has no {', '.join(sorted(unknown))}")
    for name, kind in _ROWS.items():
        values[name] = [_row(kind, row) for row in values[name]]
    return FlexResult(**{**values, "machine": Machine(**values["machine"])})


def _row(kind: type, values: dict[str, Any]) -> Any:
    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return Spread(**value)
        return tuple(value) if isinstance(value, list) else value

    return kind(**{name: whole(value) for name, value in values.items()})
