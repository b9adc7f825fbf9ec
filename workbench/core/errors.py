"""Errors that a person can act on: what was given, what is allowed, the nearest valid value."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Hashable, Iterable, Mapping
from difflib import SequenceMatcher
from itertools import takewhile
from reprlib import Repr
from types import UnionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.core.problems import Problem

PACKAGE = __file__.removesuffix("errors.py")[: -len("core/")]
"""The folder of this package."""
SHOWN_CHARACTERS = 80
"""Most characters of a value that a message repeats."""
NEAREST = "nearest"
"""Operand of an error: valid values of its field that are like the given one."""
PHRASE = "phrase"
"""Operand of an error: the words of a text in whose place one of the nearest can be."""
HUGE = 10**40
"""From here on an integer is not written out: converting thousands of digits takes seconds."""


class _ShortRepr(Repr):
    """Reads no more of a value than it shows, however long or deep the value is."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlong = self.maxstring = self.maxother = SHOWN_CHARACTERS
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        """Return an integer, or that it is too long to be of use."""
        return str(x) if abs(x) < HUGE else "a huge integer"


_SHORT = _ShortRepr()


def shown(value: object) -> str:
    """Return a value as every message repeats it: its `repr`, at most 80 characters of it."""
    return cut(_SHORT.repr(value))


def cut(text: str) -> str:
    """Return the first 80 characters of a text, marked where something is missing."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."


def cut_path(path: object) -> str:
    """Return the last 80 characters of a path: its end is what differs from others."""
    text = str(path)
    return text if len(text) <= SHOWN_CHARACTERS else "..." + text[3 - SHOWN_CHARACTERS :]


class WorkbenchError(ValueError):
    """Base of every error that the workbench raises on purpose.

    `code` is stable and machine-readable; `field` names the input that has to change
    (a scenario field, or a JSON pointer into a config.json); `vllm_text` is how vLLM's own message
    begins: empty for an assertion without one, None where it is not known.

    >>> try:
    ...     wb.Scenario(model="bamba-9b", tensor_paralel=3)
    ... except wb.WorkbenchError as error:
    ...     error.code, error.field
    ('unknown_field', 'tensor_paralel')
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str | None = None,
        operands: Mapping[str, Any] | None = None,
        vllm_text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.operands: dict[str, Any] = dict(operands or {})
        self.vllm_text = vllm_text

    def to_dict(self) -> dict[str, Any]:
        """Return the form that batch output uses: `code`, `message`, `field`."""
        return {"code": self.code, "message": self.message, "field": self.field}

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the caller's own line, and the message."""
        frames = traceback.extract_tb(self.__traceback__)
        calls = takewhile(lambda one: not one.filename.startswith(PACKAGE), frames)
        where = "".join(f" (line {one.lineno}: {cut(one.line or '')})" for one in [*calls][-1:])
        return [f"{type(self).__name__}{where}", str(self)]


def internal_error(error: Exception) -> WorkbenchError:
    """Return a fault of the workbench as an error that a boundary can print."""
    kind = type(error).__name__
    return WorkbenchError(
        "internal_error",
        f"{cut(f'{kind}: {error}')} This is a fault of the workbench: please report it with what "
        "you entered.",
    )


class ScenarioError(WorkbenchError):
    """A scenario field has an impossible value, or does not exist.

    >>> wb.Scenario(tensor_paralel=2)
    Traceback (most recent call last):
    workbench.core.errors.ScenarioError: A scenario has no field 'tensor_paralel'. ...
    """


def a_kind(value: object) -> str:
    """Return what a value is, with its article: "an int", "a list", "None"."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0].casefold() in 'aeiou' else 'a'} {name}"


def check_kind(
    call: str, given: object, kind: type | UnionType, expected: str, code: str = "wrong_type"
) -> None:
    """Refuse an argument of a call that is not of a class: ScenarioError, in these words."""
    if not isinstance(given, kind):
        raise ScenarioError(code, f"{call} expects {expected}; got {a_kind(given)}.")


def check_plan(call: str, given: object, kind: type) -> None:
    """Refuse what is not a plan, of class `kind`, as the argument of a call: ScenarioError."""
    check_kind(call, given, kind, "a plan, such as wb.resolve(model=...)", "not_a_plan")


def check_integer(field: str, given: object, low: int, high: int, limit: str) -> None:
    """Refuse what is not an integer from `low` to `high`, called `limit`: ScenarioError."""
    # Not isinstance: True is an integer to it.
    if type(given) is int and low <= given <= high:
        return
    # In this order of arguments the nearest value of NaN is `low`.
    nearest = min(high, max(low, given if isinstance(given, int | float) else low))
    raise ScenarioError(
        "out_of_range",
        f"Invalid {field} {shown(given)}. Expected an integer from {low} to {limit} ({high:,}). "
        f"Nearest valid value: {int(nearest)}.",
        field=field,
    )


class ConfigError(WorkbenchError):
    """A config.json cannot be understood; `field` is the JSON pointer of the offending entry.

    >>> wb.load_model({"model_type": "mamba3"})
    Traceback (most recent call last):
    workbench.core.errors.ConfigError: model_type 'mamba3' is not known. Nearest: mamba, mamba2, ...
    """


class Refused(WorkbenchError):  # noqa: N818  (what vLLM does, not a mistake of ours)
    """vLLM refuses this configuration before any block size exists.

    `candidates` are changes of scenario fields that may lift the refusal, best first;
    `workbench.core.remedies` tries them. `problems` are those that a traced resolution had found
    before: vLLM stops at the first one.

    >>> wb.resolve(model="bamba-9b", tensor_parallel=3)
    Traceback (most recent call last):
    workbench.core.errors.Refused: tensor_parallel = 3 does not divide the 32 attention heads ...
    """

    def __init__(
        self, code: str, message: str, *, candidates: Iterable[Mapping[str, Any]] = (), **more: Any
    ) -> None:
        super().__init__(code, message, **more)
        self.candidates = tuple(map(dict, candidates))
        self.problems: tuple[Problem, ...] = ()


class Unusable(RuntimeError):  # noqa: N818  (what it is, not a mistake of ours)
    """A file, a machine or a program cannot be used as requested; the message says what to do."""


SHORTEST_PART = 2
NEAR_ENOUGH = 0.4
"""Likeness from which a name is offered."""
LISTED = 40
FIRST = 8
"""Of more names than LISTED only the FIRST are listed, and none when nearer ones can be named."""


def nearest_names(given: object, allowed: Iterable[str], count: int = 3) -> tuple[str, ...]:
    """Return the allowed names most like `given`, best first; empty when nothing is similar."""
    names = {name.casefold(): name for name in allowed}
    text = str(given)[:SHOWN_CHARACTERS].casefold()
    inside = [name for name in names if len(text) > SHORTEST_PART and text in name]
    inside.sort(key=lambda name: not name.startswith(text))
    close = _closest(text, names, count)
    return tuple(names[match] for match in dict.fromkeys([*inside, *close]))[:count]


def _closest(text: str, names: Iterable[str], count: int) -> list[str]:
    """Return what `difflib.get_close_matches` does, without the likeness of those that lose."""
    matcher = SequenceMatcher(b=text)
    bounds = []
    for name in names:
        matcher.set_seq1(name)
        bound = min(matcher.real_quick_ratio(), matcher.quick_ratio())
        if bound >= NEAR_ENOUGH:
            bounds.append((bound, name))
    best: list[tuple[float, str]] = []
    for bound, name in sorted(bounds, reverse=True):
        if len(best) == count and bound < best[-1][0]:
            break
        matcher.set_seq1(name)
        best.append((matcher.ratio(), name))
        best = sorted((one for one in best if one[0] >= NEAR_ENOUGH), reverse=True)[:count]
    return [name for _, name in best]


def check_name(
    what: str, name: object, allowed: Collection[str], field: str, code: str = "unknown_name"
) -> None:
    """Raise ScenarioError, with the nearest names, unless `name` is one of `allowed`."""
    if not isinstance(name, Hashable) or name not in allowed:
        message, near = unknown_name_message(what, name, allowed), nearest_names(name, allowed)
        raise ScenarioError(code, message, field=field, operands={NEAREST: near})


def unknown_name_message(what: str, given: object, allowed: Iterable[str]) -> str:
    """Return one sentence for a name that is not in a list: the nearest, and the first of all."""
    names = sorted(allowed)
    between = "; " if any(", " in name for name in names) else ", "
    near = nearest_names(given, names)
    hint = f" Nearest: {between.join(near)}." if near else ""
    is_long = len(names) > LISTED
    some = names[:FIRST] if is_long else names
    rest = f" and {len(names) - FIRST} more" if is_long else ""
    listed = f" Allowed: {between.join(some)}{rest}." if not (near and rest) else ""
    return f"{what} {shown(given)} is not known.{hint}{listed}"
