"""Shared by several commands: options, a scenario from options, and how a command fails."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from time import monotonic
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from workbench.access.files import reason_of
from workbench.core import errors
from workbench.extras import missing_package

FAULT = 70
"""Exit status after a fault of the workbench: EX_SOFTWARE of sysexits.h."""
INCOMPLETE = 1
"""Exit status of a sweep some of whose points another session measures."""
LONG_WORD = re.compile(r"'.{80,}'|\S{80,}|\s{80,}", re.DOTALL)
PROGRESS_SECONDS = 2.0
"""Between two lines of progress, where stderr is not a screen."""
SIMILAR = 0.75
"""How similar an option is that a person may have meant: click's 0.6 takes --frob for --from."""
INTERRUPTED, TERMINATED = 130, 143
"""Exit status after Ctrl-C and after SIGTERM, as in shells."""


def catalog_models(incomplete: str) -> list[str]:
    """Return the models of the catalog that a shell completes a word with."""
    from workbench.models import catalog_names

    return [name for name in catalog_names() if name.startswith(incomplete)]


def scenario_fields(incomplete: str) -> list[str]:
    """Return the scenario fields, with the = that follows, that a shell completes a word with."""
    from workbench.scenario import FIELDS

    return [f"{name}=" for name in FIELDS if name.startswith(incomplete)]


MODEL_HELP = "Catalog name, path, hub id, or a quoted `vllm serve` command."
Model = Annotated[str, typer.Argument(help=MODEL_HELP, autocompletion=catalog_models)]
AnyModel = Annotated[str | None, typer.Argument(help=MODEL_HELP, autocompletion=catalog_models)]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="A scenario field, e.g. -s tensor_parallel=4, with a JSON value.",
        autocompletion=scenario_fields,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def option(meaning: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Return an option, as the default of a parameter; more: see `typer.Option`."""
    return typer.Option(default, *names, help=meaning, **more)


def flag(name: str, meaning: str) -> Any:
    """Return a switch that is off by default and has no other form."""
    return typer.Option(False, name, help=meaning)


def argument(meaning: str, default: Any = None) -> Any:
    """Return an argument; with `...` as default it is required."""
    return typer.Argument(default, help=meaning)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that prints an error in one line, with its code, and exits with 2.

    A fault of the workbench is printed in one line, too, and the exit status is 70; with
    WORKBENCH_TRACEBACK=1 the traceback follows.
    """

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
        except errors.WorkbenchError as error:
            kind = "refused" if isinstance(error, errors.Refused) else "error"
            fail(f"{kind} [{error.code}] {error.message}{_vllm_says(error)}")
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise  # typer's own
        except errors.Unusable as error:
            fail(str(error))
        except OSError as error:
            fail(f"{errors.cut_path(error.filename or '')}: {reason_of(error)}".removeprefix(": "))
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and (lacks := missing_package(error.name)):
                fail(f"error [{lacks.code}] {lacks.message}")
            if os.environ.get("WORKBENCH_TRACEBACK"):
                raise
            found = errors.internal_error(error)
            more = "The traceback: WORKBENCH_TRACEBACK=1 before the command."
            typer.echo(f"error [{found.code}] {found.message} {more}", err=True)
            raise typer.Exit(FAULT) from None

    return run


@contextmanager
def ended_in_order(words: str) -> Iterator[None]:
    """Take SIGTERM as Ctrl-C, which leaves neither a process nor a folder; words: printed then."""

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt(TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt as interrupt:
        typer.echo(words, err=True)
        raise typer.Exit(TERMINATED if interrupt.args else INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _vllm_says(error: errors.WorkbenchError) -> str:
    """Return a line with how vLLM's own message begins; nothing where there is none."""
    from workbench.views.rows import begun

    words = begun(error.vllm_text)
    return f"\nvLLM says: {words}" if words else ""


class ShortErrors(TyperGroup):
    """Commands whose usage errors repeat at most 80 characters of what was given."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        """Read the options before the command."""
        _print_whatever_it_is()
        with _short_errors():
            return super().make_context(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Read the options of the command, and run it."""
        with _short_errors():
            return super().invoke(ctx)


def _print_whatever_it_is() -> None:
    """Let output have any character: one that cannot be written as its number.

    On Windows a file or a pipe has the characters of one language; a name on Linux may have none.
    """
    for stream in (sys.stdout, sys.stderr):
        if getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _short_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        usage: Any = error
        # click's, which typer keeps in a place of its own; without a command it is the help
        if hasattr(error, "format_message") and not usage.message.startswith("Usage:"):
            # the name of an unknown option is neither in quotes nor one word
            option = getattr(error, "option_name", None) or ""
            message = usage.message.replace(option, errors.cut(option)) if option else usage.message
            if hasattr(usage, "possibilities"):  # an option that is known can lack its value
                message += _how_to_set(option, usage.ctx)
                known = usage.possibilities or ()  # of a short option there is no list
                usage.possibilities = get_close_matches(option, known, cutoff=SIMILAR)
            usage.message = LONG_WORD.sub(lambda word: errors.cut(word[0]), message)[:300]
        raise


def _how_to_set(option: str, context: Any) -> str:
    """Return how a command sets what someone took for an option; nothing where it sets no field."""
    if all("-s" not in parameter.opts for parameter in context.command.params):
        return ""
    from workbench.scenario import FIELDS

    own = option.lstrip("-").replace("-", "_")
    meant = (name for name, field in FIELDS.items() if own == name or option in field.flags)
    name = next(meant, "")
    field = f"Set it with -s {name}=VALUE" if name else "Fields are set with -s field=VALUE"
    return f". {field}, vLLM's flags in a quoted command: 'vllm serve MODEL --flag'."


def progress_line(what: str) -> Callable[[int, int], None]:
    """Return what writes "3 of 7 {what}" to stderr: over its last line, or as a line now and then.

    The second where stderr is a file or another program.
    """
    is_screen, written = sys.stderr.isatty(), monotonic()

    def write(done: int, total: int) -> None:
        nonlocal written
        text = f"{done:,} of {total:,} {what}"
        if is_screen:
            typer.echo(f"\r{text}", err=True, nl=done == total)
        elif monotonic() - written >= PROGRESS_SECONDS:
            typer.echo(text, err=True)
            written = monotonic()

    return write


def fail(message: str) -> NoReturn:
    """Print the message, and exit with 2."""
    typer.echo(message, err=True)
    raise typer.Exit(2)


def named_values(items: Iterable[str] | None, option: str, what: str = "name") -> dict[str, str]:
    """Return name -> text of `name=value` texts; exit with 2 for another form."""
    for item in items or ():
        if "=" not in item:
            fail(f"Invalid {option} {errors.shown(item)}. Expected {what}=value.")
    return {name: text for name, _, text in (item.partition("=") for item in items or ())}
