"""Split a vLLM command line: where its arguments begin, its flags and their values."""

import re
import shlex
from collections.abc import Iterator

from workbench.core.errors import ScenarioError
from workbench.interop.commands.flags import LIST, OFF, SWITCH, Flags

MAX_COMMAND_CHARACTERS = 100_000
SEPARATORS = frozenset({"&&", "||", "|", ";", "&", ">", ">>", "2>", "2>&1", "<"})
"""Words that end a command in a shell."""
VALUE = re.compile(r"(?!-)|-\d+(\.\d+)?\Z")
"""A word that is not a flag: a negative number is one, too."""
LEVEL = re.compile(r"-O=?(\d)")
"""An optimization level without a space."""
CONTINUED = re.compile(r"\\+[ \t]*(\n|$)|(?<=\s)\\+[ \t]+(?=-)")
"""What continues a line, also where a text was quoted in a program or its lines were joined."""
SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
INNER = re.compile(r"-[a-z]*c")
"""The argument after which a shell gets a command as one word."""


def command_words(text: str) -> list[str]:
    """Return the words as a shell reads them, without comments, continued lines joined.

    Errors: ScenarioError for invalid shell syntax, and for a text that is too long.
    """
    if len(text) > MAX_COMMAND_CHARACTERS:
        limit = f"A command has at most {MAX_COMMAND_CHARACTERS:,} characters; got {len(text):,}."
        advice = "For a log, use `workbench explain-log`."
        raise ScenarioError("out_of_range", f"{limit} {advice}", field="command")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = CONTINUED.sub(" ", "\n".join(lines))
    try:
        return _inside_of_shells(shlex.split(joined))
    except ValueError as error:
        message = f"The shell could not read this command: {error}. Check the quotes."
        raise ScenarioError("not_a_vllm_command", message, field="command") from None


def _inside_of_shells(words: list[str]) -> list[str]:
    """Return the words with those of a command that a shell gets as one word, `bash -c '...'`."""
    for at, word in enumerate(words[:-2]):
        is_shell = word.rpartition("/")[2] in SHELLS and INNER.fullmatch(words[at + 1])
        if is_shell and "vllm" in (inner := words[at + 2]):
            return words[: at + 1] + _inside_of_shells(shlex.split(CONTINUED.sub(" ", inner)))
    return words


def first_argument(words: list[str]) -> int | None:
    """Return where the arguments begin, after what starts the server; None if nothing does."""
    for at, word in enumerate(words):
        following = words[at + 1 : at + 3]
        if word.rpartition("/")[2] == "vllm" and following[:1] == ["serve"]:
            return at + 2
        if word == "-m" and "".join(following[:1]).startswith("vllm.entrypoints"):
            return at + 2
        if word.endswith("vllm/entrypoints/openai/api_server.py"):
            return at + 1
    images = [at for at, word in enumerate(words) if "vllm-openai" in word]
    if images:  # its entry point is the server
        return images[0] + 1
    return 0 if words and words[0].startswith("--") else None


Argument = tuple[str | None, str | bool, str]
"""Flag or None for a bare word, value, the words as given."""


def flags_and_values(words: list[str], flags: Flags) -> Iterator[Argument]:
    """Yield every flag with its value, and every bare word, in order."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-":
            yield None, True, word
            continue
        if level := LEVEL.fullmatch(word):
            yield "--optimization-level", level[1], word
            continue
        head, equals, value = word.partition("=")
        name, kind = flags.named(head)
        if kind == OFF:
            yield name, False, word
        elif equals:
            yield name, value, word
        elif kind == SWITCH:
            yield name, True, word
        else:
            taken: list[str] = []
            while at < len(words) and VALUE.match(words[at]) and (kind == LIST or not taken):
                taken.append(words[at])
                at += 1
            yield name, ",".join(taken), " ".join([word, *taken])
