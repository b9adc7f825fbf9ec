"""Which tests reach a change: measured once per state of code and tests, kept in test-output."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from queue import SimpleQueue

from mutation_points import Mutant
from mutation_runs import IMPORT, Place, Request, Runner

CALLED = (ast.FunctionDef, ast.AsyncFunctionDef)
Reached = tuple[str, float, list[Place]]
"""A test, its processor time, and the functions that it calls."""


@dataclass(frozen=True)
class Area:
    """Code that is changed, and the tests that have to notice."""

    name: str
    code: str
    tests: tuple[str, ...]
    """Patterns of their files."""

    def test_files(self, root: Path) -> list[str]:
        """Return the files of the tests, in order of pattern and name."""
        found = chain.from_iterable(sorted(root.glob(pattern)) for pattern in self.tests)
        return [str(file.relative_to(root)) for file in found]


@dataclass
class Cover:
    """The tests of an area, and the functions that each of them calls."""

    area: Area
    root: Path
    seconds: dict[str, float]
    """Processor time of every test, by node id."""
    reached: dict[Place, set[str]]
    """The tests that call a function; a file of tests, if it is called while it is imported."""

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a change, those first that say most for the least time.

        Those that call the function come first, then the others of their files: a value can be
        remembered from an earlier test. Then come those that name it, or call what names it, and
        those that name its module: what a process of its own runs is called without a note.
        """
        file, line = mutant.file, mutant.line
        module = ".".join(Path(file).with_suffix("").parts[-2:])
        noted, names = self.calling(self.around(file, line)), self.names_at(file, line)
        of_file = self.calling(one for one in self.reached if one[0] == file and one[1] != IMPORT)
        groups = [
            *(noted, self.alongside(noted), self.alongside(self.files_with(names))),
            set() if noted else self.calling(self.users(names)),
            set() if noted else self.alongside(self.files_with(self.derived(names))),
            of_file,
            *(self.alongside(of_file), self.alongside(self.files_with({module}))),
        ]
        if not any(groups):
            imported = self.alongside(self.reached.get((file, IMPORT), ()))
            groups.append(imported or set(self.seconds))
        tests = chain.from_iterable(in_turns(some, self.seconds) for some in groups)
        return list(dict.fromkeys(tests))

    def calling(self, places: Iterable[Place]) -> set[str]:
        """Return the tests that call one of these functions."""
        found = chain.from_iterable(self.reached.get(place, ()) for place in places)
        return {one for one in found if one in self.seconds}

    def alongside(self, tests: Iterable[str]) -> set[str]:
        """Return all tests of the files that have one of these, or that are these."""
        files = {one.partition("::")[0] for one in tests}
        return {test for test in self.seconds if test.partition("::")[0] in files}

    def files_with(self, names: set[str]) -> set[str]:
        """Return the files of tests that name something, also in the text of a program."""
        words = [re.compile(rf"\b{re.escape(name)}\b") for name in names]
        found = self.texts.items()
        return {file for file, text in found if any(word.search(text) for word in words)}

    def users(self, names: set[str]) -> set[Place]:
        """Return the functions of the area that use a name."""
        found = (
            [(file, line) for line in starts(one)]
            for file, tree in self.trees.items()
            for one in ast.walk(tree)
            if isinstance(one, CALLED) and names & set(names_in(one))
        )
        return set(chain.from_iterable(found))

    def derived(self, names: set[str]) -> set[str]:
        """Return the names of values that modules make of these, and of what is made of them."""
        found = set(names)
        while more := {one for made, of in self.made if of & found for one in made} - found:
            found |= more
        return found - names

    @cached_property
    def made(self) -> list[tuple[set[str], set[str]]]:
        """The names that each statement of a module assigns, and those that it mentions."""
        every = chain.from_iterable(tree.body for tree in self.trees.values())
        assigned = (one for one in every if isinstance(one, ast.Assign | ast.AnnAssign))
        return [(defined_by(one), set(names_in(one))) for one in assigned]

    def around(self, file: str, line: int) -> set[Place]:
        """Return where the innermost function around a line may be noted; defaults are in it."""
        found = [
            one
            for one in ast.walk(self.trees[file])
            if isinstance(one, CALLED) and starts(one)[0] <= line <= (one.end_lineno or 0)
        ]
        return {(file, one) for one in starts(found[-1])} if found else set()

    def names_at(self, file: str, line: int) -> set[str]:
        """Return what the statement of a module around a line defines, and its fields there."""
        around = [one for one in self.trees[file].body if spans(one, line)]
        fields = (one for node in around for one in ast.walk(node) if isinstance(one, ast.keyword))
        named = {str(one.arg) for one in fields if spans(one, line)}
        return named.union(*map(defined_by, around))

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The parsed files of the area."""
        files = sorted((self.root / self.area.code).rglob("*.py"))
        return {str(one.relative_to(self.root)): ast.parse(one.read_bytes()) for one in files}

    @cached_property
    def texts(self) -> dict[str, str]:
        """The files of tests."""
        files = self.area.test_files(self.root)
        return {file: (self.root / file).read_text(encoding="utf-8") for file in files}


def starts(function: ast.FunctionDef | ast.AsyncFunctionDef) -> range:
    """Return the lines before the body: calls are noted at `def`, those of kernels before it."""
    first = min(one.lineno for one in (function, *function.decorator_list))
    return range(first, max(first + 1, function.body[0].lineno))


def spans(node: ast.stmt | ast.keyword, line: int) -> bool:
    """Return whether a piece of code has a line."""
    return node.lineno <= line <= (node.end_lineno or 0)


def names_in(node: ast.AST) -> Iterator[str]:
    """Yield the names that a piece of code mentions."""
    for one in ast.walk(node):
        match one:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name


def defined_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Assign(targets=targets):
            every = chain.from_iterable(map(ast.walk, targets))
            return {one.id for one in every if isinstance(one, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def in_turns(tests: Iterable[str], seconds: dict[str, float]) -> list[str]:
    """Order tests: the quickest case of every test, then the second of every test."""
    seen: Counter[str] = Counter()
    turns = {}
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        name = test.partition("[")[0]
        turns[test] = seen[name]
        seen[name] += 1
    return sorted(turns, key=lambda test: (turns[test], seconds[test], test))


def cover(area: Area, root: Path, runners: Sequence[Runner], seconds: float) -> Cover:
    """Read what earlier runs measured; measure the rest. Errors: SystemExit if a test fails."""
    code, files = digest(*sorted((root / area.code).rglob("*.py"))), area.test_files(root)
    kept = root / "test-output" / "mutants" / f"{area.name}.json"
    known = json.loads(kept.read_text()) if kept.exists() else {}
    states = {file: f"{code} {digest(root / file)}" for file in files}
    known = {file: one for file, one in known.items() if one["state"] == states.get(file)}
    kept.parent.mkdir(parents=True, exist_ok=True)
    for file, tests in measured(area, [one for one in files if one not in known], runners, seconds):
        known[file] = {"state": states[file], **packed(tests)}
        kept.write_text(json.dumps(known))
    print(f"{area.name}: {len(known)} of {len(files)} test files may judge", flush=True)
    durations: dict[str, float] = {}
    reached: dict[Place, set[str]] = defaultdict(set)
    for file in known:
        places = [(path, line) for path, line in known[file]["places"]]
        for test, needed, numbers in known[file]["tests"]:
            if test != file:
                durations[test] = needed
            for number in numbers:
                reached[places[number]].add(test)
    return Cover(area, root, durations, reached)


def digest(*paths: Path) -> str:
    """Return a digest of names and contents."""
    state = hashlib.sha256()
    for path in paths:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


def packed(tests: list[Reached]) -> dict[str, list]:
    """Return the tests of a file with numbers for the functions, and the functions."""
    places = sorted({(file, line) for _, _, found in tests for file, line in found})
    number = {place: index for index, place in enumerate(places)}
    short = [
        [test, needed, [number[file, line] for file, line in found]]
        for test, needed, found in tests
    ]
    return {"places": places, "tests": short}


def measured(
    area: Area, files: list[str], runners: Sequence[Runner], seconds: float
) -> Iterator[tuple[str, list[Reached]]]:
    """Run test files without a change, as many as there is time for; yield what each reaches."""
    free: SimpleQueue[Runner] = SimpleQueue()
    for runner in runners:
        free.put(runner)
    end = time.monotonic() + seconds

    def run(file: str) -> tuple[str, list[Reached]] | None:
        runner = free.get()
        try:
            left = end - time.monotonic()
            found = reach(area, file, runner, left) if left > 0 else None
            return None if found is None else (file, found)
        finally:
            free.put(runner)

    with ThreadPoolExecutor(len(runners)) as pool:
        yield from filter(None, pool.map(run, files))


def reach(area: Area, file: str, runner: Runner, seconds: float) -> list[Reached] | None:
    """Return what the tests of a file reach; None: not in time. Errors: SystemExit if one fails."""
    target = runner.copy / "reached.json"
    found, notes = list[Reached](), str(target)
    code = runner.run(Request([file], [], seconds, notes, area.code))
    if code in {0, 1}:
        # a few tests need the code as it is written: what they called before they failed is kept
        found, failed = json.loads(target.read_text())
        code = runner.run(Request([file], failed, seconds, notes)) if failed else 0
    if code not in {0, 5, None}:
        raise SystemExit(f"Without a change, pytest ends with {code}: {file}\n{runner.shown()}")
    return None if code is None else found
