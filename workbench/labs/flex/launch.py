"""One launch of flex attention in the shape of a plan, checked against float64 and NaN."""

import statistics
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from workbench.core.errors import ScenarioError, check_name
from workbench.core.flex import lab
from workbench.core.flex.batch import CAUSAL
from workbench.core.flex.plan import FLEX, FlexPlan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.paged_flex.api import plan_attention
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.layout import PagedInputs, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.reference import agreement
from workbench.kernels.paged_flex.settings import Settings
from workbench.labs.flex import inputs
from workbench.labs.jobs import Job

OWN_TILE = (
    "our kernel and its own tile, on the pages of the plan: vLLM's tile, and what vLLM refuses, "
    f"are those of kernel = {lab.ENGINE!r}"
)
Attend = Callable[[PagedInputs], Tensor]


@dataclass(frozen=True, slots=True)
class _Path:
    """How to compute a layout, the tile's description, and what is timed on a GPU."""

    attend: Attend
    tile: str
    timed: Callable[[PagedInputs], Callable[[], object]]


def launch_flex(
    plan: Plan,
    batch: Sequence[BatchRequest],
    *,
    kernel: str = lab.OURS_FAST,
    mask: str = CAUSAL,
    mask_tokens: int = 64,
    dtype: str = lab.AS_PLANNED,
    tile: str = "",
    custom_mask: Mask | None = None,
    job: Job | None = None,
) -> lab.FlexRun:
    """Run a batch over pages of this plan: on a GPU if there is one, else interpreted or eager.

    The batch is run twice, over a cache that holds zeros and over one that holds NaN in all slots
    that must not be read; both runs must agree bit for bit. tile: "64 x 32", or empty for the
    kernel's own. custom_mask: used in place of the mask of that name. Errors: ScenarioError if a
    kernel refuses, or if memory runs out; Stopped.
    """
    job = job or Job()
    check_name("Kernel", kernel, lab.KERNELS, "kernel")
    shape = inputs.shape_of(plan)
    machine = inputs.machine_for(shape.dtype, dtype)
    with inputs.kernel_errors_as_scenario_errors(f"This launch ({shape})", custom_mask):
        seen = custom_mask or inputs.kernel_mask(mask, mask_tokens, len(batch))
        path = _path(plan, batch, kernel, tile, shape, machine, seen, job)
        requests = inputs.random_requests(batch, shape, machine.dtype)
        ratio = shape.page_tokens // shape.block_size
        clean = lay_out(requests, shape.block_size, ratio=ratio, poison=0.0)
        result = path.attend(clean)
        job.check()
        found = agreement(result, clean.query, clean.kv_cache, clean.batch, seen)
        job.check()
        poisoned = path.attend(lay_out(requests, shape.block_size, ratio=ratio))
        bits = torch.int16 if result.element_size() == 2 else torch.int32
        changed = int((poisoned.view(bits) != result.view(bits)).sum())
        job.check()
        # the interpreter's times are meaningless
        speed = _speed(path.timed(clean), clean, seen) if machine.is_gpu else None
    return lab.FlexRun(
        shape=replace(shape, dtype=machine.dtype),  # as it ran, not as planned
        place=_place(plan, kernel, machine),
        tile=path.tile,
        mask=seen.name,
        requests=len(batch),
        tokens=clean.batch.num_tokens,
        cached_tokens=int(clean.batch.seq_lens.sum()),
        elements=result.numel(),
        max_error=found.max_error,
        tolerance=found.tolerance,
        poisoned=changed,
        speed=speed,
    )


def _place(plan: Plan, kernel: str, machine: inputs.Machine) -> lab.FlexPlace:
    path, mode, note = kernel, "gpu" if machine.is_gpu else "interpreter", machine.note
    if kernel != lab.ENGINE and plan.backend == FLEX:
        note = f"{OWN_TILE}; {note}".removesuffix("; ")
    if kernel == lab.ENGINE and machine.is_gpu:
        path = f"{kernel}, compiled by torch"
    elif kernel == lab.ENGINE:
        path, mode, note = f"{kernel}, eager: dense", "eager", ""
    return lab.FlexPlace(path, mode, machine.device, note)


def _path(
    plan: Plan,
    batch: Sequence[BatchRequest],
    kernel: str,
    tile: str,
    shape: lab.FlexShape,
    machine: inputs.Machine,
    mask: Mask,
    job: Job,
) -> _Path:
    if kernel == lab.ENGINE:
        return _engine(plan, batch, tile, machine, mask)
    shipped = default_settings(machine.torch_device, bitwise=kernel == lab.OURS_BITWISE)
    settings = inputs.fitted_settings(inputs.with_tile(shipped, tile), shape, machine)
    inputs.check_size(batch, machine, inputs.tile_steps(batch, shape, settings))

    def attend(paged: PagedInputs) -> Tensor:
        if not machine.is_gpu:
            return head_by_head(paged, mask, settings, job)
        return timed(paged)()

    def timed(paged: PagedInputs) -> Callable[[], Tensor]:
        # a step is planned once for all its layers, so planning is not timed
        layer = (paged.query, paged.kv_cache)
        planned = plan_attention(paged.batch, *layer, mask=mask, settings=settings)
        return partial(planned.run, *layer)

    return _Path(attend, inputs.tile_text(settings), timed)


def head_by_head(paged: PagedInputs, mask: Mask, settings: Settings, job: Job) -> Tensor:
    """Launch one KV head at a time, with the same result, so that a stop is noticed sooner."""
    query, cache = paged.query, paged.kv_cache
    group = query.shape[1] // cache.shape[3]
    out = torch.zeros_like(query)
    first = (query[:, :group], cache[:, :, :, :1])
    planned = plan_attention(paged.batch, *first, mask=mask, settings=settings)
    for head in range(cache.shape[3]):
        job.check()
        own = slice(head * group, (head + 1) * group)
        planned.run(query[:, own], cache[:, :, :, head : head + 1], out[:, own])
    return out


def _engine(
    plan: Plan, batch: Sequence[BatchRequest], tile: str, machine: inputs.Machine, mask: Mask
) -> _Path:
    """Return the engine's path with the plan's mask blocks and tiles; refuse what vLLM refuses."""
    flex = inputs.sizes_of(plan)
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    m, n = _tile_of(tile, flex)
    inputs.check_size(batch, machine, 0)

    compute = partial(
        engine_attention,
        mask=mask,
        q_block=q,
        kv_block=None if flex.is_direct else kv,
        block_m=m,
        block_n=n,
        batch_invariant=flex.batch_invariant,
        compiled=machine.is_gpu,
    )

    def attend(paged: PagedInputs) -> Tensor:
        with warnings.catch_warnings():
            # eager was requested, and the result reports it
            warnings.filterwarnings("ignore", message="flex_attention called without")
            return compute(paged.query, paged.kv_cache, paged.batch)

    used = f"tile {m} x {n} in mask block {q} x {kv}, {flex.build} build"
    used += "; timed with its build" if machine.is_gpu else "; eager uses neither"
    return _Path(attend, used, lambda paged: partial(attend, paged))


def _tile_of(text: str, flex: FlexPlan) -> tuple[int, int]:
    """Return the explicit tile, or the plan's; both must divide the mask block."""
    assert flex.tiles is not None
    m, n = inputs.tile_sizes(text) or (flex.tiles.block_m, flex.tiles.block_n)
    blocks = (flex.mask.q_block_size, flex.mask.kv_block_size)
    for name, tile, block in zip(("queries", "keys"), (m, n), blocks, strict=True):
        if tile > 0 and block % tile == 0:
            continue
        near = min(block, 1 << max(tile, 1).bit_length() - 1)
        why = "is larger than" if tile > block else "does not divide"
        raise ScenarioError(
            "flex_tile_illegal",
            f"A tile of {tile} {name} {why} the mask block of {block}: torch has no kernel to "
            f"compile. Nearest valid: {near}.",
            field="tile",
        )
    return m, n


def _speed(attend: Callable[[], object], paged: PagedInputs, mask: Mask) -> lab.FlexSpeed:
    """Measure median GPU times with a cold L2: the launch, a large product, a large copy."""
    from workbench.kernels.bench import gpu_clock

    query = paged.query
    tokens = int(paged.batch.seq_lens.sum())
    moved = 2 * query.numel() + 2 * tokens * paged.kv_cache.shape[3] * query.shape[2]
    return lab.FlexSpeed(
        seconds=statistics.median(gpu_clock.cold_samples(attend)),
        flops=seen_pairs(paged, mask) * 4 * query.shape[1] * query.shape[2],
        moved_bytes=moved * query.element_size(),
        matmul_flops_per_s=gpu_clock.matmul_flop_per_s(query.dtype),
        copy_bytes_per_s=gpu_clock.measured_limits().copy_bytes_per_s,
    )


def seen_pairs(paged: PagedInputs, mask: Mask) -> int:
    """Count the pairs of query and key that the mask shows, of one head."""
    device, batch, total = paged.query.device, paged.batch, 0
    for i, (count, length) in enumerate(zip(batch.query_lens, batch.seq_lens, strict=True)):
        queries = torch.arange(int(length - count), int(length), device=device)[:, None]
        keys = torch.arange(int(length), device=device)[None, :]
        seen: Tensor = mask.torch_mask_mod(i, 0, queries, keys)
        total += int(seen.expand(int(count), int(length)).sum())
    return total
