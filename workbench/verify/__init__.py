"""Compare the workbench with an installed vLLM on the same scenarios.

>>> wb.verify(plan, python="/no/such/python")
Traceback (most recent call last):
workbench.verify.process.CannotVerifyError: ...
"""

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

from workbench.core.errors import ConfigError, Refused
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.what_if.comparison import MODEL, REFUSAL, compare
from workbench.core.what_if.releases import nearest_rules
from workbench.core.what_if.verification import Check, Report
from workbench.models import load_scenario_model
from workbench.models.load import labelled_config
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.verify.process import CannotVerifyError, Host, Installation, Outcome, query, question


def installed_version(python: str | None = None) -> Installation:
    """Return the vLLM that a Python has (None: this one). Errors: CannotVerifyError."""
    return query(python, Host("cpu"), ())[0]


def verify(scenarios: Plan | Scenario | Sequence[Scenario], python: str | None = None) -> Report:
    """Compare plans with what the vLLM of `python` decides (None: this Python).

    scenarios: a plan, a scenario, or several scenarios.

    The scenarios get the rules of that version, or of the nearest one that there are rules for;
    the report says which. Needs no GPU: the platform of each scenario is emulated.
    Errors: CannotVerifyError when no vLLM answers; ConfigError for a model that cannot be read.
    """
    if isinstance(scenarios, Plan):
        scenarios = (scenarios.scenario,)
    elif isinstance(scenarios, Scenario):
        scenarios = (scenarios,)
    outcomes: dict[int, Outcome] = {}
    installed: Installation | None = None
    stand_ins: dict[str, str] = {}
    for host, places in _by_host(scenarios).items():
        chosen = [scenarios[at] for at in places]
        installed, answers = query(python, host, questions(chosen))
        outcomes.update(zip(places, answers, strict=True))
        stand_ins.update(installed.stand_ins)
    if installed is None:
        installed = installed_version(python)
    rules = nearest_rules(installed.version)
    packages = ("python", "torch", "transformers")
    return Report(
        version=installed.version,
        rules=rules,
        environment={name: getattr(installed, name) for name in packages},
        stand_ins=stand_ins,
        checks=tuple(check(scenario, outcomes[at], rules) for at, scenario in enumerate(scenarios)),
    )


def check(scenario: Scenario, theirs: Outcome, rules: str) -> Check:
    """Compare one scenario under `rules` with what vLLM answered."""
    fields = scenario.stated()
    if theirs.failure is not None:
        called = tuple(theirs.functions)
        return Check(fields, failure=theirs.failure, functions=called, rules=scenario.rules)
    try:
        ours: Plan | ConfigError | Refused = resolve(scenario.replace(rules=rules))
    except (ConfigError, Refused) as refusal:
        ours = refusal
    rows = compare(ours, theirs.answers, theirs.refusal)
    if MODEL in theirs.unanswered:  # what vLLM says of the layers, which may set this dtype
        rows = tuple(row for row in rows if row.field not in {REFUSAL, "kv_cache_dtype"})
    return Check(
        fields,
        rows=rows,
        functions=tuple(theirs.functions),
        unanswered=theirs.unanswered,
        rules=scenario.rules,
    )


def _by_host(scenarios: Iterable[Scenario]) -> dict[Host, list[int]]:
    hosts: dict[Host, list[int]] = {}
    for at, scenario in enumerate(scenarios):
        hosts.setdefault(Host.of(scenario), []).append(at)
    return hosts


def questions(scenarios: Iterable[Scenario]) -> list[dict[str, Any]]:
    """Return the questions for vLLM about scenarios of one host. Errors: ConfigError."""
    return [_question(one) for one in scenarios]


def _question(scenario: Scenario) -> dict[str, Any]:
    draft = scenario.draft_model
    return question(
        scenario,
        _model(scenario),
        labelled_config(scenario.model)[0],
        None if draft is None else labelled_config(draft)[0],
    )


def _model(scenario: Scenario) -> Model | None:
    """Return the model; None without a reader for it, if there is a question nevertheless."""
    try:
        return load_scenario_model(scenario)
    except ConfigError:
        if scenario.num_speculative_tokens:  # which method drafts depends on the model
            raise
        return None


__all__ = ["CannotVerifyError", "check", "installed_version", "verify"]


class _Callable(ModuleType):
    """The package itself: `wb.verify(plan)` and `workbench.verify` are one name."""

    def __call__(
        self, scenarios: Plan | Scenario | Sequence[Scenario], python: str | None = None
    ) -> Report:
        """Call `verify`."""
        return verify(scenarios, python)


sys.modules[__name__].__class__ = _Callable
