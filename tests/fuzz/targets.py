"""Everything that reads what a person brings: each takes bytes, and raises errors of ours alone."""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click

    from workbench.scenario import Scenario

DATA = Path(__file__).parents[1] / "data"
COMMANDS = {
    *("resolve", "models", "coverage", "backends", "layout", "offload", "transfer", "chunks"),
    *("diff", "explain-log"),
}
"""Those that start nothing and write no file."""
DRAFTED = {"model": "llama-3.1-8b", "num_speculative_tokens": 3}
LONGEST_MESSAGE = 4000
FAULT = 70
"""Exit status of a command that met an exception of no type of ours."""


class FaultError(AssertionError):
    """An answer that is a fault although no exception came through."""


@dataclass(frozen=True)
class Target:
    """One reader of input from outside."""

    name: str
    read: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]
    """Valid inputs, from what the tests have anyway."""

    @property
    def kept(self) -> list[bytes]:
        """Return the inputs that found a fault once, or that come close to one."""
        path = DATA / "fuzz" / f"{self.name}.json"
        return [text.encode("utf-8", "surrogatepass") for text in json.loads(path.read_text())]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_config(data: bytes) -> None:
    """Read a config.json, and resolve its model."""
    _resolve(data, "model")


def read_drafter(data: bytes) -> None:
    """Read the config.json of a drafter, and resolve a model with it."""
    _resolve(data, "draft_model", **DRAFTED)


def _resolve(data: bytes, field: str, **fields: object) -> None:
    from workbench.models.json_file import parse_config
    from workbench.scenario import Scenario
    from workbench.scenario.resolution import resolve

    scenario = Scenario(**fields, **{field: parse_config(data, "config.json")})
    json.dumps(resolve(scenario).to_dict(), allow_nan=False)


def read_scenario(data: bytes) -> None:
    """Resolve the line of a batch."""
    from workbench.interop.batch import resolve_lines

    [(answer, _is_plan)] = resolve_lines([data])
    error = json.loads(answer).get("error")
    if error and error["code"] == "internal_error":
        raise FaultError(error["message"])
    if error and len(error["message"]) > LONGEST_MESSAGE:
        raise FaultError(f"a message of more than {LONGEST_MESSAGE} characters: {error['code']}")


def read_log(data: bytes) -> None:
    """Explain a start-up log of a model, and show the result."""
    from workbench.interop.exchange import explain_log

    explain_log(data, model="nemotron-3-nano-30b-a3b")._repr_html_()


def read_unnamed_log(data: bytes) -> None:
    """Explain a log and look for its model, with thousands of resolutions."""
    from workbench.interop.exchange import explain_log

    explain_log(data).to_dict()


def read_command(data: bytes) -> None:
    """Answer what was pasted into the front door: a command, a link, a question, a log."""
    from workbench.core.what_if.answers import answers
    from workbench.door.questions import answered
    from workbench.interop.omnibox import understand
    from workbench.scenario import Scenario
    from workbench.scenario.resolution import resolve

    found = understand(_text(data), Scenario())
    if found.question is not None:
        plan = resolve(found.scenario)
        answered(found, plan, answers(plan))


def read_arguments(data: bytes) -> None:
    """Run a command of ours that only prints."""
    from click.testing import CliRunner

    try:
        words = shlex.split(_text(data))
    except ValueError:
        return
    if words and words[0] in COMMANDS:
        done = CliRunner().invoke(_command(), words)
        is_fault = done.exception is not None and not isinstance(done.exception, SystemExit)
        if is_fault or done.exit_code == FAULT:
            raise FaultError(done.output[-300:]) from done.exception


@cache
def _command() -> click.Command:
    from typer.main import get_command

    from workbench.cli import app

    return get_command(app)


def read_design(data: bytes) -> None:
    """Load a design, and compare it with what the rules give now."""
    from workbench.interop.exchange import loaded_design

    loaded_design(_text(data))


def read_sizes(data: bytes) -> None:
    """Read `field text` as a setting, an axis, a size, an integer, requests of a batch."""
    from workbench.core.errors import WorkbenchError
    from workbench.core.sizes import integer_value, parse_bytes
    from workbench.core.tables.batch_grammar import parse_batch
    from workbench.scenario import FIELDS, Scenario
    from workbench.scenario.scenario import value_of
    from workbench.sweeps.language import parse_axes

    text = _text(data)
    field, _, value = text.partition(" ")
    if field in FIELDS:
        with suppress(WorkbenchError):
            Scenario(**{field: value_of(field, value)}).to_json()
    for read in (parse_axes, parse_bytes, integer_value, parse_batch):
        with suppress(WorkbenchError):
            read(value if read is not parse_axes else text)


def read_results(data: bytes) -> None:
    """Open a results file, and read its rows."""
    from workbench.sweeps.store import ResultStore

    path = _folder() / "results.sqlite"
    for old in path.parent.iterdir():
        old.unlink()
    path.write_bytes(data)
    with ResultStore(path) as store:
        rows = store.rows()
        store.lost()
        store.missing([row.key for row in rows])


@cache
def _folder() -> Path:
    """Return a folder in memory, where there is one: SQLite waits for the disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    kept = tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory)
    _FOLDERS.append(kept)
    return Path(kept.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _random(count: int, seed: int) -> Iterable[Scenario]:
    from workbench.core.versions import DEFAULT
    from workbench.scenario.scenario import random_scenarios

    return random_scenarios(count, seed, DEFAULT)


def _configs() -> Iterable[bytes]:
    from tests.models.configs import FAMILIES

    return [json.dumps(build()).encode() for build in FAMILIES.values()]


def _drafters() -> Iterable[bytes]:
    """Return the drafters that random scenarios have, each once."""
    found = (one.to_dict()["draft_model"] for one in _random(200, 6))
    return {json.dumps(one).encode(): None for one in found if isinstance(one, dict)}


def _scenarios() -> Iterable[bytes]:
    return [one.to_json().encode() for one in _random(60, 1)]


def _logs() -> Iterable[bytes]:
    from tests.interop.test_log_messages import LINES

    return [line.encode() for line in LINES.values()]


def _long_logs() -> Iterable[bytes]:
    """Return a few whole logs: reading one can take seconds."""
    return [path.read_bytes()[:5000] for path in sorted((DATA / "logs").glob("*.log"))[::6]]


def _commands() -> Iterable[bytes]:
    from workbench.core.errors import WorkbenchError
    from workbench.interop.questions import QUESTIONS
    from workbench.scenario.links import link_of
    from workbench.scenario.resolution import resolve

    for scenario in _random(30, 2):
        yield link_of(scenario).encode()
        with suppress(WorkbenchError):
            yield resolve(scenario).to_vllm_command().encode()
    yield from map(str.encode, QUESTIONS)


def _arguments() -> Iterable[bytes]:
    for number, scenario in enumerate(_random(40, 3)):
        given = {name: value for name, value in scenario.to_dict().items() if value is not None}
        model = str(given.pop("model"))
        settings = [f"-s {name}={shlex.quote(json.dumps(given[name]))}" for name in given]
        command = ("resolve", "layout", "offload")[number % 3]
        yield f"{command} {shlex.quote(model)} {' '.join(settings[number % 7 :: 7])}".encode()


def _designs() -> Iterable[bytes]:
    from workbench.core.errors import WorkbenchError
    from workbench.interop.exchange import design_of
    from workbench.scenario.resolution import resolve

    for scenario in _random(10, 4):
        with suppress(WorkbenchError):
            yield design_of(resolve(scenario), scenario.to_dict(), "0.1").to_json().encode()


def _sizes() -> Iterable[bytes]:
    from workbench.scenario import FIELDS

    for scenario in _random(20, 5):
        for name, value in scenario.to_dict().items():
            yield f"{name} {FIELDS[name].kind.format(value)}".encode() if name in FIELDS else b""


def _results() -> Iterable[bytes]:
    from workbench.sweeps.store import Key, ResultStore, Row

    path = _folder() / "seed.sqlite"
    for count in (0, 1, 12):
        for old in path.parent.iterdir():
            old.unlink()
        with ResultStore(path) as store:
            for number in range(count):
                key = Key.of({"tile": number}, "cpu", "a" * 8)
                store.put(Row(key, median_s=1e-3 * number, values={"a": [number]}))
        yield path.read_bytes()


TARGETS = (
    Target("configs", read_config, _configs),
    Target("drafters", read_drafter, _drafters),
    Target("scenarios", read_scenario, _scenarios),
    Target("logs", read_log, _logs),
    Target("unnamed_logs", read_unnamed_log, _long_logs),
    Target("commands", read_command, _commands),
    Target("arguments", read_arguments, _arguments),
    Target("designs", read_design, _designs),
    Target("sizes", read_sizes, _sizes),
    Target("results", read_results, _results),
)


def target_named(name: str) -> Target:
    """Return the target."""
    return next(target for target in TARGETS if target.name == name)


def offline() -> None:
    """Let no hub answer in this process: names that are not in the catalog are refused at once."""
    from workbench.models import hub

    hub.hub_answers = lambda: False  # type: ignore[attr-defined]
