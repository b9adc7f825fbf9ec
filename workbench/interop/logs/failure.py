"""The fatal error with which a log ends, and whether the rules give the same one."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.what_if.releases import release_of
from workbench.interop.logs.find import LoggedMessage
from workbench.interop.logs.message import HALF_A_HUNDREDTH_GIB
from workbench.interop.logs.scenario import LogReading, Resolve, by_newest, resolved
from workbench.interop.logs.text import Line, bare, short
from workbench.interop.logs.wrapped import JOINED_LINES

STARTED = (
    "Application startup complete",
    "Uvicorn running on",
    "Starting vLLM API server",
    "Starting vLLM server on",
)
"""What vLLM prints when a start has succeeded."""
LEVEL_BELOW_ERROR = re.compile(r"\b(?:INFO|WARNING|DEBUG)\b")
EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)(?::|$)")
"""The last line of a Python traceback."""
FOLLOWING = (
    "Engine core initialization failed",
    "Engine process failed to start",
    "WorkerProc initialization failed",
    "Worker failed with error",
    "ProcessRaisedException",
)
"""Errors that another process raises because the first one ended; the cause is above them."""
MEMORY = "kv_cache_memory_bytes"
ROUNDED = frozenset({"available_memory", "reserved_memory", "not_enough_memory"})
"""Messages that print the memory rounded to 0.01 GiB."""
Error = tuple[str, str | None]
"""The code of an error of the rules, and vLLM's words for it."""


@dataclass(frozen=True, slots=True)
class FatalEntry:
    """The fatal error of a log.

    text: what is shown; whole: the message with the lines after it and without any spaces, which a
    wrapped line may have lost, for comparing. found: the known message; None for an exception that
    is not one of them.
    """

    line: int
    text: str
    whole: str
    found: LoggedMessage | None = None

    def problem_of(self, reading: LogReading) -> str | None:
        """Return the code with which the rules give this error; None if they do not."""
        return self.code_among(errors_of(reading.plan, reading.refusal))

    def code_among(self, errors: Iterable[Error]) -> str | None:
        """Return the code of the first of the errors that is this one."""
        return next((code for code, text in errors if self._is_of(code, text)), None)

    def _is_of(self, code: str, vllm_text: str | None) -> bool:
        if self.found is not None:
            return self.found.message.matches_problem(code, vllm_text)
        # What every release prints; advice after the first sentence changes more often.
        beginning = _unspaced((vllm_text or "").partition(". ")[0])
        return bool(beginning) and beginning in self.whole


def errors_of(plan: Plan | None, refusal: WorkbenchError | None) -> tuple[Error, ...]:
    """Return what the rules refuse: all errors of a plan, or the one that there is instead."""
    problems = plan.errors if plan is not None else ()
    errors = problems if refusal is None else (refusal,)
    return tuple((one.code, one.vllm_text) for one in errors)


def ending_of(lines: list[Line], found: Iterable[LoggedMessage]) -> FatalEntry | None:
    """Return the fatal error with which a log ends; None for a start that went on.

    A known message comes before any other exception: those that follow it are its consequences.
    """
    started = max(
        (line.number for line in lines if any(mark in line.text for mark in STARTED)), default=0
    )
    fatal = [
        one for one in found if one.message.is_fatal and _is_error(one.line) and one.last > started
    ]
    if fatal:
        last = max(fatal, key=lambda one: one.last)
        return FatalEntry(last.last, last.text, _unspaced(last.line.text), last)
    went_on = max((one.last for one in found), default=0)  # an exception before it was caught
    exceptions = [
        at
        for at, line in enumerate(lines)
        if line.number > max(started, went_on)
        and EXCEPTION.match(bare(line.text))
        and _is_error(line)
    ]
    causes = [at for at in exceptions if not any(mark in lines[at].text for mark in FOLLOWING)]
    if not exceptions:
        return None
    at = (causes or exceptions)[-1]
    text = bare(lines[at].text)
    if "ValidationError" in text and at + 1 < len(lines):
        text = f"{text}: {bare(lines[at + 1].text)}"
    joined = "".join(bare(line.text) for line in lines[at : at + JOINED_LINES])
    return FatalEntry(lines[at].number, short(text), _unspaced(joined))


def reproduced(
    reading: LogReading, ending: FatalEntry, found: Iterable[LoggedMessage], resolve: Resolve
) -> tuple[LogReading, str | None]:
    """Return the scenario with which the rules give the error of the log, and their code for it.

    Where the scenario as read does not give it, values are tried that the log allows as well: the
    newest release where it names none, the memory, which is printed rounded, and the fields that
    only the error itself implies. The scenario as read and None where none of them does.
    """
    code = ending.problem_of(reading)
    if code is not None or not reading.is_resolved:
        return reading, code
    if release_of(reading.version) is None:
        tried = resolved(by_newest(reading), resolve)
        if (code := ending.problem_of(tried)) is not None:
            return tried, code
    for fields, note in _allowed(reading, ending, found):
        tried = resolved(replace(reading, fields=fields, notes=(*reading.notes, note)), resolve)
        if (code := ending.problem_of(tried)) is not None:
            return tried, code
    return reading, None


def _allowed(
    reading: LogReading, ending: FatalEntry, found: Iterable[LoggedMessage]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield fields of other scenarios that contradict no line of the log, and a note on each."""
    line = reading.from_lines.get(MEMORY)
    printed = [one for one in found if one.message.name in ROUNDED and one.line.number == line]
    if printed:
        for size in _sizes(reading, is_checked=printed[0].message.is_fatal):
            note = (
                f"{MEMORY} = {size:,}: the log prints it rounded to 0.01 GiB. This size is printed "
                "identically and gives the error of the log."
            )
            yield {**reading.fields, MEMORY: size}, note
    implied = [name for name, number in reading.from_lines.items() if number == ending.line]
    if implied:
        note = (
            f"Omitted {', '.join(implied)}: only the error itself implies a value, and the rules "
            "give the error without it."
        )
        yield {name: value for name, value in reading.fields.items() if name not in implied}, note


def _sizes(reading: LogReading, *, is_checked: bool) -> Iterator[int]:
    """Yield memory sizes that print identically: the ends of the range, and a check's threshold.

    is_checked: the size is the one that vLLM checks, which lacks the null block from 0.33 on.
    """
    size = reading.fields[MEMORY]
    cache = reading.plan.cache if reading.plan is not None else None
    held_back = cache.held_back_bytes if cache is not None else 0
    size += held_back if is_checked else 0
    low, high = max(0, size - HALF_A_HUNDREDTH_GIB), size + HALF_A_HUNDREDTH_GIB
    turning = () if cache is None else (cache.needed_bytes - 1, cache.needed_bytes, 1, 0)
    sizes = (size, *(held_back + at for at in turning), low, high)
    yield from dict.fromkeys(at for at in sizes if low <= at <= high)


def _is_error(line: Line) -> bool:
    head = line.text[: max(0, line.text.find(bare(line.text)))]
    return not LEVEL_BELOW_ERROR.search(head)


def _unspaced(text: str) -> str:
    return "".join(text.split())
