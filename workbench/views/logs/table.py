"""An explained log as text and as HTML, from its published form."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.core.errors import cut
from workbench.core.remedies import fields_text, outcome_text
from workbench.core.trace import show
from workbench.views.html import (
    Html,
    bullets,
    code,
    document,
    fold,
    join,
    prose,
    records,
    remedies_html,
    stacked,
    tag,
)
from workbench.views.settings import changes_text
from workbench.views.units import counted

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
    if report["servers"]:
        return "\n\n".join(f"{title}\n{log_text(server)}" for title, server in _servers(report))
    failure = report["failure"]
    parts = [headline(report)]
    if failure is not None:
        parts += [failure["summary"], *(f"missing: {what}" for what in failure["missing"])]
        parts += [f"tested remedy: {one}" for one in _remedies(failure, fields_text)]
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


def brief(report: Mapping[str, Any]) -> str:
    """Return what a log comes to in a few lines: headline, error, scenario and what is missing."""
    failure, scenario = report["failure"], report["scenario"]
    parts = [headline(report)]
    if report["servers"]:
        parts.append(f"The last of {len(report['servers'])} servers.")
    if failure is not None:
        parts.append(failure["summary"])
    if scenario is not None:
        fields = (f"{name} = {cut(show(value))}" for name, value in scenario.items())
        parts.append(f"Scenario: {', '.join(fields)}")
    return "\n".join([*parts, *(f"Missing: {what}." for what in _missing(report))])


def _servers(report: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Return a title for every server of a log, and its report."""
    count = len(report["servers"])
    for at, server in enumerate(report["servers"], 1):
        first, last = server["lines"][0]["line"], server["lines"][-1]["line"]
        yield f"Server {at} of {count}, lines {first} to {last}", server


def headline(report: Mapping[str, Any]) -> str:
    """Return how many lines are known, and how many agree with the rules, in one sentence."""
    verdicts = [line["verdict"] for line in report["lines"]]
    agree, differ = verdicts.count("agrees"), verdicts.count("differs")
    version = f"vLLM {report['vllm_version']}" if report["vllm_version"] else "vLLM"
    count = f"{counted(len(verdicts), 'message')} known in {counted(report['total_lines'], 'line')}"
    compared = (
        f"{agree} agree{'s' * (agree == 1)} with the rules, {differ} not"
        if agree or differ
        else "none has a number of the rules to compare"
    )
    return f"{version}: {count}; {compared}."


def _fields(report: Mapping[str, Any]) -> Iterable[str]:
    for field, value in report["scenario"].items():
        at = report["from_lines"].get(field)
        yield f"{field} = {show(value)}" + (f"  (line {at})" if at else "")


def _line(line: Mapping[str, Any]) -> list[str]:
    times = f", {line['times']} times" if line["times"] > 1 else ""
    where = f"{SIGNS[line['verdict']]} line {line['line']}{times}"
    return [
        f"{where} [{line['message']}] {line['verdict_text']}",
        f"    {line['text']}",
        f"    {line['means']}",
        *(f"      {reason}" for reason in line["why"]),
        *(f"    would explain it: {one}" for one in line["candidates"]),
        *(f"    change: {one}" for one in line["advice"]),
    ]


def log_html(report: Mapping[str, Any]) -> str:
    """Return the same as HTML, a fatal error first; everything from the log is escaped."""
    if report["servers"]:
        return "".join(
            document(tag("h4", title)) + log_html(server) for title, server in _servers(report)
        )
    notes = [*report["notes"], *(f"Missing: {what}." for what in _missing(report))]
    scenarios = [scene["text"] for scene in report["candidates"]]
    found = [tag("p", "Scenarios with these sizes:"), tag("div", _list(scenarios))]
    return document(
        failure_html(report, remedies_html(_remedies(report["failure"], changes_text))),
        tag("p", tag("b", headline(report))),
        tag("p", _list(notes)) if len(notes) == 1 else _list(notes),
        *(found if scenarios else ()),
        lines_table(report["lines"]),
    )


def failure_html(report: Mapping[str, Any], remedies: Html) -> Html:
    """Return the fatal error of a log: cause, what to change, and what the rules say to it.

    remedies: changes that were tried. Nothing for a good start.
    """
    failure = report["failure"]
    if failure is None:
        return Html()
    lines = failing_lines(report)
    causes = dict.fromkeys(line["means"] for line in lines)
    advice = dict.fromkeys(one for line in lines for one in line["advice"])
    change = join(tag("b", "What to change"), bullets(map(prose, advice))) if advice else Html()
    return tag(
        "div",
        tag("b", f"✕ {failure['summary']}"),
        *(tag("div", prose(one)) for one in causes),
        remedies or change,
        *(tag("div", prose(f"Missing: {what}.")) for what in failure["missing"]),
        class_="wb-problem",
        data_reproduced=failure["reproduced"],
    )


def failing_lines(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the lines of the fatal error; ranks repeat it, and the first of them counts."""
    failure, lines = report["failure"], report["lines"]
    of_it = [one["line"] for one in lines if failure and one["message"] == failure["message"]]
    return [one for one in lines if one["line"] in of_it[-1:]]


def _remedies(
    failure: Mapping[str, Any] | None, words: Callable[[Mapping[str, Any]], str]
) -> list[str]:
    found = failure["remedies"] if failure is not None else ()
    return [outcome_text(words(one["changes"]), one["block_size"]) for one in found]


def _missing(report: Mapping[str, Any]) -> list[str]:
    """Return what the log lacks, without what its failure lists already."""
    failure = report["failure"]
    return [what for what in report["missing"] if failure is None or what not in failure["missing"]]


def scenario_html(report: Mapping[str, Any]) -> str:
    """Return the reconstructed scenario, field by field, each with the line that reported it."""
    if report["scenario"] is None:
        return ""
    fields = records(
        {
            "field": code(field),
            "value": code(value),
            "line": str(report["from_lines"].get(field, "assumed")),
        }
        for field, value in report["scenario"].items()
    )
    return document(fold("The scenario of this log", fields))


def lines_table(lines: Iterable[Mapping[str, Any]]) -> Html:
    """Return one row per message: where, what it says, what the rules say, what to change."""
    return records(map(_columns, lines))


def _columns(line: Mapping[str, Any]) -> dict[str, Html]:
    times = [f"{line['times']} times"] if line["times"] > 1 else []
    verdict = tag("b", f"{SIGNS[line['verdict']]} {line['verdict_text']}")
    return {
        "line": stacked(str(line["line"]), *times),
        "the log": code(line["text"]),
        "verdict": tag("span", verdict, data_verdict=line["verdict"]),
        "why": stacked(*_why(line), *_explained_by(line["candidates"])),
        "what to change": _list(line["advice"]),
    }


def _why(line: Mapping[str, Any]) -> Iterable[Any]:
    """Yield the meaning, the sentence, and the steps of the trace to unfold."""
    yield prose(line["means"])
    reasons: list[str] = line["why"]
    if len(reasons) == 1:
        yield reasons[0]
    elif reasons:
        first, *rest = reasons
        steps = fold(counted(len(rest), "step"), bullets(rest, "ol"))
        yield join(first.removesuffix(BECAUSE).strip(), steps)


def _explained_by(candidates: list[str]) -> Iterable[Html]:
    if candidates:
        yield join(tag("b", "What would explain it:"), " ", _list(candidates))


def _list(texts: Iterable[str]) -> Html:
    """Return one sentence as it is, several as a list."""
    found = [prose(text) for text in texts]
    return bullets(found) if len(found) > 1 else join(*found)
