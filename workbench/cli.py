"""The `workbench` command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, NoReturn
from urllib.parse import quote

import typer

from workbench.core.errors import Refused, WorkbenchError

if TYPE_CHECKING:
    from workbench.plan import Plan

app = typer.Typer(
    help="Which KV-cache block size vLLM chooses for a hybrid model, and why.",
    no_args_is_help=True,
    add_completion=False,
)
notebook_app = typer.Typer(help="Run notebooks headless.", no_args_is_help=True)
app.add_typer(notebook_app, name="notebook")


@app.command()
def lab(
    notebook: Annotated[Path, typer.Argument(help="Notebook to open.")] = Path(
        "notebooks/00_start.ipynb"
    ),
    ip: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; the next free one if taken.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open JupyterLab on the first notebook."""
    if not notebook.exists():
        _fail(f"{notebook} does not exist here; start this in the folder of the project.")
    inside = notebook.resolve().is_relative_to(Path.cwd())
    root = Path.cwd() if inside else notebook.resolve().parent
    page = quote(notebook.resolve().relative_to(root).as_posix())
    command = [
        *(sys.executable, "-m", "jupyterlab", f"--ip={ip}", f"--port={port}"),
        f"--ServerApp.root_dir={root}",
        # the printed address opens the notebook too, on machines that have no browser
        f"--LabApp.default_url=/lab/tree/{page}",
    ]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    raise typer.Exit(subprocess.call(command))


@app.command()
def models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
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


@app.command()
def resolve(
    model: Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", "-s", help="A scenario field, e.g. -s tensor_parallel=4. JSON values."
        ),
    ] = None,
    batch: Annotated[
        str | None, typer.Option(help="A file with one JSON scenario a line; - for stdin.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Exit 1 if any scenario is refused.")] = False,
    schema: Annotated[bool, typer.Option(help="Print the JSON schema and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
    what_if: Annotated[
        bool, typer.Option("--what-if", help="Add the single changes that would matter.")
    ] = False,
) -> None:
    """Resolve one scenario, or a file of them.

    Exit status: 0 for a plan (also for one that would not start), 2 for a refusal or an error;
    with --batch always 0, unless --strict.
    """
    if schema:
        from workbench.schema import published_schema

        typer.echo(json.dumps(published_schema(), indent=2))
    elif batch is not None:
        if model is not None or setting:
            _fail("--batch reads every field from its lines: leave out the model and --set.")
        _resolve_batch(batch, strict)
    else:
        _resolve_one(model, setting or [], as_json, what_if)


def _resolve_one(model: str | None, settings: list[str], as_json: bool, what_if: bool) -> None:
    from workbench.views.text import plan_text

    plan = _resolved(model, settings)
    typer.echo(json.dumps(plan.to_dict(), indent=2) if as_json else plan_text(plan, plan.remedies))
    if what_if and not as_json:
        typer.echo(f"\nWhat if:\n{plan.sensitivity()!r}")


def _resolved(model: str | None, settings: list[str]) -> Plan:
    from workbench.plan import resolve as resolve_scenario
    from workbench.scenario import RANGES, SHARES, Scenario

    values: dict[str, Any] = {} if model is None else {"model": model}
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals:
            _fail(f"--set takes field=value; got {item!r}.")
        given = _value(value)
        # "0.23" and "9.0" are names; only the fields with a range are numbers.
        is_name = isinstance(given, int | float) and name not in (*RANGES, *SHARES)
        values[name] = value if is_name and not isinstance(given, bool) else given
    try:
        return resolve_scenario(Scenario.from_dict(values))
    except WorkbenchError as error:
        said = f"\nvLLM says: {error.vllm_text}..." if error.vllm_text else ""
        kind = "refused" if isinstance(error, Refused) else "error"
        _fail(f"{kind} [{error.code}] {error.message}{said}")


def _resolve_batch(source: str, strict: bool) -> None:
    from workbench.batch import resolve_lines

    all_plans = True
    # Bytes are lines at line feeds only: a string may hold other characters that end a line.
    with _opened(source) as lines:
        for text, is_plan in resolve_lines(lines):
            sys.stdout.write(text + "\n")
            all_plans &= is_plan
    if strict and not all_plans:
        raise typer.Exit(1)


def _opened(source: str) -> AbstractContextManager[BinaryIO]:
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(source).open("rb")
    except OSError as error:
        _fail(f"{source} cannot be read: {error.strerror}.")


@app.command()
def info() -> None:
    """Versions, device and Triton mode, ready to paste into an issue."""
    from workbench.run.environment import environment_report

    typer.echo(environment_report())


@notebook_app.command("run")
def run(
    notebook: Annotated[Path, typer.Argument(help="Notebook to execute.")],
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="name=value, JSON values.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the executed copy.")] = Path(
        "test-output"
    ),
) -> None:
    """Execute a notebook; exit 1 if anything in it failed, hidden errors included."""
    from workbench.run.notebooks import NotebookError, run_notebook

    parameters = {}
    for item in parameter or []:
        name, equals, value = item.partition("=")
        if not equals:
            _fail(f"--parameter takes name=value; got {item!r}.")
        parameters[name] = _value(value)
    try:
        result = run_notebook(notebook, parameters, output_dir=output)
    except NotebookError as error:
        _fail(error.message)
    typer.echo(f"{notebook}: {'ok' if result.ok else 'FAILED'} in {result.duration_s:.1f} s")
    for reason in result.skipped:
        typer.echo(f"skipped: {reason}")
    for problem in result.problems:
        typer.echo(f"{problem.kind} in cell {problem.cell_index}: {problem.message}")
    typer.echo(json.dumps(result.results, indent=2))
    raise typer.Exit(0 if result.ok else 1)


@app.command()
def layout(
    model: Annotated[str, typer.Argument(help="Catalog name, path, or hub id.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A scenario field, as for resolve.")
    ] = None,
    num_blocks: Annotated[int, typer.Option(help="Manager blocks of the tensor.")] = 3,
    runner: Annotated[str, typer.Option(help="Model runner: v1 or v2.")] = "v1",
    layout_name: Annotated[
        str | None, typer.Option("--layout", help="VLLM_KV_CACHE_LAYOUT: NHD or HND.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the layout as JSON.")] = False,
) -> None:
    """Print shapes, strides and block dimension of the cache views that share one tensor."""
    from workbench.core.layout_error import LayoutError
    from workbench.core.plan_layout import plan_layout
    from workbench.views.layout_text import layout_text

    plan = _resolved(model, setting or [])
    try:
        views = plan_layout(plan, num_blocks=num_blocks, runner=runner, layout=layout_name)
    except LayoutError as error:
        if as_json:
            typer.echo(json.dumps({"error": error.to_dict()}, indent=2))
            raise typer.Exit(2) from None
        said = f"{error.vllm_exception or 'error'}: {error.vllm_text or 'without text'}"
        told = error.vllm_exception is not None or error.vllm_text is not None
        _fail(f"error [{error.code}] {error.message}" + (f"\nvLLM says: {said}" if told else ""))
    typer.echo(json.dumps(views.to_dict(), indent=2) if as_json else layout_text(views))


def _value(text: str) -> Any:
    """JSON where it is JSON ("4", "true", "null"), the bare word otherwise."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(2)


if __name__ == "__main__":
    app()
