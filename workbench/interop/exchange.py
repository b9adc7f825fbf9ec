"""Public import and export of scenarios, designs and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench import __version__
from workbench.access.files import FileUse, is_file, read_bytes, read_text, write_file
from workbench.core.capacity.memory_answer import BY_MEMORY
from workbench.core.errors import ScenarioError, check_kind, check_plan, cut, shown
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.versions import DEFAULT
from workbench.interop.commands.code import llm_code
from workbench.interop.commands.command_line import read_command
from workbench.interop.commands.sweep_params import serve_params
from workbench.interop.design import MAX_DESIGN_BYTES, Design, design_of, differences, read_design
from workbench.interop.flex_settings import FlexDevice
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.explain import UNRECOGNISED
from workbench.interop.logs.explain import explain_log as explain
from workbench.interop.logs.report import LogReport
from workbench.interop.logs.text import MAX_LOG_BYTES, START_IS_ENOUGH, decoded
from workbench.models import load_model
from workbench.models.catalog import catalog_name
from workbench.models.names import same_model
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.start import Start, scenario_from

if TYPE_CHECKING:
    from workbench.sweeps.store import Row

PLATFORM = "platform"
LOG = FileUse("log", MAX_LOG_BYTES, "log", START_IS_ENOUGH)
DESIGN = FileUse("design", MAX_DESIGN_BYTES, "design")


@dataclass(frozen=True, slots=True)
class Command:
    """The scenario of a command line, and notes on every argument that has no field in it."""

    scenario: Scenario
    notes: tuple[str, ...]
    fields: frozenset[str]
    """Names of those that the text sets."""
    problems: tuple[Problem, ...] = ()
    """What stops this command before vLLM has a configuration, such as a flag that it lacks."""


def from_vllm_command(text: str, **machine: Any) -> Command:
    """Return the scenario of a `vllm serve` command or of `python -m vllm.entrypoints...`.

    machine: fields that a command cannot hold, such as `platform="xpu"` or `rules`; a flag wins
    over them. Where it has neither a device nor another platform than the default, an image or a
    variable of one platform (`vllm-openai-rocm`, `VLLM_ROCM_USE_AITER`) gives the platform, and
    the tag of an image the version (`vllm-openai:v0.33.0`).
    Errors: ScenarioError for a text that is not such a command, or an invalid value, with the
    nearest valid one.

    >>> wb.from_vllm_command("vllm serve Qwen/Qwen3.5-4B -tp 2").scenario.tensor_parallel
    2
    """
    check_kind("wb.from_vllm_command", text, str, "the text of a command")
    parsed = read_command(text, str(machine.get("rules", DEFAULT)))
    parsed.check_variables()
    where, default = parsed.machine, FIELDS[PLATFORM].default
    is_open = machine.get("device") is None and machine.get(PLATFORM, default) == default
    of_platform = {PLATFORM: where.platform} if where is not None and is_open else {}
    try:
        scenario = Scenario(**{**machine, **of_platform, **parsed.fields})
    except ScenarioError as error:
        source = parsed.sources.get(error.field or "")
        if source is None:
            raise
        raise ScenarioError(
            error.code,
            f"{cut(source)}: {error.message}",
            field=error.field,
            operands=error.operands,
        ) from None
    notes = tuple(parsed.notes)
    if where is not None and of_platform:
        notes = (f"{cut(where.source)}: the platform is {where.platform}.", *notes)
    if "model" not in parsed.fields and "model" not in machine:
        notes = (f"The command does not name a model; {scenario.model} is used.", *notes)
    fields = frozenset({*parsed.fields, *of_platform})
    return Command(scenario, notes, fields, tuple(parsed.problems))


def explain_log(
    log: str | bytes | PathLike[str],
    model: str | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> LogReport:
    """Explain a vLLM start-up log line by line: what it reports, the rule, and what to change.

    log: its text, the bytes of a file, or the path of one, also as text. model: a catalog name, a
    path or a hub id to compare with, instead of the model that the log names; nothing is downloaded
    for that one.
    progress: called with the megabytes that were searched, and all of them, in a large log.
    Errors: ScenarioError if there is nothing to explain; ConfigError for a model that is unknown.

    >>> report = wb.explain_log("Setting attention block size to 528 tokens to ensure that ...")
    >>> report.lines[0].line
    1
    """
    if isinstance(log, PathLike) or (isinstance(log, str) and is_file(log)):
        log = read_bytes(log, LOG)
    text = decoded(log) if isinstance(log, bytes) else log
    if not isinstance(text, str):
        message = f"Invalid log {shown(log)}. Expected its text, its bytes, or the path of a file."
        raise ScenarioError("wrong_type", message, field="log")
    try:
        return explain_text(text, model, progress=progress)
    except ScenarioError as error:
        if error.code != UNRECOGNISED or len(text.split()) > 1:
            raise
        message = f"{shown(text)} is neither a file nor a log. {error.message}"
        raise ScenarioError(UNRECOGNISED, message, field="log") from None


def explain_text(
    text: str, model: str | None = None, *, progress: Callable[[int, int], None] | None = None
) -> LogReport:
    """Explain the text of a log, which opens no file: what a browser sends is never a path."""
    if model is not None:
        same = same_model(model)
        model = catalog_name(model) or (model if same is None else same.name)
        load_model(model)
    return explain(text, lambda fields: resolve(Scenario.from_dict(fields)), model, progress)


BLOCK_LINE = "INFO Setting attention block size to {} tokens to ensure that"
PADDING_LINE = "INFO Padding mamba page size by {:.2f}% to ensure that mamba page size and"


def scenes_with_block(
    tokens: int, padding_percent: float | None, model: str | None
) -> tuple[CandidateScenario, ...]:
    """Return scenarios of a model, or of any, with a block size, and with its padding if any have.

    They are those of a log in which vLLM says so, and goes on: its later checks pass as well.
    """
    block = BLOCK_LINE.format(tokens)
    padding = [] if padding_percent is None else [PADDING_LINE.format(padding_percent)]
    logs = ("\n".join((block, *more)) for more in (padding, ()))
    found = (filter(_has_no_errors, explain_text(log, model).scenes) for log in logs)
    return next(filter(None, map(tuple, found)), ())


def _has_no_errors(scene: CandidateScenario) -> bool:
    """Return whether nothing but the memory can stop a start."""
    plan = resolve(Scenario.from_dict(dict(scene.fields)))
    return all(problem.code in BY_MEMORY for problem in plan.errors)


@dataclass(frozen=True, slots=True)
class LoadedDesign:
    """A design that was read: its scenario, its plan under today's rules, and the changes since."""

    design: Design
    scenario: Scenario
    plan: Plan
    warnings: tuple[str, ...]


def save_design(scenario: Start, path: str | Path, title: str = "", notes: str = "") -> Design:
    """Write the design file of a scenario, whole or not at all.

    scenario: as `wb.resolve` takes it. Errors: Refused if it has no plan; FileError.

    >>> wb.save_design(plan.scenario, "nemotron.json", title="20 GiB").title
    '20 GiB'
    """
    scenario = scenario_from(scenario)
    design = design_of(resolve(scenario), scenario.to_dict(), __version__, title, notes)
    write_file(path, design.to_json())
    return design


def load_design(path: str | Path) -> LoadedDesign:
    """Return the design in a file, resolved by today's rules.

    Errors: ScenarioError for another form or a newer schema; Refused where vLLM refuses it now.

    >>> _ = wb.save_design(plan.scenario, "nemotron.json")
    >>> wb.load_design("nemotron.json").plan == plan
    True
    """
    return loaded_design(read_text(path, DESIGN))


def loaded_design(text: str) -> LoadedDesign:
    """Return the design in the text of a file, resolved by today's rules."""
    design = read_design(text)
    scenario = Scenario.from_dict(design.scenario)
    plan = resolve(scenario)
    return LoadedDesign(design, scenario, plan, differences(design, plan))


def commands_of(plan: Plan) -> dict[str, str]:
    """Return what to paste, by kind: shell, vLLM's Python, and the workbench's own.

    >>> list(wb.commands_of(plan))
    ['vllm serve', 'vLLM in Python', 'workbench']
    """
    check_plan("wb.commands_of", plan, Plan)
    return {
        "vllm serve": plan.to_vllm_command(),
        "vLLM in Python": llm_code(plan.scenario, plan.model),
        "workbench": plan.to_code(),
    }


def report_of(
    plan: Plan,
    title: str = "",
    notes: str = "",
    *,
    warnings: Sequence[str] = (),
    figures: bool = False,
) -> str:
    """Return one HTML page about a plan that needs neither a kernel nor a network.

    figures: add plotly's figures, which take 5 MB.
    """
    from workbench.views.report import Page, report_html

    page = Page(
        title=title,
        notes=notes,
        warnings=tuple(warnings),
        commands=commands_of(plan),
        made_with={"workbench": __version__, "rules": plan.scenario.rules},
        figures=figures,
    )
    return report_html(plan, page, plan.remedies)


def sweep_file(scenarios: Sequence[Start], names: Sequence[str] = ()) -> str:
    """Return the file of `vllm bench sweep serve --serve-params` for scenarios of one model.

    >>> "block-2096" in wb.sweep_file([plan.scenario])
    True
    """
    check_kind("wb.sweep_file", scenarios, Sequence, "a list of scenarios")
    return serve_params([resolve(scenario) for scenario in scenarios], names)


def best_flex_settings(
    rows: Iterable[Row], *, store: str = "", bitwise: bool = False
) -> tuple[FlexDevice, ...]:
    """Return the best measured settings of the paged flex kernel per device and kind of layer.

    Of several versions of the kernel on a device the one measured last counts. bitwise: the one
    configuration for all batches. store: the file that the rows are from. A query block is as long
    as the tile, and so is a block of keys: what vLLM's flags of these names accept. Nothing where
    no configuration has a time on every batch.
    """
    from workbench.sweeps.kernels.kernel_session import KERNELS
    from workbench.sweeps.kernels.winners import best_flex

    own = filter(KERNELS["flex"].has_measured, rows)
    return tuple(
        FlexDevice(one.layer, {**one.provenance, "store": store}, one.best, one_for_all=bitwise)
        for one in best_flex(own, bitwise=bitwise)
    )
