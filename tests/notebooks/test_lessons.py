"""The lessons and the index: house rules, solved runs, and stubs that count as open.

`test_pages.py` runs each of them as it is, with open exercises.
Block sizes, hash blocks and orders are vLLM's own (reported logs and its code).
"""

import ast
import importlib.util
import json
import re

import pytest

from tests.notebooks.lessons import LESSONS, NOTEBOOKS, checked_names, code_cells
from workbench.exercises import EXERCISES
from workbench.notebooks import check_notebook_source, run_notebook

ORDER, LAYOUTS, TABLES, COUNTS, FLEX, LOG, KERNELS, BACKEND, FAULT = (p.name for p in LESSONS)
NUMBERS = range(1, len(LESSONS) + 1)
REPAIR = "next(case.repairs)"
LATER = "from __future__ import annotations"
NEMOTRON = "nemotron-3-nano-30b-a3b"

CASES = {
    "order-nemotron-tp4": (
        ORDER,
        {},
        {
            "before": ["pages_not_equal"],
            "before_block_size": 64,
            "after_block_size": 1088,
            "padded_bytes": 540_672,
            "moved": [64],
            "mamba_blocks": {
                "bamba-9b align": 528,
                "bamba-9b all": 576,
                "mamba-2.8b default": 64,
            },
        },
    ),
    "order-luck": (
        ORDER,
        {"model": "minimax-text-01", "tensor_parallel": 8},
        {"before": [], "before_block_size": 64, "after_block_size": 512},
    ),
    "layouts-bamba": (
        LAYOUTS,
        {"num_blocks": 2},
        {"misplaced_halves": 2, "silent": True, "v2_at_2": "Cannot determine layout"},
    ),
    "layouts-one-block": (LAYOUTS, {"num_blocks": 1}, {"misplaced_halves": 0}),
    "tables-nemotron": (
        TABLES,
        {},
        {"block_size": 1056, "kernel_block_size": 32, "ratio": 33, "agrees": True},
    ),
    "tables-qwen-flashinfer": (
        TABLES,
        {"model": "qwen3.5-4b", "backend": "FLASHINFER", "tensor_parallel": 1},
        {"block_size": 528, "kernel_block_size": 16, "ratio": 33},
    ),
    "tables-no-split": (
        TABLES,
        {"model": "bamba-9b", "platform": "rocm"},
        {"block_size": 528, "ratio": 1, "harmed_tokens": [0]},
    ),
    "counts-qwen": (
        COUNTS,
        {},
        {
            "num_blocks": 1241,
            "page_bytes": 2_162_688,
            "problems": ["offload_hash_block_size"],
            "hash_block": 1_081_344,
            "hash_block_after": 528,
            "starts_after": True,
        },
    ),
    "counts-ordinary-decoder": (
        COUNTS,
        {"model": "llama-3.1-8b"},
        {"problems": [], "hash_block": 16, "starts_after": True},
    ),
    "flex-llama": (
        FLEX,
        {},
        {
            "block_size": 16,
            "hybrid_stops": ["flex_block_not_power_of_2"],
            "repaired": [],
            "orders": [[4, 11], [11, 4], [4, 11]],
            "bits_differ": True,
            "tiles": [[128, 16], [16, 16]],
        },
    ),
    "log-of-40691": (
        LOG,
        {},
        {
            "model": "qwen3.5-27b",
            "num_blocks": 1487,
            "old_tokens": 290_864,
            "new_tokens": 1_082_800,
            "failed": "agrees",
        },
    ),
    "kernels-qwen": (KERNELS, {"model": "qwen3.5-4b"}, {"ratio": 33, "same_at_full_size": True}),
    "backend-qwen": (BACKEND, {}, {"after": ["HERON_ATTN", 560], "test": "2 of 2 pass"}),
    "fault-memory": (FAULT, {}, {"error": "not_enough_memory", "starts": True}),
    "fault-heads": (FAULT, {"seed": 4}, {"error": "heads_not_divisible", "starts": True}),
    "flex-power-of-two": (FLEX, {"hybrid": "minimax-text-01"}, {"hybrid_stops": []}),
}
"""Case -> lesson, parameters, results that it must have."""
FIRST = {lesson: case for case, (lesson, *_others) in reversed(CASES.items())}
"""Lesson -> its first case; `make thorough` runs the others."""


def test_the_lessons_are_numbered():
    assert [path.name[:3] for path in LESSONS] == [f"0{number}_" for number in NUMBERS]


@pytest.mark.parametrize("path", [*LESSONS, NOTEBOOKS / "index.ipynb"], ids=lambda path: path.stem)
def test_house_rules(path):
    assert check_notebook_source(path) == ()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_lesson_has_its_exercises_and_all_its_parts(number):
    path = LESSONS[number - 1]
    wanted = {name for name, exercise in EXERCISES.items() if exercise.lesson == number}
    assert set(checked_names(path)) == wanted
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    for part in ("You will be able to", "The result first", "Exercise 1", "Where it is in vLLM"):
        assert part in text
    assert "What to try next" in text
    code = "".join(code_cells(path))
    assert any(word in code for word in ("wb.figures.", "figure(", "figures("))


def test_no_lesson_shows_a_solution():
    for path in LESSONS:
        assert "solutions" not in "\n".join(code_cells(path)).replace("shipped solutions", "")


def defined(stub, folder):
    """The function of a stub as shipped, with its decorator; Triton reads its file."""
    source = folder / f"{stub.name}.py"
    head = "import workbench as wb\nwb.triton_mode()\nimport triton\nimport triton.language as tl\n"
    head = head if stub.decorator_list else f"{LATER}\n"
    source.write_text(f"{head}{ast.unparse(stub)}\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(stub.name, source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, stub.name)


def test_every_stub_as_shipped_is_open_and_not_accepted(monkeypatch, tmp_path):
    import workbench as wb

    monkeypatch.setenv("WORKBENCH_PROGRESS", str(tmp_path / "progress.json"))
    seen = set()
    for path in LESSONS:
        for source in code_cells(path):
            stubs = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
            for stub in stubs:
                if stub.name not in EXERCISES:
                    continue
                checked = wb.check(defined(stub, tmp_path), stub.name)
                assert checked.ok is None, stub.name
                assert ast.get_docstring(stub)
                if not stub.decorator_list:
                    assert stub.returns is not None
                    assert all(argument.annotation for argument in stub.args.args)
                assert [a.arg for a in stub.args.args] == list(EXERCISES[stub.name].parameters)
                seen.add(stub.name)
    assert seen == {name for name, exercise in EXERCISES.items() if not exercise.is_question}
    assert not (tmp_path / "progress.json").exists()


def test_the_index_shows_and_links_every_lesson():
    text = (NOTEBOOKS / "index.ipynb").read_text(encoding="utf-8")
    for path in (*LESSONS, *NOTEBOOKS.glob("0*.ipynb")):
        assert str(path.relative_to(NOTEBOOKS)) in text
    assert len([cell for cell in code_cells(NOTEBOOKS / "index.ipynb") if "figure" in cell]) >= 5


def test_every_lab_has_a_notebook_and_a_line_in_the_index():
    from workbench.door.labs import LABS

    cells = json.loads((NOTEBOOKS / "index.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    named = re.findall(r"\| ([^|]+) \| `wb\.lab\.(\w+)\(plan\)` \| \[\w+\]\(([^)]+)\)", text)
    assert [(title, name) for title, name, _path in named] == [
        (title, lab.name) for title, lab in LABS.items()
    ]
    for title, name, path in named:
        notebook = (NOTEBOOKS / path).read_text(encoding="utf-8")
        assert f"wb.lab.{name}(" in notebook or f"*{title}*" in notebook, title


@pytest.mark.thorough
@pytest.mark.notebook
@pytest.mark.parametrize("scenario", ["None", "wb.explain_log(case.log).scenario"])
def test_a_repaired_start_is_drawn_whatever_the_answer_on_its_scenario_is(scenario, tmp_path):
    text = (NOTEBOOKS / "lessons" / FAULT).read_text(encoding="utf-8")
    answers = {"log_scenario: wb.Scenario | None": scenario, "log_change: dict | None": REPAIR}
    for stub, answer in answers.items():
        assert f"{stub} = None" in text
        text = text.replace(f"{stub} = None", f"{stub} = {answer}")
    filled = tmp_path / FAULT
    filled.write_text(text, encoding="utf-8")
    result = run_notebook(filled, {"smoke": True}, output_dir=tmp_path / "out")
    assert result.problems == ()
    assert result.results["starts"] is True


@pytest.mark.sampled(1)
@pytest.mark.notebook
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in FIRST.values() else pytest.mark.thorough)
        for case in CASES
    ],
)
def test_a_lesson_solves_itself(case, tmp_path, monkeypatch):
    name, parameters, expected = CASES[case]
    kept = tmp_path / "progress.json"
    monkeypatch.setenv("WORKBENCH_PROGRESS", str(kept))
    count = len(checked_names(NOTEBOOKS / "lessons" / name))
    result = run_notebook(
        NOTEBOOKS / "lessons" / name,
        {**parameters, "smoke": True, "solve": True},
        output_dir=tmp_path,
        expect={**expected, "checks": [True] * count},
    )
    assert result.problems == ()
    assert not kept.exists(), "a run of the solutions is not progress"
