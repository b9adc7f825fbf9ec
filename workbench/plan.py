"""Public Plan with notebook display."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from workbench.core.errors import Refused
from workbench.core.plan import Plan as CorePlan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy, remedies_for, remedies_for_refusal
from workbench.core.resolve import resolve as core_resolve
from workbench.core.trace import Step
from workbench.core.what_if.grid import Grid, backends_by_tensor_parallel, comparable_backends
from workbench.core.what_if.sensitivity import Change, changes_that_matter
from workbench.models import load_model, repository
from workbench.scenario import Scenario


class Trace(Sequence[Step]):
    """The steps of a plan; prints as a table in text and in HTML."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self._steps = steps

    @overload
    def __getitem__(self, index: int) -> Step: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, index: int | slice) -> Step | tuple[Step, ...]:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    def step(self, rule: str) -> Step:
        """Return the last step of the rule with this name; KeyError lists the existing names."""
        for step in reversed(self._steps):
            if step.rule.name == rule:
                return step
        raise KeyError(f"no step {rule!r}; steps: {', '.join(s.rule.name for s in self._steps)}")

    def __repr__(self) -> str:
        return "\n".join(f"{number:2d}  {step}" for number, step in enumerate(self._steps, 1))

    def _repr_html_(self) -> str:
        from workbench.views.html import trace_html

        return trace_html(self._steps)


class Sensitivity(Sequence[Change]):
    """Single changes that matter, with the plan that they were tried on; prints as a table."""

    def __init__(self, plan: Plan, changes: tuple[Change, ...]) -> None:
        self.plan = plan
        self._changes = changes

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Change, ...]: ...
    def __getitem__(self, index: int | slice) -> Change | tuple[Change, ...]:
        return self._changes[index]

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        lines = [f"unchanged:  {self.plan!r}"]
        lines += [f"{change.field} = {change.value}: {change.plan!r}" for change in self._changes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from workbench.views.html import sensitivity_html
        from workbench.views.tables import sensitivity_rows

        return sensitivity_html(self.plan, sensitivity_rows(self._changes))


class Plan(CorePlan):
    """Everything that follows from a scenario; see `workbench.core.plan.Plan` for the fields."""

    @property
    def scenario(self) -> Scenario:
        """Return the scenario that the plan was resolved from."""
        assert isinstance(self.settings, Scenario)
        return self.settings

    @property
    def trace(self) -> Trace:
        """Return every decision with its operands, its result and the source of the rule."""
        return Trace(self.steps)

    def remedies(self, problem: Problem) -> tuple[Remedy, ...]:
        """Return resolved changes that make `problem` go away, best first."""
        return remedies_for(self, problem)

    def sensitivity(self) -> Sensitivity:
        """Return single changes of the scenario that change block size, padding or kernel block."""
        return Sensitivity(self, changes_that_matter(self))

    def across(self, sizes: tuple[int, ...] = (1, 2, 4, 8)) -> Grid:
        """Resolve the scenario for every backend of its platform and tensor-parallel size."""
        return backends_by_tensor_parallel(self, comparable_backends(self), sizes)

    def to_vllm_args(self) -> tuple[str, ...]:
        """Return the `vllm serve` arguments of this scenario, ready for a shell or a subprocess.

        The first is the hub id or the folder of the model, a placeholder where neither is known.
        """
        from workbench.interop.vllm_args import vllm_args

        return vllm_args(self.scenario, self.model, repository(self.scenario.model))

    def to_vllm_command(self) -> str:
        """Return a shell command with one flag per line, environment variables first."""
        from workbench.interop.vllm_args import vllm_command, vllm_environment

        return vllm_command(self.to_vllm_args(), vllm_environment(self.scenario))

    def to_code(self) -> str:
        """Return Python that builds this scenario and resolves it."""
        from workbench.interop.code import scenario_code

        return scenario_code(self.scenario.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the published plan; every problem lists the remedies that were tried and work."""
        published = super().to_dict()
        for entry, problem in zip(published["problems"], self.problems, strict=True):
            entry["remedies"] = [remedy.to_dict() for remedy in self.remedies(problem)]
        return published

    def _repr_html_(self) -> str:
        from workbench.views.html import plan_html

        return plan_html(self)


def resolve(scenario: Scenario) -> Plan:
    """Return what vLLM decides for a scenario: block sizes, pages, kernel block, trace, problems.

    Errors: ConfigError when the model cannot be read; Refused when vLLM refuses the configuration
    before any size exists. Later failures are values in `plan.problems`.
    """
    return core_resolve(load_model(scenario.model), scenario, Plan)


def remedies_of_refusal(scenario: Scenario, refusal: Refused) -> tuple[Remedy, ...]:
    """Return tried changes of a refused scenario that lift the refusal, best first."""
    return remedies_for_refusal(load_model(scenario.model), scenario, refusal, Plan)
