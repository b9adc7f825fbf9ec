"""Attention planned once for a batch, and run for each layer: `plan_attention`, `run`."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.launching import ALIGNMENT, Launch
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.bundles import Extras, Tensors
from workbench.kernels.paged_flex.device import default_settings, limits_of
from workbench.kernels.paged_flex.fitting import fitted, heads_per_tile
from workbench.kernels.paged_flex.heads import Views, cache_views, padded_head_dim
from workbench.kernels.paged_flex.launches import Planned, attend_launches, combine_launches
from workbench.kernels.paged_flex.layer import Layer, check_extras
from workbench.kernels.paged_flex.lookup_tables import check_tables
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.mods import check_mods
from workbench.kernels.paged_flex.paths import check_layer, with_paths
from workbench.kernels.paged_flex.programs import Work, work_of
from workbench.kernels.paged_flex.settings import Settings
from workbench.kernels.paged_flex.shapes import check_kind, checked_shapes
from workbench.kernels.paged_flex.upload import uploaded
from workbench.kernels.paged_flex.work import PagedBatch

FLOAT8_CAPABILITY = (8, 9)
"""From which on Triton converts float8_e4m3fn."""
NO_EXTRAS = Extras()
Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Bound:
    """The launches for tensors of certain shapes and strides."""

    attend: tuple[Launch, ...]
    combine: tuple[Launch, ...]
    values_offset: int
    """Bytes from the first key to the first value."""
    has_more: bool
    """Queries follow those of the batch."""


class AttentionPlan:
    """All of a batch's attention that does not depend on a layer's numbers; `run` may be repeated.

    The device has the lists of programs and the scratch, so `run` copies nothing and, once it has
    compiled, waits for nothing: a CUDA graph may capture it.
    """

    def __init__(self, planned: Planned) -> None:
        self._planned = planned
        self._bound: dict[object, _Bound] = {}
        self._out: torch.Tensor | None = None

    @property
    def work(self) -> Work:
        """Return the programs of one KV head."""
        return self._planned.work

    @property
    def settings(self) -> Settings:
        """Return the settings, fitted to head, dtype and device, with the path of each tile."""
        return self._planned.settings

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the lists of programs."""
        return self.work.metadata_bytes

    @property
    def partial_bytes(self) -> int:
        """Return the scratch of split tiles. Like `metadata_bytes`, it grows with the batch, never
        with the cache.
        """  # noqa: D205 - one sentence and what follows from it
        tensors = (self._planned.partial, self._planned.state)
        return sum(x.numel() * x.element_size() for x in tensors) if self.work.partials else 0

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """Return what launches read and write apart from a layer's tensors."""
        return (*self._planned.tables.values(), self._planned.partial, self._planned.state)

    def run(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        out: torch.Tensor | None = None,
        *,
        lse: torch.Tensor | None = None,
        sinks: torch.Tensor | None = None,
        key_scale: torch.Tensor | None = None,
        value_scale: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Launch the attention of one layer: of each kind of tile, then of what combines splits.

        Shapes and dtypes are those of the plan. Without `out` the result is in a tensor that the
        plan owns: the next run overwrites it. lse, sinks, scales: as in `paged_attention`. The
        first run with tensors of new strides checks them and compiles; later ones only launch.
        """
        has_extras = not (lse is sinks is key_scale is value_scale is None)
        extras = Extras(lse, sinks, key_scale, value_scale) if has_extras else NO_EXTRAS
        key = _key(query, kv_cache, out, extras)
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self._bind(query, kv_cache, out, extras)
        if bound.has_more:
            self._clear_more(out, lse)
        if out is None:
            out = self._own_out(query)
        first, keys, target = query.data_ptr(), kv_cache.data_ptr(), out.data_ptr()
        values = keys + bound.values_offset
        aligned = not (first | keys | values | target) % ALIGNMENT
        if not aligned and (keys | values) % ALIGNMENT:
            check_layer(self.settings, self._views(kv_cache))
        more = extras
        if has_extras:
            more = Extras(*[None if x is None else x.data_ptr() for x in extras])
        place = bound.attend[0].place() if aligned and bound.attend else None
        for launch in bound.attend:
            if not launch.start(place, ((first, keys, values, target), more)):
                launch.first(self._layer(query, kv_cache, out, extras).attended, remember=aligned)
        for launch in bound.combine:
            if not launch.start(place, (target, more)):
                launch.first(self._layer(query, kv_cache, out, extras).combined, remember=aligned)
        return out

    def _clear_more(self, out: torch.Tensor | None, lse: torch.Tensor | None) -> None:
        """Clear the results of queries that follow those of the batch."""
        for result, value in ((out, 0.0), (lse, -math.inf)):
            if result is not None:
                result[self._planned.num_tokens :].fill_(value)

    def _own_out(self, query: torch.Tensor) -> torch.Tensor:
        if self._out is None or self._out.shape[0] != query.shape[0]:
            self._out = query.new_empty((*query.shape[:2], self._planned.shapes.head.value))
            # no program ever writes what is after the batch
            self._out[self._planned.num_tokens :].zero_()
        return self._out

    def _bind(
        self,
        query: torch.Tensor,
        kv_cache: torch.Tensor,
        out: torch.Tensor | None,
        extras: Extras,
    ) -> _Bound:
        planned, head = self._planned, self._planned.shapes.head
        shapes, views = checked_shapes(
            query,
            kv_cache,
            planned.batch,
            out=out,
            scale=None,
            value_dim=head.value if head.in_key else None,
        )
        if (shapes, query.dtype, query.device) != (planned.shapes, planned.dtype, planned.device):
            raise PagedFlexError(
                f"the plan is for {planned.shapes}, {planned.dtype} on {planned.device}; got "
                f"{shapes}, {query.dtype} on {query.device}. Plan again, or give the tensors of a "
                "layer like the planned one.",
                field="query",
                given=str(shapes),
                limit=str(planned.shapes),
            )
        out = self._own_out(query) if out is None else out
        layer = Layer(Tensors(query, *views, out), extras)
        check_extras(layer, shapes)
        check_layer(self.settings, views)
        return _Bound(
            attend=attend_launches(planned, layer),
            combine=combine_launches(planned, layer),
            values_offset=views.values.data_ptr() - views.keys.data_ptr(),
            has_more=len(query) > planned.num_tokens,
        )

    def _views(self, kv_cache: torch.Tensor) -> Views:
        head = self._planned.shapes.head
        return cache_views(kv_cache, head.key, head.value)[0]

    def _layer(
        self, query: torch.Tensor, kv_cache: torch.Tensor, out: torch.Tensor, extras: Extras
    ) -> Layer:
        return Layer(Tensors(query, *self._views(kv_cache), out), extras)


def _key(
    query: torch.Tensor, kv_cache: torch.Tensor, out: torch.Tensor | None, extras: Extras
) -> object:
    """Return what launches depend on; None where something is not a tensor: it is refused later."""
    # most layers have no extras, and this is a third of what Python takes of a run
    more = () if extras is NO_EXTRAS else map(_form, extras)
    try:
        cache = (kv_cache.shape, kv_cache.stride(), kv_cache.dtype, kv_cache.device)
        return (query.shape, query.stride(), query.dtype, query.device, cache, _form(out), *more)
    except AttributeError:
        return None


def _form(x: torch.Tensor | None) -> object:
    return x if x is None else (x.shape, x.stride(), x.dtype, x.device)


def plan_attention(
    batch: PagedBatch,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    *,
    mask: Mask | None = None,
    score: Score | None = None,
    scale: float | None = None,
    settings: Settings | None = None,
    allocate: Allocate | None = None,
    value_dim: int | None = None,
) -> AttentionPlan:
    """Plan `paged_attention` for all layers with tensors like these, without launching.

    Of query and kv_cache shapes, dtypes and the device count, and whether descriptors can copy
    kv_cache, as they then must be able to in every layer. What depends on the batch happens here:
    tables are checked, mask and scores read, programs listed, and all lists copied to the device
    at once. `allocate` gives the scratch of split requests.
    """
    mask = masks.causal() if mask is None else mask
    shapes, views = checked_shapes(
        query, kv_cache, batch, out=None, scale=scale, value_dim=value_dim
    )
    check_mods(mask, score)
    device = query.device
    limits = limits_of(device)
    if kv_cache.dtype == torch.float8_e4m3fn and limits and limits.capability < FLOAT8_CAPABILITY:
        raise PagedFlexError(
            f"kv_cache is float8_e4m3fn, which devices of compute capability {limits.capability} "
            f"do not convert; {FLOAT8_CAPABILITY} is needed. Give int8, float16 or bfloat16.",
            field="kv_cache",
            given=limits.capability,
            limit=FLOAT8_CAPABILITY,
        )
    settings = default_settings(device, bitwise=False) if settings is None else settings
    check_kind("settings", settings, Settings, "Settings, such as settings.FAST, or None")
    check_tables(mask, score, batch, heads=shapes.query_heads)
    fit = fitted(
        settings,
        head_dim=shapes.head.key,
        value_dim=shapes.head.value,
        group=shapes.group,
        dtype=str(query.dtype).removeprefix("torch."),
        limits=limits,
    )
    group = heads_per_tile(fit.prefill, shapes.group)
    parts = shapes.group // group
    fit = with_paths(fit, views, limits)
    work = work_of(batch, fit, mask, group=group, kv_heads=shapes.kv_heads * parts)
    numbers = {
        "starts": batch.query_start_loc,
        "lengths": batch.seq_lens,
        "rows": batch.rows,
        "table": batch.block_table,
        "mask": mask.aux,
        "nothing": None,
        **{f"attend {i}": launched.items for i, launched in enumerate(work.attend)},
        **{f"combine {i}": items for i, items in enumerate(work.combine)},
    }
    tables = {name: (table, torch.int32) for name, table in numbers.items()}
    on_device = uploaded({**tables, "score": (score.aux if score else None, torch.float32)}, device)

    def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    # what is never read where nothing is split
    partial = state = on_device["nothing"].view(torch.float32)
    if work.partials:
        # float32, as the accumulator is: a partial is not rounded
        rows, block_v = work.partial_tokens * group, padded_head_dim(shapes.head.value)
        allocate = allocate or empty
        heads = (work.partials, shapes.kv_heads * parts)
        partial = allocate((*heads, rows, block_v), torch.float32)
        state = allocate((*heads, 2, rows), torch.float32)
    return AttentionPlan(
        Planned(
            batch=batch,
            shapes=shapes,
            dtype=query.dtype,
            device=device,
            mask=mask,
            score=score,
            scale=1.0 / math.sqrt(shapes.head.key) if scale is None else float(scale),
            settings=fit,
            parts=parts,
            work=work,
            tables=on_device,
            partial=partial,
            state=state,
        )
    )


__all__ = ["AttentionPlan", "plan_attention"]
