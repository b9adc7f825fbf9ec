"""The batch form: one scenario a line in, one plan a line out, in the same order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.plan import resolve
from workbench.scenario import Scenario


def resolve_line(line: str | bytes) -> dict[str, Any]:
    """The plan of one JSON scenario, or `{"error": {"code", "message", "field"}}`."""
    try:
        return resolve(Scenario.from_json(_text(line))).to_dict()
    except WorkbenchError as error:
        return {"error": error.to_dict()}


def resolve_lines(lines: Iterable[str | bytes]) -> Iterator[tuple[str, bool]]:
    """(JSON of a plan or an error, whether it is a plan) for every line; an empty line is an error.

    One result per line whatever a line holds, so that results and scenarios stay aligned.
    """
    for line in lines:
        result = resolve_line(line)
        yield json.dumps(result), "error" not in result


def _text(line: str | bytes) -> str:
    """The line without a byte order mark, as some editors write it in front of the first one."""
    try:
        text = (line if isinstance(line, str) else line.decode("utf-8")).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ScenarioError("scenario_not_json", f"Not UTF-8: {error}.") from None
    if not text.strip():
        raise ScenarioError("scenario_not_json", "Not a JSON object: the line is empty.")
    return text
