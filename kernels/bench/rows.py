"""The rows of a result, and the result as JSON. Times in microseconds."""

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from workbench.kernels.bench.checking import Verdict
from workbench.kernels.bench.machine import Machine
from workbench.kernels.bench.ratios import Spread


@dataclass(frozen=True, slots=True)
class StepRow:
    """One peer's time for one workload by one clock: "wall", "gpu cold", "gpu hot" or "host".

    `ratio` is peer / fast path within a round: above 1 the fast path is faster. `reported` is its
    median, or 1.0 inside the noise band. `piece` is what was run: "step", "gather" or "slots".
    """

    workload: str
    piece: str
    clock: str
    peer: str
    source: str
    us: Spread
    ratio: Spread
    reported: float


@dataclass(frozen=True, slots=True)
class FloorRow:
    """Bytes that a workload has to move, and how far from the floor the fast path is, cold."""

    workload: str
    piece: str
    bytes: int
    bytes_us: float
    floor_us: float
    fast_us: float

    @property
    def over_floor(self) -> float:
        """Return the time in units of the floor; 1.0 is the optimum."""
        return self.fast_us / self.floor_us

    @property
    def of_copy_bandwidth(self) -> float:
        """Return the share of the copy bandwidth that the necessary bytes reach."""
        return self.bytes_us / self.fast_us


@dataclass(frozen=True, slots=True)
class ExpansionRow:
    """One way to turn manager blocks into kernel blocks, or to leave that to the device.

    `speedup` is list comprehension / this one within a round; `ns_per_output` is per kernel block.
    """

    blocks: int
    ratio: int
    way: str
    us: Spread
    speedup: Spread
    ns_per_output: float


@dataclass(frozen=True, slots=True)
class GateRow:
    """What the compiler made of a kernel, without a GPU; widths in bytes of one thread's access."""

    kernel: str
    target: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    widest_load_bytes: int
    widest_store_bytes: int
    wide_divisions: int
    instructions: int


@dataclass(frozen=True, slots=True)
class CountRow:
    """Counted in the interpreter, at reduced size: no time follows from it."""

    workload: str
    peer: str
    launches: int
    programs: int
    loads: int
    stores: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Score:
    """Geometric mean of the reported ratios of one peer by one clock over `workloads`."""

    clock: str
    peer: str
    ratio: float
    workloads: int


@dataclass(slots=True)
class Result:
    """A run. `open_questions` lists what it could not measure, and why."""

    machine: Machine
    quick: bool
    rounds: int
    open_questions: list[str] = field(default_factory=list)
    copy_bytes_per_s: float | None = None
    launch_us: float | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    floors: list[FloorRow] = field(default_factory=list)
    host_steps: list[StepRow] = field(default_factory=list)
    host_scores: list[Score] = field(default_factory=list)
    expansions: list[ExpansionRow] = field(default_factory=list)
    gate: list[GateRow] = field(default_factory=list)
    counts: list[CountRow] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the whole result as indented JSON."""
        return json.dumps({"benchmark": "block-table", **asdict(self)}, indent=1) + "\n"


_ROWS: dict[str, type] = {
    "verdicts": Verdict,
    "steps": StepRow,
    "scores": Score,
    "floors": FloorRow,
    "host_steps": StepRow,
    "host_scores": Score,
    "expansions": ExpansionRow,
    "gate": GateRow,
    "counts": CountRow,
}


def result_from_json(text: str) -> Result:
    """Read the result that `to_json` wrote; ValueError for anything else."""
    values: dict[str, Any] = json.loads(text)
    if values.pop("benchmark", None) != "block-table":
        raise ValueError("this is not a result of the block-table benchmark")
    if unknown := set(values) - {entry.name for entry in fields(Result)}:
        raise ValueError(f"a result has no {', '.join(sorted(unknown))}")
    for name, kind in _ROWS.items():
        values[name] = [_row(kind, row) for row in values[name]]
    return Result(**{**values, "machine": Machine(**values["machine"])})


def _row(kind: type, values: dict[str, Any]) -> Any:
    spreads = {n: Spread(**v) for n, v in values.items() if isinstance(v, dict)}
    return kind(**{**values, **spreads})
