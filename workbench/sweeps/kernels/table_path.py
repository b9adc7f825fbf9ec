"""The fast path of the block tables with other tiles than it is shipped with, for sweeps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from workbench.kernels.block_table import api
from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.fast import FastPath
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.numbers import is_power_of_two
from workbench.kernels.block_table.plan import Cuts, cuts_of
from workbench.kernels.errors import BlockTableError

LINE_ENTRIES = 32
"""Rows start on a cache line of 32 entries, and every tile promises to begin on one."""
LARGEST = {"num_warps": 32, "programs_per_processor": 64}
SMALLEST = {"num_warps": 1, "programs_per_processor": 1}
LARGEST_TILE = 1 << 20
"""What Triton lets one tensor have."""
NAME = "tuned"


@dataclass(frozen=True, slots=True)
class Tiles:
    """How the two launches of the fast path are cut.

    Errors: BlockTableError names what is illegal.
    """

    apply_ids: int
    """Ids of one program of the first launch."""
    programs_per_processor: int
    """Programs of the first launch for each processor."""
    slot_tokens: int
    """Tokens of a tile of slots."""
    tile_entries: int
    """Entries of a tile of a table, `tile_columns` of them in a row."""
    tile_columns: int
    num_warps: int

    def __post_init__(self) -> None:
        """Refuse what the kernels do not take."""
        for name in (field.name for field in fields(self)):
            value = getattr(self, name)
            low, high = SMALLEST.get(name, LINE_ENTRIES), LARGEST.get(name, LARGEST_TILE)
            if not low <= value <= high or not is_power_of_two(value):
                raise BlockTableError(
                    f"{name} must be a power of two from {low} to {high}; got {value}",
                    field=name,
                    given=value,
                    limit=high,
                )
        if self.tile_columns > self.tile_entries:
            raise BlockTableError(
                f"a tile of {self.tile_entries} entries has no row of {self.tile_columns}; nearest "
                f"tile_columns: {self.tile_entries}",
                field="tile_columns",
                given=self.tile_columns,
                limit=self.tile_entries,
            )

    def cuts(self, tables: Arena, max_requests: int) -> Cuts:
        """Return the tiles of the second launch."""
        return cuts_of(
            tables,
            max_requests=max_requests,
            entries=self.tile_entries,
            columns=self.tile_columns,
            tokens=self.slot_tokens,
        )


class TunedPath(FastPath):
    """The fast path, launched as `tiles` says; memory, transfers and kernels are the same."""

    tiles: ClassVar[Tiles]

    def __init__(self, groups: Sequence[TableGroup], **given: Any) -> None:
        self.apply_ids = self.tiles.apply_ids
        self.programs_per_processor = self.tiles.programs_per_processor
        self.launch_options = {"num_warps": self.tiles.num_warps}
        super().__init__(groups, **given)

    def _cuts(self, tables: Arena) -> Cuts:
        return self.tiles.cuts(tables, self.max_requests)


@contextmanager
def tuned_path(tiles: Tiles) -> Iterator[str]:
    """Return the name of a path with these tiles, which `BlockTables` knows inside the block.

    For one thread at a time.
    """
    api.PATHS[NAME] = type("TunedPath", (TunedPath,), {"tiles": tiles})
    try:
        yield NAME
    finally:
        del api.PATHS[NAME]
