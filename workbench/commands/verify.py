"""The command `workbench verify`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.commands.options import fail, scenario_of
from workbench.core.errors import WorkbenchError


def verify(
    model: Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A scenario field, as for resolve.")
    ] = None,
    python: Annotated[
        str | None, typer.Option(help="The Python that has vLLM; default: this one.")
    ] = None,
    random: Annotated[int, typer.Option(min=0, help="Number of random scenarios to compare.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of the random scenarios.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Compare a scenario, field by field, with an installed vLLM. Needs no GPU.

    Exit status: 0 if everything is equal, 1 for a difference, 2 if vLLM could not answer.
    """
    from workbench.core.versions import RULE_SETS
    from workbench.core.what_if.verification import nearest_rules
    from workbench.scenario.random import random_scenarios
    from workbench.verify import installed_version
    from workbench.verify import verify as compare_with_vllm
    from workbench.views.verify import verification_text

    try:
        if random:
            if model is not None or setting:
                fail("--random chooses every field. Omit the model and --set.")
            rules = nearest_rules(installed_version(python).version, RULE_SETS)
            scenarios = random_scenarios(random, seed, rules)
        else:
            scenarios = (scenario_of(model, setting or []),)
        report = compare_with_vllm(scenarios, python)
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else verification_text(report))
    if report.differing:
        raise typer.Exit(1)
    if report.failed:
        raise typer.Exit(2)
