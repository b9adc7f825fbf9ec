"""Lesson 2 (#37236): which bytes K-and-V-first misplaces, and how to query instead of guessing."""

from collections.abc import Callable
from random import Random

from workbench.core.errors import check_name
from workbench.core.layouts import shapes
from workbench.core.layouts.hybrid_rewrite import interleaved
from workbench.core.layouts.view import View, contiguous_strides
from workbench.core.versions import V0_23
from workbench.exercises.exercise import Inputs, exercise

Shape = tuple[int, ...]
AXES = (shapes.KV, shapes.NUM_BLOCKS, shapes.TOKENS, shapes.HEADS, "head_size")


class CacheShape:
    """A backend's answer to "what shape has your cache for so many blocks?"; prints its name."""

    def __init__(
        self, backend: str, cache: shapes.CacheLayout, geometry: shapes.CacheGeometry
    ) -> None:
        self._backend, self._cache, self._geometry = backend, cache, geometry

    def __call__(self, num_blocks: int) -> Shape:
        """Return the logical shape, for `num_blocks` kernel blocks."""
        return self._cache.shape(num_blocks, self._geometry)

    def __repr__(self) -> str:
        return f"the shape of {self._backend}, for 2 blocks {self(2)}"


def cache_shape(
    backend: str, block_size: int = 16, num_kv_heads: int = 2, head_size: int = 8
) -> CacheShape:
    """Return the shape of a 0.23 backend's cache. Errors: an unknown name, or no cache.

    >>> wb.cache_shape("TRITON_ATTN")
    the shape of TRITON_ATTN, for 2 blocks (2, 2, 16, 2, 8)
    """
    check_name("Backend", backend, V0_23.backends, "backend")
    cache = V0_23.backends[backend].cache
    if cache is None:
        raise ValueError(f"{backend} does not keep an attention cache")
    return CacheShape(
        backend,
        cache,
        shapes.CacheGeometry(block_size=block_size, num_kv_heads=num_kv_heads, head_size=head_size),
    )


def _block_counts(_random: Random) -> Inputs:
    yield from ((count,) for count in range(1, 13))


@exercise(2, "which halves of which blocks are misplaced", _block_counts, unordered=True)
def misplaced_halves(num_blocks: int) -> list[tuple[str, int]]:
    """Return the halves of blocks that are in another block's page, K and V outermost.

    The tensor holds K of every block, then V of every block; a page is two halves long.
    """
    places = [(kind, block) for kind in ("K", "V") for block in range(num_blocks)]
    return [(kind, block) for i, (kind, block) in enumerate(places) if i // 2 != block]


def _backends(random: Random) -> Inputs:
    for name in ("ROCM_ATTN", "TRITON_ATTN", "FLASHINFER", "CPU_ATTN", "TRITON_MLA"):
        yield (cache_shape(name),)
        yield (cache_shape(name, 16 * random.randrange(1, 9), random.choice((1, 2, 4))),)


@exercise(2, "the dimension that counts blocks", _backends)
def block_dimension(cache_shape: Callable[[int], Shape]) -> int:
    """Return which dimension counts the blocks, found by querying the backend."""
    return cache_shape(shapes.BLOCK_SENTINEL).index(shapes.BLOCK_SENTINEL)


def _shapes(random: Random) -> Inputs:
    yield ((2, 2, 16, 2, 8),)
    yield ((2, 3, 16, 2, 8),)
    for _ in range(30):
        blocks, heads = random.randrange(1, 9), random.choice((1, 2, 4, 8))
        yield ((2, blocks, 16 * random.randrange(1, 5), heads, 8 * random.randrange(1, 9)),)


@exercise(2, "the strides after the rewrite", _shapes)
def rewritten_strides(shape: Shape) -> tuple[int, ...]:
    """Return the strides of a contiguous (2, blocks, ...) cache after the rewrite."""
    return interleaved(
        View(AXES[: len(shape)], shape, contiguous_strides(shape), 0, "bfloat16")
    ).strides
