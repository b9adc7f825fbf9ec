"""Rows as CSV that a spreadsheet shows and never runs."""

import csv
import io
import json
from collections.abc import Mapping, Sequence

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a text that begins with one of these as a formula."""


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows of equal keys with a header line; empty without rows.

    An object becomes JSON. A text that a spreadsheet would run gets an apostrophe in front, which
    a spreadsheet hides; numbers stay numbers.
    """
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, [_cell(name) for name in rows[0]])
    writer.writeheader()
    for row in rows:
        writer.writerow({_cell(name): _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    shown = json.dumps(value) if isinstance(value, dict) else value
    return f"'{shown}" if isinstance(shown, str) and shown.startswith(FORMULA_STARTS) else shown
