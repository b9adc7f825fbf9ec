"""How far a sweep is, and its newest rows: for a panel that is refreshed while it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from workbench.views.html import document, table

SHOWN = 12


def progress_text(
    done: int, total: int, per_second: float | None, remaining_s: float | None, failed: int
) -> str:
    """As in "12 of 96, 1.5 a second, 56 s left, 2 failed"."""
    parts = [f"{done:,} of {total:,}"]
    if per_second is not None:
        rate = f"{per_second:.1f} a second" if per_second >= 1 else f"{1 / per_second:.1f} s each"
        parts.append(rate)
    if remaining_s is not None and done < total:
        parts.append(f"{remaining_s:,.0f} s left")
    if failed:
        parts.append(f"{failed:,} failed")
    return ", ".join(parts)


def measured_html(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Newest rows first. rows: as `Row.to_dict` tells them; fields: of the configuration."""
    header = ("status", "correct", "bits equal", "time", *map(escape, fields), "")
    body = [
        (
            f"{'✓' if row['status'] == 'ok' else '✕'} {escape(row['status'])}",
            _verdict(row["correct"]),
            _verdict(row["bitwise"]),
            "no time" if row["median_s"] is None else f"{1e6 * row['median_s']:,.1f} us",
            *(escape(str(row["config"].get(name, "-"))) for name in fields),
            escape(row["message"][:120]),
        )
        for row in list(reversed(rows))[:SHOWN]
    ]
    return document(table(header, body))


def _verdict(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"
