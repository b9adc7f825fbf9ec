"""A learner in a real JupyterLab: run a lesson, answer wrongly, see a hint, solve it."""

import ast
import inspect
import json
import re
from itertools import cycle
from pathlib import Path

import pytest

import workbench as wb
from tests.browser.lab import DARK, LIGHT, LabPage, expect
from workbench.exercises import EXERCISES

FOLDER = Path(__file__).parents[2] / "notebooks" / "lessons"
LESSONS = sorted(FOLDER.glob("*.ipynb"))
OPEN, WRONG, RIGHT = "[data-severity=warning]", ".wb-problem", ".wb-good"
LOOKS = ((DARK, 1280), (LIGHT, 1920), (DARK, 1920))
IMPORTS = (
    "from collections.abc import *\nfrom math import *\nfrom typing import Any\n"
    "from workbench import adding\n\n"
)

# JupyterLab draws only the cells in sight, so the cell is made the active one and scrolled to.
SHOW_CELL = """async (index) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index, 'start');
  await notebook.widgets[index].ready;
}"""
ACTIVE = ".jp-Notebook-cell.jp-mod-active"


def exercise_cells(path: Path) -> dict[str, tuple[int, str]]:
    """Return exercise -> the index and the source of its cell."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = [(i, "".join(c["source"])) for i, c in enumerate(cells) if c["cell_type"] == "code"]
    return {
        name: (i, source)
        for i, source in sources
        for name in EXERCISES
        if re.search(rf'wb\.check\(\w+, "{name}"', source)
    }


def answered(source: str, answer: str) -> str:
    """Return the cell with its stub replaced: a function's lines, or the value of a question."""
    tree = ast.parse(source)
    stub = next(node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AnnAssign))
    lines = source.splitlines()
    first = min([stub.lineno, *(one.lineno for one in getattr(stub, "decorator_list", ()))])
    rest = "\n".join(lines[: first - 1] + lines[stub.end_lineno :]).strip()
    if isinstance(stub, ast.AnnAssign):
        return f"{ast.unparse(stub.target)} = {answer}\n{rest}"
    return f"{IMPORTS}{answer}\n{rest}"


def right_answer(name: str) -> str:
    """Return what a learner would type."""
    if EXERCISES[name].has_cases:
        answer = repr(EXERCISES[name].solution(wb.log_case(1)))
        return answer.replace("Scenario(", "wb.Scenario(")
    solution = EXERCISES[name].solution()
    kernel = getattr(solution, "fn", solution)
    return inspect.getsource(kernel) if callable(kernel) else repr(solution)


def type_and_run(lab: LabPage, index: int, source: str) -> None:
    """Replace a cell's text by the keyboard and run it."""
    lab.page.evaluate(SHOW_CELL, index)
    lab.page.locator(f"{ACTIVE} .cm-content").click()
    lab.press("Control+a")
    lab.page.keyboard.insert_text(source)
    lab.press("Control+Enter")


def verdict(lab: LabPage, css: str):
    """Return the verdict below the cell that was run."""
    return lab.page.locator(f"{ACTIVE} .jp-OutputArea-output {css}")


OF_EVERY_KIND = (0, 8)
"""A lesson of functions and one of cases; the others belong to `make thorough`."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[] if number in OF_EVERY_KIND else pytest.mark.thorough)
        for number, path in enumerate(LESSONS)
    ],
    ids=lambda path: path.stem,
)
def test_a_learner_gets_a_hint_and_then_solves_it(lab: LabPage, path: Path, tmp_path: Path):
    kept = tmp_path / "progress.json"
    lab.open(f"lessons/{path.name}")
    lab.execute(f"import os; os.environ['WORKBENCH_PROGRESS'] = {str(kept)!r}")
    lab.run_all()
    lab.screenshot(f"{path.stem}-open")
    cells = exercise_cells(path)
    assert cells
    for (theme, width), (name, (index, source)) in zip(cycle(LOOKS), cells.items(), strict=False):
        lab.set_theme(theme)
        lab.set_viewport(width, 1000)
        lab.page.evaluate(SHOW_CELL, index)
        expect(verdict(lab, OPEN)).to_contain_text("Not answered yet")
        wrong = f"def {name}(*operands):\n    return 'no'\n"
        type_and_run(
            lab, index, answered(source, "['no']" if EXERCISES[name].is_question else wrong)
        )
        expect(verdict(lab, WRONG)).to_contain_text("hint 1 of")
        expect(verdict(lab, WRONG)).to_contain_text(EXERCISES[name].hints[0])
        lab.screenshot(f"{path.stem}-{name}-wrong")
        type_and_run(lab, index, answered(source, right_answer(name)))
        expect(verdict(lab, RIGHT)).to_contain_text("✓ Right")
        assert lab.contrast(f"{RIGHT} >> nth=0") > 4.5
        lab.screenshot(f"{path.stem}-{name}-right")
    assert lab.kernel_errors() == ()
    solved = lab.execute("import workbench as wb; print(*wb.progress().solved)").split()
    assert set(solved) == set(cells)
    assert lab.execute("print(len(wb.reset_progress().solved))").strip() == "0"
    assert not kept.exists()
