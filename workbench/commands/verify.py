"""The command `workbench verify`."""

from __future__ import annotations

import json

import typer

from workbench.commands.options import AnyModel, AsJson, Settings, fail, option, scenario_of


def verify(
    model: AnyModel = None,
    setting: Settings = None,
    python: str | None = option("The Python that has vLLM; default: this one."),
    random: int = option("Number of random scenarios to compare.", default=0, min=0),
    seed: int = option("Seed of the random scenarios.", default=0),
    as_json: AsJson = False,
) -> None:
    """Compare a scenario, field by field, with an installed vLLM. Needs no GPU.

    Exit status: 0 if everything is equal, 1 for a difference, 2 if vLLM could not answer.
    """
    from workbench.core.versions import RULE_SETS
    from workbench.core.what_if.verification import nearest_rules
    from workbench.scenario.scenario import random_scenarios
    from workbench.verify import installed_version
    from workbench.verify import verify as compare_with_vllm
    from workbench.views.verify import verification_text

    if random:
        if model is not None or setting:
            fail("--random chooses every field. Omit the model and --set.")
        rules = nearest_rules(installed_version(python).version, RULE_SETS)
        scenarios = random_scenarios(random, seed, rules)
    else:
        scenarios = (scenario_of(model, setting),)
    report = compare_with_vllm(scenarios, python)
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else verification_text(report))
    if report.differing or report.failed:
        raise typer.Exit(1 if report.differing else 2)
