"""Split a vLLM command line: where its arguments begin, its flags and their values."""

import json
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import resources

from workbench.core.errors import ScenarioError

MAX_COMMAND_CHARACTERS = 100_000
SEPARATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "<"})
"""Words that end a command in a shell."""
VALUE = re.compile(r"(?!-)|-\d+(\.\d+)?\Z")
"""A word that is not a flag: a negative number is one, too."""


@cache
def known_flags() -> tuple[dict[str, str], dict[str, str]]:
    """Return flags of vLLM 0.23: (name -> "value", "list" or "switch"; short form -> name)."""
    path = resources.files("workbench.interop.commands") / "vllm_flags_0_23.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    return table["flags"], table["short"]


def command_words(text: str) -> list[str]:
    """Return the words as a shell reads them, without comments, continued lines joined.

    Errors: ScenarioError for invalid shell syntax, and for a text that is too long.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        limit = f"A command has at most {MAX_COMMAND_CHARACTERS:,} characters; got {len(text):,}."
        advice = "For a log, use `workbench explain-log`."
        raise ScenarioError("out_of_range", f"{limit} {advice}", field="command")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\[ \t]*(\n|$)", " ", "\n".join(lines))
    try:
        return shlex.split(joined)
    except ValueError as error:
        message = f"The shell could not read this command: {error}. Check the quotes."
        raise ScenarioError("not_a_vllm_command", message, field="command") from None


def first_argument(words: list[str]) -> int | None:
    """Return where the arguments begin, after what starts the server; None if nothing does."""
    for at, word in enumerate(words):
        following = words[at + 1 : at + 3]
        if word.rpartition("/")[2] == "vllm" and following[:1] == ["serve"]:
            return at + 2
        if word == "-m" and "".join(following[:1]).startswith("vllm.entrypoints"):
            return at + 2
        is_image = "vllm-openai" in word and [one.rpartition("/")[2] for one in following] != [
            "vllm",
            "serve",
        ]
        if is_image or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return at + 1
    return 0 if words and words[0].startswith("--") else None


Argument = tuple[str | None, str | bool, str]
"""Flag or None for a bare word, value, the words as given."""


def flags_and_values(words: list[str]) -> Iterator[Argument]:
    """Yield every flag with its value, and every bare word, in order."""
    flags, short = known_flags()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-":
            yield None, True, word
            continue
        head, equals, value = word.partition("=")
        name, kind = _named(head, flags, short)
        if kind == "off":
            yield name, False, word
        elif equals:
            yield name, value, word
        elif kind == "switch":
            yield name, True, word
        else:
            taken: list[str] = []
            while at < len(words) and VALUE.match(words[at]) and (kind == "list" or not taken):
                taken.append(words[at])
                at += 1
            yield name, ",".join(taken), " ".join([word, *taken])


def _named(head: str, flags: dict[str, str], short: dict[str, str]) -> tuple[str, str]:
    """Return full name and kind of a flag as written; "off" for the `--no-` form of a switch."""
    stem, dot, keys = head.partition(".")
    stem = short.get(stem, stem if not stem.startswith("--") else stem.replace("_", "-"))
    if dot:
        return f"{stem}.{keys}", "value"
    positive = "--" + stem.removeprefix("--no-")
    if stem not in flags and stem.startswith("--no-") and flags.get(positive) == "switch":
        return positive, "off"
    if stem not in flags:
        begun = [flag for flag in flags if flag.startswith(stem)]
        stem = begun[0] if len(begun) == 1 and stem.startswith("--") else stem
    return stem, flags.get(stem, "value")
