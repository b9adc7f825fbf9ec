"""What a pasted log says: its fatal error and the fixes, what it lacks, who has its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.door.explanations import remedies_html
from workbench.door.questions import use_buttons
from workbench.interop.logs.report import DIFFERS, LogReport
from workbench.interop.said import said_words
from workbench.scenario import FIELDS, Scenario
from workbench.views.door.buttons import button
from workbench.views.html import Html, bullets, fold, join, prose, tag
from workbench.views.logs.table import BECAUSE, failing_lines, failure_html, headline, lines_table

FEW_LINES = 3
"""So many lines of a log without a scenario are explained in sentences, too."""


def explained(log: LogReport, present: Scenario) -> Html:
    """Return what a log says, its fatal error first. present: the scenario that is shown below."""
    report = log.to_dict()
    parts = [failure_html(report, _fixes(log)), tag("div", tag("b", headline(report)))]
    known = () if log.failure is None else log.failure.missing  # is said with the error
    missing = (f"Missing: {what}." for what in log.missing if what not in known)
    parts.append(bullets(map(prose, (*_differences(log), *missing))))
    if log.scenario is None:
        failing = failing_lines(report)
        others = [line for line in report["lines"] if line not in failing]
        parts += [tag("p", line["means"]) for line in others[:FEW_LINES]]
        parts.append(tag("div", *_unnamed(log, present)))
    else:
        parts.append(bullets(map(prose, report["notes"])))
        parts.append(use_buttons(log.scenes, log.reading.fields))
    parts.append(_again())
    parts.append(fold("Every known line", lines_table(report["lines"])))
    return join(*parts)


def still(present: Scenario) -> Html:
    """Return which scenario is shown below a text that is not of it; what is shown is dimmed."""
    return tag("b", f"Below is still {said_words(present, FIELDS)}.", class_="wb-still")


def _differences(log: LogReport) -> Iterator[str]:
    """Yield what the log says otherwise than the rules, and what would explain it."""
    for line in log.lines:
        if line.verdict == DIFFERS:
            reason = line.why[0].removesuffix(BECAUSE).strip() if line.why else ""
            yield " ".join((f"Line {line.line}: {reason}", *line.candidates[:1]))


def _unnamed(log: LogReport, present: Scenario) -> Iterator[Html]:
    """Yield that the answers below are of another scenario, and those with the log's numbers."""
    yield still(present)
    if log.scenes:
        lacks = " and ".join(log.scenes[0].lacks)
        common = f"block sizes of the log, but not its {lacks}" if lacks else "numbers of the log"
        yield Html(f" These have the {common}: ")
        yield use_buttons(log.scenes, log.reading.fields)


def _fixes(log: LogReport) -> Html:
    """Return buttons for the changes after which the fatal error of a log is gone."""
    tried = log.failure.remedies if log.failure else ()
    return remedies_html(tried) if tried else Html()


def _again() -> Html:
    label = "Explain again with another model"
    box = tag("input", type="text", aria_label=label, placeholder=label, data_key="log-model")
    return tag("div", box, button("Explain again", "submit", key="again"), class_="wb-again")
