"""Matrix files: what they mean, and what is said of each mistake in one."""

import json
import shutil

import pytest

from workbench.notebooks import NotebookMatrixError, read_matrix
from workbench.notebooks import matrix as matrix_module
from workbench.notebooks.expectations import ARTIFACT_KIB, CONTEXT_MIB
from workbench.notebooks.golden import orphans, read_goldens, write_goldens
from workbench.notebooks.result_checks import same_value

GOOD = """
format = 1

[defaults]
parameters = { smoke = true }
budgets = { time_s = 60, memory_mib = 500 }

[notebook."good.ipynb"]
parameters = { count = 4 }
expect = { strict = "1" }
quick = ["a-1"]
skip = [{ when = { label = "b", count = 2 }, reason = "two and b do not go together" }]
budgets = { cell_time_s = 9 }
axes = { label = ["a", "b"], count = [1, 2] }
results = { total = "integer", label = "string|null" }

[notebook."good.ipynb".cases.plain]
parameters = { count = 5 }
expect = { total = 10 }
expect_null = ["label"]
quick = true
budgets = { time_s = 5 }
"""


@pytest.fixture
def matrix_file(tmp_path, fixture_path):
    def make(text, name="matrix.toml"):
        shutil.copy(fixture_path("good"), tmp_path / "good.ipynb")
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return make


def test_cases_and_combinations(matrix_file):
    matrix = read_matrix(matrix_file(GOOD))
    ids = ["good::plain", "good::a-1", "good::a-2", "good::b-1"]
    assert [case.case_id for case in matrix.cases] == ids
    plain, first, *_ = matrix.cases
    assert plain.parameters == {"smoke": True, "count": 5}
    assert plain.expectations.values == {"strict": "1", "total": 10, "label": None}
    assert first.parameters == {"smoke": True, "count": 1, "label": "a"}
    assert [case.case_id for case in matrix.select(quick=True)] == ids[:2]
    assert matrix.excluded == {"good::b-2": "two and b do not go together"}
    budgets = plain.expectations.budgets
    assert (budgets.time_s, first.expectations.budgets.time_s) == (5, 60)
    assert (budgets.cell_time_s, budgets.memory_mib, budgets.size_kib) == (9, 500, ARTIFACT_KIB)
    assert budgets.scaled(3).time_s == 15
    assert budgets.scaled(3).memory_mib == 500
    assert plain.expectations.schema["required"] == ["total", "label"]
    assert [case.stem for case in matrix.select(["*-2"])] == ["good--a-2"]
    assert "--matrix" in matrix.command(plain)
    assert matrix.command(plain).endswith("--only good::plain")


GPU = """
[notebook."good.ipynb".cases.gpu]
gpu = "shared"
parameters = { count = 6 }
"""


@pytest.mark.parametrize("there", [False, True])
def test_a_case_for_a_gpu_is_excluded_without_one(matrix_file, monkeypatch, there):
    monkeypatch.setattr(matrix_module, "has_gpu", lambda: there)
    text = GOOD.replace("quick = [", "gpu_cells = 2\nquick = [") + GPU
    matrix = read_matrix(matrix_file(text))
    assert ("good::gpu" in matrix.excluded) is not there
    if not there:
        with pytest.raises(NotebookMatrixError, match="good::gpu is excluded: needs a GPU"):
            matrix.select(["good::gpu"])
        return
    usual, case = (matrix.select([f"good::{name}"])[0] for name in ("plain", "gpu"))
    assert case.parameters == {"smoke": True, "count": 6}
    assert (usual.expectations.gpu_cells, case.expectations.gpu_cells) == (2, 0)
    assert usual.golden_path
    assert case.golden_path is None
    # the first use of a GPU is not a notebook's
    assert usual.expectations.budgets.memory_mib == 500 + CONTEXT_MIB
    assert usual.expectations.budgets.cell_memory_mib is None
    budgets = case.expectations.budgets
    assert (budgets.time_s, budgets.memory_mib) == (None, None)
    assert budgets.memory_limit_mib > usual.expectations.budgets.memory_limit_mib


def test_json_says_the_same(matrix_file):
    import tomllib

    document = tomllib.loads(GOOD)
    assert [
        (case.case_id, case.parameters, case.expectations)
        for case in read_matrix(matrix_file(json.dumps(document), "matrix.json")).cases
    ] == [
        (case.case_id, case.parameters, case.expectations)
        for case in read_matrix(matrix_file(GOOD)).cases
    ]


ENTRY = '[notebook."good.ipynb"]'
WITH_PATTERN = GOOD.replace("format = 1", "format = 1\nnotebooks = ['{}']").replace("{", "{{")
WITH_PATTERN = WITH_PATTERN.replace("}", "}}").replace("'{{}}'", "'{}'")
LONG = "q" * 10_000
MISTAKES = {
    "not toml": ("format = ", "it is not TOML"),
    "no format": (GOOD.replace("format = 1", ""), "format is missing"),
    "another format": (GOOD.replace("format = 1", "format = 2"), "format is 2: Input should be 1"),
    "unknown field": (
        GOOD.replace("axes =", "axis ="),
        r"good.ipynb.axis is not a field; nearest: ax",
    ),
    "limit of a case": (
        GOOD + 'timeout_s = 5\n[notebook."good.ipynb".cases.late]\ntimeout_s = 5',
        "cases.late.timeout_s is not a field here; timeout_s is a field of a notebook and defaults",
    ),
    "budget of a case": (
        GOOD + '[notebook."good.ipynb".cases.late]\nmemory_limit_mib = 5',
        "memory_limit_mib is a field of budgets (of a case, a notebook or defaults)",
    ),
    "text for a number": (GOOD.replace("time_s = 60", 'time_s = "60"'), "time_s is '60'"),
    "no budget": (GOOD.replace("time_s = 60", "time_s = 0"), "greater than 0"),
    "no entry": (GOOD.replace("good.ipynb", "other.ipynb"), "no entry for good.ipynb: add"),
    "no notebook": (GOOD + '[notebook."goood.ipynb"]', "Nearest: good.ipynb"),
    "quick of nothing": (GOOD.replace('["a-1"]', '["a-9"]'), "Combination 'a-9'"),
    "skip of nothing": (GOOD.replace("count = 2 }", "count = 7 }"), "is not a combination"),
    "skip without reason": (GOOD.replace("two and b do not go together", "no"), "reason is 'no'"),
    "same name": (GOOD.replace("cases.plain", 'cases."a-1"'), "case 'a-1' is named twice"),
    "odd name": (GOOD.replace("cases.plain", 'cases."a/1"'), "may hold letters"),
    "odd type": (GOOD.replace('"integer"', '"int"'), "Expected string, integer"),
    "odd schema": (GOOD.replace('"integer"', '{ type = "int" }'), "results: properties.total"),
    "absolute pattern": (WITH_PATTERN.format("/x/*.ipynb"), "Invalid pattern '/x/*.ipynb'"),
    "pattern of another folder": (WITH_PATTERN.format("../**"), "Expected one inside this folder"),
    "empty pattern": (WITH_PATTERN.format(""), "Invalid pattern ''"),
    "part of a folder": (WITH_PATTERN.format("**x"), "Expected ** as a whole folder"),
    "many combinations": (
        GOOD.replace('["a", "b"]', f"{[*range(200)]}").replace("[1, 2]", f"{[*range(200)]}"),
        "axes: 40,000 combinations, more than 10,000",
    ),
    "deep key": (f"a{'.a' * 300_000} = 1", "a key has more than 64 parts"),
    "deep table": ("['a' " + ". 'a'" * 300_000 + "]", "a key has more than 64 parts"),
    "many fields": (
        GOOD + "".join(f"field{at} = 1\n" for at in range(100_000)),
        "and 99,995 more",
    ),
    "long values": (
        GOOD.replace('"integer"', f'"{LONG}"').replace("cases.plain", f'cases."{LONG}/"'),
        "Invalid type 'qqq",
    ),
    "long field": (f"{GOOD}\n{LONG} = 1", "is not a field"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(matrix_file, name):
    text, words = MISTAKES[name]
    with pytest.raises(NotebookMatrixError) as caught:
        read_matrix(matrix_file(text))
    assert words in caught.value.message
    assert "matrix.toml" in caught.value.message
    assert len(caught.value.message) < 2_000


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(NotebookMatrixError, match="cannot be read"):
        read_matrix(tmp_path / "matrix.toml")


def test_a_pattern_that_no_case_is_like(matrix_file):
    with pytest.raises(NotebookMatrixError, match="plain"):
        read_matrix(matrix_file(GOOD)).select(["good::plane"])


def test_goldens_are_kept_replaced_and_found_without_a_case(matrix_file, tmp_path):
    matrix = read_matrix(matrix_file(GOOD))
    path = tmp_path / "goldens" / "good.json"
    assert matrix.cases[0].golden_path == path
    case = {"parameters": {}, "results": {"total": 1}}
    write_goldens(path, {"plain": case, "gone": case}, ())
    write_goldens(path, {"a-1": case}, ["plain", "gone"])
    assert list(read_goldens(path)) == ["a-1", "gone", "plain"]
    (problem,) = orphans(matrix)
    assert "'gone', which is not a case of the matrix" in problem
    write_goldens(path, {}, ["plain"])
    assert list(read_goldens(path)) == ["plain"]


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"format": 2, "cases": {}}', '{"format": 1, "cases": {"a": {}}}']
)
def test_a_broken_file_of_goldens(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotebookMatrixError, match="not a file of goldens"):
        read_goldens(path)


@pytest.mark.parametrize(
    ("new", "old", "same"),
    [
        (1, 1.0, True),
        (0.1 + 0.2, 0.3, True),
        (1, 2, False),
        (1, True, False),
        ([1, {"a": 0.5}], [1, {"a": 0.5}], True),
        ([1], [1, 1], False),
        ({"a": 1}, {"b": 1}, False),
        ("1", 1, False),
        (None, 0, False),
    ],
)
def test_goldens_are_compared_as_json_holds_values(new, old, same):
    assert same_value(new, old) is same
