"""The log doctor in a browser: runs in the page's worker, and explains one log, or one link."""

import json
from typing import Any

from workbench.access.json_text import json_or_word
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.interop.exchange import explain_text
from workbench.scenario import Scenario
from workbench.scenario.links import link_of, packed, unpacked
from workbench.views import html
from workbench.views.logs.table import log_html, scenario_html

REPORT = "#report="
"""What begins a link to a report."""
NO_TEXT = "(not in the link)"


def answer(message: str = "") -> str:
    """Return what to show after a message of the page's script, both as JSON.

    The message: `log` and `model` (may be empty), or the `link` of a report. The answer: `html`;
    `link`, which has the report without the log's lines; `scenario`, the link of its scenario; all
    are empty before the first message, the links after an error, too.
    """
    if not message:
        return json.dumps(_state())
    given = json.loads(message)
    try:
        found = _linked(given["link"]) if "link" in given else _explained(**given)
    except WorkbenchError as error:
        found = _state(html.refusal_html(error))
    return json.dumps(found)


def _state(shown: str = "", link: str = "", scenario: str = "") -> dict[str, str]:
    return {"html": shown, "link": link, "scenario": scenario}


def _explained(log: str, model: str) -> dict[str, str]:
    return _of_report(explain_text(log, model.strip() or None).to_dict())


def _linked(link: str) -> dict[str, str]:
    """Return the state of a link. Errors: ScenarioError if it is damaged or of another version."""
    try:
        return _of_report(json_or_word(unpacked(link.partition(REPORT)[2])))
    except (ValueError, LookupError, TypeError, AttributeError, WorkbenchError) as error:
        message = (
            "The link is damaged, or of another version of the workbench. Copy it again as a "
            "whole, or paste the log itself."
        )
        raise ScenarioError("link_damaged", message, field="link") from error


def _of_report(report: dict[str, Any]) -> dict[str, str]:
    link = REPORT + packed(json.dumps(_without_text(report), separators=(",", ":")))
    fields = report["scenario"]
    scenario = link_of(Scenario.from_dict(fields)) if fields else ""
    return _state(log_html(report) + scenario_html(report), link, scenario)


def _without_text(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without the text of its lines: it may name what is private.

    The fatal error stays in the summary of the failure, which says little without it.
    """
    return {
        **report,
        "lines": [{**line, "text": NO_TEXT} for line in report["lines"]],
        "failure": report["failure"] and {**report["failure"], "text": NO_TEXT},
        "servers": [_without_text(server) for server in report["servers"]],
    }
