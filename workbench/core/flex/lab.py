"""What launching flex attention found, as values: where it ran, how exact, how fast, which bits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FlexShape:
    """What one rank's attention layer of a plan looks like to a kernel.

    page_tokens: of an entry of the block table, a manager block; block_size: of the cache, the
    kernel block. dtype: of the model. heads and kv_heads: those of one rank.
    """

    heads: int
    kv_heads: int
    head_size: int
    page_tokens: int
    block_size: int
    dtype: str

    @property
    def group(self) -> int:
        """Return the query heads of one KV head."""
        return self.heads // self.kv_heads

    def __str__(self) -> str:
        """Return the description."""
        page = f"pages of {self.page_tokens:,} tokens"
        if self.page_tokens != self.block_size:
            page += f", kernel blocks of {self.block_size:,}"
        heads = f"{self.heads} query heads over {self.kv_heads} KV heads"
        return f"{heads}, head size {self.head_size}, {page}, {self.dtype}"


@dataclass(frozen=True, slots=True)
class FlexPlace:
    """Where it ran. path: which kernel, in words. mode: "gpu" or "interpreter" or "eager".

    note: what is other than requested, and why; empty if nothing is.
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
    def floor_seconds(self) -> float:
        """Return the lower bound for any kernel: the slower of the two, at the measured rates."""
        return max(
            self.flops / self.matmul_flops_per_s,
            self.moved_bytes / self.copy_bytes_per_s,
        )

    @property
    def bound(self) -> str:
        """Return which of the two is the roof of this batch."""
        by_copy = self.moved_bytes / self.copy_bytes_per_s
        return "copy" if by_copy > self.flops / self.matmul_flops_per_s else "matmul"

    @property
    def percent_of_roof(self) -> float:
        """Return the percentage of the fastest time that the measured rates allow."""
        return 100 * self.floor_seconds / self.seconds


@dataclass(frozen=True, slots=True)
class FlexRun:
    """One launch, checked. max_error: against float64, over the batch; tolerance: the most that
    this precision explains, twice an independent computation's own error.

    poisoned: elements that change when every byte that must not be read becomes NaN. elements: of
    the result. tile: in words. speed: on a GPU only.
    """  # noqa: D205 - the definition of an error is one sentence

    shape: FlexShape
    place: FlexPlace
    tile: str
    mask: str
    requests: int
    tokens: int
    cached_tokens: int
    elements: int
    max_error: float
    tolerance: float
    poisoned: int
    speed: FlexSpeed | None = None

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
    """One element with other bits: position in the request, query head, element of the head."""

    token: int
    head: int
    element: int
    alone: float
    other: float


@dataclass(frozen=True, slots=True)
class BitTrial:
    """The request computed in another way, against the request alone.

    kind: what is other; detail: how. first: the first places, in the order of tokens, heads and
    elements. per_token: elements with other bits of each token, all heads.
    """

    kind: str
    detail: str
    elements: int
    differing: int
    largest: float
    first: tuple[BitPlace, ...]
    per_token: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """Return whether all bits are the same."""
        return self.differing == 0


@dataclass(frozen=True, slots=True)
class BitRun:
    """All trials of one way to choose tiles. promised: the kinds in which it promises equal bits.

    control: it promises nothing, and has to differ: that shows that a difference would be seen.
    """

    name: str
    tile: str
    control: bool
    promised: tuple[str, ...]
    trials: tuple[BitTrial, ...]

    @property
    def broken(self) -> tuple[BitTrial, ...]:
        """Return the trials that differ although equal bits are promised."""
        return tuple(t for t in self.trials if not t.equal and t.kind in self.promised)

    @property
    def differing(self) -> int:
        """Return the trials with any other bit."""
        return sum(not trial.equal for trial in self.trials)


@dataclass(frozen=True, slots=True)
class BitLab:
    """A request in many batches, under several ways to choose tiles, the same in every trial.

    request: in words. first_token: the position of its first query.
    """

    shape: FlexShape
    place: FlexPlace
    request: str
    first_token: int
    tokens: int
    runs: tuple[BitRun, ...]

    @property
    def holds(self) -> bool:
        """Return whether every promise was kept, and the control did differ."""
        kept = not any(run.broken for run in self.runs)
        return kept and all(run.differing for run in self.runs if run.control)


@dataclass(frozen=True, slots=True)
class OrderRow:
    """One way to add up a request's pages. predicted: physical blocks in order, from the plain
    model alone. differing: elements with other bits than alone; None where it was not run.
    """  # noqa: D205 - the second sentence belongs to the first

    how: str
    where: str
    predicted: tuple[int, ...]
    elements: int
    differing: int | None
    largest: float | None = None


@dataclass(frozen=True, slots=True)
class FlexMistake:
    """A mistake made on purpose. tried: the wrong call or source; said: the answer; after: the
    launch that was done right afterwards.
    """  # noqa: D205 - the fields are one sentence

    name: str
    tried: str
    said: str
    after: FlexRun
