"""A verification as text and HTML: field, the workbench's value, vLLM's, and whether they agree."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from workbench.core.what_if.verification import Check, Report
from workbench.views.html import document

WIDTH = 44
"""Characters of a value in a text table; the JSON form has all of them."""
SHOWN = 20
"""Scenarios whose tables are shown; the counts are of all."""


def verification_text(report: Report) -> str:
    """Return the table of one scenario, or the differing ones of many; then the calls made."""
    lines = [headline(report)]
    for check in _shown(report):
        lines += ["", scenario_text(check)]
        if check.failure is not None:
            lines.append(f"  failed: {check.failure}")
        lines += _table(check, everything=len(report.checks) == 1)
        lines += [f"  not verified: {field} ({why})" for field, why in check.unanswered.items()]
    lines += ["", "vLLM functions called: " + ", ".join(report.functions)]
    if report.stand_ins:
        lines.append("Replaced, on a machine without that device:")
        lines += [f"  {name}: {what}" for name, what in report.stand_ins.items()]
    return "\n".join(lines)


def headline(report: Report) -> str:
    """Return versions and counts of fields, differing scenarios and failures, in a sentence."""
    fields = sum(len(check.rows) for check in report.checks)
    return (
        f"vLLM {report.version} compared with rules {report.rules}{nearest_note(report)}: "
        f"{len(report.checks)} scenario{'s' * (len(report.checks) != 1)}, {fields} fields, "
        f"{len(report.differing)} with differences, {len(report.failed)} failed"
    )


def nearest_note(report: Report) -> str:
    """Return a warning where the rules are of another version than the vLLM; empty otherwise."""
    return "" if report.exact else " (the nearest; there are none for this version)"


def scenario_text(check: Check) -> str:
    """Return the chosen fields on one line."""
    return ", ".join(f"{name}={_name(value)}" for name, value in check.scenario.items())


def verification_html(report: Report) -> str:
    """Return the same as HTML: one table per scenario, differences marked by sign and word."""
    parts = [f"<p><b>{'✕' if report.differing else '✓'} {escape(headline(report))}</b></p>"]
    for check in _shown(report):
        parts.append(f"<p>{escape(scenario_text(check))}</p>")
        if check.failure is not None:
            parts.append(f"<p>✕ failed: {escape(check.failure)}</p>")
        parts.append(_html_table(check))
    functions = escape(", ".join(report.functions))
    stand_ins = "".join(
        f"<li><code>{escape(name)}</code>: {escape(what)}</li>"
        for name, what in report.stand_ins.items()
    )
    parts.append(
        f"<details><summary>vLLM functions called</summary><p>{functions}</p>"
        f"<p>Replacements for a device that is not here:</p><ul>{stand_ins}</ul></details>"
    )
    return document(*parts)


def _shown(report: Report) -> Sequence[Check]:
    if len(report.checks) == 1:
        return report.checks
    return (*report.differing, *report.failed)[:SHOWN]


def _table(check: Check, *, everything: bool) -> list[str]:
    rows = check.rows if everything else check.differences
    if not rows:
        return []
    cells = [("field", "workbench", "vLLM", "same")] + [
        (row.field, _value(row.ours), _value(row.theirs), _verdict(row.same)) for row in rows
    ]
    widths = [max(len(line[at]) for line in cells) for at in range(4)]
    return [f"  {_padded(line, widths)}" for line in cells]


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = (text.ljust(width) for text, width in zip(cells, widths, strict=True))
    return "  ".join(parts).rstrip()


def _html_table(check: Check) -> str:
    body = "".join(
        f'<tr data-same="{str(row.same).lower()}"><td>{escape(row.field)}</td>'
        f"<td>{escape(_text(row.ours))}</td><td>{escape(_text(row.theirs))}</td>"
        f"<td>{'✓ yes' if row.same else '✕ <b>NO</b>'}</td></tr>"
        for row in check.rows
    )
    if not body:
        return ""
    head = "<tr><th>field</th><th>workbench</th><th>vLLM</th><th>same</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _verdict(same: bool) -> str:
    return "yes" if same else "NO"


def _name(value: Any) -> str:
    return str(value.get("model_type", "config")) if isinstance(value, dict) else str(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _value(value: Any) -> str:
    text = _text(value).replace("\n", " ")
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."
