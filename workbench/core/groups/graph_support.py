"""Attention groups inside the KV-cache groups, and the weakest CUDA-graph support over them."""

from collections import defaultdict
from dataclasses import dataclass

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.graph_modes import (
    ALWAYS,
    FULL,
    FULL_AND_PIECEWISE,
    LEVELS,
    NEVER,
    NONE,
    PIECEWISE,
    SINGLE,
    WITH_DECODES,
    graph_level,
    requested_mode,
)
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.layer_backend import layer_backend
from workbench.core.plan import Plan

WITH_GRAPHS = frozenset({"cuda", "rocm"})
"""Platforms that capture graphs by default; CPU never does, XPU only when enabled."""


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """Layers of one KV-cache group with the same backend and spec."""

    group: int
    """Index of the KV-cache group."""
    backend: str
    spec: CacheSpec
    layers: tuple[str, ...]
    kernel_block_size: int | None
    """In tokens, None where there is no common one."""
    graph_level: str
    """One of LEVELS."""


@dataclass(frozen=True, slots=True)
class GraphSupport:
    """The weakest level over all groups, whose backend it is, and the mode that vLLM then uses.

    mode: what the requested one becomes.
    """

    level: str
    backend: str | None
    mode: str

    @property
    def has_full_graphs(self) -> bool:
        """Return whether a decode step is captured whole."""
        return self.mode in {FULL, *WITH_DECODES}


def attention_groups(plan: Plan, cache: CachePlan | None) -> tuple[AttentionGroup, ...]:
    """Return every attention group, one KV-cache group after the other; none without a cache."""
    # Layers of one KV-cache group differ in backend and spec; some have no backend.
    if cache is None:
        return ()
    layers: dict[tuple[int, CacheSpec, str], list[str]] = defaultdict(list)
    for layer, (group, spec) in cache.grouping.layers.items():
        if (name := layer_backend(plan, spec, layer)) is not None:
            layers[group, spec, name].append(layer)
    return tuple(
        AttentionGroup(
            group=group,
            backend=name,
            spec=spec,
            layers=tuple(names),
            kernel_block_size=cache.kernel_block_sizes[group],
            graph_level=graph_level(plan, plan.rules.backends[name]),
        )
        for (group, spec, name), names in layers.items()
    )


def graph_support(plan: Plan, cache: CachePlan | None) -> GraphSupport:
    """Return the minimum over the groups; the first of several equally weak ones is named."""
    # init_attn_backend of the V2 runner since #38831: discovery, kernel block sizes, graph support;
    # resolve_cudagraph_mode_and_sizes for what follows (0.23).
    level, weakest = ALWAYS, None
    for group in attention_groups(plan, cache):
        if LEVELS.index(group.graph_level) < LEVELS.index(level):
            level, weakest = group.graph_level, group.backend
    return GraphSupport(level, weakest, _mode(plan, level))


def captures_states(plan: Plan, cache: CachePlan) -> bool:
    """Return whether graph capture asks for one block of states for each sequence."""
    has_states = any(group.spec.is_mamba for group in cache.groups)
    return has_states and graph_support(plan, cache).has_full_graphs


def _mode(plan: Plan, level: str) -> str:
    if plan.platform.name not in WITH_GRAPHS:
        return NONE
    mode = requested_mode(plan.settings)
    if mode == FULL and level not in {NEVER, ALWAYS}:
        mode = FULL_AND_PIECEWISE
    # With drafts a decode step has several tokens of each request, so one token is not enough.
    drafts_need_uniform = plan.settings.num_speculative_tokens > 0 and level == SINGLE
    is_limited = mode in WITH_DECODES and (level == NEVER or drafts_need_uniform)
    return PIECEWISE if is_limited else mode
