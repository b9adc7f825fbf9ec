"""`wb.memory_view`: which entries each program of a kernel reads and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.core.errors import check_name
from workbench.exercises.exercise import EXERCISES, Grade
from workbench.exercises.kernels.case import GARBAGE, UNWRITTEN, Array, KernelTask, Place
from workbench.exercises.kernels.gather import TASK as GATHER
from workbench.exercises.kernels.judge import not_a_kernel
from workbench.exercises.kernels.slots import TASK as SLOTS
from workbench.views.html import problem_box, table
from workbench.views.tables.memory import MemoryArray, MemoryCell, memory_html

if TYPE_CHECKING:
    from workbench.exercises.kernels.launch import Launch

TASKS: dict[str, KernelTask] = {task.name: task for task in (GATHER, SLOTS)}
LONGEST_ROW = 12
NOTHING_YET = "No program has read or written anything yet."
NOT_WATCHED = (
    "On a GPU accesses are not recorded: this shows the result only. Start the process with "
    "TRITON_INTERPRET=1 to see them."
)


@dataclass(frozen=True, slots=True)
class MemoryView:
    """What a kernel did on the example of its exercise; shows itself as a picture.

    message: what ended the launch, or why there is nothing to see; empty otherwise.
    """

    task: KernelTask
    launch: Launch | None
    message: Grade | None = None

    @property
    def arrays(self) -> tuple[MemoryArray, ...]:
        """Return every array with the programs that touched its entries, then the pool."""
        if self.launch is None:
            return ()
        named = self.task.example.arrays.items()
        arrays = [_array(name, array, self.launch) for name, array in named]
        return (*arrays, _pool(self.launch))

    def __repr__(self) -> str:
        lines = [self.message.summary] if self.message else []
        return "\n".join([*lines, *(array.words for array in self.arrays)])

    def _repr_html_(self) -> str:
        return memory_html(self.arrays, *_messages(self.message))


def memory_view(kernel: Any, name: str, *, solve: bool = False) -> MemoryView:
    """Launch a kernel on the small example of exercise `name`, and return what it touched.

    kernel: the learner's; what it raises becomes the message. solve: the shipped kernel instead.
    Errors: ScenarioError for an exercise without a kernel.

    >>> wb.memory_view(None, "map_slots", solve=True).arrays[-1].name
    'pool'
    """
    check_name("Kernel exercise", name, TASKS, "exercise")
    task = TASKS[name]
    kernel = EXERCISES[name].solution() if solve else kernel
    if (fault := not_a_kernel(task, kernel)) is not None:
        return MemoryView(task, None, fault)
    from workbench.exercises.kernels.launch import launch

    done = launch(kernel, task.example)
    if done.fault is not None:
        return MemoryView(task, done, Grade(False, done.fault.summary, done.fault.rows))
    if not done.is_watched:
        return MemoryView(task, done, Grade(None, NOT_WATCHED))
    return MemoryView(task, done, None if done.touched else Grade(None, NOTHING_YET))


def _messages(message: Grade | None) -> Iterator[str]:
    if message is not None:
        badge, severity = ("…", "warning") if message.ok is None else ("✗", "error")
        rows = table((), message.rows) if message.rows else ""
        yield problem_box(badge, message.summary, rows, severity=severity)


def _array(name: str, array: Array, done: Launch) -> MemoryArray:
    rows: list[tuple[str, Sequence[MemoryCell]]] = []
    for number, values in enumerate(array.rows):
        cells = [
            _cell(name, Place(number, column), value, done) for column, value in enumerate(values)
        ]
        entry = done.fault.entry if done.fault else None
        if entry is not None and (entry.array, entry.row) == (name, number) and entry.where:
            cells.append(MemoryCell("✗", stray=done.fault.by if done.fault else ""))
        rows += _cut(f"row {number}" if array.stride else "", cells)
    return MemoryArray(name, array.meaning, rows)


def _cell(name: str, place: Place, value: int | None, done: Launch) -> MemoryCell:
    if name == done.case.output:
        found = done.result[place.row][place.column] if done.result else UNWRITTEN
        value = None if found == UNWRITTEN else found
    text = "?" if value is None or value <= GARBAGE // 2 else str(value)
    readers, writers = (done.programs(kind, name, place) for kind in ("load", "store"))
    return MemoryCell(text, readers, writers, is_empty=text == "?")


def _cut(label: str, cells: Sequence[MemoryCell]) -> Iterator[tuple[str, Sequence[MemoryCell]]]:
    for start in range(0, max(len(cells), 1), LONGEST_ROW):
        yield label if start == 0 else f"… {start}", cells[start : start + LONGEST_ROW]


def _pool(done: Launch) -> MemoryArray:
    """Return the pool, and which program's output names each of its blocks or slots."""
    named: dict[int, dict[int, None]] = {}
    for row, values in enumerate(done.result):
        for column, value in enumerate(values):
            for program in done.writers(Place(row, column)):
                named.setdefault(value, {})[program] = None
    rows = [
        (f"block {block}", [MemoryCell(str(at), (), tuple(named.get(at, ()))) for at in places])
        for block, places in enumerate(done.case.pool)
    ]
    what = "kernel block" if done.case.output == GATHER.example.output else "slot"
    meaning = f"every {what}, by manager block, and the program whose output names it"
    return MemoryArray("pool", meaning, rows)
