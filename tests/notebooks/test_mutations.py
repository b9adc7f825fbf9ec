"""Each check is needed: what it catches passes as soon as it is taken out of the list.

The notebooks really run, once each; what was found is then judged with and without the check.
"""

import json

import pytest

from tests.notebooks.controls import CONTROLS, GOOD_PARAMETERS
from workbench.notebooks import (
    NotebookParameterError,
    parameters,
    runner,
    source_rules,
    verdict,
)
from workbench.notebooks.problems import PROBLEM_KINDS

FOUND_BEFORE_OR_WITHOUT_A_RUN = {
    # misuse, which the runner refuses and a matrix reports
    *("notebook_missing", "not_a_notebook", "unknown_parameter", "parameter_type"),
    # the source
    *("leftover", "kernelspec", "parameters_cell", "parameter_style", "cell_count"),
    *("long_function", "install", "title", "syntax", "harness"),
    # needs a kernel that cannot start, and a thread that fails while its cell looks on
    *("not_run", "background_thread"),
}


OF_CHILDREN = ("network of a child", "network of a shell")


def without(checks, name):
    return tuple(check for check in checks if check.__name__ != name)


@pytest.fixture
def judged(fixture_path, tmp_path, monkeypatch):
    """Run a control; the result, and what is known of the run."""

    def run(control):
        kept = []

        def keep(evidence):
            kept.append(evidence)
            return verdict.problems_of(evidence)

        spy = type("Spy", (), {"problems_of": staticmethod(keep)})
        monkeypatch.setattr(runner, "verdict", spy)
        given = GOOD_PARAMETERS if control.notebook == "good" else {}
        result = runner.run_notebook(
            fixture_path(control.notebook),
            given,
            output_dir=tmp_path,
            expectations=control.expectations,
            **control.arguments,
        )
        return result, kept[0]

    return run


FIRST = {control.kind: name for name, control in reversed(CONTROLS.items())}
"""Kind of problem -> its first control; `make thorough` runs the others."""


@pytest.mark.sampled(2)
@pytest.mark.notebook
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in FIRST.values() else pytest.mark.thorough)
        for name in CONTROLS
    ],
)
def test_a_control_is_caught_by_its_check_and_by_no_other(name, judged, monkeypatch):
    control = CONTROLS[name]
    result, evidence = judged(control)
    if result.unwatched and name in OF_CHILDREN:
        pytest.skip(result.unwatched)
    assert [problem.kind for problem in result.problems] == [control.kind], result.report()
    (problem,) = result.problems
    assert control.words in problem.message
    assert problem.cell_index == control.cell_index
    assert "rerun: workbench notebook run " in result.report()
    if problem.cell_index is not None:
        assert f"--hash-seed {result.hash_seed} --to-cell {problem.cell_index}" in result.report()
    monkeypatch.setattr(verdict, "CHECKS", without(verdict.CHECKS, control.check))
    assert verdict.problems_of(evidence) == ()


def test_every_check_has_a_control_and_every_kind_is_caught():
    assert {control.check for control in CONTROLS.values()} == {c.__name__ for c in verdict.CHECKS}
    caught = {control.kind for control in CONTROLS.values()}
    assert caught | FOUND_BEFORE_OR_WITHOUT_A_RUN == set(PROBLEM_KINDS)


def test_the_messages_differ():
    words = [control.words for control in CONTROLS.values() if control.words != "hidden in a task"]
    assert len(words) == len(set(words))


WRONG_PARAMETERS = {
    "known_name": ({"cuont": 3}, "unknown_parameter", "count"),
    "right_type": ({"count": "three"}, "parameter_type", "Expected int"),
    "plain_value": (
        {"label": None, "count": 3, "anything": {1}},
        "parameter_type",
        "Expected only numbers",
    ),
}


@pytest.mark.parametrize("name", WRONG_PARAMETERS)
def test_a_wrong_parameter_is_refused_by_its_check_and_by_no_other(
    name, with_parameters, monkeypatch
):
    given, code, words = WRONG_PARAMETERS[name]
    cell = "count: int = 3  # n\nlabel: str | None = None  # t\nanything = object()  # a"
    declared = parameters.inspect_parameters(with_parameters(cell))
    with pytest.raises(NotebookParameterError, match=words) as caught:
        parameters.check_parameters(declared, given)
    assert caught.value.code == code
    monkeypatch.setattr(parameters, "PARAMETER_CHECKS", without(parameters.PARAMETER_CHECKS, name))
    assert parameters.check_parameters(declared, given) == given
    assert set(WRONG_PARAMETERS) | {name} == {"known_name", "right_type", "plain_value"}


def _outputs(notebook):
    notebook["cells"][3]["outputs"] = [{"output_type": "stream", "text": "3"}]


def _no_parameters(notebook):
    notebook["cells"][3]["metadata"]["tags"] = []


def _large(notebook):
    notebook["cells"][0]["source"] = "# Why?\n" + "x" * 100_000


def _kernel(notebook):
    notebook["metadata"]["kernelspec"]["name"] = "conda-env"


def _untyped(notebook):
    notebook["cells"][3]["source"] = "smoke = True  # x\ncount: int = 3  # n\nlabel: str = ''  # t"


def _cells(notebook):
    notebook["cells"] += [notebook["cells"][0]] * 20


def _install(notebook):
    notebook["cells"][7]["source"] = "!pip install x"


def _long(notebook):
    notebook["cells"][7]["source"] = "def f():\n" + "    x = 1\n" * 11


def _check_in_sight(notebook):
    cell = notebook["cells"][7]
    cell["source"], cell["metadata"] = "assert plan", {}


def _title(notebook):
    notebook["cells"][0]["source"] = "# A statement"


BREAKS = {
    "_leftovers": (_outputs, "leftover"),
    "_size": (_large, "too_large"),
    "_kernelspec": (_kernel, "kernelspec"),
    "_parameters": (_untyped, "parameter_style"),
    "_cell_count": (_cells, "cell_count"),
    "_harness": (_check_in_sight, "harness"),
    "_functions": (_long, "long_function"),
    "_installs": (_install, "install"),
    "_title": (_title, "title"),
}
COMMON_BREAKS = {
    "_leftovers": BREAKS["_leftovers"],
    "_size": BREAKS["_size"],
    "_parameters_cell": (_no_parameters, "parameters_cell"),
}


@pytest.mark.parametrize(
    ("rules", "breaks", "name"),
    [
        *(("RULES", BREAKS, name) for name in BREAKS),
        *(("COMMON_RULES", COMMON_BREAKS, name) for name in COMMON_BREAKS),
    ],
)
def test_a_broken_source_is_caught_by_its_rule_and_by_no_other(rules, breaks, name, fixture_path):
    notebook = json.loads(fixture_path("good").read_text(encoding="utf-8"))
    change, kind = breaks[name]
    change(notebook)
    every = getattr(source_rules, rules)
    found = [problem.kind for rule in every for problem in rule(notebook)]
    assert found == [kind]
    assert [problem for rule in without(every, name) for problem in rule(notebook)] == []
    assert {rule.__name__ for rule in every} == set(breaks)
