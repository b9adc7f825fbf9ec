"""Kernel tiles of flex attention: BLOCK_M and BLOCK_N inside a mask block (0.23, #41252)."""

from dataclasses import dataclass
from math import gcd

from workbench.core.flex.sizes import INVARIANT_TILE, FlexFields, FlexRefusal, nearest_divisor

WANTED = {"float32": 32}
WANTED_ELSE = 64
ENOUGH_SHARED_MEMORY_BYTES = 144 * 1024
"""Below this much opt-in shared memory the wanted tile is halved."""
LARGEST_SHARED_MEMORY_BYTES = 227 * 1024
"""The most that any NVIDIA GPU gives one program (compute capability 9.0 and 10.0)."""
LARGEST_TENSOR = 2**20
"""The most elements of one tensor in a Triton kernel."""
USUAL_TILE = 64
SMALLEST_TILE = 16
"""What vLLM's documentation requires; no code of its checks it for an explicit tile."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """BLOCK_M (queries) and BLOCK_N (keys) of one kernel, in tokens; may be illegal."""

    block_m: int
    block_n: int

    def __str__(self) -> str:
        return f"tile of {self.block_m} queries x {self.block_n} keys"


def fit(wanted: int, block: int) -> int:
    """Return the tile nearest to `wanted` that divides a mask block of `block` tokens."""
    if block <= 0:
        return wanted
    wanted = min(wanted, block)
    if wanted <= 0:
        return block
    if block % wanted == 0:
        return wanted
    common = gcd(wanted, block)
    # A tile of one token is of no use, so that the whole block is taken (ensure_divisible).
    return block if common <= 1 else common


def generic_tiles(
    q_block_size: int, kv_block_size: int, dtype: str, shared_memory_bytes: int | None
) -> Tiles:
    """Return the tiles where the mask is not built directly.

    dtype: of the model, such as "bfloat16". shared_memory_bytes: opt-in bytes of one program as
    vLLM queries them (65,536 on ROCm); None without CUDA.
    """
    # get_kernel_options.
    wanted = WANTED.get(dtype, WANTED_ELSE)
    m, n = fit(wanted, q_block_size), fit(wanted, kv_block_size)
    # torch has no such number on ROCm, and vLLM counts with 64 KiB there.
    if shared_memory_bytes is not None and shared_memory_bytes < ENOUGH_SHARED_MEMORY_BYTES:
        m, n = fit(m // 2, q_block_size), fit(n // 2, kv_block_size)
    # The floor can break what `fit` made sure of: a tile of 16 does not divide a mask block of 8,
    # and torch then has no configuration left to compile.
    return Tiles(max(m, SMALLEST_TILE), max(n, SMALLEST_TILE))


def kernel_tiles(
    fields: FlexFields,
    q_block_size: int,
    kv_block_size: int,
    *,
    direct: bool,
    dtype: str,
    shared_memory_bytes: int | None,
    batch_invariant: bool,
) -> Tiles:
    """Return the tiles that reach the kernel: explicit ones win, then 16 under batch invariance."""
    # A tile is then a page: the list of pages is the list of tiles (get_kernel_options).
    if direct:
        found = Tiles(q_block_size, kv_block_size)
    else:
        found = generic_tiles(q_block_size, kv_block_size, dtype, shared_memory_bytes)
    # FlexAttentionImpl.forward.
    fixed = INVARIANT_TILE if batch_invariant else None
    m = fixed if fields.block_m is None else fields.block_m
    n = fixed if fields.block_n is None else fields.block_n
    return Tiles(found.block_m if m is None else m, found.block_n if n is None else n)


def illegal_tile(tiles: Tiles, q_block_size: int, kv_block_size: int) -> FlexRefusal | None:
    """Return why torch cannot compile with these tiles: one does not divide its mask block."""
    # No check of vLLM sees this: the start fails later, when the kernel is compiled.
    sides = (
        ("q", "m", "BLOCK_M", q_block_size, tiles.block_m),
        ("kv", "n", "BLOCK_N", kv_block_size, tiles.block_n),
    )
    for side, axis, name, block, tile in sides:
        if tile > 0 and block % tile == 0:
            continue
        size_name, tile_name = f"flex_attn_{side}_block_size", f"flex_attn_block_{axis}"
        if tile > block:
            why = f"{name} = {tile} is larger than the mask block of {block} tokens"
            field = size_name
            advice = f"Nearest valid {size_name}: {tile}"
        else:
            why = f"{name} = {tile} does not divide the mask block of {block} tokens"
            field = tile_name
            advice = f"Nearest valid {tile_name}: {nearest_divisor(block, tile)}"
        return FlexRefusal(
            "flex_tile_illegal",
            field=field,
            message=f"{why}, so no kernel can be compiled. {advice}.",
            operands={name: tile, size_name: block},
            exception=None,
            vllm_text="Q and KV block size must be divisible by BLOCK_M and BLOCK_N.",
        )
    return None


@dataclass(frozen=True, slots=True)
class TooLarge:
    """Why a tile fits into no program. field: the side that is too long; both numbers in words."""

    field: str
    needed: int
    limit: int
    text: str


def too_large_tile(
    tiles: Tiles, head_size: int, element_bytes: int, limit_bytes: int = LARGEST_SHARED_MEMORY_BYTES
) -> TooLarge | None:
    """Return why a tile is too large: keys or queries for shared memory, or scores for a tensor."""
    # Derived, not measured, and a lower bound: None does not say that the kernel fits.
    m, n = tiles.block_m, tiles.block_n
    for axis, tokens, what in (("n", n, "keys"), ("m", m, "queries")):
        needed = tokens * head_size * element_bytes
        if needed > limit_bytes:
            text = f"one tile of {tokens:,} {what} takes {needed:,} bytes of {limit_bytes:,}"
            return TooLarge(f"flex_attn_block_{axis}", needed, limit_bytes, text)
    # TRITON_MAX_TENSOR_NUMEL in triton/_utils.py, Triton 3.
    if m * n <= LARGEST_TENSOR:
        return None
    text = f"a tile of {m:,} x {n:,} has {m * n:,} scores, and Triton's limit is {LARGEST_TENSOR:,}"
    return TooLarge(f"flex_attn_block_{'m' if m >= n else 'n'}", m * n, LARGEST_TENSOR, text)
