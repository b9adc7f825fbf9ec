"""Tests of many quick rows as a few items of pytest: an item costs more than a row."""

from __future__ import annotations

import inspect
from itertools import product

import pytest
from _pytest.mark.structures import ParameterSet

ROWS = 40
"""Of a group. An item takes 5 ms of a worker and of the process that hands it out."""


def in_groups(test):
    """Give a parametrized test its rows in groups; all rows that fail are reported.

    It comes above `pytest.mark.parametrize`. A row has nothing but its parameters: no fixture.
    """
    marks = [mark for mark in test.pytestmark if mark.name == "parametrize"]
    rows = [
        (" ".join(label for label, _values in parts), {k: v for _, one in parts for k, v in one})
        for parts in product(*map(_rows_of, marks))
    ]
    assert rows[0][1].keys() == inspect.signature(test).parameters.keys()
    count = -(-len(rows) // ROWS)

    def run(rows):
        errors, skipped = [], 0
        for label, values in rows:
            try:
                test(**values)
            except pytest.skip.Exception:
                skipped += 1
            except Exception as error:  # noqa: BLE001  (reported with the others)
                error.add_note(f"Row: {label}")
                errors.append(error)
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {len(rows)} rows", errors)
        if skipped == len(rows):
            pytest.skip("every row is skipped")

    run.__name__, run.__qualname__, run.__doc__ = test.__name__, test.__qualname__, test.__doc__
    run.__module__ = test.__module__
    run.pytestmark = [mark for mark in test.pytestmark if mark not in marks]
    groups = [rows[first::count] for first in range(count)]
    return pytest.mark.parametrize("rows", groups, ids=map(str, range(count)))(run)


def _rows_of(mark):
    """The rows of one mark: their label, and (name, value) of each parameter."""
    names, values = mark.args
    names = [one.strip() for one in names.split(",")] if isinstance(names, str) else list(names)
    values = [ParameterSet.extract_from(one, force_tuple=len(names) == 1) for one in values]
    assert not any(one.marks for one in values), "a row of a group has no mark of its own"
    ids = mark.kwargs.get("ids")
    given = ids if ids is not None and not callable(ids) else [one.id for one in values]
    write = ids if callable(ids) else str
    return [
        (
            str(label or "-".join(map(str, map(write, one.values)))),
            [*zip(names, one.values, strict=True)],
        )
        for label, one in zip(given, values, strict=True)
    ]
