"""The batch form: one scenario per line in, one plan per line out, in the same order."""

import json
from collections.abc import Iterable, Iterator

from workbench.access.files import FileUse, size_text
from workbench.core.errors import ScenarioError, WorkbenchError, internal_error
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

BATCH = FileUse("batch", 2**30, "batch", "Pipe it in: `workbench resolve --batch - < FILE`.")
MAX_LINE_BYTES = 2 * 2**20
"""Longest line: a config.json has at most 1 MiB, and the other fields fit in addition to it."""

_encode = json.JSONEncoder(allow_nan=False).encode


def resolve_lines(lines: Iterable[str | bytes]) -> Iterator[tuple[str, bool]]:
    """Yield (JSON of a plan or an error, whether it is a plan) for every line.

    An error is `{"error": {"code", "message", "field"}}`, for an empty line, too. There is one
    result per line, whatever the line holds, so that results and scenarios stay aligned.
    """
    yield from map(_answer, lines)


def _answer(line: str | bytes) -> tuple[str, bool]:
    """Return the answer to a line; an error in one line does not affect the others."""
    try:
        return _encode(resolve(Scenario.from_json(_text(line))).to_dict()), True
    except WorkbenchError as error:
        found = error.to_dict()
    except Exception as error:  # noqa: BLE001  (a fault of ours is an answer too)
        found = internal_error(error).to_dict()
    return _encode({"error": found}), False


def _text(line: str | bytes) -> str:
    """Return the line without a byte order mark, which some editors write before the first one."""
    if len(line) > MAX_LINE_BYTES + 1:
        raise ScenarioError(
            "line_too_long",
            f"Invalid line: it has more than {size_text(MAX_LINE_BYTES)}. Expected one scenario; "
            "name a large config.json by its path.",
        )
    try:
        text = (line if isinstance(line, str) else line.decode("utf-8")).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ScenarioError("scenario_not_json", f"Not UTF-8: {error}.") from None
    if not text.strip():
        raise ScenarioError("scenario_not_json", "Not a JSON object: the line is empty.")
    return text
