"""Steps of `BlockTables` for an inspector, which compiles what they launch: see `PublicCall`.

Tables are small: a kernel's code depends on block sizes and tiles, not on lengths.
"""

from collections.abc import Sequence

import torch

from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.path import DeviceBatch
from workbench.kernels.kernel_spec import PublicCall

TOKENS = 20
POWERS_OF_TWO = (
    TableGroup(block_size=32, kernel_block_size=16, max_blocks=8),
    TableGroup(block_size=16, kernel_block_size=16, max_blocks=16),
)
ANY_SIZE = (
    TableGroup(block_size=1056, kernel_block_size=16, max_blocks=125),
    TableGroup(block_size=2096, kernel_block_size=2096, max_blocks=3),
)
"""Attention with 66 kernel blocks in a manager block, and a state."""


def step_call(
    name: str,
    groups: Sequence[TableGroup] = ANY_SIZE,
    path: str = "fast",
    *,
    parallel: ContextParallel | None = None,
    max_requests: int = 64,
) -> PublicCall:
    """Return a step of one request whose batch is on the device, as in an engine."""

    def run() -> None:
        tables = BlockTables(
            groups,
            max_requests=max_requests,
            max_tokens=1024,
            num_blocks=1000,
            path=path,  # type: ignore[arg-type]
            parallel=parallel,
        )
        tables.append(0, [[7]] * len(groups))
        numbers = ([0], [0, 1])
        rows, starts = (torch.tensor(values, dtype=torch.int32) for values in numbers)
        positions = torch.zeros(TOKENS, dtype=torch.int64)
        batch = DeviceBatch(
            idx_mapping=rows,
            query_start_loc=starts,
            positions=positions,
            num_tokens=1,
            padded_requests=max_requests,
        )
        tables.upload_on_device(batch)
        tables.launch()

    return PublicCall(name, run)


INSPECTED = (
    step_call("fast, powers of two", POWERS_OF_TWO),
    step_call("fast, any size"),
    step_call("fast, context parallel", parallel=ContextParallel(4, 0, 16)),
    step_call("faithful, context parallel", path="faithful", parallel=ContextParallel(2, 0, 16)),
)
"""Every kernel of both paths, through the way that a step takes to its launches."""
