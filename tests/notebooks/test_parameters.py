import json

import pytest

from workbench.notebooks import (
    NotebookFileError,
    NotebookParameterError,
    inspect_parameters,
    run_notebook,
)
from workbench.notebooks.parameters import check_parameters

SOURCE = """
model: str = "a=b"  # which model
smoke: bool = False  # small sizes
count: int = 3  # how many
ratio: float = 0.5  # a share
sizes: list[int] = [1, 2]  # sizes
options: dict = {}  # more
backend: str | None = None  # None: choose
mode: Literal["fast", "exact"] = "fast"  # how
limit: "Optional[int]" = None  # none at all
free = None
plain = 4
computed = len("abc")
"""


@pytest.fixture
def declared(with_parameters):
    return inspect_parameters(with_parameters(SOURCE))


def test_every_parameter_is_read_with_its_type_default_and_comment(declared):
    read = {parameter.name: parameter for parameter in declared}
    assert {name: parameter.types for name, parameter in read.items()} == {
        "model": ("str",),
        "smoke": ("bool",),
        "count": ("int",),
        "ratio": ("float",),
        "sizes": ("list",),
        "options": ("dict",),
        "backend": ("str", "None"),
        "mode": ("str",),
        "limit": ("int", "None"),
        "free": (),
        "plain": ("int",),
        "computed": (),
    }
    assert (read["model"].default, read["model"].comment) == ("'a=b'", "which model")
    assert (read["plain"].annotation, read["plain"].comment) == ("", "")


def test_papermill_reads_the_same_parameters(fixture_path):
    papermill = pytest.importorskip("papermill")
    path = fixture_path("good")
    ours = inspect_parameters(json.loads(path.read_text(encoding="utf-8")))
    theirs = papermill.inspect_notebook(str(path))
    read_by_both = [parameter for parameter in ours if parameter.name in theirs]
    assert [parameter.name for parameter in read_by_both] == ["smoke", "count"]
    for parameter in read_by_both:
        inferred = theirs[parameter.name]
        assert inferred["inferred_type_name"] == parameter.annotation
        assert inferred["help"] == parameter.comment


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "x"),
        ("smoke", True),
        ("count", 7),
        ("ratio", 1.5),
        ("ratio", 2),
        ("sizes", [1]),
        ("options", {"a": [1, None]}),
        ("backend", None),
        ("backend", "FLASH_ATTN"),
        ("limit", None),
        ("free", "anything"),
        ("computed", 9),
    ],
)
def test_a_fitting_value_is_taken(declared, name, value):
    assert check_parameters(declared, {name: value}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        ("smoke", 1, "Nearest valid value: True."),
        ("smoke", "false", "Nearest valid value: False."),
        ("count", True, "Nearest valid value: 1."),
        ("count", "4", "Nearest valid value: 4."),
        ("count", 4.0, "Nearest valid value: 4."),
        ("ratio", True, "Nearest valid value: 1.0."),
        ("sizes", (1, 2), "Nearest valid value: [1, 2]."),
        ("model", 5, "Nearest valid value: '5'."),
        ("model", None, "default is 'a=b'."),
        ("limit", [], "Nearest valid value: None."),
        ("plain", float("inf"), "default is 4."),
        ("options", "{}", "Expected dict"),
    ],
)
def test_a_wrong_type_names_what_is_allowed_and_the_nearest(declared, name, value, nearest):
    with pytest.raises(NotebookParameterError) as caught:
        check_parameters(declared, {name: value})
    assert caught.value.code == "parameter_type"
    assert caught.value.field == f"parameters.{name}"
    assert repr(value) in caught.value.message
    assert caught.value.message.endswith(nearest) or nearest in caught.value.message


ITEMS = """
sizes: list[int] = [1]
names: "list[str] | None" = None
shares: dict[str, float] = {}
nested: list[list[int]] = []
other: list[Path] = []
"""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sizes", ["x"], "Expected list[int]"),
        ("sizes", ["4"], "Nearest valid value: [4]."),
        ("sizes", "x", "Expected list;"),
        ("names", [1], "Nearest valid value: ['1']."),
        ("shares", {"a": "x"}, "Expected dict[str, float]"),
        ("nested", [[1], ["x"]], "Expected list[list[int]]"),
    ],
)
def test_items_have_the_type_of_the_annotation(with_parameters, name, value, said):
    with pytest.raises(NotebookParameterError) as caught:
        check_parameters(inspect_parameters(with_parameters(ITEMS)), {name: value})
    assert said in caught.value.message


def test_fitting_items_are_taken(with_parameters):
    given = {"sizes": [], "names": ["a"], "shares": {"a": 1}, "nested": [[1]], "other": ["/tmp"]}
    declared = inspect_parameters(with_parameters(ITEMS))
    assert check_parameters(declared, given) == given


def test_an_unknown_name_lists_the_nearest_and_all(declared):
    with pytest.raises(NotebookParameterError) as caught:
        check_parameters(declared, {"modle": "x"})
    assert "'modle' is not known. Nearest: mode, model" in caught.value.message
    assert all(parameter.name in caught.value.message for parameter in declared)


def test_a_value_that_is_not_plain_is_refused(declared):
    with pytest.raises(NotebookParameterError, match="Expected only numbers"):
        check_parameters(declared, {"options": {"a": object()}})


def test_no_parameters_cell_is_an_error(make_notebook):
    with pytest.raises(NotebookParameterError, match="no cell is tagged"):
        inspect_parameters(make_notebook("x = 1"))


def test_two_parameters_cells_are_an_error_before_anything_runs(fixture_path, tmp_path):
    with pytest.raises(NotebookParameterError, match="cells 1, 2 are tagged"):
        run_notebook(fixture_path("two_parameter_cells"), output_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_parameters_cell_has_to_be_python(with_parameters):
    with pytest.raises(NotebookParameterError, match="not valid Python"):
        inspect_parameters(with_parameters("x: int ="))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"parameters": {"smok": True}}, "parameters.smok"),
        ({"parameters": {"smoke": "yes"}}, "parameters.smoke"),
        ({"kernel": "pyton3"}, "kernel"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": "60"}, "timeout_s"),
        ({"expect": {"total": {1, 2}}}, "total"),
    ],
)
def test_misuse_of_the_runner_raises_before_anything_runs(fixture_path, tmp_path, arguments, field):
    with pytest.raises(ValueError, match=r"Allowed|Expected") as caught:
        run_notebook(fixture_path("good"), output_dir=tmp_path, **arguments)
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [("no json", "not JSON"), ("[]", "no list of cells"), ('{"cells": [], "nbformat": 3}', "is 3")],
)
def test_an_invalid_notebook_is_refused(tmp_path, text, why):
    path = tmp_path / "a.ipynb"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(NotebookFileError, match=why):
        run_notebook(path, output_dir=tmp_path)


def test_a_missing_notebook_names_its_neighbours(fixture_path, tmp_path):
    with pytest.raises(NotebookFileError, match=r"good\.ipynb"):
        run_notebook(fixture_path("goood"), output_dir=tmp_path)
