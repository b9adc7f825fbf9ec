"""The messages that are recognised, in the order of a start, as `start.toml` and others declare.

An entry is a `[[message]]`, or a `[[fatal]]` with which a start ends. Its keys are fields of
`Message`, and:

pattern: has the words that find the message in backticks. Its single spaces match any white space;
a line break is a space. That of a command begins after the environment variables.
like: another entry, which has what this one lacks.
fields: scenario fields, or a name in `FIELDS_OF`. given: values that are what the user set, not
what vLLM made of it. gib: field -> a value in GiB, of which it has the bytes.
advice: what to change, with values in braces. advises: a name in `ADVICE`.
compares: names in `NUMBERS`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.package_data import package_data
from workbench.core.registry import Registry
from workbench.interop.logs.meanings import ADVICE, FIELDS_OF
from workbench.interop.logs.message import Message, Values
from workbench.interop.logs.numbers import NUMBERS

FILES = ("start", "sizes", "errors")
KEY_WORDS = re.compile(r"`([^`]+)`")
COMMAND = r"(?<![^\s\x60'\"])(?P<command>(?:[A-Z_][A-Z0-9_]*=\S{{0,999}} ){{0,40}}+{})"


def _declared() -> Iterator[Message]:
    entries: dict[str, dict[str, Any]] = {}
    for file in FILES:
        for kind, listed in package_data("workbench.interop.logs", f"{file}.toml").items():
            for entry in listed:
                whole = {**entries.get(entry.pop("like", ""), {}), **entry}
                entries[entry["name"]] = whole
                yield _message(is_fatal=kind == "fatal", **whole)


def _message(
    pattern: str, fields: Any = None, given: Any = (), gib: Any = None, **entry: Any
) -> Message:
    pattern = pattern.replace("\n", " ")
    words = KEY_WORDS.search(pattern)
    assert words is not None, pattern
    pattern = COMMAND.format(pattern) if entry.get("is_command") else pattern
    return Message(
        begins=re.sub(r"\\(.)", r"\1", words[1]),
        pattern=re.compile(KEY_WORDS.sub(r"\1", pattern).replace(" ", r"\s+")),
        means=entry.pop("means").replace("\n", " "),
        advice=ADVICE.get(entry.pop("advises", "")) or entry.pop("advice", "").replace("\n", " "),
        fields=_fields(fields or {}, given, gib or {}),
        compares=tuple(NUMBERS[name] for name in entry.pop("compares", ())),
        codes=tuple(entry.pop("codes", ())),
        **entry,
    )


def _fields(
    fields: str | dict[str, Any], given: list[str], gib: dict[str, str]
) -> Callable[[Values], Mapping[str, Any]]:
    if isinstance(fields, str):
        return FIELDS_OF[fields]
    same = {name: tuple(one) if isinstance(one, list) else one for name, one in fields.items()}
    return lambda values: {
        **same,
        **{name: values[name] for name in given},
        **{name: round(values[of] * GIB) for name, of in gib.items()},
    }


MESSAGES: Registry[Message] = Registry("message", "log")
"""Name -> message that is recognised."""

for _one in _declared():
    MESSAGES.add(_one.name, _one)
