"""Lesson 7's kernels: right ones pass, and each typical mistake gets its own explanation."""

import os
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

import workbench as wb
from tests.lesson_kernels import FAR_AWAY, LEARNERS, NEVER_END, nothing
from workbench.core.errors import ScenarioError
from workbench.exercises import EXERCISES
from workbench.exercises import grade as grading
from workbench.exercises.kernels.gather import TASK as GATHER
from workbench.exercises.kernels.judge import judge_kernel
from workbench.exercises.kernels.launch import launch
from workbench.exercises.kernels.slots import TASK as SLOTS
from workbench.kernels.block_table.groups import ContextParallel
from workbench.kernels.block_table.reference import expand_ids, slot_of
from workbench.kernels.inspection import inspect_kernels
from workbench.kernels.mode import triton_mode

# on a GPU the endless kernel would never end, and an address far away spoils the process
pytestmark = [
    pytest.mark.skipif(
        triton_mode().mode != "interpreter", reason="wrong kernels run in Triton's interpreter only"
    ),
    pytest.mark.usefixtures("no_progress"),
]
TASKS = {"gather_rows": GATHER, "map_slots": SLOTS}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_typical_mistake_is_explained(name):
    learner = LEARNERS[name]
    checked = wb.check(learner.kernel, learner.task)
    assert checked.ok is False
    shown = repr(checked)
    for words in learner.words:
        assert words in shown
    assert "Traceback" not in shown
    assert checked._repr_html_()


def test_the_mistakes_have_explanations_of_their_own():
    found = {name: dict(wb.check(one.kernel, one.task).rows) for name, one in LEARNERS.items()}
    assert len({rows["why"] for rows in found.values() if rows.get("why")}) >= 16
    for name, rows in found.items():
        if name not in {"use_an_unknown_name", "other_parameters"}:
            assert {"given", "program", "element", "why"} <= set(rows), name


def test_an_endless_kernel_is_stopped(monkeypatch):
    monkeypatch.setattr(grading, "MOST_SECONDS", 0.5)
    checked = wb.check(NEVER_END, "gather_rows")
    assert checked.ok is False
    assert "an endless loop?" in repr(checked)


def test_an_address_far_away_does_not_crash():
    checked = wb.check(FAR_AWAY, "map_slots")
    assert "far from every array" in repr(checked)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda *_: None, "without @triton.jit"),
        (3, "an integer without @triton.jit"),
        ("gather", "text without @triton.jit"),
    ],
)
def test_what_is_not_a_kernel_is_named(name, answer, words):
    checked = wb.check(answer, name)
    assert checked.ok is False
    assert words in repr(checked)


def test_a_kernel_that_does_nothing_is_open():
    assert wb.check(nothing, "map_slots").ok is None
    assert wb.progress()[0].tries == 0
    assert "No program has read" in repr(wb.memory_view(nothing, "map_slots"))


@pytest.mark.parametrize("name", TASKS)
def test_the_expected_values_are_those_of_the_plain_reference(name):
    for case in TASKS[name].cases:
        arrays, numbers = case.arrays, case.numbers
        if name == "gather_rows":
            table = [[b for b in row if b is not None] for row in arrays["p_table"].rows]
            for request, row in zip(arrays["p_requests"].rows[0], case.expected, strict=True):
                live = expand_ids(table[request], numbers["RATIO"]) if request >= 0 else ()
                assert tuple(row) == (*live, *[0] * (numbers["width"] - len(live)))
            continue
        [starts], [positions] = arrays["p_starts"].rows, arrays["p_positions"].rows
        for i, row in enumerate(arrays["p_rows"].rows):
            live = [block for block in row if block is not None]
            for token in range(starts[i], starts[i + 1]):
                size = numbers["KERNEL_BLOCK"]
                right = slot_of(live, positions[token], size, ContextParallel())
                assert case.expected[0][token] == right


@pytest.mark.parametrize("name", TASKS)
def test_the_hidden_launches_have_what_goes_wrong(name):
    cases = TASKS[name].cases
    assert len(cases) >= 10
    sizes = {case.numbers.get("RATIO", case.numbers.get("KERNEL_BLOCK")) for case in cases}
    assert any(size & (size - 1) for size in sizes), "a size that is not a power of two"
    assert all(
        array.stride is None or array.stride > len(array.rows[0])
        for case in cases
        for array in case.arrays.values()
    ), "rows are fenced from each other"
    assert any(
        None in row for case in cases for array in case.arrays.values() for row in array.rows
    )


@pytest.mark.parametrize("name", TASKS)
def test_the_view_draws_what_each_program_touched(name):
    view = wb.memory_view(None, name, solve=True)
    assert view.message is None
    by_name = {array.name: array for array in view.arrays}
    output = by_name[TASKS[name].example.output]
    for _, cells in output.rows:
        assert all(len(cell.writers) == 1 and not cell.is_empty for cell in cells)
    empty = [c for a in view.arrays for _, cells in a.rows for c in cells if c.is_empty]
    assert empty
    assert not any(cell.readers for cell in empty)
    assert any(cell.writers for _, cells in by_name["pool"].rows for cell in cells)
    html = view._repr_html_()
    assert html.count("<svg") == len(view.arrays)
    for picture in html.split("<svg")[1:]:
        svg = ET.fromstring("<svg" + picture.partition("</svg>")[0] + "</svg>")
        assert svg.get("aria-label")


def test_the_view_shows_where_an_array_was_left():
    view = wb.memory_view(LEARNERS["read_past_the_row"].kernel, "gather_rows")
    assert "about to read" in repr(view)
    stray = [c for a in view.arrays for _, cells in a.rows for c in cells if c.stray]
    assert [(cell.text, cell.stray) for cell in stray] == [("✗", "r0")]
    view = wb.memory_view(LEARNERS["trust_every_position"].kernel, "map_slots")
    assert view.message is None, "the example has no drafts: the trap is in a hidden launch"
    view = wb.memory_view(LEARNERS["write_all_lanes"].kernel, "map_slots")
    [stray] = [c for a in view.arrays for _, cells in a.rows for c in cells if c.stray]
    assert stray.stray == "w0"


def test_the_view_refuses_other_exercises():
    with pytest.raises(ScenarioError, match="gather_rows"):
        wb.memory_view(None, "gather_row")


def test_a_store_between_the_rows_is_found_without_watching(monkeypatch):
    from contextlib import nullcontext

    import workbench.exercises.kernels.launch as launching

    monkeypatch.setattr(launching, "_watched", lambda *_: nullcontext())
    for kernel, task in (
        (LEARNERS["write_past_the_row"].kernel, GATHER),
        (LEARNERS["write_all_lanes"].kernel, SLOTS),
    ):
        found = judge_kernel(task, kernel)
        assert found.ok is False
        assert "not part of the output" in found.summary
        assert "past the end" in dict(found.rows)["element"] or "past its end" in str(found.rows)
    for name, task in TASKS.items():
        assert judge_kernel(task, EXERCISES[name].solution()).ok is True


def test_nothing_of_a_case_is_changed_by_a_launch():
    case = GATHER.cases[3]
    first = launch(LEARNERS["write_twice"].kernel, case)
    assert launch(LEARNERS["write_twice"].kernel, case).result == first.result


@pytest.mark.thorough
def test_the_shipped_kernels_compile_for_a_gpu():
    reports = inspect_kernels("workbench.exercises.kernels.solutions", ["sm_90", "gfx942"])
    assert len(reports) == 4
    assert all(report.spill_bytes == 0 for report in reports)


@pytest.mark.thorough
def test_triton_of_the_other_mode_is_explained(tmp_path):
    code = (
        "import os; os.environ['TRITON_INTERPRET'] = '0'\n"
        "import triton, workbench as wb\n"
        "@triton.jit\n"
        "def map_slots(p_starts): pass\n"
        "os.environ.pop('TRITON_INTERPRET')\n"
        "print(wb.check(map_slots, 'map_slots'))"
    )
    script = tmp_path / "cell.py"
    script.write_text(code, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert "Kernels cannot run in this process" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr
