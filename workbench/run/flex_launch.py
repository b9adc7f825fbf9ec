"""One launch of flex attention in the shape of a plan, checked against float64 and NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import CAUSAL
from workbench.core.flex.lab import FlexPlace, FlexRun, FlexShape
from workbench.core.flex.plan import FLEX, FlexPlan, flex_plan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.paged_flex.api import default_settings, paged_attention, prepare
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.layout import Paged, Request, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.reference import agreement
from workbench.kernels.paged_flex.settings import Settings, fitted
from workbench.run.flex_inputs import (
    AS_PLANNED,
    Machine,
    check_size,
    kernel_mask,
    machine_for,
    random_requests,
    shape_of,
    tile_sizes,
    tile_steps,
    tile_text,
    with_tile,
)
from workbench.run.flex_jobs import StopFlag, kernel_errors_as_scenario_errors
from workbench.run.flex_speed import measured_speed

OURS_FAST, OURS_BITWISE, ENGINE = PATHS = (
    "our kernel, fast",
    "our kernel, bitwise",
    "torch flex over the paged mask",
)
"""Ours walks the block table itself; torch's goes through a block mask, as the engine does."""
Attend = Callable[[Paged], Tensor]


@dataclass(frozen=True, slots=True)
class _Path:
    """How to compute a layout, the tile's description, and what is timed on a GPU."""

    attend: Attend
    tile: str
    timed: Callable[[Paged], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class FlexRequest:
    """What to launch. dtype: a name, or "as planned". tile: explicit, as "64 x 32", or empty."""

    path: str = OURS_FAST
    mask: str = CAUSAL
    mask_tokens: int = 64
    dtype: str = AS_PLANNED
    tile: str = ""


def launch_flex(
    plan: Plan,
    batch: Sequence[BatchRequest],
    request: FlexRequest | None = None,
    *,
    stop: StopFlag | None = None,
    own_mask: Mask | None = None,
) -> FlexRun:
    """Run a batch over pages of this plan: on a GPU if there is one, else interpreted or eager.

    The batch is run twice, over a cache that holds zeros and over one that holds NaN in all slots
    that must not be read; both runs must agree bit for bit. own_mask: instead of the requested one.
    Errors: ScenarioError for what a kernel refuses, and for memory that runs out; Stopped.
    """
    request, stop = request or FlexRequest(), stop or StopFlag()
    shape = shape_of(plan)
    machine = machine_for(shape.dtype, request.dtype)
    with kernel_errors_as_scenario_errors(f"This launch ({shape})", own_mask):
        mask = own_mask or kernel_mask(request.mask, request.mask_tokens, len(batch))
        path = _path(plan, batch, request, shape, machine, mask, stop)
        requests = random_requests(batch, shape, machine.dtype)
        ratio = shape.page_tokens // shape.block_size
        clean = lay_out(requests, shape.block_size, ratio=ratio, poison=0.0)
        result = path.attend(clean)
        stop.check()
        found = agreement(result, clean.query, clean.kv_cache, clean.batch, mask)
        stop.check()
        poisoned = _poisoned(requests, shape, ratio, path.attend, result)
        stop.check()
        # the interpreter's times are meaningless
        speed = measured_speed(path.timed(clean), clean, mask) if machine.is_gpu else None
    return FlexRun(
        shape,
        _place(request.path, machine),
        path.tile,
        mask.name,
        len(batch),
        clean.batch.num_tokens,
        int(clean.batch.seq_lens.sum()),
        result.numel(),
        found.max_error,
        found.tolerance,
        poisoned,
        speed,
    )


def _place(path: str, machine: Machine) -> FlexPlace:
    if machine.is_gpu:
        how = f"{path}, compiled by torch" if path == ENGINE else path
        return FlexPlace(how, "gpu", machine.device, machine.note)
    if path == ENGINE:
        return FlexPlace(f"{path}, eager: dense", "eager", machine.device, machine.note)
    return FlexPlace(path, "interpreter", machine.device, machine.note)


def _path(
    plan: Plan,
    batch: Sequence[BatchRequest],
    request: FlexRequest,
    shape: FlexShape,
    machine: Machine,
    mask: Mask,
    stop: StopFlag,
) -> _Path:
    if request.path == ENGINE:
        return _engine(plan, batch, request, machine, mask)
    device = torch.device(machine.mode.torch_device)
    shipped = default_settings(device, bitwise=request.path == OURS_BITWISE)
    settings = fitted(
        with_tile(shipped, request.tile),
        head_dim=shape.head_size,
        group=shape.group,
        dtype=machine.dtype,
    )
    check_size(batch, machine, tile_steps(batch, shape, settings))

    def attend(paged: Paged) -> Tensor:
        if not machine.is_gpu:
            return head_by_head(paged, mask, settings, stop)
        return paged_attention(
            paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings
        )

    def timed(paged: Paged) -> Callable[[], object]:
        # lists of programs are built once per step for all layers, so they are not timed
        return prepare(paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings).run

    return _Path(attend, tile_text(settings), timed)


def head_by_head(paged: Paged, mask: Mask, settings: Settings, stop: StopFlag) -> Tensor:
    """Launch one KV head at a time, with the same result, so that a stop is noticed sooner."""
    query, cache = paged.query, paged.kv_cache
    group = query.shape[1] // cache.shape[3]
    out = torch.zeros_like(query)
    for head in range(cache.shape[3]):
        stop.check()
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
    plan: Plan, batch: Sequence[BatchRequest], request: FlexRequest, machine: Machine, mask: Mask
) -> _Path:
    """Return the engine's path with the plan's mask blocks and tiles; refuse what vLLM refuses."""
    flex = flex_plan(plan)
    if flex is None:
        raise ScenarioError(
            "backend_is_not_flex", f"This path needs backend {FLEX}.", field="backend"
        )
    if flex.refusals:
        raise ScenarioError(
            flex.refusals[0].code, flex.refusals[0].message, field=flex.refusals[0].field
        )
    q, kv = flex.mask.q_block_size, flex.mask.kv_block_size
    m, n = _tile_of(request.tile, flex)
    check_size(batch, machine, 0)

    def attend(paged: Paged) -> Tensor:
        with warnings.catch_warnings():
            # eager was requested, and the result reports it
            warnings.filterwarnings("ignore", message="flex_attention called without")
            return computed(paged)

    def computed(paged: Paged) -> Tensor:
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
