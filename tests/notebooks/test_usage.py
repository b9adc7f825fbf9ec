import pytest

from workbench.notebooks.parameters import names_read, unused_parameters


@pytest.mark.parametrize(
    "source",
    [
        "print(smoke)",
        "sizes = [1 if smoke else 2]",
        "def f():\n    return smoke",
        "def f(x=smoke):\n    return x",
        "[smoke for _ in range(3)]",
        "text = f'{smoke}'",
        "await run(smoke)",
        "async with a as b:\n    smoke",
        "[x async for x in rows(smoke)]",
        "%timeit run(smoke)",
        "%%time\nrun(smoke)",
        "!echo {smoke}",
        "class A:\n    size = smoke",
    ],
)
def test_a_use_is_seen(source):
    assert "smoke" in names_read(source)


@pytest.mark.parametrize(
    "source",
    [
        "smoke = True",
        "# smoke",
        "'smoke'",
        "plan.smoke",
        "f(smoke=1)",
        "def f(smoke):\n    return smoke",
        "[smoke for smoke in range(3)]",
        "lambda smoke: smoke",
        "def f():\n    smoke = 1\n    return smoke",
        "not python (",
    ],
)
def test_the_same_word_elsewhere_is_not_a_use(source):
    assert "smoke" not in names_read(source)


def test_only_cells_after_the_parameters_count(make_notebook, make_cell):
    parameters = make_cell("a: int = 1  # one\nb = c = a\n", "parameters")
    notebook = make_notebook("b", parameters, make_cell("b is text", kind="markdown"), "c")
    assert [problem.message.split("'")[1] for problem in unused_parameters(notebook)] == ["a", "b"]


def test_an_unused_parameter_names_its_cell(with_parameters):
    (problem,) = unused_parameters(with_parameters("seed: int = 0  # any", "x = 1"))
    assert (problem.kind, problem.cell_index) == ("unused_parameter", 0)
