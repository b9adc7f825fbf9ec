"""The batch sizes that vLLM captures graphs of, as far as its memory estimate counts them.

Source: `_set_cudagraph_sizes` of `VllmConfig`, `adjust_cudagraph_sizes_for_spec_decode`
and `Worker.determine_available_memory` of 0.23 and 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from workbench.core.arithmetic import GIB, round_up
from workbench.core.batch_defaults import INTERACTIVITY
from workbench.core.graph_modes import (
    ALWAYS,
    FULL,
    FULL_DECODE_ONLY,
    NONE,
    PIECEWISE,
    graph_level,
    requested_mode,
)
from workbench.core.platforms import is_sm10x
from workbench.core.runner import model_runner

if TYPE_CHECKING:
    from workbench.core.plan import Plan

PER_GRAPH_AND_LAYER = int(0.00027 * GIB)
FLASHINFER = "FLASHINFER"
WORKSPACE, INVARIANT_WORKSPACE = 394 * 2**20, 2048 * 2**20
"""VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE, and FLASHINFER_WORKSPACE_BUFFER_SIZE_BATCH_INVARIANT."""
LARGEST = 512
EVERY_EIGHTH = 256
"""Up to here every eighth size has a graph, then every sixteenth."""
FINE = 32
"""Up to here every size has one where latency counts most."""


def count_graphs(plan: Plan) -> int:
    """Return the graphs of mixed batches and of decoding that the profile counts."""
    is_profiled = plan.platform.name in plan.rules.profiles_graphs_on
    return sum(map(len, graph_batches(plan))) if is_profiled and not profiles_part(plan) else 0


def graph_batches(plan: Plan) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes with a graph of mixed batches, and those with one of decoding, in tokens."""
    sizes, tokens = capture_sizes(plan), 1 + plan.settings.num_speculative_tokens
    if not sizes or _captures_no_decodes(plan):
        return sizes, ()
    # Of a decoding request a step has its drafts, too: the V2 runner of 0.33 rounds the sizes of
    # decoding (CudaGraphManager._init_candidates), the others round all.
    whole = {one for n in sizes if (one := round_up(n, tokens)) <= sizes[-1]} or {tokens}
    decodes = tuple(sorted(one for one in whole if one <= plan.max_num_seqs * tokens))
    if requested_mode(plan.settings) == FULL_DECODE_ONLY:
        return (), decodes
    separate = plan.rules.captures_whole_decodes and model_runner(plan) == "v2"
    return sizes if separate else tuple(sorted(whole)), decodes


def profiles_part(plan: Plan) -> bool:
    """Return whether the profiling run has no graphs and no probabilities of tokens (V2, 0.23)."""
    # profile_cudagraph_memory and _dummy_sampler_run of v1/worker/gpu/model_runner.py
    return model_runner(plan) == "v2" and not plan.rules.v2_profiles_all


def _captures_no_decodes(plan: Plan) -> bool:
    """Return whether only mixed batches have graphs: FlashInfer that decodes drafts, too."""
    # FlashInferMetadataBuilder.get_cudagraph_support
    mode, is_flashinfer = requested_mode(plan.settings), plan.backend == FLASHINFER
    drafts = plan.settings.num_speculative_tokens and not plan.rules.captures_whole_decodes
    is_limited = bool(drafts) and is_flashinfer and not is_sm10x(plan)
    return is_limited or mode == PIECEWISE or (mode == FULL and _captures_all(plan))


def _captures_all(plan: Plan) -> bool:
    """Return whether graphs of mixed batches may be whole; others get FULL_AND_PIECEWISE."""
    backend = plan.rules.backends[plan.backend] if plan.backend else None
    return backend is not None and graph_level(plan, backend) == ALWAYS and not plan.model.is_hybrid


def attention_workspace(plan: Plan) -> int:
    """Return what FlashInfer allocates before the first graph of decoding, and so counts as one."""
    is_flashinfer = plan.backend == FLASHINFER and count_graphs(plan)
    if not is_flashinfer or _captures_no_decodes(plan):
        return 0
    return INVARIANT_WORKSPACE if plan.settings.batch_invariant else WORKSPACE


def captures_graphs(plan: Plan) -> bool:
    """Return whether steps have graphs."""
    return requested_mode(plan.settings) != NONE and plan.platform.name != "cpu"


def capture_sizes(plan: Plan) -> tuple[int, ...]:
    """Return the sizes of batches with a graph as vLLM is set, in tokens, ascending."""
    settings, seqs = plan.settings, plan.max_num_seqs
    budget = plan.max_num_batched_tokens
    if not captures_graphs(plan):
        return ()
    if explicit := settings.cudagraph_capture_sizes:
        return tuple(sorted(one for one in {*explicit} if one <= budget))
    tokens, limit = 1 + settings.num_speculative_tokens, settings.max_cudagraph_capture_size
    ceiling = plan.rules.largest_graph_sm10x if is_sm10x(plan) else LARGEST
    largest = min(limit or min(seqs * tokens * 2, ceiling), budget)
    fine = range(1, min(largest, FINE) + 1) if settings.performance_mode == INTERACTIVITY else ()
    sizes = {*_grid(largest), *fine, *([budget] if budget <= largest else [])}
    if plan.rules.captures_whole_decodes and limit is None:
        counts = {*_grid(min(seqs, ceiling)), min(seqs, ceiling)} if tokens > 1 else {seqs}
        sizes |= {one * tokens for one in counts if one * tokens <= largest}
    return tuple(sorted(sizes))


def _grid(largest: int) -> Iterator[int]:
    """Yield 1, 2, 4, and multiples up to `largest`."""
    yield from (one for one in (1, 2, 4) if one <= largest)
    yield from range(8, min(largest + 1, EVERY_EIGHTH), 8)
    yield from range(EVERY_EIGHTH, largest + 1, 16)


def graph_bytes(plan: Plan) -> int:
    """Return what the graphs of mixed batches and of decoding take, as vLLM estimates them."""
    return count_graphs(plan) * plan.model.num_hidden_layers * PER_GRAPH_AND_LAYER
