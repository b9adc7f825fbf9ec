"""The batch sizes that vLLM captures graphs of, as far as its memory estimate counts them.

Source: `_set_cudagraph_sizes` of `VllmConfig`, `adjust_cudagraph_sizes_for_spec_decode`
and `Worker.determine_available_memory` of 0.23 and 0.33.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from workbench.core.arithmetic import GIB, round_up
from workbench.core.platforms import SM10X
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


def count_graphs(plan: Plan) -> int:
    """Return the graphs of mixed batches and of decoding that the profile counts."""
    is_profiled = plan.platform.name in plan.rules.profiles_graphs_on
    if plan.settings.enforce_eager or not is_profiled or profiles_part(plan):
        return 0
    sizes, tokens = capture_sizes(plan), 1 + plan.settings.num_speculative_tokens
    if _captures_no_decodes(plan):
        return len(sizes)
    decodes = [one for one in sizes if one % tokens == 0 and one <= plan.max_num_seqs * tokens]
    return len(sizes) + len(decodes)


def profiles_part(plan: Plan) -> bool:
    """Return whether the profiling run has no graphs and no probabilities of tokens (V2, 0.23)."""
    # profile_cudagraph_memory and _dummy_sampler_run of v1/worker/gpu/model_runner.py
    return model_runner(plan) == "v2" and not plan.rules.v2_profiles_all


def _captures_no_decodes(plan: Plan) -> bool:
    """Return whether only mixed batches have graphs: FlashInfer that decodes drafts, too."""
    # FlashInferMetadataBuilder.get_cudagraph_support
    drafts = plan.settings.num_speculative_tokens and not plan.rules.captures_whole_decodes
    return bool(drafts) and plan.backend == FLASHINFER and (plan.capability or (0,))[0] != SM10X


def attention_workspace(plan: Plan) -> int:
    """Return what FlashInfer allocates before the first graph of decoding, and so counts as one."""
    is_flashinfer = plan.backend == FLASHINFER and count_graphs(plan)
    if not is_flashinfer or _captures_no_decodes(plan):
        return 0
    return INVARIANT_WORKSPACE if plan.settings.batch_invariant else WORKSPACE


def capture_sizes(plan: Plan) -> tuple[int, ...]:
    """Return the batch sizes with a graph, in tokens, ascending."""
    # Of a decoding request a step has its drafts, too.
    tokens, seqs = 1 + plan.settings.num_speculative_tokens, plan.max_num_seqs
    budget, is_sm10x = plan.max_num_batched_tokens, (plan.capability or (0,))[0] == SM10X
    ceiling = plan.rules.largest_graph_sm10x if is_sm10x else LARGEST
    largest = min(seqs * tokens * 2, ceiling, budget)
    sizes = {*_grid(largest), *([budget] if budget <= largest else [])}
    if plan.rules.captures_whole_decodes:
        counts = {*_grid(min(seqs, ceiling)), min(seqs, ceiling)} if tokens > 1 else {seqs}
        sizes |= {one * tokens for one in counts if one * tokens <= largest}
    elif tokens > 1:
        rounded = {round_up(one, tokens) for one in sizes}
        sizes = {one for one in rounded if one <= largest}
    return tuple(sorted(sizes))


def _grid(largest: int) -> Iterator[int]:
    """Yield 1, 2, 4, and multiples up to `largest`."""
    yield from (one for one in (1, 2, 4) if one <= largest)
    yield from range(8, min(largest + 1, EVERY_EIGHTH), 8)
    yield from range(EVERY_EIGHTH, largest + 1, 16)


def graph_bytes(plan: Plan) -> int:
    """Return what the graphs of mixed batches and of decoding take, as vLLM estimates them."""
    return count_graphs(plan) * plan.model.num_hidden_layers * PER_GRAPH_AND_LAYER
