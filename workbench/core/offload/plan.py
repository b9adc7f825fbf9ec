"""Offload to host memory: the checks at start, legal block sizes, and the host pool.

Source: `OffloadingSpec` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec`
(`vllm/v1/kv_offload/cpu/spec.py`), `resolve_kv_cache_block_sizes` and the connector's
`register_kv_caches` of 0.23; the number of blocks since #38554. 0.33: `build_offloading_config` of
the connector; what differs is `OffloadRules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workbench.core.arithmetic import cdiv, round_up
from workbench.core.capacity.blocks import tokens_read_again
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import ScenarioError
from workbench.core.groups.cache_spec import MLA_KINDS, SLIDING_KINDS, CacheSpec
from workbench.core.offload import checks
from workbench.core.offload.request import (
    BlockSizes,
    OffloadRequest,
    block_over_ranks,
    context_parallel,
    offloaded_groups,
    resolved_block_sizes,
)
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.ranks import ranks_of
from workbench.core.sizes import bytes_of

if TYPE_CHECKING:
    from workbench.core.offload.break_even import LoadedPrefix
    from workbench.core.offload.fill import StoredPrompt
    from workbench.core.offload.pool import LayerBytes
    from workbench.core.remedies import Remedy

__all__ = ["Offload", "OffloadRequest", "offload", "window_chunks"]

LEGAL_SIZES = 8
"""How many offloaded block sizes are listed: every multiple of the GPU block is legal."""


@dataclass(frozen=True, slots=True)
class Offload:
    """What the offload connector makes of a plan and a request."""

    plan: Plan = field(repr=False)
    request: OffloadRequest
    problems: tuple[Problem, ...]
    """The first check that fails, alone, as vLLM stops there."""
    block_sizes: BlockSizes | None
    gpu_block_sizes: tuple[int, ...]
    """Per offloaded group, tokens over all context-parallel ranks."""
    legal_block_sizes: tuple[int, ...]
    """The smallest legal ones, empty where groups differ."""
    factor: int | None = None
    """GPU blocks in one offloaded block."""
    bytes_per_cpu_block: int | None = None
    """Bytes of one host block, all ranks together."""
    cpu_blocks: int | None = None
    """None after a failed check, or when no layer keeps a cache."""
    window_chunks: tuple[int | None, ...] = ()
    """Per offloaded group, how many offloaded blocks of a request are kept, None for all (0.33;
    empty in 0.23)."""
    unread: tuple[str, ...] = ()
    """Options that this version does not know."""

    @property
    def is_legal(self) -> bool:
        """Return whether the engine starts with this connector."""
        return not self.problems

    def remedies(self) -> tuple[Remedy, ...]:
        """Return tried changes of the scenario that pass the failed check, best first."""
        from workbench.core.offload.remedies import offload_remedies

        return tuple(
            remedy
            for problem in self.problems
            for remedy in offload_remedies(self.plan, problem, self.request)
        )

    def stored_prompt(self, prompt_tokens: int) -> StoredPrompt:
        """Return the host blocks that one prompt takes, and how many such prompts fit.

        Errors: ValueError after a failed check, or below 1 token.
        """
        from workbench.core.offload.fill import stored_prompt

        return stored_prompt(self.plan, self, prompt_tokens)

    def loaded_prefix(self, tokens: int) -> LoadedPrefix:
        """Return what a rank loads of a stored prefix, and from which rates on that pays.

        Errors: ValueError after a failed check.
        """
        from workbench.core.offload.break_even import loaded_prefix

        return loaded_prefix(self.plan, self, tokens)

    def break_even_tokens(
        self, *, prefill_tokens_per_s: float, link_bytes_per_s: float | str
    ) -> int | None:
        """Return the shortest prefix that is loaded quicker than computed; None if none is.

        Both rates are those that you measured; link_bytes_per_s may be a text such as "25 GB".
        Errors: ValueError after a failed check.
        """
        from workbench.core.offload.break_even import break_even_tokens

        rate = bytes_of(link_bytes_per_s, "link_bytes_per_s")
        return break_even_tokens(self.plan, self, prefill_tokens_per_s, rate)

    def layer_bytes(self) -> tuple[LayerBytes, ...]:
        """Return what one block holds of every layer: data and padding, in bytes."""
        from workbench.core.offload.pool import layer_bytes

        return layer_bytes(self.plan)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of the prompts that the host pool holds, over its size."""
        from workbench.views.offload.figure import offload_figure

        return offload_figure(self.plan, self.request, theme=theme)

    def __repr__(self) -> str:
        from workbench.views.offload.html import offload_text

        return offload_text(self.plan, self.request)

    def _repr_html_(self) -> str:
        from workbench.views.offload.html import offload_html

        return offload_html(self.plan, self.request)


def offload(plan: Plan, request: OffloadRequest | None = None) -> Offload:
    """Return the checks in vLLM's order, then the sizes.

    Errors: ValueError when the plan has no cache, ScenarioError for a world size that no engine
    with this tensor parallelism has.
    """
    request = request or OffloadRequest()
    world = _world(plan, request.world_size)
    rules, cache, groups = plan.rules.offload, plan.built_cache(), offloaded_groups(plan)
    sizes = tuple(block_over_ranks(plan, group.spec, request) for group in groups)
    chunk = request.blocks_per_chunk if rules.takes_blocks_per_chunk else None
    units = resolved_block_sizes(plan, request)
    if rules.takes_blocks_per_chunk and not sizes:
        problem: Problem | None = checks.no_group_problem()
    elif isinstance(units, Problem):
        problem = units
    elif plan.model.is_encoder_decoder:
        problem = checks.encoder_problem()
    else:
        problem = (
            checks.hash_problem(sizes, units.hash, plan.enable_prefix_caching, rules)
            or checks.chunk_problem(chunk, request.block_size)
            or checks.block_problem(sizes, request.block_size, rules)
            or checks.bytes_problem(request.cpu_bytes_to_use)
        )
    legal = tuple(sizes[0] * k for k in range(1, LEGAL_SIZES + 1)) if len(set(sizes)) == 1 else ()
    found = Offload(
        plan=plan,
        request=request,
        problems=() if problem is None else (problem,),
        block_sizes=None if isinstance(units, Problem) else units,
        gpu_block_sizes=sizes,
        legal_block_sizes=legal,
        unread=("blocks_per_chunk",) if request.blocks_per_chunk and chunk is None else (),
    )
    if problem is not None:
        return found
    # The memory of the GPU plays no part in the size of a host block, nor in their number.
    factor = chunk or (1 if request.block_size is None else request.block_size // sizes[0])
    copies = 1 if _stores_one_copy(plan, request, world) else world
    block_bytes = round_up(
        gpu_block_bytes(cache) * copies * factor, rules.host_block_alignment_bytes
    )
    windows = (
        window_chunks(group.spec, size * factor, tokens_read_again(plan))
        for group, size in zip(groups, sizes, strict=True)
    )
    return replace(
        found,
        factor=factor,
        bytes_per_cpu_block=block_bytes,
        cpu_blocks=(request.cpu_bytes_to_use or 0) // block_bytes if block_bytes else None,
        window_chunks=tuple(windows) if rules.takes_blocks_per_chunk else (),
    )


def _world(plan: Plan, world_size: int | None) -> int:
    """Return the ranks, checked: a multiple of those of one engine."""
    ranks = ranks_of(plan.settings)
    if world_size is None or world_size % ranks == 0:
        return world_size or ranks
    raise ScenarioError(
        "out_of_range",
        f"world_size is a multiple of the engine's {ranks} ranks; got {world_size}. Nearest valid "
        f"value: {max(1, round(world_size / ranks)) * ranks}.",
        field="world_size",
    )


def window_chunks(spec: CacheSpec, chunk_tokens: int, read_again: int = 0) -> int | None:
    """Return the offloaded blocks that a request's attention or state reads; None for all.

    read_again: tokens before a window that a chain of MTP layers reads once more.
    """
    # get_sliding_window_size_in_chunks, 0.33.
    # A state sums up all tokens before it, so the last one is enough.
    if spec.is_mamba:
        return 1
    if spec.window_tokens is None:
        return None
    again = max(read_again - 1, 0) if spec.kind in SLIDING_KINDS else 0
    return cdiv(spec.window_tokens + again, chunk_tokens)


def _stores_one_copy(plan: Plan, request: OffloadRequest, world: int) -> bool:
    """Return whether ranks hold the same latents and the host keeps them once (0.33)."""
    specs = [spec for group in plan.built_cache().groups for spec in group.layer_specs]
    ranks = plan.settings.tensor_parallel
    # A latent has no heads to divide, so tensor parallelism gives every rank the same bytes.
    all_mla = bool(specs) and all(spec.kind in MLA_KINDS for spec in specs)
    # One node is taken for granted, and no other kind of parallelism.
    alone = context_parallel(plan, request) == 1 and world == ranks
    shared = plan.platform.name in {"cuda", "xpu"}
    return plan.rules.offload.one_copy_of_latents and all_mla and alone and shared


def gpu_block_bytes(cache: CachePlan) -> int:
    """Return the bytes of one block id on one rank."""
    if cache.tensors is None or not cache.num_blocks:
        return cache.grouping.bytes_per_block
    # As vLLM does since #38554: a guess from a tensor's shape counted kernel blocks.
    return sum(tensor.size_bytes for tensor in cache.tensors) // cache.num_blocks
