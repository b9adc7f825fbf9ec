"""The commands `workbench models` and `workbench resolve`."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, BinaryIO

import typer

from workbench.commands.options import fail, resolved


def models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """List the catalog: name, kind of layers, attention geometry."""
    from workbench.models import catalog_config, catalog_names, load_model

    for name in catalog_names():
        model = load_model(name)
        state = model.state.kind if model.state else "-"
        if as_json:
            source = catalog_config(name).get("_source")
            entry = {
                "name": name,
                "family": model.family,
                "is_hybrid": model.is_hybrid,
                "attention_layers": model.attention_layers,
                "ssm_layers": model.ssm_layers,
                "state": state,
                "source": source,
            }
            typer.echo(json.dumps(entry))
            continue
        layers = f"{model.attention_layers} attention, {model.ssm_layers} {state}"
        typer.echo(f"{name:26} {model.family:18} {layers}")


def resolve(
    model: Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", help="A scenario field, e.g. -s tensor_parallel=4, with a JSON value."
        ),
    ] = None,
    batch: Annotated[
        str | None, typer.Option(help="A file with one JSON scenario per line; - for stdin.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit 1 if any scenario is refused.")] = False,
    schema: Annotated[bool, typer.Option(help="Print the JSON schema and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Add single changes that would make a difference.")
    ] = False,
) -> None:
    """Resolve one scenario, or a file of them.

    Exit status: 0 for a plan (also for one that would not start), 2 for a refusal or an error;
    with --batch always 0, unless --strict.
    """
    if schema:
        from workbench.scenario.schema import published_schema

        typer.echo(json.dumps(published_schema(), indent=2))
    elif batch is not None:
        if model is not None or setting:
            fail("--batch reads every field from its lines. Omit the model and --set.")
        _resolve_batch(batch, strict)
    else:
        _resolve_one(model, setting or [], as_json, what_if)


def _resolve_one(model: str | None, settings: list[str], as_json: bool, what_if: bool) -> None:
    from workbench.views.text import plan_text

    plan = resolved(model, settings)
    typer.echo(json.dumps(plan.to_dict(), indent=2) if as_json else plan_text(plan, plan.remedies))
    if what_if and not as_json:
        typer.echo(f"\nWhat if:\n{plan.sensitivity()!r}")


def _resolve_batch(source: str, strict: bool) -> None:
    from workbench.access.files import FileError, lines
    from workbench.batch import MAX_LINE_BYTES, resolve_lines

    all_plans = True
    try:
        # Bytes split at line feeds only: a string may hold other characters that end a line.
        with _opened(source) as file:
            for text, is_plan in resolve_lines(lines(file, MAX_LINE_BYTES)):
                sys.stdout.write(text + "\n")
                all_plans &= is_plan
    except FileError as error:
        fail(error.message)
    if strict and not all_plans:
        raise typer.Exit(1)


def _opened(source: str) -> AbstractContextManager[BinaryIO]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    from workbench.access.files import opened
    from workbench.batch import BATCH

    return opened(source, BATCH)
