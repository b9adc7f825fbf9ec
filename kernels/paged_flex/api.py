"""`paged_attention`: queries of a mixed batch over the pages of its requests."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.attend_kernel import attend_kernel
from workbench.kernels.paged_flex.combine_kernel import combine_kernel
from workbench.kernels.paged_flex.lookup_tables import check_tables
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.mods import check_mods
from workbench.kernels.paged_flex.settings import Settings, Tile, fitted, shipped
from workbench.kernels.paged_flex.shapes import Shapes, checked_shapes, padded_head_dim
from workbench.kernels.paged_flex.work import PagedBatch, Work, paged_batch, work_of

LOG2_E = 1.4426950408889634
Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch, ready to go."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    options: dict[str, Any]

    def __call__(self) -> None:
        """Start it."""
        self.kernel[self.grid](*self.arguments, **self.options)


@dataclass(frozen=True, slots=True)
class PreparedAttention:
    """A checked call whose metadata is on the device: `run` may be called again and again."""

    out: torch.Tensor
    """[tokens, query_heads, head_dim], what `run` fills."""
    launches: tuple[Launch, ...]
    work: Work
    settings: Settings
    num_tokens: int
    partial_bytes: int
    """Scratch of split decodes. Neither this nor `metadata_bytes` grows with the cache."""

    @property
    def metadata_bytes(self) -> int:
        """Return the bytes of the lists of programs."""
        return self.work.metadata_bytes

    def run(self) -> torch.Tensor:
        """Launch: attention of prefill tiles, of decodes, and the combine of their splits."""
        self.out[self.num_tokens :].zero_()
        for launch in self.launches:
            launch()
        return self.out


def paged_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    mask: Mask | None = None,
    score: Score | None = None,
    scale: float | None = None,
    settings: Settings | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return attention [tokens, heads, dim] of query [tokens, heads, dim] over kv_cache.

    kv_cache: [num_blocks, 2, block, kv_heads, head_dim], keys then values, any strides whose last
    is 1; a block of any length, which divides the batch's entry_tokens: manager blocks in the
    table over a cache of kernel blocks are expanded while the kernel walks. float32, float16,
    bfloat16 (not in the interpreter). mask: causal if None. scale: of the scores,
    1/sqrt(head_dim) if None. settings: the fastest for the device if None. Tokens of dummy
    requests, tokens that see nothing and tokens after the batch get zeros.

    A key or value that a token does not see never reaches its result, NaN included; a token that
    sees a value which is not finite becomes NaN. PagedFlexError before anything is launched.
    """
    return prepare(
        query, kv_cache, batch, mask=mask, score=score, scale=scale, settings=settings, out=out
    ).run()


def prepare(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    mask: Mask | None = None,
    score: Score | None = None,
    scale: float | None = None,
    settings: Settings | None = None,
    out: torch.Tensor | None = None,
    allocate: Allocate | None = None,
) -> PreparedAttention:
    """Prepare `paged_attention` without launching.

    `allocate` gives the scratch of split decodes.
    """
    mask = mask or masks.causal()
    shapes = checked_shapes(query, kv_cache, batch, out=out, scale=scale)
    check_mods(mask, score)
    check_tables(mask, score, batch, heads=shapes.query_heads)
    fit = fitted(
        settings or default_settings(query.device),
        head_dim=shapes.head_dim,
        group=shapes.group,
        dtype=str(query.dtype).removeprefix("torch."),
    )
    work = work_of(batch, fit, group=shapes.group, kv_heads=shapes.kv_heads)
    if out is None:
        out = torch.empty_like(query, memory_format=torch.contiguous_format)
    device = query.device

    def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=device)

    call = _Call(
        query=query,
        kv_cache=kv_cache,
        out=out,
        batch=batch,
        mask=mask,
        score=score,
        scale=_scale(scale, shapes),
        shapes=shapes,
        settings=fit,
    )
    launches, scratch = _launches(call, work, allocate or empty)
    # scratch only: what grows with the batch, never with the cache
    bytes_ = sum(tensor.numel() * tensor.element_size() for tensor in scratch)
    return PreparedAttention(
        out=out,
        launches=launches,
        work=work,
        settings=fit,
        num_tokens=batch.num_tokens,
        partial_bytes=bytes_,
    )


def default_settings(device: torch.device, *, bitwise: bool = False) -> Settings:
    """Return the shipped settings for a device; the interpreter's are those without wgmma."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    capability = torch.cuda.get_device_capability(device) if nvidia else None
    return shipped(bitwise=bitwise, capability=capability)


@dataclass(frozen=True, slots=True)
class _Call:
    query: torch.Tensor
    kv_cache: torch.Tensor
    out: torch.Tensor
    batch: PagedBatch
    mask: Mask
    score: Score | None
    scale: float
    shapes: Shapes
    settings: Settings


def _scale(scale: float | None, shapes: Shapes) -> float:
    return 1.0 / math.sqrt(shapes.head_dim) if scale is None else float(scale)


def _launches(
    call: _Call, work: Work, allocate: Allocate
) -> tuple[tuple[Launch, ...], tuple[torch.Tensor, ...]]:
    """Return the launches, and the scratch that they share."""
    device, shapes, settings = call.query.device, call.shapes, call.settings
    launches = []
    # placeholder for scratch pointers that a launch without splits never reads
    nothing = torch.empty((1,), dtype=torch.float32, device=device)
    attend = _attend_launches(call)
    if len(work.prefill):
        items = torch.from_numpy(work.prefill).to(device)
        # one path: a prefill adds keys up in the splits of a decode, for the same bits
        fold = work.split_tokens if settings.one_path else 0
        launches.append(attend(items, settings.prefill, fold, nothing, nothing, fold=True))
    if not len(work.decode):
        return tuple(launches), ()
    assert settings.decode is not None
    items = torch.from_numpy(work.decode).to(device)
    if not work.split_tokens:
        launches.append(attend(items, settings.decode, 0, nothing, nothing))
        return tuple(launches), ()
    # float32, as the accumulator is: a partial is not rounded
    partials, block_d = (len(items), shapes.kv_heads), padded_head_dim(shapes.head_dim)
    rows = work.decode_queries * shapes.group
    partial = allocate((*partials, rows, block_d), torch.float32)
    state = allocate((*partials, 2, rows), torch.float32)
    launches.append(attend(items, settings.decode, work.split_tokens, partial, state))
    launches.append(_combine_launch(call, work, partial, state))
    return tuple(launches), (partial, state)


def _attend_launches(call: _Call) -> Callable[..., Launch]:
    batch, shapes, score, device = call.batch, call.shapes, call.score, call.query.device
    query, cache, out = call.query, call.kv_cache, call.out
    starts, lengths, rows = (
        torch.from_numpy(array).to(device)
        for array in (batch.query_start_loc, batch.seq_lens, batch.rows)
    )
    table = torch.as_tensor(batch.block_table).to(device=device, dtype=torch.int32)
    mask_aux = _aux(call.mask.aux, torch.int32, device)
    score_aux = _aux(score.aux if score else None, torch.float32, device)
    shared = (starts, lengths, rows, table, mask_aux, score_aux)
    strides = (
        *(query.stride(0), query.stride(1), out.stride(0), out.stride(1)),
        *(cache.stride(0), cache.stride(2), cache.stride(3)),
        *(table.stride(0), mask_aux.stride(0)),
    )

    def launch(
        items: torch.Tensor,
        tile: Tile,
        split: int,
        partial: torch.Tensor,
        state: torch.Tensor,
        *,
        fold: bool = False,
    ) -> Launch:
        tensors = (query, cache[:, 0], cache[:, 1], out, partial, state, items, *shared)
        options = {
            "HEAD_DIM": shapes.head_dim,
            "BLOCK_D": padded_head_dim(shapes.head_dim),
            "GROUP": shapes.group,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_SIZE": shapes.block_size,
            "RATIO": batch.entry_tokens // shapes.block_size,
            "SPLIT": split,
            "FOLD": fold and split > 0,
            "MASK_MOD": call.mask.mask_mod,
            "SPAN": call.mask.span,
            "MASK_PARAM": call.mask.param,
            "SCORE_MOD": score.score_mod if score else None,
            "SCORE_PARAM": score.param if score else 0.0,
            "ONE_PATH": call.settings.one_path,
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }
        # partials have as many rows as the widest decode, fewer than the tile
        rows = state.shape[-1]
        arguments = (*tensors, *strides, rows, call.scale, _factor(call))
        return Launch(attend_kernel, (len(items), shapes.kv_heads), arguments, options)

    return launch


def _combine_launch(call: _Call, work: Work, partial: torch.Tensor, state: torch.Tensor) -> Launch:
    device, shapes, out = call.query.device, call.shapes, call.out
    tile = call.settings.decode
    assert tile is not None
    arguments = (
        out,
        partial,
        state,
        torch.from_numpy(work.combine).to(device),
        torch.from_numpy(call.batch.query_start_loc).to(device),
        out.stride(0),
        out.stride(1),
        partial.shape[2],
        _factor(call),
    )
    options = {
        "HEAD_DIM": shapes.head_dim,
        "BLOCK_D": partial.shape[3],
        "GROUP": shapes.group,
        "BLOCK_M": tile.block_m,
        "num_warps": 4,
    }
    return Launch(combine_kernel, (len(work.combine), shapes.kv_heads), arguments, options)


def _factor(call: _Call) -> float:
    """Return the exponent's factor; the scale is omitted if a score has applied it already."""
    return LOG2_E if call.score else call.scale * LOG2_E


def _aux(aux: torch.Tensor | None, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if aux is None:
        return torch.zeros((1, 1), dtype=dtype, device=device)
    aux = aux.to(device=device, dtype=dtype)
    # a kernel steps from row to row by the stride, so rows may be apart
    return aux if aux.stride(-1) == 1 else aux.contiguous()


__all__ = ["Launch", "PagedBatch", "PreparedAttention", "default_settings"]
__all__ += ["paged_attention", "paged_batch", "prepare"]
