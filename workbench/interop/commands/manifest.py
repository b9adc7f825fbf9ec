"""The command inside a docker-compose file or a Kubernetes manifest, without a library for YAML.

Only what containers say of their command is read: `entrypoint`, `command` and `args` as lists, as
flow lists, as blocks of text or on one line, their `image`, variables of vLLM in `environment` or
`env`, and the first `hf://` address where no argument names a model; a list of arguments may stand
alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

KEY = re.compile(r"( *)(?:- +)?(image|entrypoint|command|args): *(.*)")
ITEM = re.compile(r"( *)- +(.*)")
BLOCK = re.compile(r"[>|][+-]?\d?")
"""What announces a block of text."""
FLOW = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'|([^\s,\[\]'\"][^,\]]*)")
VARIABLE = re.compile(
    r"^ *(?:- +)?(?:(VLLM_\w+) *[:=] *|name: *(VLLM_\w+)\s+value: *)[\"']?([^\s\"']+)", re.MULTILINE
)
MODEL = re.compile(r"--model([_-]id)?(=.*)?")
KSERVE = {"id": "--model", "name": "--served-model-name"}
"""What KServe's server calls `--model_id` and `--model_name`."""
ON_HUB = re.compile(r"hf://([\w.-]+/[\w.-]+)")
"""A model next to the arguments of its server: llm-d, KubeAI."""
IMAGE_PARTS = re.compile(
    r"^ *repository: *[\"']?([^\s\"']+)[\"']?\s+tag: *[\"']?([^\s\"']+)", re.MULTILINE
)
IMAGE = "image"
ORDER = ("entrypoint", "command", "args")
SHELL = "-c"
SERVE = ["vllm", "serve"]


class Entry(NamedTuple):
    """One key of a container: where it is indented, its name, and its words."""

    indent: int
    name: str
    words: list[str]


def manifest_command(text: str) -> str | None:
    """Return the command of the first container that runs vLLM; None for any other text."""
    lines = text.splitlines()
    if lines and all(map(ITEM.match, filter(str.strip, lines))):  # what `args` has, alone
        lines = ["args:", *lines]
    for container in _containers(_entries(lines)):
        words = _of_container(container)
        all_words = [word for one in container for word in one.words]
        # a model and flags are those of the server, whatever image has it
        model = ON_HUB.search(text)
        runs_vllm = model or any("vllm" in word or MODEL.fullmatch(word) for word in all_words)
        if runs_vllm and any(word.startswith("-") for word in words):
            found = VARIABLE.findall(text)
            values = (f"{first or second}={value}" for first, second, value in found)
            images = [word for one in container if one.name == IMAGE for word in one.words]
            images = images or [":".join(one) for one in IMAGE_PARTS.findall(text)]
            if model and words[:2] == SERVE and words[2].startswith("-"):
                words[2:2] = [model[1]]
            return " ".join([*values, shlex.join([*images, *map(_of_kserve, words)])])
    return None


def _of_kserve(word: str) -> str:
    return re.sub(r"^--model[_-](id|name)(?=$|=)", lambda found: KSERVE[found[1]], word)


def _of_container(container: Sequence[Entry]) -> list[str]:
    """Return what a container runs; without a program that is the image's own `vllm serve`."""
    words = [word for name in ORDER for one in container if one.name == name for word in one.words]
    if SHELL in words:
        words = _split(" ".join(words[words.index(SHELL) + 1 :]))
    starts = any(word.rpartition("/")[2] == "vllm" or "vllm." in word for word in words[:3])
    return words if starts else [*SERVE, *words]


def _containers(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Yield entries that belong together: a name that is there already begins the next one."""
    found: list[Entry] = []
    for one in entries:
        if any(one.name == other.name or one.indent != other.indent for other in found):
            yield found
            found = []
        found.append(one)
    if found:
        yield found


def _entries(lines: Sequence[str]) -> Iterator[Entry]:
    for at, line in enumerate(lines):
        if found := KEY.fullmatch(line.rstrip()):
            indent = len(found[1]) + (2 if line.lstrip().startswith("-") else 0)
            yield Entry(indent, found[2], words_of_value(found[3], indent, lines[at + 1 :]))


def words_of_value(written: str, indent: int, after: Sequence[str]) -> list[str]:
    """Return the words of a value. after: the lines below it."""
    value = _without_comment(written)
    if value.startswith("["):
        whole = "\n".join([value, *after])
        return [_text(found) for found in FLOW.finditer(_closed(whole))]
    if not value and any(after) and ITEM.match(next(filter(str.strip, after), "")):
        return list(_items(indent, after))
    return _split(" ".join([] if BLOCK.fullmatch(value) else [value]) + " " + _below(indent, after))


def _items(indent: int, lines: Sequence[str]) -> Iterator[str]:
    """Yield the items of a block list, which may be indented as its key is."""
    for at, line in enumerate(lines):
        found = ITEM.match(line)
        depth = len(line) - len(line.lstrip())
        if line.strip() and (depth < indent or (depth == indent and not found)):
            return
        if found is None:
            continue
        value = _without_comment(found[2])
        if BLOCK.fullmatch(value):
            yield _below(len(found[1]), lines[at + 1 :])
        else:
            yield next(map(_text, FLOW.finditer(value)), "") if value[:1] in {'"', "'"} else value


def _below(indent: int, lines: Sequence[str]) -> str:
    """Return the lines that are indented more, as one."""
    found = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        found.append(line.strip().removesuffix("\\"))
    return " ".join(found)


def _closed(text: str) -> str:
    """Return a flow list up to its end, which may be lines below."""
    at = 1
    while at < len(text) and text[at] != "]":
        quoted = FLOW.match(text, at) if text[at] in {'"', "'"} else None
        at = quoted.end() if quoted else at + 1
    return text[1:at]


def _text(found: re.Match[str]) -> str:
    double, single, plain = found.groups()
    if double is not None:
        return re.sub(r"\\(.)", r"\1", double)
    return single.replace("''", "'") if single is not None else plain.strip()


def _without_comment(value: str) -> str:
    return re.sub(r"(^| +)#.*", "", value).strip()


def _split(text: str) -> list[str]:
    """Return the words of a text as a shell reads them, also of one that is quoted as a whole."""
    whole = FLOW.fullmatch(text.strip()) if text.strip()[:1] in {'"', "'"} else None
    try:
        return shlex.split(_text(whole) if whole else text)
    except ValueError:
        return []
