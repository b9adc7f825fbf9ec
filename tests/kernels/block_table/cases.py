"""Tables and their oracle, in guarded memory full of garbage."""

import numpy as np
import pytest
import torch

from tests.kernels.block_table.guards import GuardedMemory
from workbench.kernels.block_table.api import NEWER, BlockTables
from workbench.kernels.block_table.compare import differences
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.reference import DUMMY_REQUEST, PAD_SLOT, ReferenceTables
from workbench.kernels.mode import triton_mode

PATHS = ("faithful", "fast")
DEVICE = triton_mode().torch_device
not_one_gpu = pytest.mark.skipif(
    torch.cuda.device_count() == 1, reason="with one GPU, torch does not pretend to have another"
)


class CheckedTables:
    """One path's tables and the Python reference; every write goes to both."""

    def __init__(self, groups, path, *, max_requests, max_tokens, parallel=None, num_blocks=5000):
        self.groups, self.parallel = tuple(groups), parallel or ContextParallel()
        self.memory = GuardedMemory(DEVICE)
        self.tables = BlockTables(
            self.groups,
            max_requests=max_requests,
            max_tokens=max_tokens,
            num_blocks=num_blocks,
            path=path,
            parallel=self.parallel,
            allocate=self.memory.allocate,
        )
        self.model = ReferenceTables(
            self.groups, max_requests=max_requests, parallel=self.parallel, newer=path == NEWER
        )

    def __getattr__(self, name):
        def write(*arguments):
            getattr(self.tables, name)(*arguments)
            getattr(self.model, name)(*arguments)

        return write

    def fill(self, request, tokens, seed=0):
        """Append the blocks that `tokens` positions need in every group."""
        self.append(request, random_blocks(self.groups, tokens, self.parallel.size, seed + request))

    def step(self, idx_mapping, query_start_loc, positions, padded=None):
        self.tables.step(idx_mapping, query_start_loc, positions, padded_requests=padded)
        self.model.apply()
        self.assert_right(idx_mapping, query_start_loc, positions, padded)
        assert len(self.tables.staged) == 0
        self.memory.check()

    def assert_right(self, idx_mapping, query_start_loc, positions, padded=None):
        found = differences(
            self.tables,
            self.model,
            idx_mapping,
            query_start_loc,
            positions,
            padded_requests=padded,
        )
        assert found == ()
        assert self.tables.slot_mapping.shape == (len(self.groups), self.tables.max_tokens)

    def assert_rows(self):
        counts = self.tables.counts()
        for g in range(len(self.groups)):
            for request in range(self.model.max_requests):
                expected = self.model.row(g, request)
                assert counts[g, request] == len(expected)
                assert self.tables.row(g, request) == expected

    def assert_gathered(self, idx_mapping, padded=None):
        padded = self.model.max_requests if padded is None else padded
        expected = self.model.gather(idx_mapping, padded)
        for g, table in enumerate(self.tables.block_table):
            actual = table.cpu().numpy()
            assert actual.shape == (self.model.max_requests, self.groups[g].max_kernel_blocks)
            for i in range(padded):
                live = expected[g][i]
                assert actual[i, : len(live)].tolist() == list(live), (g, i)

    def assert_slots(self, idx_mapping, query_start_loc, positions):
        slots = self.tables.slot_mapping.cpu().numpy()
        expected = self.model.slot_mappings(
            idx_mapping, query_start_loc, positions, self.tables.max_tokens
        )
        np.testing.assert_array_equal(slots, np.array(expected))


def random_blocks(groups, tokens, ranks=1, seed=0, num_blocks=5000):
    """Manager blocks for `tokens` positions in every group, distinct within a group."""
    picked = np.random.default_rng(seed)
    return [
        (picked.permutation(num_blocks)[: -(-tokens // (group.block_size * ranks))]).tolist()
        for group in groups
    ]


def packed(lengths, first=None):
    """(query_start_loc, positions) of requests whose tokens end at these lengths.

    Each contributes all its tokens, or those from first[i] on.
    """
    first = first or [0] * len(lengths)
    positions = [p for a, b in zip(first, lengths, strict=True) for p in range(a, b)]
    starts = [0]
    for a, b in zip(first, lengths, strict=True):
        starts.append(starts[-1] + b - a)
    return starts, positions


__all__ = ["DEVICE", "DUMMY_REQUEST", "PAD_SLOT", "PATHS", "CheckedTables", "ContextParallel"]
__all__ += ["TableGroup", "packed", "random_blocks"]
