"""A verification as text and HTML: field, the workbench's value, vLLM's, and whether they agree."""

import json
from collections.abc import Sequence
from typing import Any

from workbench.core.what_if.verification import Check, Report
from workbench.views.html import bullets, code, document, fold, join, records, tag
from workbench.views.text import aligned, shortened

WIDTH = 44
"""Characters of a value in a text table; the JSON form has all of them."""
SHOWN = 20
"""Scenarios whose tables are shown; the counts are of all."""


def verification_text(report: Report) -> str:
    """Return the table of one scenario, or the differing ones of many; then the calls made."""
    lines = [headline(report)]
    if own := other_rules(report):
        lines.append(own)
    if len(report.checks) > 1:
        lines += ["", *_agreement(report)]
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
    nearest = "" if report.exact else " (the nearest; there are none for this version)"
    return (
        f"vLLM {report.version} compared with rules {report.rules}{nearest}: "
        f"{len(report.checks)} scenario{'s' * (len(report.checks) != 1)}, {fields} fields, "
        f"{len(report.differing)} with differences, {len(report.failed)} failed"
    )


def other_rules(report: Report) -> str:
    """Return that the numbers are not those of the scenario's release; empty where they are."""
    if (own := report.other_rules) is None:
        return ""
    return (
        f"The scenario is of {own}: its numbers elsewhere can differ from both columns, which are "
        f"of {report.rules}."
    )


def scenario_text(check: Check) -> str:
    """Return the chosen fields on one line."""
    return ", ".join(f"{name}={_name(value)}" for name, value in check.scenario.items())


def verification_html(report: Report) -> str:
    """Return the same as HTML: one table per scenario, differences marked by sign and word."""
    headed = f"{'✕' if report.differing else '✓'} {headline(report)}"
    parts = [tag("p", tag("b", headed))]
    if own := other_rules(report):
        parts.append(tag("p", own))
    for check in _shown(report):
        parts.append(tag("p", scenario_text(check)))
        if check.failure is not None:
            parts.append(tag("p", f"✕ failed: {check.failure}"))
        parts.append(
            records(
                {
                    "field": row.field,
                    "workbench": _text(row.ours),
                    "vLLM": _text(row.theirs),
                    "same": "✓ yes" if row.same else join("✕ ", tag("b", "NO")),
                }
                for row in check.rows
            )
        )
    stand_ins = bullets(join(code(name), f": {what}") for name, what in report.stand_ins.items())
    called = fold(
        "vLLM functions called",
        tag("p", ", ".join(report.functions)),
        tag("p", "Replacements for a device that is not here:"),
        stand_ins,
    )
    return document(*parts, called)


def _shown(report: Report) -> Sequence[Check]:
    if len(report.checks) == 1:
        return report.checks
    silent = [check for check in report.checks if check.unanswered and not check.differences]
    return (*report.differing, *report.failed, *silent)[:SHOWN]


def _agreement(report: Report) -> list[str]:
    """Return how often each field agrees; the fields that always do follow on one line."""
    counts = report.agreement
    partly = {field: pair for field, pair in counts.items() if pair[0] < pair[1]}
    rows = [(field, f"{same} of {compared}") for field, (same, compared) in partly.items()]
    whole = [
        f"{field} {compared}" for field, (same, compared) in counts.items() if same == compared
    ]
    lines = aligned([("field", "agrees in"), *rows], "  ") if rows else []
    return [*lines, "  agrees in every scenario: " + ", ".join(whole)]


def _table(check: Check, *, everything: bool) -> list[str]:
    rows = check.rows if everything else check.differences
    cells = [
        (row.field, _value(row.ours), _value(row.theirs), "yes" if row.same else "NO")
        for row in rows
    ]
    return aligned([("field", "workbench", "vLLM", "same"), *cells], "  ") if cells else []


def _name(value: Any) -> str:
    return str(value.get("model_type", "config")) if isinstance(value, dict) else str(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _value(value: Any) -> str:
    return shortened(_text(value).replace("\n", " "), WIDTH)
