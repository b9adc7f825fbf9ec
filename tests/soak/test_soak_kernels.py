"""Hostile inputs of both kernels: refused before a launch, or the reference's result."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.block_table.cases import PATHS, CheckedTables, TableGroup
from tests.kernels.paged_flex.cases import Case, requests
from tests.soak.duration import soak, turns
from workbench.kernels.errors import BlockTableError, PagedFlexError
from workbench.kernels.paged_flex.api import paged_batch

pytestmark = [soak, pytest.mark.slow]
GROUPS = (TableGroup(32, 16, 3), TableGroup(48, 16, 5))
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 99, 100, -1, -2, 2**31, -(2**40), 2**62, 10**30, 1.5, True, None)
ODD = ("1", float("nan"), float("inf"), [], [1], {}, b"1", np.int8(-3), np.float32(2))


def number(chance):
    """A value that is right in most places: what comes after a wrong one is tested as well."""
    hostile = chance.random() < 0.12
    return chance.choice(NUMBERS + ODD) if hostile else chance.randrange(4)


def numbers(chance, most=4):
    found = [number(chance) for _ in range(chance.randrange(most + 1))]
    form = chance.randrange(8)
    if form == 0 and all(type(one) is int and abs(one) < 2**60 for one in found):
        return np.array(found).astype(chance.choice([np.int32, np.int64, np.float64, np.uint8]))
    return tuple(found) if form == 1 else found


@pytest.mark.parametrize("path", PATHS)
def test_block_tables_refuse_or_are_right(path):
    done = 0
    for turn, chance in turns():
        if turn % 20 == 0:
            tables = CheckedTables(GROUPS, path, max_requests=4, max_tokens=9, num_blocks=100)
        ids = [numbers(chance) for _ in range(chance.choice([2, 2, 2, 1, 3]))]
        calls = (
            ("append", number(chance), ids),
            ("overwrite", number(chance), ids),
            ("clear", number(chance)),
            ("move", number(chance), number(chance)),
            ("apply",),
        )
        name, *arguments = chance.choice(calls)
        try:
            getattr(tables, name)(*arguments)
            done += 1
        except BlockTableError:
            pass
        lengths = sorted(chance.randrange(4) for _ in range(2))
        positions = [number(chance) for _ in range(lengths[-1])]
        try:
            tables.step([number(chance), number(chance)], [0, *lengths], positions)
            done += 1
        except BlockTableError:
            tables.model.newest = [[[*row] for row in rows] for rows in tables.model.applied]
        tables.assert_rows()
        tables.memory.check()
    assert done


def test_paged_attention_refuses_or_is_right():
    done = 0
    case = Case([*requests((40, 3), (20, 1), heads=4, kv_heads=2)], 16, guarded=True)
    for turn, chance in turns():
        table = np.array([[chance.randrange(5) for _ in range(3)] for _ in range(2)])
        if chance.random() < 0.3:
            table[chance.randrange(2), chance.randrange(3)] = chance.choice([-1, 5, 2**40])
        right = {"num_blocks": 5, "entry_tokens": 16, "first": 3, "last": 4, "one": 40, "two": 16}
        changed = {name: chance.choice(NUMBERS + ODD) for name in right if chance.random() < 0.1}
        options = right | changed
        lengths = [options.pop("one"), options.pop("two")]
        starts = (0, options.pop("first"), options.pop("last"))
        try:
            found = paged_batch(starts, lengths, table, **options)
        except PagedFlexError:
            pass
        else:
            done += 1
            assert found.num_requests == 2
        if turn % 10 == 0:  # what was refused has changed nothing
            case.check()
    assert done
