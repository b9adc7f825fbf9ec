"""What launching flex attention found, as values: where it ran, how exact, how fast, which bits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.core.flex.batch import OrderInversion
from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan

OURS_FAST, OURS_BITWISE, ENGINE = KERNELS = (
    "our kernel, fast", "our kernel, bitwise", "torch flex over the paged mask"
)  # fmt: skip
"""Ours walks the block table itself; torch's goes through a block mask, as the engine does."""
AS_PLANNED = "as planned"
DTYPES = ("float16", "float32", "bfloat16")
"""Names of the dtypes in which a kernel can be launched."""


@dataclass(frozen=True, slots=True)
class FlexShape:
    """What one rank's attention layer of a plan looks like to a kernel."""

    heads: int
    kv_heads: int
    """Heads of one rank, like `heads`."""
    head_size: int
    page_tokens: int
    """Tokens of an entry of the block table, a manager block."""
    block_size: int
    """Tokens of a block of the cache, the kernel block."""
    dtype: str
    """The model's."""

    @property
    def group(self) -> int:
        """Return the query heads of one KV head."""
        return self.heads // self.kv_heads

    def __str__(self) -> str:
        """Return the description."""
        page = f"pages of {self.page_tokens:,} tokens"
        if self.page_tokens != self.block_size:
            page += f", kernel blocks of {self.block_size:,}"
        query, kv = ("head" if count == 1 else "heads" for count in (self.heads, self.kv_heads))
        heads = f"{self.heads} query {query} over {self.kv_heads} KV {kv}"
        return f"{heads}, head size {self.head_size}, {page}, {self.dtype}"


@dataclass(frozen=True, slots=True)
class FlexPlace:
    """Where it ran. path: which kernel, in words. mode: "gpu" or "interpreter" or "eager".

    note: how it was computed, where that differs from a GPU; empty if it does not.
    """

    path: str
    mode: str
    device: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class FlexSpeed:
    """A GPU's median time, with what this GPU could do in the same run.

    flops: of the pairs that are seen, two products each. moved_bytes: queries, results and each
    key and value once. matmul_flops_per_s and copy_bytes_per_s: measured.
    """

    seconds: float
    flops: int
    moved_bytes: int
    matmul_flops_per_s: float
    copy_bytes_per_s: float

    @property
    def tflops_per_s(self) -> float:
        """Return the rate in 10^12 operations per second."""
        return self.flops / self.seconds / 1e12

    @property
    def floors_seconds(self) -> dict[str, float]:
        """Return two lower bounds for any kernel, at the measured rates."""
        return {
            "matmul": self.flops / self.matmul_flops_per_s,
            "copy": self.moved_bytes / self.copy_bytes_per_s,
        }

    @property
    def bound(self) -> str:
        """Return which of the two is the roof of this batch."""
        return max(self.floors_seconds, key=self.floors_seconds.__getitem__)

    @property
    def percent_of_roof(self) -> float:
        """Return the percentage of the fastest time that the measured rates allow."""
        return 100 * max(self.floors_seconds.values()) / self.seconds


@dataclass(frozen=True, slots=True, repr=False)
class FlexRun(LabResult):
    """One launch, checked."""

    shape: FlexShape
    place: FlexPlace
    tile: str
    """The tile, in words."""
    mask: str
    requests: int
    tokens: int
    cached_tokens: int
    elements: int
    """Elements of the result."""
    max_error: float
    """Largest difference from float64, over the batch."""
    tolerance: float
    """The most that this precision explains: twice an independent computation's own error."""
    poisoned: int
    """Elements that change when every byte that must not be read becomes NaN."""
    speed: FlexSpeed | None = None
    """Measured on a GPU only."""

    @property
    def exact_enough(self) -> bool:
        """Return whether the error is one of rounding."""
        return self.max_error <= self.tolerance

    @property
    def unread_stays_unread(self) -> bool:
        """Return whether nothing that must not be read reached the result."""
        return self.poisoned == 0


@dataclass(frozen=True, slots=True)
class BitPlace:
    """One element with different bits: position in the request, query head, element of the head."""

    token: int
    head: int
    element: int
    alone: float
    other: float


@dataclass(frozen=True, slots=True)
class BitTrial:
    """The request computed in another way, against the request alone."""

    kind: str
    """What is different."""
    detail: str
    """How it is different."""
    elements: int
    differing: int
    largest: float
    first: tuple[BitPlace, ...]
    """The first places, in the order of tokens, heads and elements."""
    per_token: tuple[int, ...]
    """Elements with different bits of each token, all heads."""

    @property
    def equal(self) -> bool:
        """Return whether all bits are the same."""
        return self.differing == 0


@dataclass(frozen=True, slots=True)
class BitRun:
    """All trials of one way to choose tiles. promised: the kinds in which bits must be equal.

    control: it promises nothing, and has to differ: that shows that a difference would be seen.
    """

    name: str
    tile: str
    control: bool
    promised: tuple[str, ...]
    trials: tuple[BitTrial, ...]

    @property
    def broken(self) -> tuple[BitTrial, ...]:
        """Return the trials that differ although bitwise equality is promised."""
        return tuple(t for t in self.trials if not t.equal and t.kind in self.promised)

    @property
    def differing(self) -> int:
        """Return the trials with any other bit."""
        return sum(not trial.equal for trial in self.trials)


@dataclass(frozen=True, slots=True, repr=False)
class BitLab(LabResult):
    """A request in many batches, under several ways to choose tiles, the same in every trial."""

    plan: Plan
    shape: FlexShape
    place: FlexPlace
    request: str
    """The request, in words."""
    first_token: int
    """The position of its first query."""
    tokens: int
    runs: tuple[BitRun, ...]

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Return one row per trial and way to choose tiles."""
        return tuple(
            {
                "tiles": run.name,
                "kind": trial.kind,
                "detail": trial.detail,
                "elements": trial.elements,
                "differing": trial.differing,
                "promised": trial.kind in run.promised,
            }
            for run in self.runs
            for trial in run.trials
        )

    @property
    def holds(self) -> bool:
        """Return whether every promise was kept, and the control did differ."""
        kept = not any(run.broken for run in self.runs)
        return kept and all(run.differing for run in self.runs if run.control)


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One way to add up a request's pages."""

    how: str
    where: str
    predicted: tuple[int, ...]
    """Physical blocks in order, from the plain model alone."""
    elements: int
    differing: int | None
    """Elements with different bits from those computed alone; None where it was not run."""
    largest: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class OrderLab(LabResult):
    """The predicted orders of the batch with the stale column, and the bits computed with them.

    orders: empty before anything ran.
    """

    predicted: OrderInversion
    orders: tuple[OrderRow, ...] = ()

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Return one row per way to add up."""
        return tuple(map(asdict, self.orders))


@dataclass(frozen=True, slots=True, repr=False)
class FlexMistake(LabResult):
    """A mistake made on purpose. tried: the wrong call or source; said: the answer; after: the
    launch that was done right afterwards.
    """  # noqa: D205 - the fields are one sentence

    name: str
    tried: str
    said: str
    after: FlexRun
