"""Explain a pasted start-up log line by line against the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.errors import Refused, ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import remedies_for, remedies_for_refusal
from workbench.core.trace import show
from workbench.core.what_if.sensitivity import sensitivity
from workbench.interop.logs.candidates import CandidateScenario, Target, candidates, other_scenes
from workbench.interop.logs.failure import HALF_A_HUNDREDTH_GIB, ending_of, reproduced
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
from workbench.interop.logs.text import lines_of, other_engine

NO_NUMBER = "The model is unknown, so there is no number to compare with."
NOT_MET = "The reconstructed scenario does not cause this; the log omits a fact that leads to it."
NO_CHANGE = (
    "No single change and no pair of changes of the scenario gives these sizes. Possible causes: "
    "another model, a build with other rules, or a cache that differs between layers."
)
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
        scenes = candidates(reading.fields, reading.architecture, targets)
    sizes = ", ".join(f"{one.compare.value} {show(one.said)}" for one in targets)
    report = LogReport(
        reading=reading, lines=explained_lines, total_lines=len(lines), scenes=scenes, sizes=sizes
    )
    return report if ending is None else with_failure(report, ending, code, resolve)


def _targets(found: tuple[LoggedMessage, ...]) -> tuple[Target, ...]:
    """Return sizes of the log that follow from model, dtypes and backend; XPU's rounding last."""
    sizes: dict[str, Target] = {}
    for one in found:
        for compare in one.message.compares:
            if compare.is_size and one.values and compare.value in one.values:
                sizes[compare.value] = Target(compare, one.values[compare.value])
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
        message = found.message
        base = LineExplanation(
            line=found.line.number,
            times=found.times,
            text=found.text,
            message=message.name,
            means=message.means,
            verdict=KNOWN,
            said={} if found.values is None else _shown(found.values),
            expected={},
            advice=(message.advice,) if message.advice else (),
        )
        if found.values is None:
            return replace(
                base,
                verdict=CUT,
                why=("The line is cut off before its values. Copy the whole line.",),
                advice=(),
            )
        if message.codes or message.is_fatal:
            base = self._with_problem(base, message)
        if message.compares:
            return self._compared(base, found)
        if base.verdict == KNOWN and message.fields(found.values):
            return replace(base, verdict=READ)
        return base

    def _with_problem(self, base: LineExplanation, message: Message) -> LineExplanation:
        """Add the plan's own words for the same message, and the remedies that were tried."""
        refusal = self.reading.refusal
        if refusal is not None and message.matches_problem(refusal.code, refusal.vllm_text):
            return replace(
                base,
                verdict=AGREES,
                why=(refusal.message,),
                advice=(*self._lifting(), *base.advice),
            )
        if self.plan is None:
            return replace(base, verdict=UNSURE) if message.codes else base
        problem = next(
            (one for one in self.plan.problems if message.matches_problem(one.code, one.vllm_text)),
            None,
        )
        if problem is None and not message.codes:
            return base
        if problem is None:
            return replace(base, verdict=DIFFERS, why=(NOT_MET,))
        tried = tuple(f"Tested remedy: {one}" for one in remedies_for(self.plan, problem))
        return replace(base, verdict=AGREES, why=(problem.message,), advice=(*tried, *base.advice))

    def _lifting(self) -> tuple[str, ...]:
        refusal = self.reading.refusal
        if self.plan is None or not isinstance(refusal, Refused):
            return ()
        refused = {
            name: value
            for name, value in self.reading.fields.items()
            if name not in self.reading.compared
        }
        settings = replace(self.plan.settings, **refused)
        found = remedies_for_refusal(self.plan.model, settings, refusal)
        return tuple(f"Tested remedy: {one}" for one in found)

    def _compared(self, base: LineExplanation, found: LoggedMessage) -> LineExplanation:
        assert found.values is not None
        if self.plan is None:
            if base.verdict == AGREES:
                return base
            sizes = any(compare.is_size for compare in found.message.compares)
            return replace(base, verdict=UNSURE, why=(NO_NUMBER,) if sizes else base.why)
        expected: dict[str, Any] = {}
        why = list(base.why)
        verdicts = [base.verdict]
        others: list[str] = []
        for compare in found.message.compares:
            said = found.values.get(compare.value)
            if said is None:
                continue
            expected[compare.value] = compare.of(self.plan)
            verdict, reasons = self._compare(compare, said, expected[compare.value])
            verdicts.append(verdict)
            why += [reason for reason in reasons if reason not in why]
            if verdict == DIFFERS and compare.is_size:
                others += self._explanations()
        verdict = next((one for one in (DIFFERS, AGREES) if one in verdicts), UNSURE)
        advice = base.advice
        if found.message.name in SIZE_LINES and verdict == AGREES:
            advice = (*smaller_blocks(self.plan), *advice)
        return replace(
            base,
            verdict=verdict,
            expected=expected,
            why=tuple(why),
            advice=advice,
            candidates=tuple(others),
        )

    def _compare(self, compare: Compare, said: Any, expected: Any) -> tuple[str, list[str]]:
        unit = f" {compare.unit}" if compare.unit else ""
        if expected is None:
            return UNSURE, [f"The scenario has no {compare.value}: the memory for it is unknown."]
        assert self.plan is not None
        steps = _steps(self.plan, compare.rules)
        both = f"The log says {show(said)}{unit}, the rules give {show(expected)}{unit}"
        if compare.agrees(said, expected):
            return AGREES, [both + (" because:" if steps else "."), *steps]
        if compare.rounded and (span := self._span(compare)) and span[0] <= said <= span[1]:
            low, high = (show(end) for end in span)
            return AGREES, [
                f"{both}. The log rounds the memory to 0.01 GiB, which allows {low} to {high}.",
                *steps,
            ]
        other = compare.otherwise(self.plan, said)
        if other is not None:
            return AGREES, [f"{both}. {other}", *steps]
        return DIFFERS, [both + ".", *steps]

    def _span(self, compare: Compare) -> tuple[Any, Any] | None:
        """Return the smallest and the largest value that rounding the memory allows."""
        memory = self.reading.compared.get("kv_cache_memory_bytes")
        if memory is None or not compare.rounded:
            return None
        ends = []
        for change in (-HALF_A_HUNDREDTH_GIB, HALF_A_HUNDREDTH_GIB):
            fields = {**self.reading.compared, "kv_cache_memory_bytes": max(0, memory + change)}
            try:
                ends.append(compare.of(self._resolve(fields)))
            except WorkbenchError:
                return None
        return (
            None if None in ends else (min(ends) - compare.tolerance, max(ends) + compare.tolerance)
        )

    def _explanations(self) -> tuple[str, ...]:
        """Return changes of the scenario that give every size of the log."""
        if self.others is None:
            self.others = other_scenes(self.reading, self._targets, self._resolve)
        return tuple(scene.text for scene in self.others) or (NO_CHANGE,)


def smaller_blocks(plan: Plan) -> tuple[str, ...]:
    """Return single changes of the scenario that make the block smaller, the smallest first."""
    lower = [
        change
        for change in sensitivity(plan)
        if change.plan is not None
        and change.plan.block_size < plan.block_size
        and not change.plan.errors
        and change.field not in {"platform", "rules", "model"}
    ]
    lower.sort(key=lambda change: change.plan.block_size if change.plan else 0)
    if not lower:
        return ("No single change of the scenario makes the block smaller.",)
    return tuple(
        f"Smaller: {change.field} = {show(change.value)} gives {change.plan.block_size:,} tokens."
        for change in lower[:MOST_CHANGES]
        if change.plan is not None
    )


def _shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without the dumps, which are read into the scenario."""
    return {name: value for name, value in values.items() if name not in {"arguments", "config"}}


def _steps(plan: Plan, rules: tuple[str, ...]) -> list[str]:
    return [
        f"{step} [{step.source}]" for rule in rules for step in plan.steps if step.rule.name == rule
    ]


def _nothing_known(engine: str | None, count: int) -> ScenarioError:
    looked_for = (
        "`Initializing a V1 LLM engine`, `Setting attention block size to`, `KV cache size`"
    )
    if engine is not None:
        return ScenarioError(
            "log_of_another_engine",
            f"This looks like a log of {engine}. Expected vLLM's start-up lines, such "
            f"as {looked_for}.",
            field="log",
        )
    return ScenarioError(
        "log_not_recognised",
        f"None of the {count:,} lines matches one of the {len(MESSAGES)} known messages, such "
        f"as {looked_for}. Paste the part from `non-default args` to `Maximum concurrency` or to "
        "the error.",
        field="log",
    )
