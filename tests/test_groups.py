"""Rows of a test in groups: each one runs, and each failure is named."""

from __future__ import annotations

import pytest

from tests.groups import ROWS, in_groups


def items_of(test):
    """The groups that a test has got."""
    [mark] = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    return mark.args[1]


def test_every_row_runs_once_and_groups_are_of_one_size():
    seen = []

    @in_groups
    @pytest.mark.parametrize("a", range(30))
    @pytest.mark.parametrize(("b", "c"), [(1, 2), (3, 4), (5, 6)])
    def test(a, b, c):
        seen.append((a, b, c))

    groups = items_of(test)
    for rows in groups:
        test(rows)
    assert sorted(seen) == [(a, b, b + 1) for a in range(30) for b in (1, 3, 5)]
    assert {len(rows) for rows in groups} == {30}
    assert max(map(len, groups)) <= ROWS


def test_all_rows_that_fail_are_named():
    @in_groups
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "number", [1, pytest.param(2, id="two"), 3, 4], ids=lambda one: f"row-{one}"
    )
    def test(number):
        assert number % 2

    assert [mark.name for mark in test.pytestmark] == ["slow", "parametrize"]
    with pytest.raises(ExceptionGroup, match="2 of 4 rows") as caught:
        test(items_of(test)[0])
    assert [one.__notes__ for one in caught.value.exceptions] == [["Row: two"], ["Row: row-4"]]


def test_rows_may_be_skipped():
    @in_groups
    @pytest.mark.parametrize("number", [1, 2])
    def test(number):
        if number <= limit:
            pytest.skip("small")

    limit = 1
    test(items_of(test)[0])
    limit = 2
    with pytest.raises(pytest.skip.Exception):
        test(items_of(test)[0])
