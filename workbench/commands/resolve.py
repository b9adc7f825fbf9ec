"""The commands `workbench models` and `workbench resolve`."""

import json
import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from workbench.commands.options import AnyModel, AsJson, Settings, fail, flag, option
from workbench.commands.scenarios import length_said, resolved
from workbench.core.errors import cut

Words = Annotated[
    list[str] | None, typer.Argument(help="Words of a name or a hub id, for example qwen3 fp8.")
]


def models(words: Words = None, as_json: AsJson = False) -> None:
    """List the catalog: name, family, layers, hub id. --json: one object per line."""
    from workbench.models import catalog_config, load_model
    from workbench.models.catalog import search_catalog

    found = search_catalog(words or ())
    if not found:
        fail(
            f"No model of the catalog has {cut(' and '.join(map(repr, words or ())))} in its name."
        )
    width = max(map(len, found))
    for name in found:
        model = load_model(name)
        state = model.state.kind if model.state else "-"
        source = catalog_config(name)["_source"]
        if as_json:
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
        else:
            layers = f"{model.attention_layers} attention, {model.ssm_layers} {state}"
            typer.echo(f"{name:{width}}  {model.family:18} {layers:32} {source['repo']}")


def resolve(
    model: AnyModel = None,
    setting: Settings = None,
    batch: str | None = option("A file with one JSON scenario per line; - for stdin."),
    strict: bool = option("Exit 1 if any scenario is refused.", default=False),
    schema: bool = option("Print the JSON schema and exit.", default=False),
    as_json: AsJson = False,
    rules: str | None = option("vLLM version, e.g. 0.33: short for -s rules=0.33.", "--rules"),
    what_if: bool = flag("--what-if", "Add single changes that would make a difference."),
) -> None:
    """Resolve one scenario, or a file of them.

    Exit status: 0 for a plan (also for one that would not start), 2 for a refusal or an error;
    with --batch always 0, unless --strict. With --batch, each line has one result; an
    empty line, also the last one, is an error.
    """
    from workbench.scenario.schema import published_schema
    from workbench.views.text import plan_text

    if schema:
        typer.echo(json.dumps(published_schema(), indent=2))
    elif batch is not None:
        if model is not None or setting or rules:
            fail("--batch reads every field from its lines. Omit the model, --set and --rules.")
        _resolve_batch(batch, strict)
    else:
        named = [f"rules={rules}"] if rules else []
        plan = resolved(model, [*(setting or ()), *named])
        if as_json:
            typer.echo(json.dumps(plan.to_dict(), indent=2))
        else:
            typer.echo(plan_text(plan, plan.remedies, length_said(model)))
        if what_if and not as_json:
            typer.echo(f"\nWhat if:\n{plan.sensitivity()!r}")


def _resolve_batch(source: str, strict: bool) -> None:
    from workbench.access.files import lines, opened
    from workbench.interop.batch import BATCH, MAX_LINE_BYTES, resolve_lines

    all_plans = True
    # Bytes split at line feeds only: a string may hold other characters that end a line.
    with nullcontext(sys.stdin.buffer) if source == "-" else opened(source, BATCH) as file:
        for text, is_plan in resolve_lines(lines(file, MAX_LINE_BYTES)):
            sys.stdout.write(text + "\n")
            all_plans &= is_plan
    if strict and not all_plans:
        raise typer.Exit(1)
