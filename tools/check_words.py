"""Find words that a native reader stumbles over, and print what to write instead.

    .venv/bin/python tools/check_words.py [PATH ...]

Reads the Python, Markdown and notebook text of PATH, or of the finished rooms. A line that has to
keep such a word, because it is a published name, contains `words: ok`. Exit code 1: some found.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FINISHED = [
    "README.md",
    "CONTRIBUTING.md",
    "docs",
    "kernels",
    "workbench/access",
    "workbench/commands",
    "workbench/core",
    "workbench/exercises",
    "workbench/interop",
    "workbench/models",
    "workbench/run/notebooks",
    "tests/core",
]
"""Rooms whose text is plain, one line per room: a folder or a file."""

SUFFIXES = {".py", ".md", ".ipynb"}
EXEMPTION = "words: ok"

PER = "rank|thread|number|file|model|element|piece|dimension|slot|token|state|layer|step|request"
WORDS = {
    r"told|tells": "reported, given, specified; as a name: text, rows",
    r"asked": "requested, queried",
    r"(?<!\.)typed(?! (?:access|errors?|getters?|values?))": "explicit, set by the user",
    r"lies|lie": "is, is at, is stored in",
    r"(?<!there )(is|are) no(?! longer)": "is not a, are not",
    r"beside": "alongside, next to, in addition to, compared with",
    r"behind": "after, past the end of",
    r"in front of": "before",
    r"nobody|somebody|whoever": "the user, another request, or the passive",
    r"left out|leaves? out|leaving out": "omitted, omit, skipped",
    r"stands": "is, appears",
    r"alike": "identical, equal",
    r"whole numbers?": "integer",
    r"be had": "available, supported",
    r"in vain": "for nothing, without a visible key",
    r"granules?": "alignment granularity",
    rf"(an?|one) (?!(?:of|on|in|for|to|at|with) )\w+ an? ({PER})": "one ... per ...",
}
"""Pattern of whole words -> what to write instead. A space matches a line break as well."""

PATTERNS = [(re.compile(rf"\b({word})\b", re.IGNORECASE), to) for word, to in WORDS.items()]


def main(names: list[str]) -> int:
    """Print every finding; return the exit code."""
    roots = [Path(name) for name in names] or [ROOT / room for room in FINISHED]
    found = [line for root in roots for path in _texts(root) for line in findings(path)]
    for line in found:
        print(line)
    return 1 if found else 0


def findings(path: Path) -> Iterator[str]:
    """Yield one line per word found in a file, in the order of the words."""
    lines = path.read_text(encoding="utf-8").splitlines()
    text, starts = _joined(lines)
    for pattern, instead in PATTERNS:
        for match in pattern.finditer(text):
            number = bisect(starts, match.start())
            if EXEMPTION not in lines[number - 1]:
                yield f"{path}:{number}: '{match[0].lower()}': write {instead}"


def _joined(lines: list[str]) -> tuple[str, list[int]]:
    """Return the lines as one text without indentation and comment marks, and where each starts."""
    text, starts = "", []
    for line in lines:
        starts.append(len(text))
        words = line.strip().removeprefix("# ")
        text += f"{words} " if words else ""
    return text, starts


def _texts(root: Path) -> Iterator[Path]:
    """Yield the files of a room that people read."""
    paths = [root] if root.is_file() else sorted(root.rglob("*"))
    return (path for path in paths if path.suffix in SUFFIXES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
