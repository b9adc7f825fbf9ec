"""The launches of a planned batch, for tensors of given strides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from workbench.kernels.launching import Launch
from workbench.kernels.paged_flex.attend_kernel import attend_kernel
from workbench.kernels.paged_flex.bundles import Scratch, Step, Strides
from workbench.kernels.paged_flex.combine_kernel import combine_kernel
from workbench.kernels.paged_flex.heads import Views, padded_head_dim
from workbench.kernels.paged_flex.layer import Layer
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.paths import NARROWEST_BOX, box_of, rows_of
from workbench.kernels.paged_flex.programs import Work
from workbench.kernels.paged_flex.settings import Settings, Tile
from workbench.kernels.paged_flex.shapes import Shapes
from workbench.kernels.paged_flex.work import PagedBatch

LOG2_E = 1.4426950408889634
ROWS_OF_PREFILL = 128
COMBINE_DIMS = 64
"""Dims that one program of the combine adds up: two of each thread of a warp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What is known of a step before any layer runs."""

    batch: PagedBatch
    shapes: Shapes
    dtype: torch.dtype
    device: torch.device
    mask: Mask
    score: Score | None
    scale: float
    settings: Settings
    parts: int
    """Programs that share a KV head's query heads."""
    work: Work
    tables: Mapping[str, torch.Tensor]
    """What kernels look up, and the lists of programs."""
    partial: torch.Tensor
    state: torch.Tensor

    @property
    def num_tokens(self) -> int:
        """Return the number of queries."""
        return self.batch.num_tokens

    @property
    def factor(self) -> float:
        """Return the exponent's factor; the scale is omitted if a score has applied it already."""
        return LOG2_E if self.score else self.scale * LOG2_E


def attend_launches(planned: Planned, layer: Layer) -> tuple[Launch, ...]:
    """Return a launch for each kind of tile; what changes between calls is a layer's tensors."""
    shapes, score, tables = planned.shapes, planned.score, planned.tables
    scratch = Scratch(planned.partial, planned.state)
    step = Step(
        query_start=tables["starts"],
        seq_lens=tables["lengths"],
        rows=tables["rows"],
        table=tables["table"],
        mask_aux=tables["mask"],
        score_aux=tables["score"],
    )
    keys = layer.tensors.key
    rows = rows_of(Views(keys, layer.tensors.value))
    strides = Strides(
        query_token=layer.tensors.query.stride(0),
        query_head=layer.tensors.query.stride(1),
        block=keys.stride(0),
        token=keys.stride(1),
        head=keys.stride(2),
        rows=rows.total,
        block_rows=rows.per_block,
        value_rows=rows.to_value,
        table=tables["table"].stride(0),
        mask_aux=tables["mask"].stride(0),
    )
    # partials have as many rows as the widest split tile, fewer than the tile
    numbers = (planned.state.shape[-1], planned.scale, planned.factor)
    launches = []
    for i, launched in enumerate(planned.work.attend):
        tile, items = launched.tile, tables[f"attend {i}"]
        described = tile.path == "descriptors"
        options = {
            **_head_options(planned),
            "KEY_DIM": shapes.head.key,
            "BLOCK_D": shapes.head.parts_of_key[0],
            "BLOCK_R": shapes.head.parts_of_key[1],
            # what pointers load is kept for one kind of operand, and would not be on its way
            "IN_KEY": described and shapes.head.share_a_tile,
            "BLOCK_M": tile.block_m,
            "BLOCK_N": tile.block_n,
            "BLOCK_SIZE": shapes.block_size,
            "RATIO": planned.batch.entry_tokens // shapes.block_size,
            "FOLD": launched.fold_tokens,
            "MASK_MOD": planned.mask.mask_mod,
            "SPAN": planned.mask.span,
            "MASK_PARAM": planned.mask.param,
            "SCORE_MOD": score.score_mod if score else None,
            "SCORE_PARAM": score.param if score else 0.0,
            **_walks(tile, shapes.block_size, described=described),
            "IN_ROWS": described and rows.to_value > 0,
            "EACH_MAXIMUM": planned.settings.one_path or _is_narrow(tile),
            "num_warps": tile.num_warps,
            "num_stages": tile.num_stages,
        }
        fixed = (scratch, items, step, layer.result_strides, strides, *numbers)
        grid = (len(items), shapes.kv_heads * planned.parts)
        launches.append(
            Launch(attend_kernel, grid, fixed, options, planned.device, describes=described)
        )
    return tuple(launches)


def _is_narrow(tile: Tile) -> bool:
    """Return whether all threads agree too often: see `attend_tiles`."""
    # of an H200: with 128 x 64 asking takes longer, with 128 x 128 and with 16 x 64, which waits
    # for its keys, the maximum does
    return tile.block_m >= ROWS_OF_PREFILL and tile.block_n < ROWS_OF_PREFILL


def _walks(tile: Tile, block_size: int, *, described: bool) -> dict[str, int]:
    """Return which keys of a page descriptors copy, and how many at once."""
    box = box_of(tile, block_size)
    body = block_size // box * box if described else 0
    rest = min(tile.block_n, NARROWEST_BOX) if body else tile.block_n
    return {"BODY": body, "BOX": box, "REST": rest}


def combine_launches(planned: Planned, layer: Layer) -> tuple[Launch, ...]:
    """Return a launch for each level of adding up; see `Layer.combined` for what changes."""
    shapes, partial = planned.shapes, planned.partial
    launches = []
    for i in range(len(planned.work.combine)):
        items, block_v = planned.tables[f"combine {i}"], partial.shape[3]
        options = {
            **_head_options(planned),
            "BLOCK_C": min(block_v, COMBINE_DIMS),
            "num_warps": 1,
        }
        scratch = Scratch(partial, planned.state)
        fixed = (scratch, items, layer.result_strides, partial.shape[2])
        grid = (len(items), shapes.query_heads, block_v // options["BLOCK_C"])
        launches.append(Launch(combine_kernel, grid, fixed, options, planned.device))
    return tuple(launches)


def _head_options(planned: Planned) -> dict[str, Any]:
    """Return what both kernels have to know of heads."""
    shapes = planned.shapes
    return {
        "VALUE_DIM": shapes.head.value,
        "BLOCK_V": padded_head_dim(shapes.head.value),
        "GROUP": shapes.group // planned.parts,
        "PARTS": planned.parts,
    }
