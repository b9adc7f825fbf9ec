"""How far a sweep is, and its newest rows: for a panel that is refreshed while it runs."""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from workbench.views.html import code, document, note, table, tag, warnings_html, wide_table

SHOWN = 12


def progress_text(
    done: int, total: int, per_second: float | None, remaining_s: float | None, failed: int
) -> str:
    """As in "12 of 96, 1.5 a second, 56 s left, 2 failed"."""
    parts = [f"{done:,} of {total:,}"]
    if per_second is not None:
        rate = f"{per_second:.1f} per second" if per_second >= 1 else f"{1 / per_second:.1f} s each"
        parts.append(rate)
    if remaining_s is not None and done < total:
        parts.append(f"{remaining_s:,.0f} s left")
    if failed:
        parts.append(f"{failed:,} failed")
    return ", ".join(parts)


def measured_html(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> str:
    """Newest rows first. rows: as `Row.to_dict` returns them; fields: of the configuration."""
    if not rows:
        return ""
    newest = list(reversed(rows))[:SHOWN]
    body = (
        (
            f"{'✓' if row['status'] == 'ok' else '✕'} {row['status']}",
            _verdict(row["correct"]),
            _verdict(row["bitwise"]),
            "no time" if row["median_s"] is None else f"{1e6 * row['median_s']:,.1f} us",
            *(str(row["config"].get(name, "-")) for name in fields),
            row["message"][:120],
        )
        for row in newest
    )
    cut = len(newest) < len(rows)
    return document(
        wide_table(("status", "correct", "bitwise equal", "time", *fields, ""), body),
        note(f"the newest {SHOWN} of {len(rows):,} rows") if cut else "",
    )


def winners_rows(
    winners: Mapping[str, Mapping[str, Any]], fields: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return a row for each winner: where, what, and how many others are as quick.

    winners: bucket -> `config`, `seconds` and `ties`. Equal winners of several buckets are one.
    """
    groups: dict[str, tuple[list[str], Mapping[str, Any]]] = {}
    for bucket, found in winners.items():
        key = f"{found['config']} {found['seconds']}"
        groups.setdefault(key, ([], found))[0].append(bucket)
    return [
        (
            ", ".join(buckets),
            f"{1e6 * found['seconds']:,.1f} us",
            *(str(found["config"].get(name, "-")) for name in fields),
            f"{found['ties']} within 2 %",
        )
        for buckets, found in groups.values()
    ]


def winners_html(
    place: str, winners: Mapping[str, Mapping[str, Any]], fields: Sequence[str]
) -> str:
    """Return the winners on one device. place: device and version, as text."""
    header = ("best on", "mean time", *fields, "ties")
    shown = table(header, winners_rows(winners, fields))
    return document(tag("h4", f"Winners: {place}"), shown)


def export_hint(path: str, *, bitwise: bool) -> str:
    """How the winners of flex attention are taken away."""
    more = " --bitwise" if bitwise else ""
    command = f"workbench results export {quote(path)} FOLDER --best{more}"
    return document(tag("p", "A file for each device: ", code(command)))


def note_html(notes: Sequence[str]) -> str:
    """Sentences that a person has to know, such as why nothing is measured; empty for none."""
    return document(warnings_html(notes)) if notes else ""


def _verdict(value: bool | None) -> str:
    return "-" if value is None else "yes" if value else "no"
