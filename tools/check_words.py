"""Find words that a native reader stumbles over, and print what to write instead.

    .venv/bin/python tools/check_words.py [PATH ...]

Reads the text of PATH, or of everything that is in git. A line that has to keep such a word,
because it is a published name, contains `words: ok`. Exit code 1: some found.
"""

import re
import subprocess
import sys
from bisect import bisect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTS = ("tools/check_words.py", "tests/test_words.py")
"""Files that list the words themselves."""

SUFFIXES = {
    *(".py", ".md", ".ipynb", ".toml", ".yml", ".yaml", ".sh", ".js", ".css", ""),
    "texts.json",
}
"""Endings or names of the files that people read."""
EXEMPTION = "words: ok"
NAMED = ("def ", "class ")
"""Starts of lines whose names are read as words."""

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
    r"engine's choice": "auto (vLLM decides), or not set",
    r"find anything again|nothing is found again": "get a prefix hit, no request can hit",
    r"(?<!that )outweighs?": "fill, be larger than",
    r"kept for others": "checkpoint saved",
    r"unfilled tokens": "internal fragmentation",
    r"paths part": "the results diverge",
    r"something else than": "something other than",
    r"torch does not see": "non-torch allocations",
    r"nothing to compare with": "recognized, not checked",
    r"plain-Python model": "Python reference",
    rf"(an?|one) (?!(?:of|on|in|for|to|at|with) )\w+ an? ({PER})": "one ... per ...",
}
"""Pattern of whole words -> what to write instead. A space matches a line break as well."""

PATTERNS = [(re.compile(rf"\b({word})\b", re.IGNORECASE), to) for word, to in WORDS.items()]


def main(names: list[str]) -> int:
    """Print every finding; return the exit code."""
    paths = [path for name in names for path in _below(Path(name))] if names else _finished()
    read = (path for path in paths if {path.suffix, path.name} & SUFFIXES)
    found = [line for path in read for line in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
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
    """Return the lines as one text without indentation and comment marks, and their starts."""
    text, starts = "", []
    for line in lines:
        starts.append(len(text))
        words = line.strip().removeprefix("# ")
        if words.startswith(NAMED):
            words = words.replace("_", " ")
        text += f"{words} " if words else ""
    return text, starts


def _below(root: Path) -> list[Path]:
    """Return the files of a folder, or the file."""
    return (
        [root] if root.is_file() else [path for path in sorted(root.rglob("*")) if path.is_file()]
    )


def _finished() -> list[Path]:
    """Return the files that git tracks and that have plain words."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    return [ROOT / name for name in listed if (ROOT / name).is_file() and name not in LISTS]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
