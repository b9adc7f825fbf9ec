"""What flex attention makes of a plan: mask block, build, tiles, and the first thing that stops it.

Each number follows from the explicit fields and the cache block; nothing here is decided twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workbench.core.arithmetic import cdiv
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import ScenarioError
from workbench.core.flex import sizes
from workbench.core.flex.tiles import (
    LARGEST_SHARED_MEMORY_BYTES,
    Tiles,
    TooLarge,
    illegal_tile,
    kernel_tiles,
    too_large_tile,
)
from workbench.core.plan import Plan
from workbench.core.trace import Citation, Rule, Step

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

FLEX = "FLEX_ATTENTION"
READ_AT = Citation(
    "0.23", "v1/attention/backends/flex_attention.py", ("get_kernel_options",), "#41252"
)
TILES = Rule(
    "flex_tiles",
    "Kernel tile (queries, keys)",
    "explicit tiles, else 16 under batch invariance, else the mask block (direct) or 64 "
    "(float32: 32) up to the mask block, halved below 144 KiB, at least 16",
    "tokens",
)


@dataclass(frozen=True)
class FlexPlan:
    """Sizes in tokens of the three nested grids: tile in mask block in cache block."""

    fields: sizes.FlexFields
    cache_block_size: int
    """The kernel block."""
    configured_block_size: int
    """The block before any alignment."""
    small: bool
    """Whether the default mask block is small."""
    batch_invariant: bool
    dtype: str
    head_size: int
    """In elements."""
    shared_memory_bytes: int | None = None
    """What the tiles are chosen for, None without a limit."""

    @cached_property
    def mask(self) -> sizes.MaskBlocks:
        """Return the mask block, and why it is refused."""
        return sizes.mask_blocks(self.fields, self.cache_block_size, small=self.small)

    @property
    def is_direct(self) -> bool:
        """Return whether the mask is listed from the block table, not evaluated pair by pair."""
        # A list of pages is a list of mask blocks only where both have the same size.
        return self.small and self.mask.kv_block_size == self.cache_block_size

    @property
    def build(self) -> str:
        """Return how the mask is built, in one word."""
        return "direct" if self.is_direct else "generic"

    @cached_property
    def tiles(self) -> Tiles | None:
        """Return the tile of the kernel; None where the mask block is refused."""
        if self.mask.refusal is not None:
            return None
        return kernel_tiles(
            self.fields,
            self.mask.q_block_size,
            self.mask.kv_block_size,
            direct=self.is_direct,
            dtype=self.dtype,
            shared_memory_bytes=self.shared_memory_bytes,
            batch_invariant=self.batch_invariant,
        )

    @cached_property
    def refusals(self) -> tuple[sizes.FlexRefusal, ...]:
        """Return what stops the start, in the engine's order."""
        # While layers are built, while the metadata builder is, while the kernel is compiled.
        found = []
        if self.batch_invariant:
            found.append(sizes.too_large_for_cache_block(self.fields, self.configured_block_size))
        found.append(self.mask.refusal)
        if self.tiles is not None:
            found.append(illegal_tile(self.tiles, self.mask.q_block_size, self.mask.kv_block_size))
        return tuple(refusal for refusal in found if refusal is not None)

    @property
    def key_tile_bytes(self) -> int | None:
        """Return the bytes of one tile of keys, the least that a program keeps in shared memory."""
        if self.tiles is None:
            return None
        return self.tiles.block_n * self.head_size * FLOAT_BYTES[self.dtype]

    def too_large(self, limit_bytes: int = LARGEST_SHARED_MEMORY_BYTES) -> TooLarge | None:
        """Return why the tile does not fit into a program's shared memory, or None if it does."""
        if self.tiles is None:
            return None
        return too_large_tile(self.tiles, self.head_size, FLOAT_BYTES[self.dtype], limit_bytes)

    def tiles_step(self) -> Step:
        """Return the choice of the tiles with its operands. Errors: ValueError without tiles."""
        if self.tiles is None:
            raise ValueError("the mask block is refused: see refusals")
        operands = {
            "q_block_size": self.mask.q_block_size,
            "kv_block_size": self.mask.kv_block_size,
            "build": self.build,
            "dtype": self.dtype,
            "shared_memory_bytes": self.shared_memory_bytes,
            "block_m": self.fields.block_m,
            "block_n": self.fields.block_n,
            "batch_invariant": self.batch_invariant,
        }
        result = (self.tiles.block_m, self.tiles.block_n)
        return Step(TILES, operands, result, f"{self.build} build", READ_AT)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of the three nested grids."""
        from workbench.views.flex.figure import nested_grids

        return nested_grids(self, theme)

    def __repr__(self) -> str:
        from workbench.views.flex.text import flex_text

        return flex_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.flex.text import flex_html

        return flex_html(self)


def fields_of(settings: Settings) -> sizes.FlexFields:
    """Return the four explicit fields."""
    return sizes.FlexFields(*(getattr(settings, name) for name in sizes.FLEX_FIELDS))


def flex_plan(plan: Plan, shared_memory_bytes: int | None = None) -> FlexPlan | None:
    """Return the flex sizes of a plan; None with another backend or without a kernel block."""
    # shared_memory_bytes are opt-in bytes of one program on the device, as vLLM queries them.
    settings, attention = plan.settings, plan.model.attention
    if plan.backend != FLEX or plan.kernel_block_size is None or attention is None:
        return None
    return FlexPlan(
        fields_of(settings),
        cache_block_size=plan.kernel_block_size,
        configured_block_size=settings.block_size or plan.rules.default_block_size,
        small=sizes.small_blocks(settings.torch_version),
        batch_invariant=settings.batch_invariant,
        dtype=plan.model_dtype,
        head_size=attention.head_size,
        shared_memory_bytes=shared_memory_bytes,
    )


def required_flex_plan(plan: Plan) -> FlexPlan:
    """Return the flex sizes of a plan. Errors: ScenarioError where it has none."""
    flex = flex_plan(plan)
    if flex is None:
        raise ScenarioError(
            "backend_is_not_flex",
            f"This needs backend {FLEX}, and the plan has {plan.backend or 'none'}: "
            f"wb.resolve(plan.scenario, backend={FLEX!r}).",
            field="backend",
        )
    return flex


@dataclass(frozen=True, slots=True)
class MaskMemory:
    """Bytes that flex attention keeps alongside the cache.

    kv_indices_bytes: the persistent list of KV blocks, int32 [query groups, entries of a group].
    inverse_table_bytes: physical to logical block, int64 [requests, blocks of the pool].
    pairs: (query, slot) pairs that the generic build evaluates for a full step.
    """

    kv_indices_bytes: int
    inverse_table_bytes: int
    pairs: int


def mask_memory(plan: Plan, flex: FlexPlan, num_blocks: int) -> MaskMemory:
    """Return what the mask of a plan costs over a pool of `num_blocks`."""
    # One buffer grows with the longest request, one with the whole pool, used or not.
    block, queries = flex.cache_block_size, flex.mask.q_block_size
    # Each query of a mask block may name every page of the longest request.
    entries = queries * cdiv(plan.max_model_len, block)
    return MaskMemory(
        4 * cdiv(plan.max_num_batched_tokens, queries) * entries,
        8 * plan.max_num_seqs * num_blocks,
        plan.max_num_batched_tokens * num_blocks * block,
    )
