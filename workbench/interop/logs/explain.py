"""Explain a pasted start-up log line by line against the rules."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.errors import Refused, ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy, remedies_for, remedies_for_refusal
from workbench.core.trace import show
from workbench.core.what_if.sensitivity import sensitivity
from workbench.interop.logs.candidates import CandidateScenario, Target, candidates, other_scenes
from workbench.interop.logs.failure import HALF_A_HUNDREDTH_GIB, MEMORY, ending_of, reproduced
from workbench.interop.logs.find import MESSAGES, LoggedMessage, find_messages
from workbench.interop.logs.message import Compare, Message
from workbench.interop.logs.missing import with_failure
from workbench.interop.logs.report import (
    AGREES,
    CUT,
    DIFFERS,
    KNOWN,
    READ,
    UNSURE,
    LineExplanation,
    LogReport,
)
from workbench.interop.logs.scenario import LogReading, Resolve, reconstruct
from workbench.interop.logs.text import PASTED, lines_of, other_engine

NO_CHANGE = (
    "No single change and no pair of changes of the scenario gives these sizes. Possible causes: "
    "another model, a build with other rules, or a cache that differs between layers."
)
NAMES_THE_MODEL = (
    "the model: the line `non-default args: {...}` or `Initializing a V1 LLM engine` names it; "
    "paste it too, or pick a candidate"
)
DUMPS = frozenset({"arguments", "config"})
"""Values that are read into the scenario, and not shown."""
SIZE_LINES = ("attention_block_size", "xpu_block_size")
MOST_CHANGES = 3


def explain_log(text: str, resolve: Resolve) -> LogReport:
    """Explain every known line of a vLLM start-up log, with its rule and operands.

    `resolve` turns scenario fields into a plan. Errors: ScenarioError if there is nothing to
    explain: an empty or binary text, another engine's log, no known line.
    """
    lines = lines_of(text)
    found = find_messages(lines)
    if not found:
        raise _nothing_known(other_engine(lines), len(lines))
    reading = reconstruct(found, resolve)
    ending = ending_of(lines, found)
    code = None
    if ending is not None:
        reading, code = reproduced(reading, ending, found, resolve)
    targets = _targets(found)
    explained = _Explainer(reading, targets, resolve)
    explained_lines = tuple(sorted(map(explained.line, found), key=lambda line: line.line))
    scenes = explained.others or ()
    if not reading.is_resolved and targets:
        scenes = candidates(reading.fields, reading.architecture, targets, resolve)
    report = LogReport(
        reading=reading,
        lines=explained_lines,
        total_lines=len(lines),
        scenes=scenes,
        missing=() if reading.is_resolved else (_missing(reading, targets, scenes),),
    )
    return report if ending is None else with_failure(report, ending, code, resolve)


def _missing(
    reading: LogReading, targets: tuple[Target, ...], scenes: tuple[CandidateScenario, ...]
) -> str:
    if "model" in reading.fields:
        return f"a config.json for {reading.fields['model']}"
    if scenes or not targets:
        return NAMES_THE_MODEL
    sizes = ", ".join(f"{one.compare.value} {show(one.said)}" for one in targets)
    return (
        f"the model: none in the catalog has {sizes} at a tensor parallelism of "
        "1 to 8, with or without an fp8 cache, with 0 to 3 drafts. Paste the line "
        "`non-default args: {...}`, or give the model's config.json"
    )


def _targets(found: tuple[LoggedMessage, ...]) -> tuple[Target, ...]:
    """Return sizes of the log that follow from model, dtypes and backend; XPU's rounding last."""
    sizes = {
        compare.value: Target(compare, one.values[compare.value])
        for one in found
        for compare in one.message.compares
        if compare.is_size and one.values and compare.value in one.values
    }
    return tuple(sizes.values())


class _Explainer:
    """Explains one line after the other against the plan of the whole log."""

    def __init__(self, reading: LogReading, targets: tuple[Target, ...], resolve: Resolve) -> None:
        self.reading = reading
        self.plan = reading.plan
        self._targets = targets
        self._resolve = resolve
        self.others: tuple[CandidateScenario, ...] | None = None

    def line(self, found: LoggedMessage) -> LineExplanation:
        """Return the explanation of one message."""
        message, values = found.message, found.values
        base = LineExplanation(
            line=found.line.number,
            times=found.times,
            text=found.text,
            message=message.name,
            means=message.means,
            said={name: value for name, value in (values or {}).items() if name not in DUMPS},
            advice=(message.advice,) if message.advice else (),
        )
        if values is None:
            cut_off = "The line is cut off before its values. Copy the whole line."
            return replace(base, verdict=CUT, why=(cut_off,), advice=())
        if message.codes or message.is_fatal:
            base = self._with_problem(base, message)
        if message.compares:
            return self._compared(base, message, values)
        is_read = base.verdict == KNOWN and message.given(values)
        return replace(base, verdict=READ) if is_read else base

    def _with_problem(self, base: LineExplanation, message: Message) -> LineExplanation:
        """Add the plan's own words for the same message, and the remedies that were tried."""
        refusal, plan = self.reading.refusal, self.plan
        if refusal is not None and message.matches_problem(refusal.code, refusal.vllm_text):
            return _same_problem(base, refusal.message, self._lifting())
        for problem in plan.problems if plan else ():
            if plan and message.matches_problem(problem.code, problem.vllm_text):
                return _same_problem(base, problem.message, remedies_for(plan, problem))
        if not message.codes:
            return base
        if plan is None:
            return replace(base, verdict=UNSURE)
        why = (
            "The reconstructed scenario does not cause this; the log omits a fact that leads to it."
        )
        return replace(base, verdict=DIFFERS, why=(why,))

    def _lifting(self) -> tuple[Remedy, ...]:
        reading = self.reading
        if self.plan is None or not isinstance(reading.refusal, Refused):
            return ()
        refused = {n: value for n, value in reading.fields.items() if n not in reading.compared}
        settings = replace(self.plan.settings, **refused)
        return remedies_for_refusal(self.plan.model, settings, reading.refusal)

    def _compared(
        self, base: LineExplanation, message: Message, values: Mapping[str, Any]
    ) -> LineExplanation:
        if self.plan is None:
            why = "The model is unknown, so there is no number to compare with."
            is_size = any(compare.is_size for compare in message.compares)
            unsure = replace(base, verdict=UNSURE, why=(why,) if is_size else base.why)
            return base if base.verdict == AGREES else unsure
        expected: dict[str, Any] = {}
        reasons, verdicts, others = list(base.why), [base.verdict], list[str]()
        for compare in message.compares:
            said = values.get(compare.value)
            if said is None:
                continue
            expected[compare.value] = compare.expected(self.plan)
            verdict, found = self._compare(compare, self.plan, said)
            verdicts.append(verdict)
            reasons += [reason for reason in found if reason not in reasons]
            if verdict == DIFFERS and compare.is_size:
                others += self._explanations()
        verdict = next((one for one in (DIFFERS, AGREES) if one in verdicts), UNSURE)
        is_size_line = message.name in SIZE_LINES and verdict == AGREES
        return replace(
            base,
            verdict=verdict,
            expected=expected,
            why=tuple(reasons),
            advice=(*(smaller_blocks(self.plan) if is_size_line else ()), *base.advice),
            candidates=tuple(others),
        )

    def _compare(self, compare: Compare, plan: Plan, said: Any) -> tuple[str, list[str]]:
        """Return verdict and reasons for one value."""
        unit = f" {compare.unit}" if compare.unit else ""
        expected = compare.expected(plan)
        if expected is None:
            return UNSURE, [f"The scenario has no {compare.value}: the memory for it is unknown."]
        steps = compare.steps(plan)
        both = f"The log says {show(said)}{unit}, the rules give {show(expected)}{unit}"
        if compare.agrees(said, expected):
            return AGREES, [both + (" because:" if steps else "."), *steps]
        other = self._rounding(compare, said) or compare.otherwise(plan, said)
        if other is not None:
            return AGREES, [f"{both}. {other}", *steps]
        return DIFFERS, [both + ".", *steps]

    def _rounding(self, compare: Compare, said: Any) -> str | None:
        """Return that the value is between those that rounding the memory allows, if it is."""
        memory = self.reading.compared.get(MEMORY)
        if memory is None or not compare.rounded:
            return None
        ends = []
        for change in (-HALF_A_HUNDREDTH_GIB, HALF_A_HUNDREDTH_GIB):
            fields = {**self.reading.compared, MEMORY: max(0, memory + change)}
            try:
                ends.append(compare.expected(self._resolve(fields)))
            except WorkbenchError:
                return None
        if None in ends:
            return None
        low, high = min(ends) - compare.tolerance, max(ends) + compare.tolerance
        if not low <= said <= high:
            return None
        allowed = f"{show(low)} to {show(high)}"
        return f"The log rounds the memory to 0.01 GiB, which allows {allowed}."

    def _explanations(self) -> tuple[str, ...]:
        """Return changes of the scenario that give every size of the log."""
        if self.others is None:
            self.others = other_scenes(self.reading, self._targets, self._resolve)
        return tuple(scene.text for scene in self.others) or (NO_CHANGE,)


def _same_problem(base: LineExplanation, why: str, remedies: Iterable[Remedy]) -> LineExplanation:
    tried = (f"Tested remedy: {one}" for one in remedies)
    return replace(base, verdict=AGREES, why=(why,), advice=(*tried, *base.advice))


def smaller_blocks(plan: Plan) -> tuple[str, ...]:
    """Return single changes of the scenario that make the block smaller, the smallest first."""
    lower = [
        (change.plan.block_size, f"{change.field} = {show(change.value)}")
        for change in sensitivity(plan)
        if change.plan.block_size < plan.block_size
        and not change.plan.errors
        and change.field not in {"platform", "rules", "model"}
    ]
    if not lower:
        return ("No single change of the scenario makes the block smaller.",)
    lower.sort(key=lambda change: change[0])
    return tuple(f"Smaller: {words} gives {size:,} tokens." for size, words in lower[:MOST_CHANGES])


def _nothing_known(engine: str | None, count: int) -> ScenarioError:
    known = "`Initializing a V1 LLM engine`, `Setting attention block size to`, `KV cache size`"
    if engine is not None:
        message = f"This looks like a log of {engine}. Expected vLLM's start-up lines, such as "
        return ScenarioError("log_of_another_engine", f"{message}{known}.", field="log")
    message = (
        f"None of the {count:,} lines matches one of the {len(MESSAGES)} known messages, such "
        f"as {known}. Paste the part from {PASTED}."
    )
    return ScenarioError("log_not_recognised", message, field="log")
