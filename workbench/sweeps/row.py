"""What a sweep keeps of one point: its verdict, its numbers, and what identical points share."""

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

from workbench.core.capacity.occupancy import waste
from workbench.core.errors import WorkbenchError
from workbench.core.flex.plan import FLEX
from workbench.core.flex.sizes import FLEX_FIELDS
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, smallest_prefix
from workbench.core.problems import ERROR
from workbench.core.ranks import ranks_of
from workbench.core.resolve import resolve
from workbench.core.watch import POOL_SETTINGS
from workbench.scenario.fields import Settings

PER_GPU = "concurrency_per_gpu"
"""Requests that fit, divided by the GPUs that hold them."""
NOT_DECIDED = frozenset(
    {
        *("model", "settings", "rules", "device", "platform", "capability"),
        "device_memory_bytes",
        *("problems", "steps", "log_lines", "grouping", "grouping_error", "cache"),
        # what these lead to is decided: the supported sizes, the block size, the state dtypes
        *("backends", "block_size_of_phase_1", "float32_state"),
        *("mamba_cache_dtype", "mamba_ssm_cache_dtype"),
    }
)
"""Values of a plan in which identical points may differ."""
_decided_values = attrgetter(*(one.name for one in fields(Plan) if one.name not in NOT_DECIDED))
FLEX_SETTINGS = (*FLEX_FIELDS, "torch_version")
"""Settings that only flex attention reads."""
RESOLVED = frozenset(
    {
        *("backend", "dtype", "kv_cache_dtype", "mamba_cache_dtype", "mamba_ssm_cache_dtype"),
        *("enable_prefix_caching", "mamba_cache_mode", "block_size", "mamba_block_size"),
        *("max_model_len", "max_num_batched_tokens", "max_num_seqs", "entry_point"),
        *("device_memory_bytes", *POOL_SETTINGS, *FLEX_SETTINGS),
    }
)
"""Settings whose whole effect is in the plan; any other one reaches the engine as it is."""


WARNINGS = "startup_warnings"
"""Problems of a point that let it start."""


class Verdict(NamedTuple):
    """Whether a point starts: what refused it, else its problems, and its backend."""

    refused: str | None
    problems: tuple[tuple[str, str], ...] = ()
    backend: str | None = None

    @property
    def warnings(self) -> int:
        """Return how many problems there are with which vLLM starts."""
        return sum(severity != ERROR for _, severity in self.problems)

    @property
    def is_illegal(self) -> bool:
        """Return whether vLLM refuses the point or does not start with it."""
        return self.refused is not None or any(severity == ERROR for _, severity in self.problems)


class Numbers(NamedTuple):
    """The numbers of a point in tokens, bytes and blocks per rank; None where it has none."""

    block_size: int | None = None
    kernel_block_size: int | None = None
    page_size_bytes: int | None = None
    """Page of the states, padded, if the model has any, else of the attention."""
    num_blocks: int | None = None
    max_concurrency: float | None = None
    smallest_prefix_tokens: int | None = None
    waste_share: float | None = None


class Row(NamedTuple):
    """One point. identity: equal for points of one space that decide everything identically."""

    verdict: Verdict
    numbers: Numbers
    identity: int = 0


class Shared(NamedTuple):
    """What plans have in common that differ in the size of the pool alone; see `Numbers`, `Row`."""

    waste_share: float | None
    smallest_prefix_tokens: int | None
    identity: int


class Resolver:
    """Resolves points one by one; what a point shares with the one before it is done once.

    Points that differ in the size of the pool alone share everything else. axes: fields that vary.
    """

    def __init__(self, prompt_tokens: int, axes: Sequence[str]) -> None:
        self._prompt_tokens, self._axes = prompt_tokens, axes
        self._others = tuple(name for name in axes if name not in POOL_SETTINGS)
        self._last: tuple[Any, ...] | None = None
        self._refused: str | None = None

    def row(self, model: Model, settings: Settings) -> Row:
        """Return one point."""
        point = (model, *[getattr(settings, name) for name in self._others])
        if point != self._last:
            self._last, self._refused = point, None
            self._shared: dict[int, Shared] = {}  # by the longest request, which may be fitted
        try:
            plan = resolve(model, settings, trace=False) if self._refused is None else None
        except WorkbenchError as error:
            plan, self._refused = None, error.code
        if plan is None:
            return Row(Verdict(self._refused), Numbers())
        shared = self._shared.get(plan.max_model_len)
        if shared is None:
            shared = _shared(plan, self._prompt_tokens, self._axes)
            self._shared[plan.max_model_len] = shared
        numbers = _numbers(plan, shared)
        blocks = -1 if numbers.num_blocks is None else numbers.num_blocks
        return Row(verdict_of(plan), numbers, hash((shared.identity, blocks)))


def row_of(plan: Plan, prompt_tokens: int) -> dict[str, Any]:
    """Return a plan as `SweepTable.row` shows a point."""
    numbers = _numbers(plan, _shared(plan, prompt_tokens, ()))
    return named(verdict_of(plan), numbers, ranks_of(plan.settings))


def named(verdict: Verdict, numbers: Numbers, gpus: int) -> dict[str, Any]:
    """Return verdict and numbers under their published names, in their published order."""
    values = list(numbers._asdict().items())
    at = 1 + Numbers._fields.index("max_concurrency")
    concurrency = numbers.max_concurrency
    return {
        "refused": verdict.refused,
        "problems": verdict.problems,
        WARNINGS: None if verdict.refused else verdict.warnings,
        **dict(values[:at]),
        PER_GPU: None if concurrency is None else concurrency / gpus,
        **dict(values[at:]),
        "backend_used": verdict.backend,
    }


def verdict_of(plan: Plan) -> Verdict:
    """Return problems, errors first, and the backend."""
    if not plan.problems:
        return Verdict(None, (), plan.backend)
    found = {(problem.code, problem.severity) for problem in plan.problems}
    ordered = sorted(found, key=lambda problem: (problem[1] != ERROR, problem[0]))
    return Verdict(None, tuple(ordered), plan.backend)


def _numbers(plan: Plan, shared: Shared) -> Numbers:
    cache = plan.cache
    return Numbers(
        block_size=plan.block_size,
        kernel_block_size=plan.kernel_block_size,
        page_size_bytes=plan.final_mamba_page_size_bytes or plan.attention_page_size_bytes,
        num_blocks=None if cache is None else cache.num_blocks,
        max_concurrency=None if cache is None else cache.max_concurrency,
        smallest_prefix_tokens=shared.smallest_prefix_tokens,
        waste_share=shared.waste_share,
    )


def _shared(plan: Plan, prompt_tokens: int, axes: Sequence[str]) -> Shared:
    prefix = None
    if plan.cache is not None and plan.enable_prefix_caching:
        prefix = smallest_prefix(caching_of(plan))
    return Shared(_waste_share(plan, prompt_tokens), prefix, _identity(plan, axes))


def _waste_share(plan: Plan, prompt_tokens: int) -> float | None:
    prompt = min(prompt_tokens, plan.max_model_len)
    if plan.cache is None or not plan.cache.groups or prompt < 1:
        return None
    found = waste(plan, plan.cache, prompt)
    return 1 - found.used_bytes / found.reserved_bytes if found.reserved_bytes else None


def _identity(plan: Plan, axes: Sequence[str]) -> int:
    """Return a number of 64 bits, the same in every process, of all decisions but the blocks."""
    settings = plan.settings
    values = list(_decided_values(plan))
    values += [getattr(settings, name) for name in axes if name not in RESOLVED]
    if plan.backend == FLEX:
        values += [getattr(settings, name) for name in FLEX_SETTINGS]
    if "max_model_len" in axes:
        values.append(settings.max_model_len == -1)  # fitted to the memory
    return hash(tuple([value if type(value) is int else _number(value) for value in values]))


@lru_cache(maxsize=4096, typed=True)  # words: ok
def _number(value: object) -> int:
    """Return a number for a value; unlike its hash it is the same in every process."""
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=7).digest(), "big")
