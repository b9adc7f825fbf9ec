"""Judge a learner's kernel: right on every hidden case, or where and why it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.exercises.compare import kind_of, plain
from workbench.exercises.exercise import Grade
from workbench.exercises.kernels.case import UNWRITTEN, KernelCase, KernelTask, Place, is_garbage

if TYPE_CHECKING:
    from workbench.exercises.kernels.launch import Fault, Launch

DECORATE = "Write @triton.jit on the line above the function."


def judge_kernel(task: KernelTask, answer: Any) -> Grade:
    """Return the grade of a kernel; never raise for what it does."""
    if (fault := not_a_kernel(task, answer)) is not None:
        return fault
    from workbench.exercises.kernels.launch import launch

    for number, case in enumerate(task.cases):
        done = launch(answer, case)
        if number == 0 and _did_nothing(done):
            return Grade(None, "")
        if (found := _grade(task, done)) is not None:
            where = f"Right on {number} of {len(task.cases)} hidden launches. " if number else ""
            given = ("given", case.words)
            return Grade(False, f"{where}{found.summary}", (given, *found.rows))
    return Grade(True, f"Right on all {len(task.cases)} hidden launches, and nothing else touched.")


def not_a_kernel(task: KernelTask, answer: Any) -> Grade | None:
    """Return the grade of an answer that cannot be launched; None for a kernel."""
    from workbench.kernels.mode import TritonModeError, triton_mode

    names = getattr(answer, "arg_names", None)
    if names is None:
        what = "a function" if callable(answer) else kind_of(plain(answer))
        rows = (("got", f"{what} without @triton.jit"), ("next", DECORATE))
        return Grade(False, "Expected a Triton kernel.", rows)
    try:
        mode = triton_mode()
    except TritonModeError as error:
        return Grade(False, "Kernels cannot run in this process.", (("got", str(error)),))
    if mode.mode in {"unavailable", "compiler"}:
        return Grade(False, f"Kernels cannot run here: {mode.reason}.")
    if set(names) != set(task.parameters):
        rows = (("expected", ", ".join(task.parameters)), ("got", ", ".join(names)))
        return Grade(False, "The kernel's parameters differ from the specification's.", rows)
    return None


def _did_nothing(done: Launch) -> bool:
    quiet = all(value == UNWRITTEN for row in done.result for value in row)
    return done.fault is None and quiet and not done.touched


def _grade(task: KernelTask, done: Launch) -> Grade | None:
    """Return what is wrong with a launch; None if it is right."""
    if done.fault is not None:
        return _of_fault(task, done.fault)
    case = done.case
    for row, (found, wanted) in enumerate(zip(done.result, case.expected, strict=True)):
        for column, (got, right) in enumerate(zip(found, wanted, strict=True)):
            if got != right:
                return _wrong_value(task, done, Place(row, column))
    return _race(done)


def _of_fault(task: KernelTask, fault: Fault) -> Grade:
    why = task.out_of_bounds.get(fault.entry.array) if fault.entry else None
    rows = (*fault.rows, ("why", why)) if why else fault.rows
    return Grade(False, fault.summary, rows)


def _wrong_value(task: KernelTask, done: Launch, place: Place) -> Grade:
    case = done.case
    got, right = done.result[place.row][place.column], case.expected[place.row][place.column]
    rows = [
        ("program", _writer(done, place)),
        ("element", _named(case, place)),
        ("expected", f"{right:,}"),
        ("got", _shown(got)),
    ]
    if (reason := task.reason(case, place, got)) is not None:
        rows.append(("why", reason))
    return Grade(False, "An element of the output is wrong.", tuple(rows))


def _shown(got: int) -> str:
    if got == UNWRITTEN:
        return "what was there before the launch"
    return f"{got:,}" + (", made from an entry that holds no data" if is_garbage(got) else "")


def _writer(done: Launch, place: Place) -> str:
    owner = done.case.owner(place)
    wrote = done.writers(place)
    if done.is_watched and not wrote:
        return f"none wrote it; it belongs to program {owner}, of {done.case.programs}"
    if done.is_watched and wrote[-1] != owner:
        return f"{wrote[-1]} wrote it, but it belongs to program {owner}"
    return f"{owner}, of {done.case.programs}"


def _named(case: KernelCase, place: Place) -> str:
    array = case.arrays[case.output]
    return f"{array.name_of(case.output, *place)}: {array.meaning}"


def _race(done: Launch) -> Grade | None:
    """Return the grade of an element that two programs write, which the interpreter orders."""
    case = done.case
    for row, values in enumerate(case.expected):
        for column in range(len(values)):
            place = Place(row, column)
            if len(wrote := done.writers(place)) > 1:
                both = " and ".join(map(str, wrote[:2]))
                rows = (
                    ("element", _named(case, place)),
                    ("program", f"{both} both write it"),
                    ("why", "On a GPU programs run in any order: only one of them may write it."),
                )
                return Grade(False, "The values are right here, but two programs race.", rows)
    return None
