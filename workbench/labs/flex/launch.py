"""One launch of flex attention in the shape of a plan, checked against float64 and NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import CAUSAL
from workbench.core.flex.lab import (
    AS_PLANNED,
    ENGINE,
    OURS_BITWISE,
    OURS_FAST,
    FlexPlace,
    FlexRun,
    FlexShape,
)
from workbench.core.flex.plan import FlexPlan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.paged_flex.api import default_settings, paged_attention, prepare
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.layout import PagedInputs, Request, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.reference import agreement
from workbench.kernels.paged_flex.settings import Settings, fitted
from workbench.labs.flex.errors import kernel_errors_as_scenario_errors
from workbench.labs.flex.inputs import (
    Machine,
    check_size,
    kernel_mask,
    machine_for,
    random_requests,
    shape_of,
    sizes_of,
    tile_sizes,
    tile_steps,
    tile_text,
    with_tile,
)
from workbench.labs.flex.speed import measured_speed
from workbench.labs.jobs import Job

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
    kernel: str = OURS_FAST,
    mask: str = CAUSAL,
    mask_tokens: int = 64,
    dtype: str = AS_PLANNED,
    tile: str = "",
    custom_mask: Mask | None = None,
    job: Job | None = None,
) -> FlexRun:
    """Run a batch over pages of this plan: on a GPU if there is one, else interpreted or eager.

    The batch is run twice, over a cache that holds zeros and over one that holds NaN in all slots
    that must not be read; both runs must agree bit for bit. tile: "64 x 32", or empty for the
    kernel's own. custom_mask: used in place of the mask of that name. Errors: ScenarioError if a
    kernel refuses, or if memory runs out; Stopped.
    """
    job = job or Job()
    shape = shape_of(plan)
    machine = machine_for(shape.dtype, dtype)
    with kernel_errors_as_scenario_errors(f"This launch ({shape})", custom_mask):
        seen = custom_mask or kernel_mask(mask, mask_tokens, len(batch))
        path = _path(plan, batch, kernel, tile, shape, machine, seen, job)
        requests = random_requests(batch, shape, machine.dtype)
        ratio = shape.page_tokens // shape.block_size
        clean = lay_out(requests, shape.block_size, ratio=ratio, poison=0.0)
        result = path.attend(clean)
        job.check()
        found = agreement(result, clean.query, clean.kv_cache, clean.batch, seen)
        job.check()
        poisoned = _poisoned(requests, shape, ratio, path.attend, result)
        job.check()
        # the interpreter's times are meaningless
        speed = measured_speed(path.timed(clean), clean, seen) if machine.is_gpu else None
    return FlexRun(
        shape=replace(shape, dtype=machine.dtype),  # as it ran, not as planned
        place=_place(kernel, machine),
        tile=path.tile,
        mask=seen.name,
        requests=len(batch),
        tokens=clean.batch.num_tokens,
        cached_tokens=int(clean.batch.seq_lens.sum()),
        elements=result.numel(),
        max_error=found.max_error,
        tolerance=found.tolerance,
        poisoned=poisoned,
        speed=speed,
    )


def _place(kernel: str, machine: Machine) -> FlexPlace:
    if machine.is_gpu:
        how = f"{kernel}, compiled by torch" if kernel == ENGINE else kernel
        return FlexPlace(how, "gpu", machine.device, machine.note)
    if kernel == ENGINE:
        return FlexPlace(f"{kernel}, eager: dense", "eager", machine.device, machine.note)
    return FlexPlace(kernel, "interpreter", machine.device, machine.note)


def _path(
    plan: Plan,
    batch: Sequence[BatchRequest],
    kernel: str,
    tile: str,
    shape: FlexShape,
    machine: Machine,
    mask: Mask,
    job: Job,
) -> _Path:
    if kernel == ENGINE:
        return _engine(plan, batch, tile, machine, mask)
    device = torch.device(machine.mode.torch_device)
    shipped = default_settings(device, bitwise=kernel == OURS_BITWISE)
    settings = fitted(
        with_tile(shipped, tile),
        head_dim=shape.head_size,
        group=shape.group,
        dtype=machine.dtype,
    )
    check_size(batch, machine, tile_steps(batch, shape, settings))

    def attend(paged: PagedInputs) -> Tensor:
        if not machine.is_gpu:
            return head_by_head(paged, mask, settings, job)
        return paged_attention(
            paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings
        )

    def timed(paged: PagedInputs) -> Callable[[], object]:
        # lists of programs are built once per step for all layers, so they are not timed
        return prepare(paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings).run

    return _Path(attend, tile_text(settings), timed)


def head_by_head(paged: PagedInputs, mask: Mask, settings: Settings, job: Job) -> Tensor:
    """Launch one KV head at a time, with the same result, so that a stop is noticed sooner."""
    query, cache = paged.query, paged.kv_cache
    group = query.shape[1] // cache.shape[3]
    out = torch.zeros_like(query)
    for head in range(cache.shape[3]):
        job.check()
        own = slice(head * group, (head + 1) * group)
        paged_attention(
            query[:, own],
            cache[:, :, :, head : head + 1],
            paged.batch,
            mask=mask,
            settings=settings,
            out=out[:, own],
        )
    return out


def _engine(
    plan: Plan, batch: Sequence[BatchRequest], tile: str, machine: Machine, mask: Mask
) -> _Path:
    """Return the engine's path with the plan's mask blocks and tiles; refuse what vLLM refuses."""
    flex = sizes_of(plan)
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    m, n = _tile_of(tile, flex)
    check_size(batch, machine, 0)

    def attend(paged: PagedInputs) -> Tensor:
        with warnings.catch_warnings():
            # eager was requested, and the result reports it
            warnings.filterwarnings("ignore", message="flex_attention called without")
            return computed(paged)

    def computed(paged: PagedInputs) -> Tensor:
        return engine_attention(
            paged.query,
            paged.kv_cache,
            paged.batch,
            mask=mask,
            q_block=q,
            kv_block=None if flex.is_direct else kv,
            block_m=m,
            block_n=n,
            batch_invariant=flex.batch_invariant,
            compiled=machine.is_gpu,
        )

    used = f"tile {m} x {n} in mask block {q} x {kv}, {flex.build} build"
    used += "; timed with its build" if machine.is_gpu else "; eager uses neither"
    return _Path(attend, used, lambda paged: lambda: attend(paged))


def _tile_of(text: str, flex: FlexPlan) -> tuple[int, int]:
    """Return the explicit tile, or the plan's; both must divide the mask block."""
    assert flex.tiles is not None
    m, n = tile_sizes(text) or (flex.tiles.block_m, flex.tiles.block_n)
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


def _poisoned(
    requests: Sequence[Request], shape: FlexShape, ratio: int, attend: Attend, clean: Tensor
) -> int:
    """Count elements that change when unread slots and padding queries are NaN."""
    poisoned = lay_out(requests, shape.block_size, ratio=ratio)
    bits = torch.int16 if clean.element_size() == 2 else torch.int32
    return int((attend(poisoned).view(bits) != clean.view(bits)).sum())
