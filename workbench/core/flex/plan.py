"""What flex attention makes of a plan: mask block, build, tiles, and the first thing that stops it.

The order is the engine's: the check while layers are built, the mask blocks while the metadata
builder is built, the tiles while the kernel is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.core.arithmetic import cdiv
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import ScenarioError
from workbench.core.flex.sizes import (
    FlexFields,
    FlexRefusal,
    MaskBlocks,
    is_direct,
    mask_blocks,
    supports_small_blocks,
    too_large_for_cache_block,
)
from workbench.core.flex.tiles import (
    LARGEST_SHARED_MEMORY_BYTES,
    Tiles,
    TooLarge,
    illegal_tile,
    kernel_tiles,
    key_tile_bytes,
    too_large_tile,
)
from workbench.core.plan import Plan
from workbench.core.rule_set import RULE_SETS
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


@dataclass(frozen=True, slots=True)
class FlexPlan:
    """Sizes in tokens of the three nested grids: tile in mask block in cache block."""

    fields: FlexFields
    small: bool
    batch_invariant: bool
    dtype: str
    head_size: int
    """In elements."""
    cache_block_size: int
    """The kernel block."""
    configured_block_size: int
    """The block before any alignment."""
    mask: MaskBlocks
    is_direct: bool
    """Whether the mask is listed from the block table."""
    tiles: Tiles | None
    """None where the mask block is refused."""
    key_tile_bytes: int | None
    """Bytes of one tile of keys."""
    shared_memory_bytes: int | None
    """What the tiles were chosen for, None without a limit."""
    refusals: tuple[FlexRefusal, ...]
    """What stops the start, in the engine's order."""

    @property
    def build(self) -> str:
        """Return how the mask is built, in one word."""
        return "direct" if self.is_direct else "generic"

    def too_large(self, limit_bytes: int = LARGEST_SHARED_MEMORY_BYTES) -> TooLarge | None:
        """Return why the tile does not fit into a program's shared memory, or None if it does."""
        if self.tiles is None:
            return None
        return too_large_tile(self.tiles, self.head_size, FLOAT_BYTES[self.dtype], limit_bytes)

    def tiles_step(self) -> Step:
        """Return the choice of the tiles with its operands, to check an answer against."""
        return tiles_step(self)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure of the three nested grids."""
        from workbench.views.flex.figure import nested_grids

        return nested_grids(self, theme)

    def _repr_html_(self) -> str:
        from workbench.views.flex.text import flex_html

        return flex_html(self)


def fields_of(settings: Settings) -> FlexFields:
    """Return the four explicit fields."""
    return FlexFields(
        settings.flex_attn_block_m,
        settings.flex_attn_block_n,
        settings.flex_attn_q_block_size,
        settings.flex_attn_kv_block_size,
    )


def flex_sizes(
    fields: FlexFields,
    *,
    cache_block_size: int,
    configured_block_size: int,
    small: bool,
    batch_invariant: bool,
    dtype: str,
    head_size: int,
    shared_memory_bytes: int | None = None,
) -> FlexPlan:
    """Return all that follows from the explicit fields and the cache block (see `FlexPlan`)."""
    refusals = [
        too_large_for_cache_block(fields, configured_block_size, batch_invariant=batch_invariant)
    ]
    mask = mask_blocks(fields, cache_block_size, small=small)
    refusals.append(mask.refusal)
    direct = is_direct(mask.kv_block_size, cache_block_size, small=small)
    tiles, key_bytes = None, None
    if mask.refusal is None:
        tiles = kernel_tiles(
            fields,
            mask.q_block_size,
            mask.kv_block_size,
            direct=direct,
            dtype=dtype,
            shared_memory_bytes=shared_memory_bytes,
            batch_invariant=batch_invariant,
        )
        refusals.append(illegal_tile(tiles, mask.q_block_size, mask.kv_block_size))
        key_bytes = key_tile_bytes(tiles, head_size, FLOAT_BYTES[dtype])
    return FlexPlan(
        fields=fields,
        small=small,
        batch_invariant=batch_invariant,
        dtype=dtype,
        head_size=head_size,
        cache_block_size=cache_block_size,
        configured_block_size=configured_block_size,
        mask=mask,
        is_direct=direct,
        tiles=tiles,
        key_tile_bytes=key_bytes,
        shared_memory_bytes=shared_memory_bytes,
        refusals=tuple(refusal for refusal in refusals if refusal is not None),
    )


def flex_plan(plan: Plan, shared_memory_bytes: int | None = None) -> FlexPlan | None:
    """Return the flex sizes of a plan; None with another backend or without a kernel block.

    shared_memory_bytes: opt-in bytes of one program on the device, as vLLM queries them.
    """
    settings, attention = plan.settings, plan.model.attention
    if plan.backend != FLEX or plan.kernel_block_size is None or attention is None:
        return None
    rules = RULE_SETS[settings.rules]
    return flex_sizes(
        fields_of(settings),
        cache_block_size=plan.kernel_block_size,
        configured_block_size=settings.block_size or rules.default_block_size,
        small=supports_small_blocks(settings.torch_version),
        batch_invariant=settings.batch_invariant,
        dtype=plan.model_dtype,
        head_size=attention.head_size,
        shared_memory_bytes=shared_memory_bytes,
    )


def required_flex_plan(plan: Plan) -> FlexPlan:
    """Return the flex sizes of a plan. Errors: ScenarioError where it has none."""
    flex = flex_plan(plan)
    if flex is None:
        raise ScenarioError("backend_is_not_flex", f"This needs backend {FLEX}.", field="backend")
    return flex


def tiles_step(flex: FlexPlan) -> Step:
    """Return the tiles as a step with its operands.

    Errors: ValueError where the mask block is refused.
    """
    if flex.tiles is None:
        raise ValueError("the mask block is refused: see refusals")
    return Step(
        TILES,
        {
            "q_block_size": flex.mask.q_block_size,
            "kv_block_size": flex.mask.kv_block_size,
            "build": flex.build,
            "dtype": flex.dtype,
            "shared_memory_bytes": flex.shared_memory_bytes,
            "block_m": flex.fields.block_m,
            "block_n": flex.fields.block_n,
            "batch_invariant": flex.batch_invariant,
        },
        (flex.tiles.block_m, flex.tiles.block_n),
        f"{flex.build} build",
        READ_AT,
    )


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

    @property
    def total_bytes(self) -> int:
        """Return both buffers."""
        return self.kv_indices_bytes + self.inverse_table_bytes


def mask_memory(
    *,
    q_block_size: int,
    cache_block_size: int,
    num_blocks: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    max_model_len: int,
) -> MaskMemory:
    """Return what the mask costs.

    One buffer grows with the longest request, one with the whole pool.
    """
    entries = q_block_size * cdiv(max_model_len, cache_block_size)
    return MaskMemory(
        4 * cdiv(max_num_batched_tokens, q_block_size) * entries,
        8 * max_num_seqs * num_blocks,
        max_num_batched_tokens * num_blocks * cache_block_size,
    )


def plan_mask_memory(plan: Plan, flex: FlexPlan, num_blocks: int) -> MaskMemory:
    """Return the `mask_memory` of a plan over a pool of `num_blocks`."""
    return mask_memory(
        q_block_size=flex.mask.q_block_size,
        cache_block_size=flex.cache_block_size,
        num_blocks=num_blocks,
        max_num_seqs=plan.max_num_seqs,
        max_num_batched_tokens=plan.max_num_batched_tokens,
        max_model_len=plan.max_model_len,
    )
