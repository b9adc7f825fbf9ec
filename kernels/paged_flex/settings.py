"""Tiles, splits, and which of them a request's bits may depend on."""

from dataclasses import dataclass, replace

from workbench.kernels.block_table.numbers import is_power_of_two
from workbench.kernels.paged_flex.errors import PagedFlexError

SMALLEST_TILE = 16
"""What a matrix instruction takes at least, in rows and in keys."""


@dataclass(frozen=True, slots=True)
class Tile:
    """block_m rows (query tokens times the heads of a group) by block_n keys, and its warps."""

    block_m: int
    block_n: int
    num_warps: int = 4
    num_stages: int = 3

    def __post_init__(self) -> None:
        """Refuse what no matrix instruction takes."""
        for name in ("block_m", "block_n"):
            size = getattr(self, name)
            if isinstance(size, bool) or not isinstance(size, int):
                raise PagedFlexError(
                    f"{name} must be an integer; got {size!r}", field=name, given=size
                )
            if size < SMALLEST_TILE or not is_power_of_two(size):
                near = max(SMALLEST_TILE, 1 << max(size, 1).bit_length() - 1)
                raise PagedFlexError(
                    f"{name} {size} must be a power of two of at least {SMALLEST_TILE}; nearest: "
                    f"{near}",
                    field=name,
                    given=size,
                    limit=near,
                )


@dataclass(frozen=True, slots=True)
class Settings:
    """How the work is cut."""

    prefill: Tile
    """The tile of requests with many queries."""
    decode: Tile | None = None
    """The tile of requests whose queries, times the heads of a group, fit into one such tile; None
    sends them through `prefill`."""
    split_tokens: int = 0
    """Keys of one program of a decode, a multiple of the tiles' block_n, counted from the request's
    first token; 0 does not split."""
    one_path: bool = False
    """Full tiles are masked as well, so that every tile runs the same instructions, and a prefill
    adds up its keys in the same splits."""
    as_given: bool = False
    """Tiles are not fitted to head and dtype; what does not fit a device fails there."""
    by_batch: int = 0
    """The split is chosen so that the whole batch fills `by_batch` programs, as many libraries do.
    It makes a request's bits depend on its batch; 0 is off."""

    def __post_init__(self) -> None:
        """Refuse a split that cuts tiles apart."""
        tiles = [tile for tile in (self.decode, self.one_path and self.prefill) if tile]
        # powers of two: the largest is a multiple of the other
        unit = max((tile.block_n for tile in tiles), default=1)
        if self.split_tokens < 0 or self.split_tokens % unit:
            raise PagedFlexError(
                f"split_tokens {self.split_tokens} must be a multiple of the decode tile's "
                f"{unit} keys; nearest: {max(self.split_tokens // unit, 1) * unit}",
                field="split_tokens",
                given=self.split_tokens,
                limit=unit,
            )
        if self.decode is None and (self.split_tokens or self.by_batch):
            raise PagedFlexError(
                "only decodes are split: give a decode tile, or split_tokens=0 and by_batch=0",
                field="decode",
            )

    @property
    def depends_on_batch(self) -> bool:
        """Return whether a request's bits may change with the rest of its batch."""
        return self.by_batch > 0

    @property
    def depends_on_chunks(self) -> bool:
        """Return whether a token's bits may change with how its request is cut into steps."""
        # another tile adds keys up in another order
        same_tile = self.decode in {None, self.prefill}
        return self.depends_on_batch or not same_tile or not self.one_path


FAST = Settings(prefill=Tile(128, 64, 8), decode=Tile(16, 64), split_tokens=256)
"""The quickest: large prefill tiles, decodes split every 256 keys. Bits do not depend on the batch:
every choice is made by the request itself. For devices whose matrix instructions read shared
memory (Hopper, Blackwell B200); elsewhere these tiles spill registers."""

BITWISE = Settings(prefill=Tile(64, 32), decode=Tile(64, 32), split_tokens=512, one_path=True)
"""One tile and one loop for every token, keys added up in splits from position 0 on, in order,
by several programs or by one: prefill, chunks and decode give the same bits where the matrix
instruction computes every row of a tile in the same way (GPUs). For Hopper; elsewhere
four warps have too few registers for a split and the sum of those before it."""

FAST_ELSEWHERE = replace(FAST, prefill=Tile(128, 32, 8))
"""FAST for devices whose matrix instructions read registers (Ampere, RTX, AMD)."""

BITWISE_ELSEWHERE = replace(BITWISE, prefill=Tile(64, 32, 8), decode=Tile(64, 32, 8))
"""BITWISE for everything but Hopper."""

SPLIT_BY_BATCH = replace(FAST, by_batch=264)
"""What breaks the promise on purpose: the split is chosen by the batch. For demonstrations."""

WIDEST_HEAD = 256


def shipped(*, bitwise: bool, capability: tuple[int, int] | None) -> Settings:
    """Return FAST or BITWISE for a device; capability is CUDA's, None for anything else."""
    major = capability[0] if capability else 0
    if bitwise:
        # Hopper multiplies out of shared memory: four warps have the registers
        return BITWISE if major == 9 else BITWISE_ELSEWHERE
    return FAST if major in {9, 10} else FAST_ELSEWHERE


def fitted(settings: Settings, *, head_dim: int, group: int, dtype: str) -> Settings:
    """Fit the tiles to one token of the group, registers and shared memory.

    float32, which is multiplied without matrix instructions, takes at most 32 x 32; heads wider
    than 128 take at most 64 rows, of eight warps, and half the keys. Depends on the model alone,
    never on the batch.
    """
    one_token = 1 << (group - 1).bit_length()

    def fit(tile: Tile) -> Tile:
        rows, keys, warps = tile.block_m, tile.block_n, tile.num_warps
        if not settings.as_given and head_dim > 128:
            # the accumulator [rows, head_dim] has to stay in registers
            rows, keys = min(rows, 64), max(keys // 2, SMALLEST_TILE)
            warps = max(warps, 8) if rows == 64 else warps
        if not settings.as_given and dtype == "float32":
            # float32 is multiplied without matrix instructions, from registers
            rows, keys, warps = min(rows, 32), min(keys, 32), min(warps, 4)
        return replace(tile, block_m=max(rows, one_token), block_n=keys, num_warps=warps)

    decode = fit(settings.decode) if settings.decode else None
    return replace(settings, prefill=fit(settings.prefill), decode=decode)
