"""Separate the servers of a log: services of a composition, and starts one after the other."""

import re
from collections.abc import Iterable

from workbench.interop.logs.text import COMPOSED, Line, bare

ARGUMENTS = ("non-default args: ", "args: Namespace(")
CONFIGURATION = ("LLM engine (v",)
"""What names the settings of a start; the configuration counts where no arguments are printed."""
BEGINNING = re.compile(
    r"server version|█|Automatically detected platform|vllm serve|vllm-openai|vllm\.entrypoints"
)
"""Lines of a start before its settings."""
BEFORE_SETTINGS = 12
"""Lines within which they are looked for."""
COMPARED_CHARACTERS = 400


def servers_of(lines: list[Line]) -> list[list[Line]]:
    """Return the lines of every server, in the order of their first lines; one if in doubt."""
    services: dict[str, list[Line]] = {}
    for line in lines:
        found = COMPOSED.match(line.text)
        services.setdefault("" if found is None else found[1] or found[2], []).append(line)
    starting = [name for name, own in services.items() if _settings_at(own)]
    if len(starting) < 2:
        return _starts(lines)
    return [part for name in starting for part in _starts(services[name])]


def _starts(lines: list[Line]) -> list[list[Line]]:
    """Return the lines of every start with settings of its own; a repeated one is a restart."""
    begins, last, before = [0], "", 0
    for at in _settings_at(lines):
        settings = bare(lines[at].text)[:COMPARED_CHARACTERS]
        if last and settings != last:
            near = range(max(before + 1, at - BEFORE_SETTINGS), at)
            begins.append(next((to for to in near if BEGINNING.search(lines[to].text)), at))
        last, before = settings, at
    return [lines[start:end] for start, end in zip(begins, [*begins[1:], None], strict=True)]


def _settings_at(lines: list[Line]) -> list[int]:
    for words in (ARGUMENTS, CONFIGURATION):
        if found := [at for at, line in enumerate(lines) if _has(line, words)]:
            return found
    return []


def _has(line: Line, words: Iterable[str]) -> bool:
    return any(word in line.text for word in words)
