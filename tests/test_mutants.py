"""The tool that changes the code: its changes, what it explains, and a run on a small project."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools" / "mutants.py"
CODE = '''
def larger(a, b):
    """Return the larger of the two."""
    return a if a > b else b


def share(part, whole):
    return part / whole if whole else 0
'''
GOOD = """
from workbench.core.sizes import larger, share


def test_larger():
    assert [larger(1, 2), larger(2, 1)] == [2, 2]


def test_share():
    assert share(1, 2) == 0.5
"""
ELSEWHERE = ("tests/labs/test_cache_view_properties.py", "tests/verify/test_verify.py")
"""Files that judge core, too."""
PROFILE = """
from hypothesis import settings

settings.register_profile("quick")
"""


@pytest.fixture
def points(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    import mutation_points

    return mutation_points


def test_every_change_is_a_valid_program_of_its_own(points):
    source = (ROOT / "workbench/core/capacity/blocks.py").read_bytes()
    found = list(points.mutants(source, "blocks.py"))
    assert len(found) > 50
    programs = {ast.dump(ast.parse(one.apply(source))) for one in found}
    assert ast.dump(ast.parse(source)) not in programs
    assert len(programs) > 0.95 * len(found)


def test_defaults_are_judged_by_the_tests_of_their_function(points, tmp_path):
    from mutation_cover import Area, Cover

    (tmp_path / "code").mkdir()
    (tmp_path / "code/x.py").write_text("class Key:\n    def of(self, n=0):\n        return n\n")
    reached = {("code/x.py", 3): ["tests/test_x.py::test_of"]}
    seconds = dict.fromkeys(reached["code/x.py", 3], 0.1)
    cover = Cover(Area("x", "code", ()), tmp_path, seconds, reached)
    [mutant] = points.mutants((tmp_path / "code/x.py").read_bytes(), "code/x.py")
    assert mutant.line == 2
    assert cover.tests_of(mutant) == ["tests/test_x.py::test_of"]


def test_what_defines_nothing_is_judged_by_the_tests_of_its_file(points, tmp_path):
    from mutation_cover import Area, Cover

    (tmp_path / "code").mkdir()
    source = b"import sys\n\nif sys.maxsize > 2:\n    import json\n\ndef f():\n    return json\n"
    (tmp_path / "code/x.py").write_bytes(source)
    reached = {("code/x.py", 7): ["tests/test_x.py::test_f"], ("code/y.py", 1): ["other"]}
    seconds = {"tests/test_x.py::test_f": 0.1, "other": 0.1}
    cover = Cover(Area("x", "code", ()), tmp_path, seconds, reached)
    judges = [cover.tests_of(mutant) for mutant in points.mutants(source, "code/x.py")]
    assert judges
    assert all(tests == ["tests/test_x.py::test_f"] for tests in judges)


def test_a_table_is_judged_first_by_the_tests_that_import_it(points, tmp_path):
    from mutation_cover import Area, Cover

    (tmp_path / "code").mkdir()
    source = b"SIZES = (16, 32)\n\ndef f():\n    return SIZES\n"
    (tmp_path / "code/x.py").write_bytes(source)
    (tmp_path / "tests").mkdir()
    for name, imports in (("one", "f"), ("two", "SIZES")):
        (tmp_path / f"tests/test_{name}.py").write_text(f"from code.x import {imports}\n")
    one, two = "tests/test_one.py::test_f", "tests/test_two.py::test_sizes"
    area = Area("x", "code", ("tests",))
    cover = Cover(area, tmp_path, {one: 0.1, two: 9.0}, {("code/x.py", 4): [one]})
    mutant = next(points.mutants(source, "code/x.py"))
    assert cover.tests_of(mutant) == [two, one]


PROGRAM = """
def compiled():
    return 1 + 1


def main():
    compiled()


if __name__ == "__main__":
    main()
"""
STARTER = """
WORKER = "code.parts.worker"


def inspect():
    run(WORKER)
"""
NAMESAKE = """
def main():
    compiled()


def go():
    main()
"""


def test_a_program_is_judged_first_by_the_tests_of_what_starts_it(points, tmp_path):
    from mutation_cover import Area, Cover

    (tmp_path / "code").mkdir()
    for name, text in (("worker", PROGRAM), ("api", STARTER), ("other", NAMESAKE)):
        (tmp_path / f"code/{name}.py").write_text(text)
    reached = {("code/api.py", 6): ["test_start"], ("code/other.py", 7): ["test_go"]}
    seconds = {"test_start": 0.2, "test_go": 0.1}
    cover = Cover(Area("x", "code", ()), tmp_path, seconds, reached)
    found = list(points.mutants(PROGRAM.encode(), "code/worker.py"))
    inside = [one for one in found if one.function]
    assert {one.function for one in inside} == {"compiled", "main"}
    assert {tuple(cover.tests_of(one)) for one in inside} == {("test_start", "test_go")}


def test_what_no_note_reaches_is_judged_by_its_file_or_by_what_names_it(points, tmp_path):
    from mutation_cover import Area, Cover

    (tmp_path / "code").mkdir()
    (tmp_path / "code/x.py").write_text(
        "def f():\n    return 1\n\n\ndef traced(n):\n    return n + 1\n"
    )
    (tmp_path / "code/started.py").write_text("def g():\n    return 2\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_a.py").write_text("")
    (tmp_path / "tests/test_b.py").write_text("RUN = 'from code.started import g; g()'\n")
    a, b = "tests/test_a.py::test_f", "tests/test_b.py::test_run"
    cover = Cover(
        Area("x", "code", ("tests",)), tmp_path, {a: 9.0, b: 9.0}, {("code/x.py", 2): [a]}
    )

    def judges(file):
        found = points.mutants((tmp_path / file).read_bytes(), file)
        return {one.function: cover.tests_of(one) for one in found}

    assert judges("code/x.py") == {"f": [a], "traced": [a]}
    assert judges("code/started.py") == {"g": [b]}
    (tmp_path / "tests/test_b.py").write_text("")
    assert judges("code/started.py") == {"g": [a]}


def test_text_types_and_messages_stay(points):
    source = b"x: int | None = f'{1 + 1}'\nraise ValueError(2 + 3)\nassert 1 < 2\n"
    assert list(points.mutants(source, "x.py")) == []


def test_what_is_explained_is_still_there(points):
    explained = json.loads((TOOL.parent / "equivalent_mutants.json").read_text())
    assert len({tuple(one[:4]) for one in explained}) == len(explained)
    for file, *change, reason in explained:
        keys = {one.key for one in points.mutants((ROOT / file).read_bytes(), file)}
        assert (file, *change) in keys
        assert len(reason) > 20


@pytest.mark.slow
def test_a_run_lists_what_survived_and_leaves_the_checkout_alone(tmp_path):
    files = {
        "workbench/core/sizes.py": CODE,
        "workbench/__init__.py": "",
        "workbench/core/__init__.py": "",
        "tests/core/test_sizes.py": GOOD,
        "conftest.py": PROFILE,
        **dict.fromkeys(ELSEWHERE, ""),
        "tools/equivalent_mutants.json": "[]",
        **{f"tools/{one.name}": one.read_text() for one in TOOL.parent.glob("mut*.py")},
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = [sys.executable, str(TOOL), "--root", str(tmp_path), "--area", "core"]
    done = subprocess.run([*command, "--workers", "1"], capture_output=True, text=True, check=False)
    survivors = [line for line in done.stdout.splitlines() if line.startswith("SURVIVED")]
    # The sides are equal at the boundary, and nothing divides by nothing in the tests.
    assert {line.partition(": ")[2] for line in survivors} == {
        "a > b -> (a >= b)",
        "0 -> (1)",
    }, done.stdout + done.stderr
    assert "noticed" in done.stdout
    assert done.returncode == 1
    assert {name: (tmp_path / name).read_text() for name in files} == files

    (tmp_path / "tests/core/test_sizes.py").write_text("def test_x():\n    assert False\n")
    broken = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Without a change, pytest ends with 1: tests/core/test_sizes.py" in broken.stderr
