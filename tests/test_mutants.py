"""The tool that changes the code: its changes, what it explains, and a run on a small project."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "mutants.py"
CODE = '''
SIZES = (16, 32)


def larger(a, b):
    """Return the larger of the two."""
    return a if a > b else b


def share(part, whole):
    return part / whole if whole else 0
'''
GOOD = """
"core.program is tested elsewhere"
import pytest

from workbench.core.sizes import SIZES, larger, share


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size):
    assert size in {16, 32}


def test_larger():
    assert [larger(1, 2), larger(2, 1)] == [2, 2]


def test_share():
    assert share(1, 2) == 0.5


def test_the_code_as_it_is_written():
    assert share.__code__.co_names == ()
    assert share(0, 0) == 0
"""
PROGRAM = """
def total():
    return 2 + 3


print(total())
"""
STARTED = """
import subprocess
import sys


def test_a_program_that_is_named_by_parts():
    name = ".".join(["workbench", "core", "program"])
    done = subprocess.run([sys.executable, "-m", name], capture_output=True, check=True)
    assert done.stdout == b"5\\n"
"""
ENDLESS = """
def counted(n):
    while n:
        n -= 1
    return n


def reduced(n):
    return n - 3
"""
BUSY = """
import os

from workbench.core.endless import counted, reduced


def test_counted():
    assert [counted(2), counted(1)] == [0, 0]


def test_what_fails_whenever_it_runs_again():
    assert reduced(5) == 2
    os.mkdir(__file__ + ".busy")
"""
PROFILE = """
from hypothesis import settings

settings.register_profile("few")
"""


@pytest.fixture
def points(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import mutation_points

    return mutation_points


def test_its_runs_search_as_the_tests_do(points):
    import mutation_runs

    assert settings.get_profile(mutation_runs.PROFILE)


def test_every_change_is_a_valid_program_of_its_own(points):
    source = (ROOT / "workbench/core/capacity/blocks.py").read_bytes()
    found = list(points.mutants(source, "blocks.py"))
    assert len(found) > 50
    programs = {ast.dump(ast.parse(one.apply(source))) for one in found}
    assert ast.dump(ast.parse(source)) not in programs
    assert len(programs) > 0.95 * len(found)


@pytest.fixture
def project(points, tmp_path):
    """Return what judges a change of the only file of a small project."""
    from mutation_cover import Area, Cover

    def judges(code, reached=(), tests=(), seconds=()):
        files = {"code/x.py": code, **{f"tests/test_{name}.py": text for name, text in tests}}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        found = {("code/x.py", line): set(names) for line, names in dict(reached).items()}
        times = dict(seconds) or dict.fromkeys(chain.from_iterable(found.values()), 0.1)
        cover = Cover(Area("x", "code", ("tests/test_*.py",)), tmp_path, times, found)
        changes = points.mutants(code.encode(), "code/x.py")
        return {one.line: cover.tests_of(one) for one in changes}

    return judges


def test_defaults_are_judged_by_the_tests_of_their_function(project):
    code = "class Key:\n    def of(self, n=0):\n        return n\n\n\ndef f():\n    return 1\n"
    assert project(code, {2: ["test_of"], 6: ["test_f"]})[2][0] == "test_of"


def test_a_kernel_is_judged_by_the_tests_that_interpret_it(project):
    """Triton names it by the line of its decorator."""
    code = "@triton.jit\ndef kernel(n):\n    return n + 1\n\n\ndef f():\n    return 1\n"
    assert project(code, {1: ["test_kernel"], 6: ["test_f"]})[3][0] == "test_kernel"


def test_other_tests_of_a_file_judge_last_as_values_are_remembered(project):
    first, second = "tests/test_x.py::test_a", "tests/test_x.py::test_b"
    times = {second: 0.1, first: 9.0, "tests/test_y.py::test": 0.1}
    assert project("def f():\n    return 1\n", {1: [first]}, seconds=times) == {2: [first, second]}


def test_what_no_function_has_is_judged_by_the_tests_of_its_file(project):
    code = "import sys\n\nif sys.maxsize > 2:\n    import json\n\ndef f():\n    return json\n"
    judges = project(code, {6: ["tests/test_x.py::test_f"]})
    assert judges == {3: ["tests/test_x.py::test_f"]}


def test_a_table_is_judged_first_by_the_tests_that_name_it(project):
    code = "SIZES = (16, 32)\n\ndef f():\n    return SIZES\n"
    one, two = "tests/test_one.py::test_f", "tests/test_two.py::test_sizes"
    tests = [
        (name, f"from code.x import {what}\n") for name, what in (("one", "f"), ("two", "SIZES"))
    ]
    judges = project(code, {3: [one]}, tests, {one: 0.1, two: 9.0})
    assert judges == {1: [two, one]}


def test_a_part_of_a_table_is_judged_first_by_the_tests_that_name_the_table(project):
    code = "SIZES = (16, 32)\nTABLES = {1: SIZES}\n\ndef f():\n    return TABLES\n"
    one, two = "tests/test_one.py::test_f", "tests/test_two.py::test_tables"
    tests = [("one", "from code.x import f\n"), ("two", "from code.x import TABLES\n")]
    assert project(code, {4: [one]}, tests, {one: 0.1, two: 9.0})[1] == [two, one]


def test_a_field_of_a_table_is_judged_by_the_tests_of_what_reads_it(project):
    code = "ONE = dict(\n    size=2,\n)\n\ndef f():\n    pass\n\ndef g(x):\n    return x.size\n"
    times = {"test_f": 0.1, "test_g": 9.0}
    judges = project(code, {5: ["test_f"], 8: ["test_g"]}, seconds=times)
    assert judges == {2: ["test_g", "test_f"]}


def test_a_program_is_judged_by_the_tests_that_start_it(project):
    code = "def main():\n    return 1\n"
    text = "subprocess.run([sys.executable, '-m', 'code.x'])\n"
    times = {"tests/test_a.py::test": 0.1, "tests/test_b.py::test": 9.0}
    judges = project(code, tests=[("a", ""), ("b", text)], seconds=times)
    assert judges == {2: ["tests/test_b.py::test"]}


def test_what_nothing_calls_or_names_is_judged_by_all_that_import_it(project):
    imports, other = "tests/test_a.py::test", "tests/test_b.py::test"
    judges = project("LIMIT = 2\n", {0: ["tests/test_a.py"]}, seconds={imports: 0.1, other: 0.1})
    assert judges == {1: [imports]}
    assert project("LIMIT = 2\n", seconds={imports: 0.1, other: 0.1}) == {1: [imports, other]}


def test_text_types_and_messages_stay(points):
    source = b"x: int | None = f'{1 + 1}'\nraise ValueError(2 + 3)\nassert 1 < 2\n"
    assert list(points.mutants(source, "x.py")) == []


def test_what_is_explained_is_still_there(points):
    explained = json.loads((TOOL.parent / "equivalent_mutants.json").read_text())
    assert len({tuple(one[:-1]) for one in explained}) == len(explained)
    for *change, reason in explained:
        found = points.mutants((ROOT / change[0]).read_bytes(), change[0])
        assert any(tuple(change) in one.keys for one in found)
        assert len(reason) > 20


def test_the_text_of_a_line_names_one_of_equal_changes(points):
    *_, first, second = points.mutants(b"def f(n):\n    n += 1\n    return 1\n", "x.py")
    key = ("x.py", "f", "1", "(2)")
    assert first.keys == {key, (*key, "n += 1")}
    assert second.keys == {key, (*key, "return 1")}


@pytest.mark.thorough
@pytest.mark.slow
def test_a_run_lists_what_survived_and_leaves_the_checkout_alone(tmp_path):
    files = {
        "workbench/core/sizes.py": CODE,
        "workbench/core/program.py": PROGRAM,
        "workbench/core/endless.py": ENDLESS,
        "workbench/__init__.py": "",
        "workbench/core/__init__.py": "",
        "tests/core/test_sizes.py": GOOD,
        "tests/core/test_program.py": STARTED,
        "tests/core/test_busy.py": BUSY,
        "conftest.py": PROFILE,
        "tools/equivalent_mutants.json": "[]",
        **{f"tools/{one.name}": one.read_text() for one in TOOL.parent.glob("mut*.py")},
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    limits = ["--area", "core", "--patience", "2"]
    command = [sys.executable, str(TOOL), "--root", str(tmp_path), *limits]
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False)
    survivors = [line for line in done.stdout.splitlines() if line.startswith("SURVIVED")]
    # the sides are equal at the boundary
    found = {line.partition(": ")[2] for line in survivors}
    assert found == {"a > b -> (a >= b)"}, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    undecided = {line.rpartition(": ")[2] for line in lines if line.startswith("undecided")}
    endless, failed_again = {"n -= 1 -> n += 1", "1 -> (2)"}, {"n - 3 -> (n + 3)", "3 -> (4)"}
    assert undecided == endless | failed_again
    assert "noticed" in done.stdout
    assert done.returncode == 1
    assert {name: (tmp_path / name).read_text() for name in files} == files

    (tmp_path / "tests/core/test_sizes.py").write_text("def test_x():\n    assert False\n")
    broken = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Without a change, pytest ends with 1: tests/core/test_sizes.py" in broken.stderr
