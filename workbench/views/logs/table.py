"""An explained log as text and as HTML, from its published form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from workbench.core.trace import show
from workbench.views.html import document, table

SIGNS = {
    "agrees": "✓",
    "differs": "✕",
    "told": "→",  # words: ok
    "known": "·",
    "unsure": "?",
    "cut": "…",
}
"""Verdict -> sign; words follow it, so that no meaning depends on the sign or a colour alone."""

BECAUSE = "because:"


def log_text(report: Mapping[str, Any]) -> str:
    """Return headline, scenario, every known line with its reasons, and what is missing."""
    failure = report["failure"]
    parts = [headline(report)]
    if failure is not None:
        parts += [failure["summary"], *(f"missing: {what}" for what in failure["missing"])]
    parts += [f"note: {note}" for note in report["notes"]]
    parts += [f"missing: {what}" for what in _missing(report)]
    if report["scenario"] is not None:
        parts += ["", "Scenario:", *(f"  {line}" for line in _fields(report))]
    if report["candidates"]:
        parts += ["", "Scenarios with these sizes:"]
        parts += [f"  {scene['text']}" for scene in report["candidates"]]
    for line in report["lines"]:
        parts += ["", *_line(line)]
    return "\n".join(parts)


def headline(report: Mapping[str, Any]) -> str:
    """Return how many lines are known, and how many agree with the rules, in one sentence."""
    verdicts = [line["verdict"] for line in report["lines"]]
    known, agree, differ = len(verdicts), verdicts.count("agrees"), verdicts.count("differs")
    version = f"vLLM {report['vllm_version']}" if report["vllm_version"] else "vLLM"
    count = f"{known} message{'' if known == 1 else 's'} known in {report['total_lines']:,} lines"
    compared = f"{agree} agree with the rules, {differ} not" if agree or differ else "none compared"
    return f"{version}: {count}; {compared}."


def _fields(report: Mapping[str, Any]) -> Iterable[str]:
    for field, value in report["scenario"].items():
        at = report["from_lines"].get(field)
        yield f"{field} = {show(value)}" + (f"  (line {at})" if at else "")


def _line(line: Mapping[str, Any]) -> list[str]:
    times = f", {line['times']} times" if line["times"] > 1 else ""
    sign = SIGNS[line["verdict"]]
    return [
        f"{sign} line {line['line']}{times} [{line['message']}] {line['verdict_text']}",
        f"    {line['text']}",
        f"    {line['means']}",
        *(f"      {reason}" for reason in line["why"]),
        *(f"    would explain it: {one}" for one in line["candidates"]),
        *(f"    change: {one}" for one in line["advice"]),
    ]


def log_html(report: Mapping[str, Any]) -> str:
    """Return the same as HTML; everything from the log is escaped."""
    notes = [*report["notes"], *(f"Missing: {what}." for what in _missing(report))]
    return document(
        f"<p><b>{escape(headline(report))}</b></p>",
        failure_html(report["failure"]),
        f"<p>{_list(notes)}</p>" if len(notes) == 1 else _list(notes),
        _candidates(report),
        lines_table(report["lines"]),
    )


def failure_html(failure: Mapping[str, Any] | None) -> str:
    """Return the fatal error of a log and what the rules say to it; nothing for a good start."""
    if failure is None:
        return ""
    missing = _list([f"Missing: {what}." for what in failure["missing"]])
    return (
        f'<div class="wb-problem" data-reproduced="{str(failure["reproduced"]).lower()}">'
        f"<b>✕ {escape(failure['summary'])}</b>"
        + (f"<div>{missing}</div>" if missing else "")
        + "</div>"
    )


def _missing(report: Mapping[str, Any]) -> list[str]:
    """Return what the log lacks, without what its failure lists already."""
    failure = report["failure"]
    return [what for what in report["missing"] if failure is None or what not in failure["missing"]]


def scenario_html(report: Mapping[str, Any]) -> str:
    """Return the reconstructed scenario, field by field, each with the line that reported it."""
    if report["scenario"] is None:
        return ""
    rows = [
        (
            f"<code>{escape(field)}</code>",
            f"<code>{escape(show(value))}</code>",
            str(report["from_lines"].get(field, "assumed")),
        )
        for field, value in report["scenario"].items()
    ]
    return document(
        "<details><summary>The scenario of this log</summary>"
        + table(("field", "value", "line"), rows)
        + "</details>"
    )


def lines_table(lines: Iterable[Mapping[str, Any]]) -> str:
    """Return one row per message: where, what it says, what the rules say, what to change."""
    rows = [
        (
            _place(line),
            f"<code>{escape(line['text'])}</code>",
            f'<span data-verdict="{escape(line["verdict"])}">{_verdict(line)}</span>',
            escape(line["means"]) + _why(line["why"]) + _explained_by(line["candidates"]),
            _list(line["advice"]),
        )
        for line in lines
    ]
    return table(("line", "the log", "verdict", "why", "what to change"), rows)


def _place(line: Mapping[str, Any]) -> str:
    return str(line["line"]) + (f"<br>{line['times']} times" if line["times"] > 1 else "")


def _verdict(line: Mapping[str, Any]) -> str:
    return f"<b>{SIGNS[line['verdict']]} {escape(line['verdict_text'])}</b>"


def _why(reasons: list[str]) -> str:
    """Return the sentence, and the steps of the trace to unfold."""
    if not reasons:
        return ""
    first, rest = reasons[0], reasons[1:]
    if not rest:
        return f"<br>{escape(first)}"
    sentence = escape(first.removesuffix(BECAUSE).strip())
    steps = "".join(f"<li>{escape(reason)}</li>" for reason in rest)
    count = f"{len(rest)} step{'' if len(rest) == 1 else 's'}"
    return f"<br>{sentence}<details><summary>{count}</summary><ol>{steps}</ol></details>"


def _explained_by(candidates: list[str]) -> str:
    if not candidates:
        return ""
    return f"<br><b>What would explain it:</b> {_list(candidates)}"


def _candidates(report: Mapping[str, Any]) -> str:
    if not report["candidates"]:
        return ""
    found = _list([scene["text"] for scene in report["candidates"]])
    return f"<p>Scenarios with these sizes:</p><div>{found}</div>"


def _list(texts: Iterable[str]) -> str:
    """Return one sentence as it is, several as a list."""
    escaped = [escape(text) for text in texts]
    if len(escaped) <= 1:
        return "".join(escaped)
    return "<ul>" + "".join(f"<li>{text}</li>" for text in escaped) + "</ul>"
