"""After any sequence of writes the device's rows are the model's lists, on both paths."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.kernels.block_table.cases import PATHS, CheckedTables, TableGroup
from workbench.kernels.errors import BlockTableError, RowOverflow

GROUPS = (TableGroup(34, 2, 3), TableGroup(48, 48, 1), TableGroup(16, 8, 40))
REQUESTS = 5
REQUEST = st.integers(0, REQUESTS - 1)
IDS = st.tuples(*(st.lists(st.integers(0, 99), max_size=3) for _ in GROUPS))


class Writes(RuleBasedStateMachine):
    """Both paths and their models go through the same writes; each apply compares everything."""

    @initialize()
    def start(self):
        self.paths = [
            CheckedTables(GROUPS, path, max_requests=REQUESTS, max_tokens=8, num_blocks=100)
            for path in PATHS
        ]

    def fits(self, request, ids, start_over=False):
        rows = self.paths[0].model.newest
        return all(
            len(ids[g]) + (0 if start_over else len(rows[g][request])) <= group.max_blocks
            for g, group in enumerate(GROUPS)
        )

    def write(self, name, request, ids):
        fits = self.fits(request, ids, start_over=name == "overwrite")
        for path in self.paths:
            if fits:
                getattr(path, name)(request, ids)
            else:
                with pytest.raises(RowOverflow):
                    getattr(path.tables, name)(request, ids)

    @rule(request=REQUEST, ids=IDS)
    def append(self, request, ids):
        self.write("append", request, ids)

    @rule(request=REQUEST, ids=IDS)
    def overwrite(self, request, ids):
        self.write("overwrite", request, ids)

    @rule(origin=REQUEST, goal=REQUEST)
    def move(self, origin, goal):
        for path in self.paths:
            path.move(origin, goal)

    @rule(request=REQUEST)
    def clear(self, request):
        for path in self.paths:
            path.clear(request)

    @rule(request=REQUEST, ids=IDS, bad=st.sampled_from([-1, 100, 2**40]))
    def refused(self, request, ids, bad):
        for path in self.paths:
            with pytest.raises(BlockTableError):
                path.tables.append(request, [*ids[:2], [*ids[2], bad]])

    @rule()
    def apply(self):
        for path in self.paths:
            path.apply()
            assert len(path.tables.staged) == 0
            path.assert_rows()
            path.memory.check()

    @rule(order=st.lists(st.integers(-1, REQUESTS - 1), max_size=REQUESTS), spare=st.integers(0, 5))
    def step(self, order, spare):
        rows = self.paths[0].model.newest
        for path in self.paths:
            order = [r if r < 0 or all(rows[g][r] for g in range(3)) else -1 for r in order]
            tokens = list(range(len(order) + 1))
            padded = min(len(order) + spare, REQUESTS)
            path.step(order, tokens, [0] * len(order), padded=padded)

    @invariant()
    def nothing_is_written_outside(self):
        for path in getattr(self, "paths", ()):
            path.memory.check()


# fewer than the profile's examples, each of them a sequence of many launches
QUICK = settings.default.max_examples < 500
Writes.TestCase.settings = settings(
    max_examples=12 if QUICK else 30, stateful_step_count=25 if QUICK else 40
)
TestWrites = Writes.TestCase
