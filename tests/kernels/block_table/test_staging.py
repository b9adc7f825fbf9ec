"""Any writes staged between two applies arrive on the device as the model's rows.

The device is played by arrays of garbage that take a staged write as `StagedWrites` describes it.
"""

from itertools import cycle, islice

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import hypothesis.strategies as st
from hypothesis import example, given, settings

from tests.kernels.block_table.cases import PATHS, CheckedTables, TableGroup
from workbench.kernels.block_table.host import LONG_WRITE, HostTables
from workbench.kernels.block_table.reference import ReferenceTables
from workbench.kernels.errors import BlockTableError

GROUPS = (TableGroup(32, 16, 150), TableGroup(16, 16, 200), TableGroup(48, 16, 90))
REQUESTS, BLOCKS, GARBAGE = 6, 500, 1_000_000


FORMS = {
    "lists": lambda part, _: part,
    "arrays": lambda part, _: np.array(part, int),
    "mixed": lambda part, group: np.array(part, np.uint16) if group == 1 else tuple(part),
}
"""How `append_many` may be given the blocks of a group; "flat" goes to `append_flat`."""


class Device:
    """What the host stages, where a kernel would put it, next to the model's rows."""

    def __init__(self):
        self.host = HostTables(GROUPS, REQUESTS, BLOCKS)
        self.model = ReferenceTables(GROUPS, max_requests=REQUESTS)
        shape = (len(GROUPS), REQUESTS)
        self.rows = np.full((*shape, max(g.max_blocks for g in GROUPS)), GARBAGE)
        self.counts = np.zeros(shape, dtype=np.int64)
        self.begun_anew = set()
        self.ids = cycle(range(BLOCKS))

    def write(self, form, lengths, overwrite):
        """lengths: request -> new blocks in each group; ids come from a counter."""
        requests = list(lengths)
        ids = [[list(islice(self.ids, n)) for n in lengths[request]] for request in requests]
        if not all(self.fits(r, g, part, overwrite) for r, g, part in each(requests, ids)):
            return
        if form == "flat":
            shape = (len(requests), len(GROUPS))
            counts = np.array([*lengths.values()], dtype=np.int64).reshape(shape)
            flat = [block for _, _, part in each(requests, ids) for block in part]
            self.host.append_flat(requests, counts, np.array(flat, int), overwrite=overwrite)
        else:
            given = [[FORMS[form](part, group) for group, part in enumerate(ps)] for ps in ids]
            self.host.append_many(requests, given, overwrite=overwrite)
        for request, parts in zip(requests, ids, strict=True):
            (self.model.overwrite if overwrite else self.model.append)(request, parts)
        self.begun_anew.update(requests if overwrite else ())

    def fits(self, request, group, part, overwrite):
        held = 0 if overwrite else len(self.model.newest[group][request])
        return held + len(part) <= GROUPS[group].max_blocks

    def move(self, source, target):
        self.host.move(source, target)
        self.model.move(source, target)
        if source != target:
            self.begun_anew.add(target)

    def clear(self, request):
        self.host.clear(request)
        self.model.clear(request)
        self.begun_anew.add(request)

    def drop(self):
        self.host.drop(lambda group, request: self.rows[group, request])
        self.model.newest = [[list(row) for row in rows] for rows in self.model.applied]
        self.begun_anew.clear()

    def apply(self):
        writes = self.host.staged()
        assert sum(writes.lengths.tolist()) == len(writes.ids)
        rows = list(zip(writes.group.tolist(), writes.request.tolist(), strict=True))
        assert len(set(rows)) == len(rows)
        parts = np.split(writes.ids, writes.offset[1:]) if rows else []
        for row, start, part in zip(rows, writes.start.tolist(), parts, strict=True):
            # what the device has is not sent again
            assert start == self.counts[row] or row[1] in self.begun_anew
            self.rows[row][start : start + len(part)] = part
            self.counts[row] = start + len(part)
        self.host.publish()
        self.begun_anew.clear()
        self.model.apply()
        assert len(self.host.staged()) == 0
        self.check()

    def check(self):
        """The device's rows, and what the host says of the device and of the next apply."""
        assert self.host.counts.tolist() == self.counts.tolist()
        for g in range(len(GROUPS)):
            for request in range(REQUESTS):
                applied, newest = self.model.applied[g][request], self.model.newest[g][request]
                assert self.rows[g, request, : self.counts[g, request]].tolist() == applied
                assert self.host.newest_counts[g, request] == len(newest)
                assert self.host.row(g, request)[: len(newest)].tolist() == newest


def each(requests, ids):
    for request, parts in zip(requests, ids, strict=True):
        yield from ((request, group, part) for group, part in enumerate(parts))


length = st.sampled_from([0, 1, 1, 2, 3, LONG_WRITE - 1, LONG_WRITE, LONG_WRITE + 1])
lengths = st.tuples(length, length, length)
request = st.sampled_from([0, 0, 0, 1, 1, *range(REQUESTS)])
forms = st.sampled_from([*FORMS, "flat"])
few_requests = st.dictionaries(request, lengths, max_size=3)
write = st.tuples(st.just("write"), st.tuples(forms, few_requests, st.booleans()))
apply = st.tuples(st.just("apply"), st.just(()))
STEPS = st.lists(
    st.one_of(
        write,
        write,
        apply,
        st.tuples(st.just("clear"), st.tuples(request)),
        st.tuples(st.just("move"), st.tuples(request, request)),
        st.tuples(st.just("drop"), st.just(())),
    ),
    min_size=1,
    max_size=20,
)


def put(*lengths, form="lists", overwrite=False):
    """One write of request 0."""
    return "write", (form, {0: lengths}, overwrite)


HELD = [put(1, 1, 1), ("apply", ())]
"""A row that is not empty."""
LONG = (LONG_WRITE, LONG_WRITE + 1, LONG_WRITE)


@settings(max_examples=4 * settings.default.max_examples)
@given(steps=STEPS)
@example(steps=[*HELD, put(1, 1, 1), put(1, 1, 1)])
@example(steps=[*[put(1, 1, 1)] * 2, ("apply", ()), *[put(1, 1, 1)] * 2])
@example(steps=[*HELD, put(1, 0, 1, form="flat"), put(1, 1, 0, form="arrays")])
@example(steps=[put(2, 1, 3, form="mixed"), put(1, 2, 1, form="mixed")])
@example(steps=[*HELD, put(*LONG), put(*LONG, form="flat")])
@example(steps=[*HELD, put(1, 1, 1, overwrite=True), put(1, 1, 1)])
@example(steps=[*HELD, put(0, 0, 0, overwrite=True)])
@example(steps=[*HELD, put(1, 0, 2, overwrite=True)])
@example(steps=[*HELD, ("move", (0, 0)), put(1, 1, 1)])
@example(steps=[*HELD, put(1, 1, 1, overwrite=True), ("drop", ())])
@example(steps=[*HELD, ("clear", (0,))])
@example(steps=[*HELD, ("clear", (0,)), put(1, 1, 1)])
@example(steps=[*HELD, ("move", (0, 1)), put(1, 1, 1)])
@example(steps=[*HELD, put(1, 1, 1), ("move", (0, 1)), ("move", (1, 1))])
def test_staged_writes_arrive_as_the_models_rows(steps):
    device = Device()
    for name, arguments in steps:
        getattr(device, name)(*arguments)
        device.check()
    device.apply()


@pytest.mark.parametrize("path", PATHS)
def test_two_appends_to_a_row_with_blocks_before_one_apply(path):
    groups = [TableGroup(32, 16, 8), TableGroup(3, 3, 9)]
    tables = CheckedTables(groups, path, max_requests=3, max_tokens=9)
    tables.append(1, [[1, 2, 3], [4]])
    tables.apply()
    tables.append(1, [[5], [6, 7]])
    tables.append(1, [[8, 9], [10]])
    tables.apply()
    tables.assert_rows()


@pytest.mark.parametrize("bad", [-1, BLOCKS])
@pytest.mark.parametrize("count", [1, 48, 49, 150])
@pytest.mark.parametrize("form", ["lists", "arrays"])
def test_one_bad_id_among_few_and_many_is_refused_and_stages_nothing(bad, count, form):
    device = Device()
    device.write("lists", {0: (1, 1, 1)}, overwrite=False)
    ids = FORMS[form]([*range(count - 1), bad], 0)
    with pytest.raises(BlockTableError, match=rf"block id {bad} \(entry {count - 1}\)") as caught:
        device.host.append_many([0], [[ids, [], []]])
    assert (caught.value.given, caught.value.limit) == (bad, BLOCKS)
    device.check()
    device.apply()


@pytest.mark.parametrize("ids", [[], [[[1], [2], [3]]] * 2], ids=["fewer", "more"])
def test_lists_for_another_number_of_requests_are_refused(ids):
    with pytest.raises(BlockTableError, match="for 1 requests") as caught:
        Device().host.append_many([0], ids)
    assert (caught.value.given, caught.value.limit) == (len(ids), 1)
