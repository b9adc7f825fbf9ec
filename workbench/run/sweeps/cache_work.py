"""What the cache of a grid depends on, as stages: the rules themselves, run once for equal inputs.

Each is as narrow as it can be: groups do not depend on how long requests are, and what a request
takes does not depend on the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from workbench.core.capacity.blocks import (
    CachePlan,
    blocks_per_request,
    cache_plan,
    measured_bytes,
    needed_bytes,
    printed_blocks,
)
from workbench.core.capacity.occupancy import waste
from workbench.core.groups.graph_support import WITH_GRAPHS, attention_groups, graph_support
from workbench.core.prefix.hits import (
    Caching,
    caching_with,
    is_inert,
    smallest_prefix,
)
from workbench.core.prefix.prefill import ALIGN
from workbench.core.problems import WARNING
from workbench.core.stages.memory_checks import sequences_wanted
from workbench.run.sweeps.recorder import SETTING, Recorder
from workbench.run.sweeps.trees import cut

GROUPED = ("kinds", "bytes_per_block", "held_back_bytes")
SEQUENCES = ("sequences_wanted", "sequences_certain")
REQUEST = ("blocks_per_request", "printed_blocks", "needed_bytes")
MADE_FROM = frozenset(
    {
        "attention_bytes_per_token",
        "attention_page_size_bytes",
        "backend",
        "backends",
        "block_size",
        "kv_cache_dtype",
        "mamba_block_size",
        "mamba_page_size_bytes",
        "mamba_page_size_padded",
        "model_dtype",
        "plain_backend",
        "plain_supported",
        "skip_page_size_padded",
        "speculative_method",
        "state_dtypes",
        "state_shapes",
        "supported",
        SETTING + "block_size",
        SETTING + "tensor_parallel",
        SETTING + "kv_cache_dtype",
    }
)
"""What groups are made from, and what nothing else about a request depends on."""

MAX_GROUPS = 50_000
FIRST = np.zeros(1, dtype=np.intp)
NO_REQUEST: Mapping[str, Any] = {
    "max_model_len": 1,
    "max_num_batched_tokens": 1,
    "prefix_caching": False,
    "mamba_cache_mode": "none",
    SETTING + "num_speculative_tokens": 0,
}
"""What groups do not depend on: one request of one token stands for any."""


@dataclass(frozen=True, eq=False)
class _Groups:
    """A cache, and the inputs of one point that has it."""

    plan: CachePlan
    given: Mapping[str, Any]


_samples: dict[tuple[tuple[tuple[str, str], ...], ...], _Groups] = {}
"""One cache for all whose groups are of the same kinds: what graph support depends on."""


def grouped(run: Recorder) -> None:
    """Groups and bytes: what does not depend on memory, nor on how long requests are."""
    plan = cache_plan(run)
    run.written["cache"] = plan and _same_groups(run, plan)
    run.written.update(dict.fromkeys(GROUPED))
    if plan is not None:
        run.written["held_back_bytes"] = plan.held_back_bytes
        kinds = tuple(
            tuple((spec.kind, spec.stored) for spec in group.different_specs)
            for group in plan.groups
        )
        if kinds not in _samples:
            _samples[kinds] = _Groups(cut(plan, FIRST) if run.together else plan, {})
        run.written["kinds"] = _samples[kinds]
        run.written["bytes_per_block"] = plan.grouping.bytes_per_block if plan.groups else 0


_groups: dict[tuple[Any, ...], _Groups] = {}


def _same_groups(run: Recorder, plan: CachePlan) -> _Groups:
    """One object for all caches with equal groups: equal inputs are told by identity."""
    if run.together:
        given = {name: run.given[name] for name in MADE_FROM if name in run.given}
        return _Groups(plan, given)
    if len(_groups) > MAX_GROUPS:
        _groups.clear()  # costs time only
    key = (run.model.name, run.rules.name, plan.grouping, plan.scheduler_block_size)
    return _groups.setdefault(key, _Groups(plan, dict(run.given)))


class _Standing:
    """A run whose groups are those of another point: what they were made from is read there."""

    def __init__(self, run: Any, given: Mapping[str, Any], prefix: str = "") -> None:
        self._run, self._given, self._prefix = run, given, prefix

    def __getattr__(self, name: str) -> Any:
        if name == "settings":
            return _Standing(self._run.settings, self._given, SETTING)
        full = self._prefix + name
        if full in MADE_FROM and full in self._given:
            return self._given[full]
        return getattr(self._run, name)


def requested(run: Recorder) -> None:
    """What one request of full length takes; groups are made once for all that have the same."""
    groups = run.read("cache")
    run.written.update(dict.fromkeys(REQUEST))
    if groups is not None:
        one, grouping, length = (
            _Standing(run, groups.given),
            groups.plan.grouping,
            run.max_model_len,
        )
        run.written["blocks_per_request"] = blocks_per_request(one, grouping, length)
        run.written["printed_blocks"] = printed_blocks(one, grouping, length)
        run.written["needed_bytes"] = needed_bytes(one, grouping, length)


def cached(run: Recorder) -> None:
    """What hits depend on; nothing where prefix caching is off."""
    groups = run.read("cache")
    is_on = groups is not None and run.prefix_caching
    run.written["caching"] = _capped(caching_with(run, groups.plan)) if is_on else None


def hits(run: Recorder) -> None:
    """The smallest prefix that is found again."""
    caching = run.read("caching")
    run.written["smallest_prefix"] = None if caching is None else smallest_prefix(caching)


def hits_and_problem(run: Recorder) -> None:
    """The same, and the problem of `inert_prefix_caching`."""
    hits(run)
    caching = run.read("caching")
    if caching is None or run.written["smallest_prefix"] is not None or not run.model.is_hybrid:
        return
    if is_inert(caching):
        run.problem("prefix_caching_inert", severity=WARNING)


def graphs(run: Recorder) -> None:
    """Whether every decoding sequence needs a block when graphs are captured."""
    kinds = run.read("kinds")
    run.written["graphs_need_blocks"] = kinds is not None and _graphs_need_blocks(run, kinds.plan)


@cache
def prompted(prompt_tokens: int) -> Callable[[Recorder], None]:
    """A stage that cuts the prompt of `wasted` down to the longest request."""

    def work(run: Recorder) -> None:
        run.written["prompt"] = min(prompt_tokens, run.max_model_len)

    return work


def wasted(run: Recorder) -> None:
    """The share of a request's bytes that holds neither keys, values nor the running state."""
    groups, prompt = run.read("cache"), run.read("prompt")
    run.written["waste_share"] = None
    if groups is not None and groups.plan.groups and prompt >= 1:
        found = waste(_ShortRun(run, prompt), groups.plan, prompt)  # type: ignore[arg-type]
        if found.reserved_bytes:
            run.written["waste_share"] = 1 - found.used_bytes / found.reserved_bytes


def _capped(caching: Caching) -> Caching:
    """The same with lengths cut down to where longer ones change nothing: fewer distinct inputs.

    The budget matters where steps end at blocks.
    """
    blocks = (*caching.attention_blocks, caching.state_block or 0)
    enough = caching.alignment_tokens + max(blocks) + 2
    has_stops = caching.mode == ALIGN and caching.state_block is not None
    return replace(
        caching,
        max_model_len=min(caching.max_model_len, enough),
        budget_tokens=min(caching.budget_tokens, enough) if has_stops else 1,
    )


def _graphs_need_blocks(run: Recorder, plan: CachePlan) -> bool:
    if run.settings.platform not in WITH_GRAPHS:
        return False
    if not any(group.spec.is_mamba for group in plan.groups):
        return False
    groups = attention_groups(run, plan)
    return graph_support(run, groups).has_full_graphs


class _ShortRun:
    """A run whose longest request is the prompt that waste is told of."""

    def __init__(self, run: Recorder, prompt_tokens: int) -> None:
        self.max_model_len = prompt_tokens
        self._run = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)


def sequences(run: Recorder) -> None:
    """The sequences that graph capture needs blocks for, and whether they are certain."""
    run.written.update(zip(SEQUENCES, sequences_wanted(run), strict=True))


def measured(run: Recorder) -> None:
    """Bytes for the cache, where anything tells them."""
    run.written["measured_bytes"] = measured_bytes(run.settings)
