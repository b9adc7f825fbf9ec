"""Batches over caches full of NaN, in guarded memory if requested, and the oracle's verdict."""

from dataclasses import dataclass, replace

import pytest
import torch

from tests.kernels.block_table.guards import GuardedMemory
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.api import AttentionPlan, plan_attention
from workbench.kernels.paged_flex.heads import cache_views
from workbench.kernels.paged_flex.layout import lay_out, random_request
from workbench.kernels.paged_flex.reference import agreement
from workbench.kernels.paged_flex.settings import Settings, Tile

SCALES = ("key_scale", "value_scale")
DEVICE = triton_mode().torch_device
INTERPRETED = triton_mode().mode == "interpreter"
interpreted = pytest.mark.skipif(not INTERPRETED, reason="only the interpreter sees every access")
SPLIT = Settings(Tile(64, 64), Tile(16, 64), split_tokens=128, fill_programs=8, as_given=True)
"""All that FAST does, in pieces that suit the interpreter."""
ONE_PATH = Settings(Tile(64, 64), one_path=True, as_given=True)
FOLDED = Settings(
    Tile(64, 32),
    Tile(64, 32),
    split_tokens=64,
    fill_programs=8,
    one_path=True,
    as_given=True,
)
"""What BITWISE does, with splits that short requests have several of."""

BOXES = replace(SPLIT, decode=Tile(16, 16), described=Tile(64, 128), path="descriptors")
"""What FAST does where no tile divides a page: two boxes in a tile, the rest of it by pointers."""


def wide(settings):
    """The same for heads of 512 and more, whose tiles of 64 keys are more than a GPU holds."""
    return settings if INTERPRETED else replace(settings, as_given=False)


class Case:
    """Requests laid out as one batch; `guarded` fences everything that a launch may touch."""

    def __init__(self, requests, block_size, *, guarded=False, **options):
        self.memory = GuardedMemory(DEVICE) if guarded else None
        place = self._fenced if guarded else lambda tensor: tensor
        self.paged = lay_out(requests, block_size, place=place, **options)
        self.query, self.cache, self.batch = (
            self.paged.query,
            self.paged.kv_cache,
            self.paged.batch,
        )
        self.value_dim = self.paged.value_dim
        shape = (*self.query.shape[:2], self.value_dim)
        self.out = place(self.query.new_full(shape, float("nan")))

    def prepared(
        self,
        mask=None,
        score=None,
        settings=SPLIT,
        *,
        lse=None,
        sinks=None,
        scales=(None, None),
        **options,
    ):
        allocate = None
        if self.memory:
            mask, score = self._fenced_tables(mask, score)

            def allocate(shape, dtype):
                return self._fenced(torch.full(shape, float("nan"), dtype=dtype, device=DEVICE))

        plan = plan_attention(
            self.batch,
            self.query,
            self.cache,
            mask=mask,
            score=score,
            settings=settings,
            allocate=allocate,
            value_dim=self.value_dim,
            **options,
        )
        return Prepared(
            plan, self, {"lse": lse, "sinks": sinks, **dict(zip(SCALES, scales, strict=True))}
        )

    def attend(self, mask=None, score=None, settings=SPLIT, **options):
        result = self.prepared(mask, score, settings, **options).run()
        if self.memory:
            self.memory.check()
        return result

    def check(
        self, mask=None, score=None, settings=SPLIT, *, lse=None, scales=(None, None), **options
    ):
        """Attend, and hold the result against float64."""
        mask = mask or masks.causal()
        result = self.attend(mask, score, settings, lse=lse, scales=scales, **options)
        cache = scaled(self.cache, scales)
        found = agreement(
            result,
            self.query,
            cache,
            self.batch,
            mask,
            score,
            value_dim=self.value_dim,
            **options,
        )
        assert found.ok, found
        assert not result[self.batch.num_tokens :].any()
        return result

    def _fenced_tables(self, mask, score):
        """The same, with fences around every row of the mask's table and around the score's."""
        if mask is not None and mask.aux is not None and mask.aux.dim() == 2:
            mask = replace(mask, aux=self.memory.rows(*mask.aux.shape).copy_(mask.aux))
        if score is not None and score.aux is not None:
            score = replace(score, aux=self._fenced(score.aux))
        return mask, score

    def _fenced(self, tensor):
        """A copy with the same strides, in memory with a fence around it."""
        words = -(-tensor.numel() * tensor.element_size() // 4)
        order = sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
        flat = self.memory.allocate((words,), torch.int32).view(tensor.dtype)[: tensor.numel()]
        inside = flat.view([tensor.shape[axis] for axis in order])
        inside = inside.permute([order.index(axis) for axis in range(tensor.dim())])
        return inside.copy_(tensor)


def scaled(cache, scales):
    """The float64 numbers that a cache of 8 bits means; another one as it is."""
    if scales[0] is None:
        return cache
    both = torch.stack([scale.double().expand(cache.shape[-2]) for scale in scales])
    return cache.to(torch.float32).double() * both[None, :, None, :, None]


@dataclass
class Prepared:
    """A plan, and the tensors of one layer."""

    plan: AttentionPlan
    case: Case
    extras: dict[str, torch.Tensor | None]

    def run(self):
        return self.plan.run(self.case.query, self.case.cache, self.case.out, **self.extras)


def live_memory(case, plan, *, whole_pages=False):
    """Return exactly what a launch may touch.

    Of the cache the tokens that its requests own, or whole pages, as descriptors read them; of the
    mask's table its rows without the fences between them.
    """
    cache = case.cache
    views, _ = cache_views(cache, case.query.shape[2], case.value_dim)
    allowed = [case.query[: case.batch.num_tokens], case.out[: case.batch.num_tokens]]
    for tensor in plan.tensors:
        allowed += [tensor] if tensor.is_contiguous() else list(tensor)
    size = views.keys.shape[1]
    ratio = case.batch.entry_tokens // size
    for row, length in zip(case.batch.rows, case.batch.seq_lens, strict=True):
        for part in range(-(-int(length) // size)):
            block = int(case.batch.block_table[row, part // ratio]) * ratio + part % ratio
            tokens = size if whole_pages else min(size, int(length) - part * size)
            allowed += [view[block, :tokens] for view in views]
    return allowed


def requests(*sizes, **options):
    """Random requests of (tokens, queries), each with a seed of its own."""
    return [random_request(*size, seed=7 + i, **options) for i, size in enumerate(sizes)]


__all__ = ["BOXES", "DEVICE", "FOLDED", "INTERPRETED", "ONE_PATH", "SPLIT", "Case", "interpreted"]
__all__ += ["live_memory", "requests"]
