"""The fast path of the block tables with other tiles than it is shipped with, for sweeps."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch

from workbench.kernels.block_table import api
from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.errors import BlockTableError
from workbench.kernels.block_table.fast import INTERPRETER_PROGRAMS, FastPath
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.numbers import is_power_of_two
from workbench.kernels.block_table.plan import launch_plan

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

    def rows(self, max_requests: int) -> int:
        """Return the rows of a tile of a table, never more than the table has, rounded up."""
        return min(self.tile_entries // self.tile_columns, 1 << (max_requests - 1).bit_length())


class TunedPath(FastPath):
    """The fast path, launched as `tiles` says; memory, transfers and kernels are the same."""

    tiles: ClassVar[Tiles]

    def __init__(self, groups: Sequence[TableGroup], **given: Any) -> None:
        super().__init__(groups, **given)
        self.slot_tokens, self.apply_ids = self.tiles.slot_tokens, self.tiles.apply_ids
        self.launch_options = {"num_warps": self.tiles.num_warps}
        arena = row_arena([group.max_kernel_blocks for group in groups], self.max_requests)
        self.plan = launch_plan(
            arena,
            max_requests=self.max_requests,
            max_tokens=self.max_tokens,
            entries=self.tiles.tile_entries,
            columns=self.tiles.tile_columns,
            tokens=self.tiles.slot_tokens,
        )
        self._entries = torch.from_numpy(self.plan.entries).to(self.device)
        work = self.max_requests * max(len(groups), sum(group.max_blocks for group in groups))
        programs = -(-work // self.tiles.apply_ids)
        resident = INTERPRETER_PROGRAMS
        if self.device.type == "cuda":
            processors = torch.cuda.get_device_properties(self.device).multi_processor_count
            resident = processors * self.tiles.programs_per_processor
        self._apply_programs = min(programs, resident)


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
