"""Explain one line of a log after the other against the plan of the whole log."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy, remedies_for, remedies_for_refusal
from workbench.core.trace import show
from workbench.core.what_if.sensitivity import sensitivity
from workbench.interop.logs.candidates import CandidateScenario, other_scenes
from workbench.interop.logs.failure import MEMORY
from workbench.interop.logs.find import LoggedMessage
from workbench.interop.logs.message import HALF_A_HUNDREDTH_GIB, Compare, Message
from workbench.interop.logs.report import AGREES, CUT, DIFFERS, KNOWN, READ, UNSURE, LineExplanation
from workbench.interop.logs.scenario import LogReading, Resolve
from workbench.interop.logs.tries import Target

NO_CHANGE = (
    "No single change and no pair of changes of the scenario gives these sizes. Possible causes: "
    "another model, less memory on another rank, a build with different rules, or a cache that "
    "differs between layers."
)
DUMPS = frozenset({"arguments", "config", "command"})
"""Values that are read into the scenario, and not shown."""
SIZE_LINES = ("attention_block_size", "xpu_block_size")
MOST_CHANGES = 3


class Explainer:
    """Explains one line after the other against the plan of the whole log."""

    def __init__(self, reading: LogReading, targets: tuple[Target, ...], resolve: Resolve) -> None:
        self.reading = reading
        self.plan = reading.plan
        self._targets = targets
        self._resolve = resolve
        self._decided = dict(reading.fields)
        if self.plan is not None:
            self._decided["enable_prefix_caching"] = self.plan.enable_prefix_caching
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
            said={name: value for name, value in values.items() if name not in DUMPS},
        )
        if found.is_cut:
            cut_off = "The line is cut off before its values. Copy the whole line."
            return replace(base, verdict=CUT, why=(cut_off,))
        base = replace(base, advice=message.advise(values, self._decided))
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
                remedies = self.reading.applicable(remedies_for(plan, problem))
                return _same_problem(base, problem.message, remedies)
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
            if verdict == DIFFERS and (compare.is_size or compare.is_target) and not others:
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
            return self._without_memory(compare, plan, said, unit)
        if compare.of_checkpoint and self.reading.is_stand_in:
            share = f"{said / expected:.2f} of {show(expected)}{unit}" if expected else "unknown"
            why = f"The log says {show(said)}{unit}, {share} of {plan.model.name}, whose weights"
            return UNSURE, [f"{why} can be quantized in another way."]
        steps = compare.steps(plan)
        both = f"The log says {show(said)}{unit}, the rules give {show(expected)}{unit}"
        if compare.agrees(said, expected):
            return AGREES, [both + (" because:" if steps else "."), *steps]
        other = compare.otherwise(plan, said) or self._rounding(compare, said)
        if other is not None:
            return AGREES, [f"{both}. {other}", *steps]
        return DIFFERS, [both + ".", *steps]

    def _without_memory(
        self, compare: Compare, plan: Plan, said: Any, unit: str
    ) -> tuple[str, list[str]]:
        is_exact = compare.is_target and compare.digits is None
        fits = is_exact and plan.cache is not None and compare.fits(plan, said, None)
        if plan.cache is None or not (fits or (is_exact and compare.cannot_be(plan, said))):
            return UNSURE, [f"The scenario has no {compare.value}: {compare.unknown}."]
        why = (
            f"The log says {show(said)}{unit}: {'an integral' if fits else 'no integral'} number "
            f"of blocks; one request of {plan.max_model_len:,} tokens takes "
            f"{plan.cache.blocks_per_request:,}. The memory is unknown."
        )
        return AGREES if fits else DIFFERS, [why, *compare.steps(plan)]

    def _rounding(self, compare: Compare, said: Any) -> str | None:
        """Return what else the value may be if the memory was rounded; None where it is not."""
        memory = self.reading.compared.get(MEMORY)
        if memory is None or not compare.rounded:
            return None
        plans = []
        for change in (-HALF_A_HUNDREDTH_GIB, HALF_A_HUNDREDTH_GIB):
            fields = {**self.reading.compared, MEMORY: max(0, memory + change)}
            try:
                plans.append(self._resolve(fields))
            except WorkbenchError:
                return None
        if others := [other for plan in plans if (other := compare.otherwise(plan, said))]:
            return others[0]
        ends = [compare.expected(plan) for plan in plans]
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
            self.others = other_scenes(self.reading, self._targets)
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
