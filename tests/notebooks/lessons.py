"""The lessons, what their cells hold, and which exercises they check."""

import ast
import json
from pathlib import Path

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LESSONS = sorted((NOTEBOOKS / "lessons").glob("*.ipynb"))


def code_cells(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def checked_names(path):
    """The exercises that a lesson checks, in its order."""
    calls = [
        node
        for source in code_cells(path)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "wb.check"
    ]
    assert all(call.keywords[-1].arg == "solve" for call in calls)
    return [ast.literal_eval(call.args[1]) for call in calls]
