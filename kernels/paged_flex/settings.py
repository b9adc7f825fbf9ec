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
                    f"{name} must be a whole number; got {size!r}", field=name, given=size
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
    """How the work is cut.

    prefill: the tile of requests with many queries. decode: the tile of requests whose queries,
    times the heads of a group, fit into one such tile; None sends them through `prefill`.
    split_tokens: keys of one program of a decode, a multiple of decode.block_n; 0 does not split.
    one_path: full tiles are masked as well, so that every tile runs the same instructions.
    as_given: tiles are not fitted to head and dtype; what does not fit a device fails there.
    by_batch: the split is chosen so that the whole batch fills `by_batch` programs, as many
    libraries do. It makes a request's bits depend on its batch; 0 is off.
    """

    prefill: Tile
    decode: Tile | None = None
    split_tokens: int = 0
    one_path: bool = False
    as_given: bool = False
    by_batch: int = 0

    def __post_init__(self) -> None:
        """Refuse a split that cuts tiles apart."""
        if self.split_tokens < 0 or (self.decode and self.split_tokens % self.decode.block_n):
            unit = self.decode.block_n if self.decode else 1
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
        """Whether a request's bits may change with the other requests of its batch."""
        return self.by_batch > 0

    @property
    def depends_on_chunks(self) -> bool:
        """Whether a token's bits may change with how its request was cut into steps."""
        return self.depends_on_batch or self.decode is not None or not self.one_path


FAST = Settings(Tile(128, 64, 8), Tile(16, 64), split_tokens=256)
"""The quickest: large prefill tiles, decodes split every 256 keys. Bits do not depend on the batch:
every choice is made by the request itself. For devices whose matrix instructions read shared
memory (Hopper, Blackwell B200); elsewhere these tiles spill registers."""

BITWISE = Settings(Tile(64, 64), one_path=True)
"""One tile, one loop and no split for every token: prefill, chunks and decode give the same bits
where the matrix instruction does not care in which row of a tile a query stands (GPUs)."""

FAST_ELSEWHERE = replace(FAST, prefill=Tile(128, 32, 8))
"""FAST for devices whose matrix instructions read registers (Ampere, RTX, AMD)."""

BITWISE_ELSEWHERE = replace(BITWISE, prefill=Tile(64, 64, 8))
"""BITWISE for these."""

SPLIT_BY_BATCH = replace(FAST, by_batch=264)
"""What breaks the promise on purpose: the split is chosen by the batch. For demonstrations."""

WIDEST_HEAD = 256


def shipped(*, bitwise: bool, capability: tuple[int, int] | None) -> Settings:
    """FAST or BITWISE for a device; capability is CUDA's, None for anything else."""
    if capability is not None and capability[0] in {9, 10}:
        return BITWISE if bitwise else FAST
    return BITWISE_ELSEWHERE if bitwise else FAST_ELSEWHERE


def fitted(settings: Settings, *, head_dim: int, group: int, dtype: str) -> Settings:
    """The settings with tiles that hold one token of the group, in registers and shared memory.

    float32, which is multiplied without matrix instructions, takes at most 32 x 32; heads wider
    than 128 take at most 64 rows and half the keys. Depends on the model alone, never on the
    batch.
    """
    one_token = 1 << (group - 1).bit_length()

    def fit(tile: Tile) -> Tile:
        rows, keys, warps = tile.block_m, tile.block_n, tile.num_warps
        if not settings.as_given and head_dim > 128:
            rows, keys = min(rows, 64), max(keys // 2, SMALLEST_TILE)
        if not settings.as_given and dtype == "float32":
            rows, keys, warps = min(rows, 32), min(keys, 32), min(warps, 4)
        return replace(tile, block_m=max(rows, one_token), block_n=keys, num_warps=warps)

    decode = fit(settings.decode) if settings.decode else None
    return replace(settings, prefill=fit(settings.prefill), decode=decode)
