"""Which tests reach a change: measured once per state of code and tests, kept in test-output."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from queue import SimpleQueue

from mutation_names import defined_by, entries, imported, names_in, names_module, started
from mutation_points import BODIES, Mutant, blocks
from mutation_runs import Request, Runner

MOST = 4000
"""Tests that run on a change."""
RARE = 10
"""Tests of each branch of a changed statement that run before all others."""
TABLES = (ast.Assign, ast.AnnAssign, ast.ClassDef)
"""What has a name of its own and mentions others: a class mentions the types of its fields."""
CALLED = (ast.FunctionDef, ast.AsyncFunctionDef)
ROUNDS = 6
"""How far names are followed from a table, or from a kernel, to the functions that use it."""
Block = tuple[str, int]
"""A file and the first line of a block."""
Reached = tuple[str, float, list[Block]]
"""A test, its processor time, and the blocks that it reaches."""


@dataclass(frozen=True)
class Area:
    """Code that is changed, and the tests that have to notice."""

    name: str
    code: str
    tests: tuple[str, ...]

    def test_files(self, root: Path) -> list[str]:
        """Return the files of the tests, in order of name."""
        found = [
            [root / name] if name.endswith(".py") else sorted((root / name).rglob("test_*.py"))
            for name in self.tests
        ]
        return [str(file.relative_to(root)) for file in chain.from_iterable(found)]


@dataclass
class Cover:
    """The tests of an area, and the blocks of code that each of them reaches."""

    area: Area
    root: Path
    seconds: dict[str, float]
    """Processor time of every test that passed, by node id."""
    reached: dict[Block, list[str]]
    """The tests that reach a block."""

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Return the tests that may notice a change, those first that say most for the least time.

        After those that reach it come others: what torch traces, or a process of its own runs, is
        reached without a note.
        """
        file = mutant.file
        tests = [*self.reaching(mutant), *self.tests_of_file(file), *self.namers(file)]
        return list(dict.fromkeys(tests or self.tests_of_folder(file)))[:MOST]

    def reaching(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a change, or what uses the names that it defines."""
        block = self.block_at(mutant.file, mutant.line)
        if block and block in self.reached:
            rare = sorted(self.branches_at(mutant.file, mutant.line), key=len)
            first = chain.from_iterable(in_turns(some, self.seconds)[:RARE] for some in rare)
            rest = in_turns(self.reached[block], self.seconds)
            return [*first, *rest]
        wanted = self.names_at(mutant.file, mutant.line)
        # a name such as `main` means the one of its own file first
        followed = [*self.followed(wanted, {mutant.file}), *self.followed(wanted)]
        return [*self.importers(wanted), *followed]

    def followed(self, names: set[str], files: set[str] | None = None) -> list[str]:
        """Return the tests of what uses names, and of what uses that in turn, nearest first.

        files: where a user is sought; where none is there, in all files.
        """
        tests: dict[str, None] = {}
        wanted = names
        for _ in range(ROUNDS):
            users = [one for one in self.places if one[1] & wanted and not one[2] & wanted]
            if files is not None:
                users = [one for one in users if one[0][0] in files] or users
                files = {where[0] for where, _, _ in users}
            found = chain.from_iterable(self.reached.get(where, ()) for where, _, _ in users)
            tests.update(dict.fromkeys(in_turns(set(found), self.seconds)))
            new = set().union(*(own for where, _, own in users if where not in self.reached))
            wanted = new if files is not None else wanted | new
        return list(tests)

    def importers(self, names: set[str]) -> list[str]:
        """Return the tests of files that import a name: they can read a table themselves."""
        files = {
            file for file in self.area.test_files(self.root) if names & imported(self.root / file)
        }
        tests = (test for test in self.seconds if test.partition("::")[0] in files)
        return in_turns(tests, self.seconds)

    def tests_of_file(self, file: str) -> list[str]:
        """Return the tests that reach any block of a file."""
        found = (tests for (name, _), tests in self.reached.items() if name == file)
        return in_turns(set(chain.from_iterable(found)), self.seconds)

    def tests_of_folder(self, file: str) -> list[str]:
        """Return the tests that reach any block of the files alongside."""
        folder = Path(file).parent
        found = (tests for (name, _), tests in self.reached.items() if Path(name).parent == folder)
        return in_turns(set(chain.from_iterable(found)), self.seconds)

    def namers(self, file: str) -> list[str]:
        """Return the tests of files that name a module, also in the text of a program."""
        files = {
            one for one in self.area.test_files(self.root) if names_module(self.root / one, file)
        }
        tests = (test for test in self.seconds if test.partition("::")[0] in files)
        return in_turns(tests, self.seconds)

    def block_at(self, file: str, line: int) -> Block | None:
        """Return the innermost block around a line of a file; None outside of functions.

        Defaults of a function are in its block.
        """
        around = [one for one in self.spans[file] if one[0] <= line <= one[1]]
        return (file, max(around)[2]) if around else None

    def branches_at(self, file: str, line: int) -> list[list[str]]:
        """Return the tests that reach each block of the statement that begins at a line."""
        found = (one for one in ast.walk(self.trees[file]) if getattr(one, "lineno", 0) == line)
        bodies = (getattr(one, name, None) for one in found for name in BODIES)
        starts = (body[0].lineno for body in bodies if body and isinstance(body, list))
        return [self.reached.get((file, start), []) for start in starts]

    def names_at(self, file: str, line: int) -> set[str]:
        """Return what a line outside of reached blocks defines: a table, a field, a function."""
        body, found = self.trees[file].body, set[str]()
        while around := [one for one in body if one.lineno <= line <= (one.end_lineno or 0)]:
            found = defined_by(around[0]) or found
            body = around[0].body if isinstance(around[0], ast.ClassDef) else []
            for one in ast.walk(around[0]):
                if isinstance(one, ast.keyword) and one.lineno <= line <= (one.end_lineno or 0):
                    found = {one.arg} if one.arg else found
        return found

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The parsed files of the area."""
        files = sorted((self.root / self.area.code).rglob("*.py"))
        return {str(one.relative_to(self.root)): ast.parse(one.read_bytes()) for one in files}

    @cached_property
    def spans(self) -> dict[str, list[tuple[int, int, int]]]:
        """First and last line of every block, and the line that it is named by; by file."""
        return {
            file: [
                *((one[0].lineno, one[-1].end_lineno or 0, one[0].lineno) for one in blocks(tree)),
                *(
                    (one.lineno, one.body[0].lineno - 1, one.body[0].lineno)
                    for one in ast.walk(tree)
                    if isinstance(one, CALLED)
                ),
            ]
            for file, tree in self.trees.items()
        }

    @cached_property
    def places(self) -> list[tuple[Block, set[str], set[str]]]:
        """Every block and every table: where it is, the names in it, the table's own names."""
        found: list[tuple[Block, set[str], set[str]]] = []
        for file, tree in self.trees.items():
            tables: list[ast.stmt] = [one for one in tree.body if isinstance(one, TABLES)]
            # Triton runs the text of a kernel, so that no block of it is reached: who calls it?
            named = {id(one.body): {one.name} for one in ast.walk(tree) if isinstance(one, CALLED)}
            for body in [*blocks(tree), *([one] for one in (*tables, *entries(tree)))]:
                names = {name for one in body for name in names_in(one)}
                own = defined_by(body[0]) if body[0] in tables else named.get(id(body), set())
                if body[0] in tree.body and body[0] not in tables:
                    own = {started(Path(file).with_suffix("").parts[-1])}
                found.append(((file, body[0].lineno), names, own))
        return found


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
    reached: dict[Block, list[str]] = defaultdict(list)
    for file in known:
        places = [(path, line) for path, line in known[file]["blocks"]]
        for test, needed, numbers in known[file]["tests"]:
            durations[test] = needed
            for number in numbers:
                reached[places[number]].append(test)
    return Cover(area, root, durations, reached)


def digest(*paths: Path) -> str:
    """Return a digest of names and contents."""
    state = hashlib.sha256()
    for path in paths:
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


def packed(tests: list[Reached]) -> dict[str, list]:
    """Return the tests of a file with numbers in place of blocks, and the blocks."""
    places = sorted({(file, line) for _, _, found in tests for file, line in found})
    number = {place: index for index, place in enumerate(places)}
    short = [
        [test, needed, [number[file, line] for file, line in found]]
        for test, needed, found in tests
    ]
    return {"blocks": places, "tests": short}


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
        shuffled = random.Random(0).sample(files, len(files))  # noqa: S311 - not a secret
        yield from filter(None, pool.map(run, shuffled))


def reach(area: Area, file: str, runner: Runner, seconds: float) -> list[Reached] | None:
    """Return what the tests of a file reach; None: not in time. Errors: SystemExit if one fails."""
    target = runner.copy / "reached.json"
    code, found = runner.run(Request([file], [], seconds, str(target), area.code)), list[Reached]()
    if code in {0, 1}:
        # A few tests need the code as it is written: those judge nothing.
        tests, failed = json.loads(target.read_text())
        found = [one for one in tests if one[0] not in failed]
        code = runner.run(Request([file], failed, seconds)) if failed else 0
    if code not in {0, 5, None}:
        raise SystemExit(f"Without a change, pytest ends with {code}: {file}\n{runner.shown()}")
    return None if code is None else found
