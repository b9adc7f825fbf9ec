"""The rows of a result, and the result as JSON. Times in microseconds."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

from workbench.kernels.bench.machine import Machine

Piece = Literal["step", "gather", "slots", "attention"]
"""What a graph is captured of."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of n values, and the smallest and largest of them."""

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a peer's results of a workload are the oracle's; `detail` says what is wrong."""

    workload: str
    peer: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One peer's time for one workload by one clock: "wall", "gpu cold", "host", "dry" ...

    `ratio` is peer / fast peer within a round: above 1 the fast one is faster. `reported` is its
    median, or 1.0 inside the noise band. `piece` is what was run: "step", "gather" or "slots" of
    the block tables, "attention" or "metadata" of attention.
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
class Score:
    """Geometric mean of the reported ratios of one peer by one clock over `workloads`."""

    clock: str
    peer: str
    ratio: float
    workloads: int


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
    def of_copy(self) -> float:
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
class RateRow:
    """The rate of a peer in a case, cold, against this device's limits in the same run."""

    case: str
    peer: str
    us: float
    flop: int
    """Operations of the pairs that the mask shows."""
    bytes: int
    """Bytes of keys, values, queries and results, each once."""
    matmul_flop_per_s: float
    copy_bytes_per_s: float

    @property
    def tflop_per_s(self) -> float:
        """Return the rate of useful work."""
        return self.flop / self.us / 1e6

    @property
    def tb_per_s(self) -> float:
        """Return the rate at which the necessary bytes are moved."""
        return self.bytes / self.us / 1e6

    @property
    def of_matmul(self) -> float:
        """Return the share of the measured rate of a large product."""
        return self.tflop_per_s * 1e12 / self.matmul_flop_per_s

    @property
    def of_copy(self) -> float:
        """Return the share of the measured copy bandwidth."""
        return self.tb_per_s * 1e12 / self.copy_bytes_per_s


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
    """One request computed in another way: how many elements have other bits."""

    case: str
    peer: str
    way: str
    """`alone`: without its batch; `chunk`: its last queries as a step of their own."""
    elements: int
    differing: int
    promised: bool
    """Whether the settings promise equal bits here."""


GateRow = dict[str, Any]
"""What the compiler made of a kernel: some numbers of a `KernelReport`, by name."""
_GATE = ("kernel", "target", "registers", "spill_bytes", "shared_bytes", "instructions")
TABLES_GATE = (*_GATE, "widest_load_bytes", "widest_store_bytes", "wide_divisions")
FLEX_GATE = (*_GATE, "shared_limit_bytes", "matrix_instructions")
"""Numbers of the block tables' kernels, and of attention's, whose rows name a `source` of tiles."""


@dataclass(slots=True)
class Result:
    """A run. `open_questions` lists what it could not measure, and why."""

    benchmark: ClassVar[str]
    machine: Machine
    quick: bool
    rounds: int
    open_questions: list[str] = field(default_factory=list)
    copy_bytes_per_s: float | None = None
    launch_us: float | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    gate: list[GateRow] = field(default_factory=list)

    @property
    def wrong(self) -> list[Verdict]:
        """Return the verdicts that fail a run."""
        return [verdict for verdict in self.verdicts if not verdict.ok]

    def to_json(self) -> str:
        """Return the whole result as indented JSON."""
        return json.dumps({"benchmark": self.benchmark, **asdict(self)}, indent=1) + "\n"


@dataclass(slots=True)
class TablesResult(Result):
    """A run of the block tables."""

    benchmark: ClassVar[str] = "block-table"
    floors: list[FloorRow] = field(default_factory=list)
    host_steps: list[StepRow] = field(default_factory=list)
    host_scores: list[Score] = field(default_factory=list)
    dry_steps: list[StepRow] = field(default_factory=list)
    dry_scores: list[Score] = field(default_factory=list)
    expansions: list[ExpansionRow] = field(default_factory=list)
    counts: list[CountRow] = field(default_factory=list)


@dataclass(slots=True)
class FlexResult(Result):
    """A run of paged attention."""

    benchmark: ClassVar[str] = "flex"
    matmul_flop_per_s: float | None = None
    rates: list[RateRow] = field(default_factory=list)
    metadata: list[MetadataRow] = field(default_factory=list)
    bits: list[BitsRow] = field(default_factory=list)
