"""Lesson 9: the fault in a start-up log, from its fatal line to a start that succeeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.exercises.compare import kind_of, plain
from workbench.exercises.exercise import Grade, Judge, exercise
from workbench.exercises.log_case import FIXED, GIB, LogCase, example_of, outcome
from workbench.models.catalog import catalog_name
from workbench.scenario import FIELDS, Scenario

Rows = tuple[tuple[str, str], ...]
MEMORY = "kv_cache_memory_bytes"
ROUNDED = GIB // 200 + 1
"""A log prints memory rounded to 0.01 GiB."""
NO_CASE = Grade(False, "The answer is about a log. Expected case=wb.log_case(1), or another seed.")
ENDED = (
    "This line reports that the engine has ended, not why. The cause is in the traceback of the "
    "process that ended first."
)
RAISED = (
    "This line says where the error was raised. What was raised is in the last line of the "
    "traceback."
)
PYDANTIC = "pydantic has refused a configuration. What it refused is in the line below."
NORMAL = "INFO lines are printed by every start, also by one that succeeds."
LINES = (
    (("Engine core initialization failed", "EngineCore failed to start"), ENDED),
    (("Traceback", 'File "', "sys.exit", "engine_core =", "further information"), RAISED),
    (("1 validation error",), PYDANTIC),
    ((" INFO ",), NORMAL),
)
"""Words of a line -> why it is not the fatal one."""


def _of_log(judge: Callable[[Any, LogCase], Grade]) -> Judge:
    """Return a judge that refuses what is not a log's case."""
    return lambda answer, case: judge(answer, case) if isinstance(case, LogCase) else NO_CASE


def _judge_line(answer: Any, case: LogCase) -> Grade:
    number, lines = plain(answer), case.log.splitlines()
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(lines):
        rows = (("expected", f"a line number, from 1 to {len(lines)}"), ("got", repr(answer)[:80]))
        return Grade(False, "That is not a line of this log.", rows)
    if number == case.line:
        return Grade(True, f"Right: line {number} is the fatal one.")
    text = lines[number - 1]
    why = next((why for words, why in LINES if any(word in text for word in words)), "")
    rows = (("your line", _line(case, number)), ("why", why))
    return Grade(False, f"Line {number} is not the one that ended the start.", rows)


def _line(case: LogCase, number: int) -> str:
    text = case.log.splitlines()[number - 1]
    return f"{number}: {text.partition('] ')[2] or text}"[:200]


def _judge_meaning(answer: Any, case: LogCase) -> Grade:
    letter = str(answer).strip().upper()
    if letter not in case.statements:
        rows = (("expected", f"one of {', '.join(case.statements)}"), ("got", repr(answer)[:80]))
        return Grade(False, "That is not one of the statements.", rows)
    if case.statements[letter] == case.meaning:
        return Grade(True, f"Right: {case.meaning}")
    other = example_of(case.statements[letter])
    rows = (
        ("this log says", _line(case, case.line)),
        (f"{letter} is said of", _line(other, other.line)),
    )
    return Grade(False, f"{letter} explains another error.", rows)


def _judge_scenario(answer: Any, case: LogCase) -> Grade:
    if isinstance(answer, Mapping):
        try:
            answer = Scenario.from_dict(answer)
        except ScenarioError as error:
            return Grade(False, "These fields do not make a scenario.", (("got", error.message),))
    if not isinstance(answer, Scenario):
        kinds = (("expected", "wb.Scenario(...)"), ("got", kind_of(answer)))
        return Grade(False, "That is not a scenario.", kinds)
    if (contradiction := _contradiction(answer, case)) is not None:
        return contradiction
    if answer.kv_cache_memory_bytes is not None:  # the log prints it rounded
        answer = answer.replace(kv_cache_memory_bytes=case.scenario.kv_cache_memory_bytes)
    wanted, found = _fault(case.scenario), _fault(answer)
    if wanted != found:
        both = (("the log's error", wanted), ("your scenario", found))
        rows = (*both, *_more(answer, case))
        return Grade(False, "Nothing contradicts the log, but the start ends differently.", rows)
    return Grade(True, f"Right: the rules give the error of the log. {found}")


def _contradiction(answer: Scenario, case: LogCase) -> Grade | None:
    """Return the grade of a scenario that is not what the user set and the engine measured."""
    reading, logged = case.report.reading, case.scenario
    explicit = {"rules": 1, **reading.from_lines}
    arguments = reading.from_lines["model"]
    for name, number in explicit.items():
        if number > arguments and name != MEMORY:
            continue  # settled by vLLM, so a scenario need not state it
        wanted, found = getattr(logged, name), getattr(answer, name)
        if wanted == found or (name == "model" and catalog_name(found) == wanted):
            continue
        if name == MEMORY and found is not None and abs(wanted - found) <= ROUNDED:
            continue
        rows = (
            ("line", _line(case, number)),
            ("log says", f"{name} = {wanted}"),
            ("your scenario", f"{name} = {found}"),
        )
        return Grade(False, f"Line {number} says something other than your scenario.", rows)
    return None


def _more(answer: Scenario, case: LogCase) -> Rows:
    """Return the fields that the answer sets and the log does not mention."""
    default, logged = Scenario(model=answer.model), case.report.reading.fields
    extra = [
        f"{name} = {getattr(answer, name)}"
        for name in FIELDS
        if name not in logged and getattr(answer, name) != getattr(default, name)
    ]
    return (("not in the log", ", ".join(extra)),) if extra else ()


def _fault(scenario: Scenario) -> str:
    found = outcome(scenario)
    if isinstance(found, WorkbenchError):
        return found.message
    return found.errors[0].message if found.errors else f"starts: {found}"


def _judge_change(answer: Any, case: LogCase) -> Grade:
    if not isinstance(answer, Mapping):
        rows = (("expected", "a dictionary such as {'max_model_len': 8192}"),)
        return Grade(False, "That is not a change.", (*rows, ("got", repr(answer)[:80])))
    if len(answer) != 1:
        rows = (("got", ", ".join(map(str, answer)) or "nothing"),)
        return Grade(False, "Change one field: then you know what helped.", rows)
    [(name, value)] = ((str(name), value) for name, value in answer.items())
    if name in FIXED:
        why = "The model, the machine and the release are given: find a setting that they allow."
        return Grade(False, f"{name} stays as it is.", (("why", why),))
    try:
        changed = case.scenario.replace(**{name: value})
    except ScenarioError as error:
        return Grade(False, "vLLM has no such setting.", (("got", error.message),))
    if changed == case.scenario:
        rows = (("got", f"{name} = {value}, as in the log"),)
        return Grade(False, "That is no change.", rows)  # words: ok
    return _of_change(f"{name} = {value}", outcome(changed), case)


def _of_change(change: str, found: Plan | WorkbenchError, case: LogCase) -> Grade:
    error = found if isinstance(found, WorkbenchError) else next(iter(found.errors), None)
    if isinstance(found, Plan) and error is None:
        warnings = tuple(("warning", one.message) for one in found.problems)
        rows = (("plan", str(found)), ("command", found.to_vllm_command()), *warnings)
        return Grade(True, f"Right: with {change} it starts.", rows)
    assert error is not None
    same = error.code == case.code
    summary = "It still ends with the same error." if same else "It ends with a new error."
    return Grade(False, summary, (("with", change), ("got", error.message)))


@exercise(9, "the fatal line of a log", judge=_of_log(_judge_line), has_cases=True)
def fatal_line(case: LogCase) -> int:
    """Return the number of the line that says why the start ended."""
    return case.line


@exercise(9, "what the fatal line means", judge=_of_log(_judge_meaning), has_cases=True)
def log_meaning(case: LogCase) -> str:
    """Return the letter of the statement that explains the fatal line."""
    return next(key for key, text in case.statements.items() if text == case.meaning)


@exercise(9, "the scenario of a log", judge=_of_log(_judge_scenario), has_cases=True)
def log_scenario(case: LogCase) -> Scenario:
    """Return the scenario that the log describes."""
    return case.scenario


@exercise(9, "one change with which it starts", judge=_of_log(_judge_change), has_cases=True)
def log_change(case: LogCase) -> dict[str, Any]:
    """Return one field and its new value, with which the start succeeds."""
    return next(case.repairs)
