"""The command of a server in another form: a manifest, Helm values, arguments, or code."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from workbench.core.batch_defaults import LLM
from workbench.interop.commands.helm_values import values_arguments
from workbench.interop.commands.manifest import manifest_command

CLASSES = frozenset({LLM, "EngineArgs", "AsyncEngineArgs"})
"""What code passes the arguments of an engine to."""
ARGUMENT = re.compile(r"([a-z][\w-]*): +(\S.*)")
"""One line of a file for `--config`."""
SERVE = ("vllm", "serve")
MODEL = "model"


def as_command(text: str) -> tuple[str, dict[str, Any]]:
    """Return the command of a text that is none itself, and fields that no flag sets.

    The text itself where it is nothing of the kind.
    """
    if command := manifest_command(text) or _of_values(text) or _of_file(text):
        return command, {}
    return _of_code(text) or (text, {})


def _of_values(text: str) -> str | None:
    """Return the command that the values of a Helm chart lead to."""
    found = values_arguments(text)
    if found is None:
        return None
    image, arguments, extra = found
    return f"{image} {_command(arguments.items())} {shlex.join(extra)}"


def _of_file(text: str) -> str | None:
    """Return the command of a file for `--config`: a model, and other arguments, one per line."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    found = [ARGUMENT.fullmatch(line.partition(" #")[0].rstrip()) for line in lines]
    arguments = {one[1]: _value(one[2]) for one in found if one}
    return _command(arguments.items()) if MODEL in arguments and all(found) else None


def _value(written: str) -> Any:
    """Return a value of YAML that is written on one line."""
    if written.casefold() in {"true", "false"}:
        return written.casefold() == "true"
    return None if written in {"null", "~"} else written.strip("'\"")


def _of_code(text: str) -> tuple[str, dict[str, Any]] | None:
    """Return the command with the arguments of the first class of vLLM that code calls."""
    if not any(f"{name}(" in text for name in CLASSES):
        return None
    try:
        calls = [one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.Call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for call in calls:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if name in CLASSES:
            return _command(_arguments(call)), {"entry_point": LLM} if name == LLM else {}
    return None


def _arguments(call: ast.Call) -> Iterator[tuple[str, Any]]:
    """Yield the arguments of a call whose values are literals; others are omitted."""
    named = [(one.arg, one.value) for one in call.keywords if one.arg]
    for name, value in [*((MODEL, one) for one in call.args[:1]), *named]:
        try:
            yield name, ast.literal_eval(value)
        except (ValueError, TypeError, RecursionError):
            continue


def _command(arguments: Iterable[tuple[str, Any]]) -> str:
    """Return the command line with these arguments."""
    words: list[str] = []
    for name, value in arguments:
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is False:
            words.append(f"--no-{flag[2:]}")
        elif value is not None:
            written = value if isinstance(value, str) else json.dumps(value)
            words += [written] if name == MODEL else [flag, written]
    return shlex.join([*SERVE, *words])
