"""Explain a pasted start-up log line by line against the rules."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from workbench.core.errors import ScenarioError
from workbench.core.trace import show
from workbench.interop.logs.candidates import ModelSearch, candidates
from workbench.interop.logs.compared import Explainer
from workbench.interop.logs.failure import STARTED, ending_of, reproduced
from workbench.interop.logs.find import LoggedMessage, find_messages
from workbench.interop.logs.large import LARGE_CHARACTERS, Progress, kept_lines
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.logs.missing import with_failure
from workbench.interop.logs.refusals import refusal_messages
from workbench.interop.logs.report import LogReport
from workbench.interop.logs.scenario import IMAGES, LogReading, Resolve, reconstruct
from workbench.interop.logs.text import (
    COMPOSED,
    ENGINES,
    PASTED,
    Line,
    bare,
    lines_of,
    numbered_lines,
    other_engine,
)
from workbench.interop.logs.tries import Target
from workbench.models.names import models_named_in

UNRECOGNISED = "log_not_recognised"


def explain_log(
    text: str, resolve: Resolve, model: str | None = None, progress: Progress | None = None
) -> LogReport:
    """Explain every known line of a vLLM start-up log, with its rule and operands.

    `resolve` turns scenario fields into a plan. model: the model to compare with, whatever the log
    names. progress: called while a large log is searched. Errors: ScenarioError if there is nothing
    to explain: an empty or binary text, another engine's log, no known line.
    """
    is_large = len(text) > LARGE_CHARACTERS
    lines = lines_of(text, partial(large_lines, progress=progress) if is_large else numbered_lines)
    total = text.rstrip().count("\n") + 1 if is_large else len(lines)
    found = [(part, find_messages(part)) for part in servers_of(lines)]
    if not any(messages for _, messages in found):
        if (engine := other_engine(lines)) is not None:
            raise _nothing_known(engine, total)
        found = [(lines, find_messages(lines, refusal_messages()))]
    reports = [_explained(part, one, total, resolve, model) for part, one in found if one]
    if not reports:
        raise _nothing_known(None, total)
    servers = tuple(reports) if len(reports) > 1 else ()
    return replace(reports[-1], servers=servers)


def has_messages(text: str) -> bool:
    """Return whether a line of a text is a known message, or says what vLLM refuses.

    A command is none of them, nor a container's image: they can be all that a text is.
    """
    lines = lines_of(text, numbered_lines)
    found = (*find_messages(lines), *find_messages(lines, refusal_messages()))
    return any(not one.message.is_command and one.message.name not in IMAGES for one in found)


def large_lines(text: str, progress: Progress | None = None) -> list[tuple[int, str]]:
    """Return the lines of a large log that can matter, with their numbers."""
    words = {entry.begins for entry in MESSAGES.values()}
    marks = {mark for known in ENGINES.values() for mark in known}
    return kept_lines(text, words, (*STARTED, *marks), progress)


def _explained(
    lines: list[Line],
    found: tuple[LoggedMessage, ...],
    total: int,
    resolve: Resolve,
    model: str | None,
) -> LogReport:
    """Return the explanation of one server."""
    reading = reconstruct(found, resolve, model)
    ending = ending_of(lines, found)
    code = None
    if ending is not None:
        reading, code = reproduced(reading, ending, found, resolve)
    targets = targets_of(found)
    explained = Explainer(reading, targets, resolve)
    explained_lines = tuple(sorted(map(explained.line, found), key=lambda line: line.line))
    search = ModelSearch(explained.others or ())
    if not reading.is_resolved and targets:
        mentioned = models_named_in("\n".join(line.text for line in lines))
        search = candidates(reading.fields, reading.architecture, targets, mentioned)
    report = LogReport(
        reading=reading,
        lines=explained_lines,
        total_lines=total,
        scenes=search.scenes,
        missing=() if reading.is_resolved else (_missing(reading, targets, search),),
    )
    return report if ending is None else with_failure(report, ending, code, resolve)


def _missing(reading: LogReading, targets: tuple[Target, ...], search: ModelSearch) -> str:
    if "model" in reading.fields:
        return f"a config.json for {reading.fields['model']}"
    lacks = search.scenes[0].lacks if search.scenes else ()
    if not search.tried:
        pick = "model: this log has too few numbers to find one by"
    elif lacks:
        pick = (
            "candidate. They have the block sizes of the log, but not its "
            f"{' and '.join(lacks)}: a drafter with layers of its own, context parallelism or a "
            "patched build changes what a block holds"
        )
    elif search.scenes:
        pick = f"candidate{search.stop}"
    else:
        sizes = ", ".join(f"{one.compare.value} {show(one.said)}" for one in targets)
        return (
            f"the model: none in the catalog has {sizes} {search.words} Paste the line "
            "`non-default args: {...}`, or give the model's config.json"
        )
    return (
        "the model: the line `non-default args: {...}` or `Initializing a V1 LLM engine` names it; "
        f"paste it too, or pick a {pick}"
    )


def targets_of(found: tuple[LoggedMessage, ...]) -> tuple[Target, ...]:
    """Return numbers of the log that can be looked for in other scenarios; XPU's rounding last."""
    sizes = {
        compare.value: Target(compare, one.values[compare.value])
        for one in found
        for compare in one.message.compares
        if (compare.is_size or compare.is_target) and compare.value in one.values
    }
    return tuple(sizes.values())


def _nothing_known(engine: str | None, count: int) -> ScenarioError:
    known = "`Initializing a V1 LLM engine`, `Setting attention block size to`, `KV cache size`"
    if engine is not None:
        message = f"This looks like a log of {engine}. Expected vLLM's start-up lines, such as "
        return ScenarioError("log_of_another_engine", f"{message}{known}.", field="log")
    message = (
        f"None of the {count:,} lines matches one of the {len(MESSAGES)} known messages, such "
        f"as {known}. Paste the part from {PASTED}."
    )
    return ScenarioError(UNRECOGNISED, message, field="log")


ARGUMENTS = ("non-default args: ", "args: Namespace(")
CONFIGURATION = ("LLM engine (v",)
"""What names the settings of a start; the configuration counts where no arguments are printed."""
BEGINNING = re.compile(
    r"server version|█|Automatically detected platform|vllm serve|vllm-openai|vllm\.entrypoints"
)
"""Lines of a start before its settings."""
BEFORE_SETTINGS = 12
"""Lines within which they are looked for."""
COMPARED_CHARACTERS = 400


def servers_of(lines: list[Line]) -> list[list[Line]]:
    """Return the lines of every server, in the order of their first lines; one if in doubt."""
    services: dict[str, list[Line]] = {}
    for line in lines:
        found = COMPOSED.match(line.text)
        services.setdefault("" if found is None else found[1] or found[2], []).append(line)
    starting = [name for name, own in services.items() if _settings_at(own)]
    if len(starting) < 2:
        return _starts(lines)
    return [part for name in starting for part in _starts(services[name])]


def _starts(lines: list[Line]) -> list[list[Line]]:
    """Return the lines of every start with settings of its own; a repeated one is a restart."""
    begins, last, before = [0], "", 0
    for at in _settings_at(lines):
        settings = bare(lines[at].text)[:COMPARED_CHARACTERS]
        if last and settings != last:
            near = range(max(before + 1, at - BEFORE_SETTINGS), at)
            begins.append(next((to for to in near if BEGINNING.search(lines[to].text)), at))
        last, before = settings, at
    return [lines[start:end] for start, end in zip(begins, [*begins[1:], None], strict=True)]


def _settings_at(lines: list[Line]) -> list[int]:
    for words in (ARGUMENTS, CONFIGURATION):
        if found := [at for at, line in enumerate(lines) if _has(line, words)]:
            return found
    return []


def _has(line: Line, words: Iterable[str]) -> bool:
    return any(word in line.text for word in words)
