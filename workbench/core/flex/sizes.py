"""Mask blocks of flex attention: explicit, default, or refused (#41252). All sizes in tokens."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.arithmetic import is_power_of_2, next_power_of_2

SMALL_BLOCK = 16
LARGE_BLOCK = 128
LARGEST_BLOCK = 2**30
"""The largest power of two in the 32 bits of a size."""
SMALL_SINCE = (2, 9)
"""The first torch whose flex attention takes mask blocks below 128."""
FLEX_FIELDS = (
    "flex_attn_block_m",
    "flex_attn_block_n",
    "flex_attn_q_block_size",
    "flex_attn_kv_block_size",
)
"""The four fields of a scenario; also keys of vLLM's `--attention-config`."""
INVARIANT_TILE = 16
"""block_m and block_n under VLLM_BATCH_INVARIANT, where none is set explicitly."""


@dataclass(frozen=True, slots=True)
class FlexFields:
    """The four explicit fields, None where nothing is set explicitly."""

    # vLLM takes any integer, 0 and negative ones included. As a mask block 0 is the same as None.
    block_m: int | None = None
    block_n: int | None = None
    q_block_size: int | None = None
    kv_block_size: int | None = None


@dataclass(frozen=True, slots=True)
class FlexRefusal:
    """Why vLLM does not start with these sizes."""

    code: str
    field: str
    """The scenario field to look at."""
    message: str
    operands: Mapping[str, Any]
    """Both numbers that clash."""
    exception: str | None = "ValueError"
    """The type that vLLM raises, None where the compiler stops instead."""
    vllm_text: str | None = None


@dataclass(frozen=True, slots=True)
class MaskBlocks:
    """The mask block that vLLM uses, and why it is refused (None: it is not)."""

    q_block_size: int
    kv_block_size: int
    refusal: FlexRefusal | None = None


def small_blocks(torch_version: str | None) -> bool:
    """Return whether the default mask block is small. None is the torch of vLLM 0.23."""
    if torch_version is None:
        return True
    # Two numbers: a development build such as 2.9.0.dev20250901 counts as the release.
    major, minor = torch_version.split(".")[:2]
    return (int(major), int(minor)) >= SMALL_SINCE


def mask_blocks(fields: FlexFields, cache_block_size: int, *, small: bool) -> MaskBlocks:
    """Return the mask block over cache blocks (kernel blocks) of this size, as vLLM checks it."""
    # FlexAttentionMetadataBuilder.__init__.
    # `or`, as in vLLM: an explicit 0 is the default, too.
    q = fields.q_block_size or (SMALL_BLOCK if small else LARGE_BLOCK)
    kv = fields.kv_block_size or (cache_block_size if small else LARGE_BLOCK)
    # A hybrid's kernel block, such as 528, is not a power of two: its default stops the start.
    # Queries are checked first, so two mistakes give one refusal.
    refusal = _refused("q", q, "m", fields.block_m, explicit=bool(fields.q_block_size)) or _refused(
        "kv", kv, "n", fields.block_n, explicit=bool(fields.kv_block_size)
    )
    return MaskBlocks(q, kv, refusal)


def too_large_for_cache_block(fields: FlexFields, configured_block_size: int) -> FlexRefusal | None:
    """Return what the check while layers are built refuses, under batch invariance."""
    # The layers are built before the alignment, so the block is the configured one. Only explicit
    # tiles are tested, never the 16 of batch invariance (FlexAttentionImpl.__init__).
    for axis, tile in (("m", fields.block_m), ("n", fields.block_n)):
        if tile is not None and tile > configured_block_size:
            name = f"flex_attn_block_{axis}"
            return FlexRefusal(
                "flex_tile_exceeds_cache_block",
                field=name,
                message=f"Under batch invariance {name} must be at most the cache block size; got "
                f"{tile} and {configured_block_size}. The block size is the one before any "
                f"alignment. Nearest valid value: {configured_block_size}.",
                operands={name: tile, "block_size": configured_block_size},
                vllm_text=f"{name} ({tile}) must be <= cache block size "
                f"({configured_block_size}) for batch invariance",
            )
    return None


def _refused(
    side: str, size: int, axis: str, tile: int | None, *, explicit: bool
) -> FlexRefusal | None:
    """Return the refusal of one side: of its mask block of `size`, or of its explicit tile."""
    size_name, tile_name = f"flex_attn_{side}_block_size", f"flex_attn_block_{axis}"
    operands = {size_name: size, tile_name: tile}
    text = f"{size_name} must be a power of 2 and divisible by {tile_name}, got {size}, {tile}"
    if not is_power_of_2(size):
        near = nearest_power_of_2(size)
        advice = f"Nearest valid {size_name}: {near}."
        if not explicit:
            advice = (
                f"Nearest power of two: block_size {near}, with {tile_name} for a tile that fits; "
                f"or set {size_name} to {SMALL_BLOCK}."
            )
        whose = size_name if explicit else "the kernel block, which is the default mask block,"
        return FlexRefusal(
            "flex_block_not_power_of_2",
            field=size_name if explicit else "block_size",
            message=f"Flex attention needs a mask block that is a power of two, and {whose} is "
            f"{size}. {advice}",
            operands={**operands, "nearest_power_of_2": near},
            vllm_text=text,
        )
    if tile is None:
        return None
    # vLLM tests for None, so the check divides by an explicit 0.
    if tile == 0:
        return FlexRefusal(
            "flex_tile_is_zero",
            field=tile_name,
            message=f"{tile_name} = 0 is not vLLM's default: {size_name} = {size} is divided "
            f"by it. Leave it empty, or take {min(size, SMALL_BLOCK)}.",
            operands=operands,
            exception="ZeroDivisionError",
            vllm_text="integer modulo by zero",
        )
    if size % tile:
        near = nearest_divisor(size, tile)
        return FlexRefusal(
            "flex_block_not_divisible",
            field=tile_name,
            message=f"{tile_name} must divide {size_name}: {size} / {tile} leaves {size % tile}. "
            f"Nearest valid {tile_name}: {near}.",
            operands={**operands, "nearest": near},
            vllm_text=text,
        )
    return None


def nearest_power_of_2(size: int) -> int:
    """Return the settable power of two that a mask block of `size` tokens fits into."""
    # Below 1 it is 16, the least that vLLM's documentation allows.
    return SMALL_BLOCK if size < 1 else min(next_power_of_2(size), LARGEST_BLOCK)


def nearest_divisor(size: int, tile: int) -> int:
    """Return the largest power of two up to `tile` that divides the power of two `size`."""
    if tile < 1:
        return min(size, SMALL_BLOCK)
    return min(size, 1 << (tile.bit_length() - 1))
