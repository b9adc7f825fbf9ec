"""Find what a log would have to state for the rules to give its fatal error."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.model import Model
from workbench.core.registry import Registry
from workbench.core.remedies import Remedy
from workbench.core.resolve import resolve as decide
from workbench.core.trace import show
from workbench.core.weights import UnreadWeights
from workbench.interop.logs import candidates
from workbench.interop.logs.failure import Error, FatalEntry, errors_of
from workbench.interop.logs.report import DIFFERS, Failure, LogReport
from workbench.interop.logs.scenario import LogReading, Resolve, resolved
from workbench.interop.logs.tries import settings_of
from workbench.models import load_model
from workbench.models.drafter import load_with
from workbench.scenario import FIELDS, Scenario, Settings
from workbench.scenario.fields import changed
from workbench.scenario.resolution import remedies_of_refusal

PYDANTIC = re.compile(r" \[type=\w+, input_value=.*\]")
"""What pydantic adds to the message of an assertion."""
MOST_VALUES = 1024
"""About as many as all fields have together."""
SMALL_SIZES = (0, *(2**power for power in range(20, 37)))


def with_failure(
    report: LogReport, ending: FatalEntry, code: str | None, resolve: Resolve
) -> LogReport:
    """Return the same with the fatal error; where no rule gives it, with what is missing."""
    facts, scenes = missing(report, ending, resolve) if code is None else ((), ())
    failure = Failure(
        line=ending.line,
        text=ending.text,
        message=ending.found.message.name if ending.found is not None else None,
        problem=code,
        summary=_summary(report, ending, code),
        missing=facts,
        remedies=_remedies(report.reading, code),
    )
    return replace(report, failure=failure, scenes=(*scenes, *report.scenes))


def _remedies(reading: LogReading, code: str | None) -> tuple[Remedy, ...]:
    """Return tried changes after which the error of this code is gone."""
    if code is None:
        return ()
    if isinstance(reading.refusal, Refused):
        return remedies_of_refusal(Scenario.from_dict(reading.fields), reading.refusal)
    if reading.plan is None:
        return ()
    problems = (problem for problem in reading.plan.errors if problem.code == code)
    return reading.applicable(chain.from_iterable(map(reading.plan.remedies, problems)))


def _summary(report: LogReport, ending: FatalEntry, code: str | None) -> str:
    answer = "The rules do not find this problem in the scenario of the log."
    if code is not None:
        name = ending.found.message.name if ending.found is not None else None
        differs = any(one.message == name and one.verdict == DIFFERS for one in report.lines)
        numbers = ", with different numbers" if differs else ""
        answer = f"The rules give the same error [{code}]{numbers}."
    elif not report.reading.is_resolved:
        answer = "The log states too little to compare this with the rules."
    text = PYDANTIC.sub("", ending.text)
    return f"The log ends with a fatal error (line {ending.line}): {text} - {answer}"


def missing(
    report: LogReport, ending: FatalEntry, resolve: Resolve
) -> tuple[tuple[str, ...], tuple[candidates.CandidateScenario, ...]]:
    """Return what the log does not state, and the scenarios that give its error with it."""
    reading, found = report.reading, ending.found
    if found is not None and found.is_cut:
        return ("the rest of the line: it is cut off",), ()
    if not reading.is_resolved:
        return report.missing, ()
    scenes = tuple(_scenes(reading, ending, resolve))
    if scenes:
        return tuple(scene.text for scene in scenes), scenes
    if found is None:
        return ("a rule for this error: it is not one of those that the workbench knows",), ()
    if not found.message.codes and not found.message.given(found.values):
        return ("a rule for this error: no field of a scenario leads to it",), ()
    fact = (
        f"a fact that leads to this error: one of {', '.join(_values(reading, ending))}, which the "
        f"log does not state, or a config.json that differs from the one of "
        f"{reading.fields['model']}"
    )
    return (fact,), ()


def _scenes(
    reading: LogReading, ending: FatalEntry, resolve: Resolve
) -> Iterator[candidates.CandidateScenario]:
    """Yield scenarios with one fact added that give the error, at most one for every field."""
    is_worth_it = _quick_check(reading, ending)
    found = (
        _scene(reading, ending, resolve, name, (one for one in values if is_worth_it(name, one)))
        for name, values in _values(reading, ending).items()
    )
    return islice(filter(None, found), candidates.FEW)


def _quick_check(reading: LogReading, ending: FatalEntry) -> Callable[[str, Any], bool]:
    """Return whether a value gives the error, by a resolution without checks and without a trace.

    It costs a tenth of `resolved`, which only those that pass need, and is remembered: a log is
    often explained more than once.
    """
    try:
        settings = settings_of(reading.fields)
    except WorkbenchError:  # two fields exclude each other: another value may change that
        return lambda _name, _value: True
    reference = reading.fields["model"]

    def gives_error(name: str, value: Any) -> bool:
        try:
            other = changed(settings, {name: FIELDS[name].kind.clean(name, value)})
            FIELDS[name].check(other)
            target = load_with(reference, other)
        except WorkbenchError:
            return False
        # A key has an object as its text; stages ask of the drafter only whether there is one.
        objects = {key: repr(one) for key, one in vars(other).items() if isinstance(one, dict)}
        other = changed(other, objects)
        errors = _errors(target, target.unread_weights, Registry.changes, other)
        return ending.code_among(errors) is not None

    return gives_error


@lru_cache(maxsize=candidates.KEPT * MOST_VALUES)
def _errors(
    model: Model, _weights: UnreadWeights, _registered: int, settings: Settings
) -> tuple[Error, ...]:
    try:
        return errors_of(decide(model, settings, trace=False), None)
    except Refused as refusal:
        return errors_of(None, refusal)


def _scene(
    reading: LogReading, ending: FatalEntry, resolve: Resolve, name: str, values: Iterable[Any]
) -> candidates.CandidateScenario | None:
    for value in values:
        tried = resolved(replace(reading, fields={**reading.fields, name: value}), resolve)
        if tried.fields.get(name) == value and ending.problem_of(tried) is not None:
            words = f"{name} = {show(value)}"
            text = f"{name}: the log does not state it; with {words} the rules give this error"
            return candidates.CandidateScenario(tried.fields, words, text)
    return None


def _is_free(name: str, reading: LogReading) -> bool:
    """Return whether the log leaves a field open: its arguments are known only where printed."""
    is_printed = FIELDS[name].flag.startswith("--") and name not in candidates.OF_THE_MACHINE
    is_known = name in reading.from_lines or name in {"model", "rules"}
    return not is_known and not (is_printed and reading.has_arguments)


def _values(reading: LogReading, ending: FatalEntry) -> Mapping[str, tuple[Any, ...]]:
    """Return the values to try for every free field, the numbers of the error itself first."""
    base = {name: value for name, value in reading.compared.items() if name in FIELDS}
    settings = Scenario.from_dict({**base, "model": reading.fields["model"]})
    model = load_model(reading.fields["model"])
    given = dict(ending.found.values) if ending.found is not None else {}
    given["num_gpu_blocks_override"] = given.pop("num_blocks", None)
    free = {name: field for name, field in FIELDS.items() if _is_free(name, reading)}
    tried = {
        name: SMALL_SIZES
        if name == "kv_cache_memory_bytes"
        else tuple(field.tried_values(settings, model))
        for name, field in free.items()
    }
    own = {
        name: (value, *tried[name])
        for name, value in given.items()
        if name in tried and value is not None
    }
    likely = {name: tried[name] for name in candidates.LIKELY if name in tried}
    return {name: values for name, values in {**own, **likely, **tried, **own}.items() if values}
