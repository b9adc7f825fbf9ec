"""The commands `backends`, `coverage`, `diff` and `verify`: what versions of vLLM decide."""

import json

import typer

from workbench.commands.options import AnyModel, AsJson, Settings, argument, fail, flag, option
from workbench.commands.scenarios import scenario_of


def backends(
    name: str | None = argument("A backend, to show its whole record; omit for all."),
    rules: str | None = option("vLLM version, e.g. 0.33; default: a scenario's.", "--rules"),
    as_json: AsJson = False,
) -> None:
    """Show what a vLLM version says about its attention backends, or about one of them."""
    from workbench.core.versions import DEFAULT, RULE_SETS
    from workbench.views.backends import backend_record, backend_text, backends_text

    table = RULE_SETS[rules or DEFAULT]
    names = list(table.backends) if name is None else [name]
    records = [backend_record(table, each) for each in names]
    if as_json:
        typer.echo(json.dumps(records if name is None else records[0], indent=2))
    else:
        typer.echo(backends_text(table) if name is None else backend_text(table, name))


def diff(
    model: str | None = argument("Catalog name, path, or hub id; omit with --catalog."),
    setting: Settings = None,
    old: str | None = option("vLLM version that you run; default: the one before --to.", "--from"),
    new: str | None = option("vLLM version to upgrade to; default: the newest.", "--to"),
    catalog: bool = flag("--catalog", "Every model of the catalog, one line each."),
    as_json: AsJson = False,
) -> None:
    """Show what an upgrade changes: every number, its rule, and what it means.

    Exit status: 0 if nothing changes, 1 if something does, 2 for an error.
    """
    from workbench.models import catalog_names
    from workbench.scenario.versions import compare
    from workbench.views.versions.differences import differences_dict, differences_text, matrix_text

    if catalog == (model is not None):
        fail("Pass one model, or --catalog without a model.")
    names = catalog_names() if catalog else (model,)
    found = [compare(scenario_of(name, setting), old, new) for name in names]
    if as_json:
        rows = [differences_dict(comparison) for comparison in found]
        typer.echo(json.dumps(rows if catalog else rows[0], indent=2))
    else:
        typer.echo(matrix_text(found) if catalog else differences_text(found[0]))
    if any(comparison.changes for comparison in found):
        raise typer.Exit(1)


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
    from workbench.core.what_if.releases import nearest_rules
    from workbench.scenario.scenario import random_scenarios
    from workbench.verify import installed_version
    from workbench.verify import verify as compare_with_vllm
    from workbench.views.verify import verification_text

    if random:
        if model is not None or setting:
            fail("--random chooses every field. Omit the model and --set.")
        rules = nearest_rules(installed_version(python).version)
        scenarios = random_scenarios(random, seed, rules)
    else:
        scenarios = (scenario_of(model, setting),)
    report = compare_with_vllm(scenarios, python)
    typer.echo(json.dumps(report.to_dict(), indent=2) if as_json else verification_text(report))
    if report.differing or report.failed:
        raise typer.Exit(1 if report.differing else 2)


def coverage(
    rules: str | None = option("vLLM version, e.g. 0.33; default: a scenario's.", "--rules"),
    status: str | None = option("Only those that are exact, read, or refused."),
    as_json: AsJson = False,
) -> None:
    """List every architecture of a release: exact, read, or refused, and how it was checked."""
    from workbench.core.versions import DEFAULT
    from workbench.models.coverage import coverage as of_release

    found = of_release(rules or DEFAULT).only(status)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))
