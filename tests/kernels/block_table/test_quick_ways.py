"""The host's short cuts against the general way: same rows, same writes, same refusals."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import hypothesis.strategies as st
from hypothesis import example, given

from tests.kernels.block_table.cases import PATHS, TableGroup
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.host import HostTables
from workbench.kernels.block_table.numbers import integer_array, packed_numbers
from workbench.kernels.block_table.quick_writes import SOURCE
from workbench.kernels.c_module import c_module
from workbench.kernels.errors import BlockTableError

GROUPS = (TableGroup(32, 16, 3), TableGroup(16, 16, 200), TableGroup(48, 16, 9))
REQUESTS, BLOCKS = 20, 500
ODD = (-1, BLOCKS, 2**31, 2**40, 2**64, True, False, 1.0, "1", None, np.int64(4), np.int64(0))

blocks = st.integers(0, BLOCKS - 1)
lists = st.one_of(
    st.lists(blocks, max_size=3),
    st.lists(blocks, max_size=3).map(tuple),
    st.lists(blocks, min_size=46, max_size=68),
)
rarely_odd = st.one_of(lists, lists, st.lists(st.one_of(blocks, st.sampled_from(ODD)), max_size=3))
requests = st.one_of(st.integers(0, REQUESTS - 1), st.integers(0, 3))


@st.composite
def appends(draw):
    """(requests, ids, overwrite): mostly in order, sometimes to be refused."""
    rows = draw(st.lists(requests, max_size=5, unique=draw(st.integers(0, 5)) > 0))
    if draw(st.integers(0, 9)) == 0:
        rows = [*rows, draw(st.sampled_from((*ODD, REQUESTS)))]
    width = len(GROUPS) if draw(st.integers(0, 9)) else draw(st.integers(0, 4))
    ids = [[draw(rarely_odd) for _ in range(width)] for _ in rows]
    return rows, ids, draw(st.booleans())


@st.composite
def flat_appends(draw):
    """(requests, lengths, ids, overwrite), as arrays; sometimes not of int64, or to be refused."""
    rows = draw(st.lists(requests, max_size=5, unique=draw(st.integers(0, 5)) > 0))
    width = len(GROUPS) if draw(st.integers(0, 9)) else draw(st.integers(1, 4))
    lengths = np.array([[draw(st.integers(0, 4)) for _ in range(width)] for _ in rows], np.int64)
    lengths = lengths.reshape(len(rows), width)
    total = int(lengths.sum()) if draw(st.integers(0, 9)) else draw(st.integers(0, 9))
    ids = [draw(st.one_of(blocks, blocks, st.integers(-1, BLOCKS))) for _ in range(total)]
    if rows and not draw(st.integers(0, 9)):
        lengths[0, 0] = draw(st.sampled_from([-1, 2**40, -(2**63)]))
    if rows and not draw(st.integers(0, 9)):
        rows[-1] = draw(st.sampled_from([-1, REQUESTS, 2**40]))
    kinds = st.sampled_from([np.int64, np.int64, np.int64, np.int32, np.float64])
    kind = draw(kinds) if max([*rows, *ids], default=0) < 2**31 else np.int64
    forms = [np.array(rows, kind), lengths.astype(draw(kinds)), np.array(ids, kind)]
    if draw(st.integers(0, 9)) == 0:
        forms = [array.tolist() if i != 1 else array for i, array in enumerate(forms)]
    if draw(st.integers(0, 9)) == 0:
        forms = [array if isinstance(array, list) else array.repeat(2, 0)[::2] for array in forms]
    return *forms, draw(st.booleans())


def tables(*, quick):
    """`quick=False` takes the general way for everything."""
    host = HostTables(GROUPS, REQUESTS, BLOCKS)
    if not quick:
        host._quick.write = host._quick.write_flat = lambda *_, **__: None
        stage = host._stage

        def never_only(append):
            host._touched.extend(range(REQUESTS))  # as if something were staged already
            stage(append)

        host._stage = never_only
    return host


def state(host):
    """All that a later step can see, and what it sends, row by row."""
    writes = host.staged()
    parts = np.split(writes.ids, writes.offset[1:])
    sent = {
        (g, r): (start, ids.tolist())
        for g, r, start, ids in zip(
            writes.group.tolist(),
            writes.request.tolist(),
            writes.start.tolist(),
            parts if len(writes) else [],
            strict=True,
        )
    }
    assert len(sent) == len(writes)
    assert sum(writes.lengths.tolist()) == len(writes.ids)
    rows = [
        host.row(g, r)[: host.newest_counts[g, r]].tolist()
        for g in range(len(GROUPS))
        for r in range(REQUESTS)
    ]
    return sent, rows, host.newest_counts.tolist(), host.counts.tolist()


def appended(host, *written, overwrite):
    """None, or everything that the error says."""
    append = host.append_many if len(written) == 2 else host.append_flat
    try:
        append(*written, overwrite=overwrite)
    except BlockTableError as error:
        return type(error), str(error), vars(error)
    return None


STEPS = st.lists(
    st.one_of(
        appends().map(lambda append: ("append", append)),
        appends().map(lambda append: ("append", append)),
        flat_appends().map(lambda append: ("append", append)),
        st.tuples(st.just("move"), st.tuples(requests, requests)),
        st.tuples(st.just("clear"), st.tuples(requests)),
        st.tuples(st.just("publish"), st.just(())),
        st.tuples(st.just("drop"), st.just(())),
    ),
    max_size=12,
)


@given(steps=STEPS)
@example(steps=[("append", ([1], [[[4], [], []]], False)), ("publish", ()), ("drop", ())])
@example(steps=[("append", ([1], [[[4] * n, [], [5]]], False)) for n in (3, 1)])
@example(steps=[("append", ([1], [[[4], [5], [6]]], False)), ("append", ([1], [[[7]] * 3], True))])
def test_every_short_cut_ends_where_the_general_way_does(steps):
    quick, general = tables(quick=True), tables(quick=False)
    device = {}
    for name, arguments in steps:
        before = state(quick)
        if name == "append":
            *written, overwrite = arguments
            found = [appended(host, *written, overwrite=overwrite) for host in (quick, general)]
            assert found[0] == found[1]
            if found[0] is not None:  # a refused write leaves everything as it was
                assert state(quick) == before
        elif name == "drop":
            for host in (quick, general):
                host.drop(lambda g, r: device.get((g, r), np.zeros(200, np.int32)))
        else:
            if name == "publish":
                arrived(device, quick.staged())
            for host in (quick, general):
                getattr(host, name)(*arguments)
        assert state(quick) == state(general)


def arrived(device, writes):
    """Put what is sent where the device would."""
    for w, ids in enumerate(np.split(writes.ids, writes.offset[1:]) if len(writes) else []):
        row = device.setdefault((writes.group[w], writes.request[w]), np.zeros(200, np.int32))
        row[writes.start[w] :][: len(ids)] = ids


def test_the_short_cut_is_taken_and_left():
    """Otherwise the property above would compare the general way with itself."""
    assert c_module(SOURCE) is not None, "these tests need a C compiler and Python.h"
    host = tables(quick=True)
    one = [[1], [2], [3]]
    write, write_flat = host._quick.write, host._quick.write_flat
    assert write([*range(20)], [one] * 20, overwrite=False) is not None
    assert write([0], [[[], [*range(190)], ()]], overwrite=False) is not None
    assert write(np.array([0]), [one], overwrite=False) is None
    arrays = [np.array(values) for values in ([0], [[1, 2, 0]], [4, 5, 6])]
    assert write_flat(*arrays, overwrite=False) is not None
    for i, array in enumerate(arrays):
        others = [*arrays]
        others[i] = array.astype(np.int32)
        assert write_flat(*others, overwrite=False) is None
    host = tables(quick=True)
    host.append_many([7], [one])
    assert host._only is not None
    host.append_many([8], [one])
    assert host._only is None
    host.publish()
    host.append_many([8], [one])
    assert host._only is not None


def test_without_a_compiler_the_general_way_takes_all(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/no/such/compiler")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    c_module.cache_clear()
    try:
        assert c_module(SOURCE) is None
        host = tables(quick=True)
        host.append_many([7], [[[1], [2], [3]]])
        assert host.row(1, 7)[0] == 2
    finally:
        c_module.cache_clear()


@given(values=st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2))))
def test_packed_numbers_are_the_numbers(values):
    if values:
        assert packed_numbers(values).tolist() == values
    assert integer_array(values, "f").tolist() == values


@pytest.mark.parametrize("odd", [True, False, 1.0, "1", None, 2**63, -(2**63) - 1, [1]], ids=str)
@pytest.mark.parametrize("others", [[], [5], [0], [-7, 9]], ids=str)
def test_packed_numbers_leave_all_else_to_a_closer_look(odd, others):
    assert packed_numbers([*others, odd]) is None
    with pytest.raises(BlockTableError, match="f must be"):
        integer_array([*others, odd], "f")


@pytest.mark.parametrize("path", PATHS)
def test_gather_and_slots_can_be_launched_one_by_one(path):
    groups = [TableGroup(32, 16, 4), TableGroup(48, 48, 2)]
    made = [
        BlockTables(groups, max_requests=2, max_tokens=6, num_blocks=50, path=path)
        for _ in range(2)
    ]
    for table in made:
        table.append(1, [[3, 9], [4]])
        table.upload([1], [0, 3], [0, 31, 40], padded_requests=1)
    made[0].launch()
    table = made[1]
    table._path.launch_apply()
    for results in (table.slot_mapping, *table.block_table):
        results.fill_(-77)
    table.launch_gather()
    assert (table.slot_mapping == -77).all()
    table.launch_slots()
    assert table.slot_mapping.tolist() == made[0].slot_mapping.tolist()
    for one, both in zip(table.block_table, made[0].block_table, strict=True):
        assert one[0, :1].tolist() == both[0, :1].tolist() != [-77]
