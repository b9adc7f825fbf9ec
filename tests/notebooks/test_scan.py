import pytest

from workbench.notebooks import scan_notebook
from workbench.notebooks.document import without_widget_state

ERROR = {
    "output_type": "error",
    "ename": "ValueError",
    "evalue": "no",
    "traceback": ["\x1b[31mTraceback\x1b[0m", "ValueError: no"],
}
THREAD = """before
Exception in thread Thread-5 (work):
Traceback (most recent call last):
  File "a.py", line 5, in work
    raise ValueError("no")
ValueError: no
after
"""
TASK = """Task exception was never retrieved
future: <Task finished>
Traceback (most recent call last):
  File "a.py", line 5, in work
KeyError: 'k'
"""
MARKED = "<div data-workbench-error='1'>no</div>"


def stream(text, name="stderr"):
    return {"output_type": "stream", "name": name, "text": text}


def view(model_id):
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": model_id}}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def model(name, **state):
    return {"model_name": name, "state": state}


def found(notebook):
    return [(problem.kind, problem.cell_index) for problem in scan_notebook(notebook)]


def test_a_clean_notebook_has_no_problem(make_notebook, make_cell):
    clean = model("OutputModel", outputs=[stream("all is well")])
    notebook = make_notebook(
        make_cell("1 + 1", outputs=[stream("warning: slow\n"), view("a")]),
        widgets={"a": clean, "b": model("HTMLModel", value="<b>x</b>"), "c": model("X", n=1)},
    )
    assert scan_notebook(notebook) == ()


def test_without_widget_state_what_a_widget_shows_in_text_stays(make_notebook, make_cell):
    empty, worded = view("a"), view("b")
    empty["data"]["text/plain"], worded["data"]["text/plain"] = "", "<b>"
    notebook = make_notebook(make_cell("x", outputs=[empty, worded, stream("")]), widgets={})
    (cell,) = without_widget_state(notebook)["cells"]
    assert [output.get("data") for output in cell["outputs"]] == [{"text/plain": "<b>"}, None]


def test_an_error_output_names_its_cell_and_keeps_its_source(make_notebook, make_cell):
    (problem,) = scan_notebook(make_notebook("x = 1", make_cell("boom()", outputs=[ERROR])))
    assert (problem.kind, problem.cell_index, problem.message) == (
        "cell_error",
        1,
        "ValueError: no",
    )
    assert problem.excerpt == "> boom()\nTraceback\nValueError: no"


@pytest.mark.parametrize(
    ("text", "kind", "last"),
    [
        (THREAD, "background_thread", "ValueError: no"),
        (TASK, "asyncio_task", "KeyError: 'k'"),
        (THREAD.split("\n", 2)[2], "traceback_in_stream", "ValueError: no"),
        ("Exception in thread x", "background_thread", "Exception in thread x"),
    ],
)
def test_a_stream_names_what_failed(make_notebook, make_cell, text, kind, last):
    (problem,) = scan_notebook(make_notebook(make_cell("go()", outputs=[stream(text)])))
    assert problem.kind == kind
    assert problem.message.endswith(f": {last}")
    assert "after" not in problem.excerpt


def test_a_warning_names_the_coroutine(make_notebook, make_cell):
    text = (
        "/tmp/ipykernel_1/2.py:2: RuntimeWarning: coroutine 'f' was never awaited\n  f()\n"
        "RuntimeWarning: Enable tracemalloc to get the object allocation traceback\n"
    )
    (problem,) = scan_notebook(make_notebook(make_cell("f(); x = 1", outputs=[stream(text)])))
    assert problem.kind == "never_awaited"
    assert problem.message.endswith(": coroutine 'f' was never awaited")
    assert "tracemalloc" not in problem.excerpt


def test_a_traceback_in_pieces_and_lines_is_found(make_notebook, make_cell):
    lines = THREAD.splitlines(keepends=True)
    pieces = [stream(lines[:2]), stream(["not this one"], "stdout"), stream(lines[2:])]
    notebook = make_notebook(make_cell(["go", "()"], outputs=pieces))
    assert found(notebook) == [("background_thread", 0)]


def test_an_error_inside_nested_widgets_is_traced_to_the_cell_that_shows_them(
    make_notebook, make_cell
):
    widgets = {
        "box": model("VBoxModel", children=["IPY_MODEL_inner"]),
        "inner": model("HBoxModel", children=["IPY_MODEL_out", "IPY_MODEL_box"]),
        "out": model("OutputModel", outputs=[ERROR]),
        "lost": model("OutputModel", outputs=[stream(THREAD)]),
    }
    notebook = make_notebook("x = 1", make_cell("box", outputs=[view("box")]), widgets=widgets)
    assert found(notebook) == [("widget_error", 1), ("background_thread", None)]


@pytest.mark.parametrize(
    "shown",
    [
        model("HTMLModel", value=MARKED),
        model("SessionModel", error_count=2),
        model("SessionModel", _workbench_errors=[{"message": "no"}]),
        model(
            "OutputModel", outputs=[{"output_type": "display_data", "data": {"text/html": MARKED}}]
        ),
    ],
)
def test_a_panel_that_shows_an_error_is_a_problem(make_notebook, shown):
    assert found(make_notebook("x = 1", widgets={"a": shown})) == [("panel_error", None)]


def test_a_static_twin_that_shows_an_error_is_a_problem(make_notebook, make_cell):
    output = {"output_type": "execute_result", "data": {"text/html": [MARKED]}}
    assert found(make_notebook(make_cell("panel", outputs=[output]))) == [("panel_error", 0)]


@pytest.mark.parametrize(
    "state", [{"error_count": 0}, {"_workbench_errors": []}, {"value": MARKED}]
)
def test_an_empty_record_or_a_marker_elsewhere_is_not_a_problem(make_notebook, state):
    assert found(make_notebook("x = 1", widgets={"a": model("TextModel", **state)})) == []


def test_positions_are_those_of_the_source_notebook(make_notebook, make_cell):
    notebook = make_notebook(
        make_cell("An exception", "papermill-error-cell-tag", kind="markdown"),
        make_cell("n = 1", "parameters"),
        make_cell("n = 2", "injected-parameters"),
        make_cell("Stopped here", "papermill-error-cell-tag", kind="markdown"),
        make_cell("boom()", outputs=[ERROR]),
    )
    assert found(notebook) == [("cell_error", 1)]
