"""`wb.check` on exercises: right answers in any form, wrong ones of every kind, and hints."""

import itertools
import math
import re
import signal
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import GeneratorType

import numpy as np
import pytest
import torch

import workbench as wb
from tests.groups import in_groups
from workbench.core.errors import ScenarioError
from workbench.exercises import EXERCISES
from workbench.exercises import check as checking
from workbench.exercises import grade as grading
from workbench.exercises.alignment import ORDER
from workbench.exercises.compare import plain, same

ROOT = Path(__file__).parents[1]
FUNCTIONS = [name for name, exercise in EXERCISES.items() if exercise.inputs is not None]


pytestmark = pytest.mark.usefixtures("no_progress")


# --- right answers, in other forms -----------------------------------------------------------

EXPAND = EXERCISES["expand_blocks"].solution()
HALVES = EXERCISES["misplaced_halves"].solution()
ALIGN = EXERCISES["aligned_block_size"].solution()
FORMS = {
    "tuple": ("expand_blocks", lambda b, r: tuple(EXPAND(b, r))),
    "numpy": ("expand_blocks", lambda b, r: np.array(EXPAND(b, r), dtype=np.int32)),
    "torch": ("expand_blocks", lambda b, r: torch.tensor(EXPAND(b, r), dtype=torch.int64)),
    "generator": ("expand_blocks", lambda b, r: (block for block in EXPAND(b, r))),
    "chain": ("expand_blocks", lambda b, r: itertools.chain(EXPAND(b, r))),
    "numpy scalars": ("expand_blocks", lambda b, r: [np.int64(block) for block in EXPAND(b, r)]),
    "floats": ("expand_blocks", lambda b, r: [float(block) for block in EXPAND(b, r)]),
    "numpy int": ("aligned_block_size", lambda m, t, g: np.int64(ALIGN(m, t, g))),
    "float": ("aligned_block_size", lambda m, t, g: float(ALIGN(m, t, g))),
    "math.ceil": ("aligned_block_size", lambda m, t, g: math.ceil(m / (t * g)) * g),
    "tensor": ("aligned_block_size", lambda m, t, g: torch.tensor(ALIGN(m, t, g))),
    "fraction": ("aligned_block_size", lambda m, t, g: Fraction(ALIGN(m, t, g))),
    "decimal": ("aligned_block_size", lambda m, t, g: Decimal(ALIGN(m, t, g))),
    "one entry": ("aligned_block_size", lambda m, t, g: [ALIGN(m, t, g)]),
    "other names": ("slot_of", lambda a, b, c: a[b // c] * c + b % c),
    "more parameters": ("slot_of", lambda a, b, c, d=0: a[b // c] * c + b % c + d),
    "any arguments": ("slot_of", lambda *a: a[0][a[1] // a[2]] * a[2] + a[1] % a[2]),
    "another order": (
        "misplaced_halves",
        lambda n: EXERCISES["misplaced_halves"].solution()(n)[::-1],
    ),
    "a set": ("misplaced_halves", lambda n: set(EXERCISES["misplaced_halves"].solution()(n))),
    "lists as pairs": (
        "misplaced_halves",
        lambda n: [[*p] for p in EXERCISES["misplaced_halves"].oracle(n)],
    ),
    "one and zero": ("is_accepted", lambda m, t: int(EXERCISES["is_accepted"].solution()(m, t))),
    "numpy truth": (
        "is_accepted",
        lambda m, t: np.bool_(EXERCISES["is_accepted"].solution()(m, t)),
    ),
    "an array of shape": (
        "rewritten_strides",
        lambda s: np.array(EXERCISES["rewritten_strides"].solution()(s)),
    ),
    "a list of both": (
        "counts_and_ids",
        lambda rows: [*EXERCISES["counts_and_ids"].solution()(rows)],
    ),
    "changes its input": (
        "listed_blocks",
        lambda rows, n: [rows.sort, EXERCISES["listed_blocks"].solution()(rows, n), rows.clear()][
            1
        ],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_right_answer_counts_in_any_form(form):
    name, answer = FORMS[form]
    checked = wb.check(answer, name)
    assert checked.ok is True, repr(checked)
    assert name in wb.progress().solved


@pytest.mark.parametrize(
    "answer", [[True, False], (True, False), np.array([True, False]), torch.tensor([True, False]),
               [1, 0], iter([True, False])]
)  # fmt: skip
def test_a_right_value_counts_in_any_form(answer):
    assert wb.check(answer, "bits_differ").ok is True


def test_a_callable_object_and_a_built_in_function_are_functions():
    class Answer:
        def __call__(self, blocks, ratio):
            return EXPAND(blocks, ratio)

    assert wb.check(Answer(), "expand_blocks").ok is True
    assert wb.check(max, "expand_blocks").ok is False


# --- wrong answers ---------------------------------------------------------------------------

WRONG = {
    "rounded down": ("aligned_block_size", lambda m, t, g: m // (t * g) * g, "too small"),
    "one too many": ("aligned_block_size", lambda m, t, g: (m // (t * g) + 1) * g, "too large"),
    "for one size only": ("slot_of", lambda r, p, k: r[p // 16] * 16 + p % 16, "fails"),
    "manager size": ("slot_of", lambda r, p, k: r[0] * k + p, "differs"),
    "text": ("aligned_block_size", lambda m, t, g: str(ALIGN(m, t, g)), "got text"),
    "a truth value": ("aligned_block_size", lambda m, t, g: True, "got yes or no"),
    "nan": ("aligned_block_size", lambda m, t, g: math.nan, "differs"),
    "a list for a number": ("slot_of", lambda r, p, k: r, "got a list of 4 entries"),
    "too short": ("expand_blocks", lambda b, r: EXPAND(b, r)[:-1], "a list of"),
    "in the wrong order": ("expand_blocks", lambda b, r: sorted(EXPAND(b, r)), "first difference"),
    "unordered": ("expand_blocks", lambda b, r: set(EXPAND(b, r)), "a set, which has no order"),
    "without end": ("expand_blocks", lambda b, r: itertools.count(), "a list of"),
    "guess from the shape": ("block_dimension", lambda shape: int(shape(2)[0] == 2), "given"),
    "twice the same": ("misplaced_halves", lambda n: HALVES(n) * 2, "list"),
    "other entries": (
        "misplaced_halves",
        lambda n: {f"{half}{block}" for half, block in HALVES(n)},
        "' is not expected",
    ),
    "not rounded": (
        "printed_tokens",
        lambda blocks, request, length: blocks / request * length,
        "616137.69",
    ),
    "used up": (
        "counts_and_ids",
        lambda rows: ([len(row) for row in rows], [b for row in rows for b in row]),
        "a generator of",
    ),
    "always gcd": ("hash_block_size", lambda a, m, b: math.gcd(*a, *m), "too small"),
    "powers of two only": ("is_accepted", lambda m, t: m & (m - 1) == 0, "tile ="),
    "an exception": ("page_bytes", lambda sizes, n: sizes[9], "IndexError"),
    "None later": ("slot_of", lambda r, p, k: None if p else 128, "is a return missing"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_answer_shows_operands_and_what_came(kind):
    name, answer, word = WRONG[kind]
    checked = wb.check(answer, name)
    labels = [label for label, _text in checked.rows]
    assert checked.ok is False
    assert labels[:3] == ["given", "expected", "got"]
    assert all(operand in dict(checked.rows)["given"] for operand in EXERCISES[name].parameters)
    assert word in repr(checked)
    assert word.replace("'", "&#x27;") in checked._repr_html_()
    assert wb.progress().solved == ()


def test_the_first_wrong_result_is_shown_and_not_a_later_one():
    checked = wb.check(
        lambda m, t, g: -(-m // (t * g)) * g if m != 1025 else 0, "aligned_block_size"
    )
    assert dict(checked.rows)["given"].startswith("mamba_page_bytes = 1025,")
    assert (dict(checked.rows)["expected"], dict(checked.rows)["got"]) == ("32", "0 (too small)")


def test_operands_are_shown_as_they_were_given():
    def clears(blocks, ratio):
        blocks.clear()
        return [ratio]

    assert dict(wb.check(clears, "expand_blocks").rows)["given"] == "blocks = [4, 2], ratio = 2"


def test_an_exception_is_shown_with_the_learners_own_line():
    def helper(value):
        return value / 0

    def mine(mamba_page_bytes, token_bytes, step_tokens):
        tokens = helper(mamba_page_bytes)
        return tokens * step_tokens

    checked = wb.check(mine, "aligned_block_size")
    rows = dict(checked.rows)
    assert rows["got"].startswith("ZeroDivisionError")
    assert rows["your line"].endswith("return value / 0")

    def through_a_library(mamba_page_bytes, token_bytes, step_tokens):
        return Fraction(mamba_page_bytes, 0)

    rows = dict(wb.check(through_a_library, "aligned_block_size").rows)
    assert rows["your line"].endswith("return Fraction(mamba_page_bytes, 0)")


def test_a_wrong_signature_is_reported_before_anything_runs():
    rows = dict(wb.check(lambda a, b: 1, "aligned_block_size").rows)
    assert "mamba_page_bytes, token_bytes, step_tokens" in rows["expected"]
    assert rows["got"].startswith("(a, b): too many")


@pytest.mark.parametrize("answer", [1056, "1056", [1, 2], np.arange(3)])
def test_a_value_in_place_of_a_function(answer):
    checked = wb.check(answer, "aligned_block_size")
    assert checked.ok is False
    assert "a function of (mamba_page_bytes" in checked.message


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (["backend", "alignment", "preferred block"], "other than yours"),
        (["backend"], "a list of 3 entries"),
        ("backend", "text"),
        (lambda: ORDER, "function"),
    ],
)
def test_a_wrong_value_is_reported_without_the_answer(answer, word):
    checked = wb.check(answer, "start_order")
    assert checked.ok is False
    assert word in repr(checked)
    assert str(list(ORDER))[1:-1] not in repr(checked)


def test_an_infinite_generator_is_read_as_far_as_it_may_be():
    assert len(plain(itertools.count())) == 100_001
    assert not isinstance(plain(number for number in (1, 2)), GeneratorType)


# --- not answered ----------------------------------------------------------------------------


def _stub(*_operands):
    raise NotImplementedError


@in_groups
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("answer", [None, ..., _stub, lambda *_: None, lambda *_: ...])
def test_an_open_stub_is_neither_right_nor_wrong(name, answer):
    checked = wb.check(answer, name)
    assert checked.ok is None
    assert "Not answered yet" in checked.message
    assert not any(hint in repr(checked) for hint in EXERCISES[name].hints)
    assert wb.progress()[0].tries == 0


def test_an_open_answer_says_what_to_replace():
    for name, exercise in EXERCISES.items():
        case = wb.log_case(3) if exercise.has_cases else None
        what = "None" if exercise.is_question else "the body of the function"
        assert f"Replace {what}" in wb.check(None, name, case=case).message, name


# --- hints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXERCISES)
def test_hints_come_one_by_one_and_the_solution_only_after_the_last(name):
    case = wb.log_case(3) if EXERCISES[name].has_cases else None
    wrong = [9, 9, 9, 9, 9, 9] if EXERCISES[name].is_question else lambda *_: "wrong"
    hints = EXERCISES[name].hints
    for number, hint in enumerate(hints):
        label, text = wb.check(wrong, name, case=case).rows[-1]
        assert (label, text) == (f"hint {number + 1} of {len(hints)}", hint)
    for _ in range(2):
        label, text = wb.check(wrong, name, case=case).rows[-1]
        assert label == "no more hints"
        assert "solve=True" in text
        assert ("case=case" in text) == EXERCISES[name].has_cases
        place = ROOT / re.search(r"\S+\.py", text)[0]
        assert re.search(rf"^def {name}\b|^{name}\b", place.read_text("utf-8"), re.MULTILINE)
    other = next(each for each in EXERCISES if each != name)
    assert checking._wrong[other] == 0


def test_a_right_or_an_open_answer_opens_no_hint():
    wb.check(None, "expand_blocks")
    wb.check(EXPAND, "expand_blocks")
    assert wb.check(lambda b, r: b, "expand_blocks").rows[-1][0] == "hint 1 of 3"


# --- the rest of the interface ---------------------------------------------------------------


def test_an_unknown_exercise_names_the_nearest():
    with pytest.raises(ScenarioError, match="Nearest: aligned_block_size"):
        wb.check(1, "aligned_blocksize")


@pytest.mark.parametrize("given", [lambda row: row, None, 7])
def test_swapped_arguments_are_reported_with_their_order(given):
    with pytest.raises(wb.ScenarioError, match=r"after the answer: wb\.check\(answer"):
        wb.check("slot_of", given)


def test_steps_of_a_plan_are_still_checked_in_any_form():
    plan = wb.resolve(model="qwen3.5-4b")
    for answer in (528, 528.0, np.int64(528), torch.tensor(528), [528]):
        assert wb.check(answer, plan, "aligned_block_size").ok is True
    assert wb.check(None, plan, "aligned_block_size").ok is None
    wrong = wb.check(512, plan, "aligned_block_size")
    assert wrong.ok is False
    assert "too small" in wrong.message
    assert wb.check("528", plan, "aligned_block_size").ok is False
    with pytest.raises(ValueError, match="The rule is missing"):
        wb.check(528, plan)


def test_what_a_learner_writes_is_escaped():
    checked = wb.check(lambda m, t, g: "<script>", "aligned_block_size")
    assert "<script>" not in checked._repr_html_()
    assert "&lt;script&gt;" in checked._repr_html_()


def test_equal_is_by_value_and_by_kind():
    assert same(plain(np.float32(2)), 2)
    assert same(1.0 + 1e-12, 1.0)
    assert not same(plain([1, 2]), (1, 2, 3))
    assert not same(plain([True]), 1)
    assert not same(None, 0)
    assert not same(complex(2), 2)
    assert same(" K ", "K")


def test_an_endless_loop_is_stopped_with_its_line(monkeypatch):
    def endless(blocks, ratio):
        while True:
            blocks = [*blocks[:2]]

    monkeypatch.setattr(grading, "MOST_SECONDS", 0.2)
    shown = repr(wb.check(endless, "expand_blocks"))
    assert "an endless loop?" in shown
    assert "blocks = [*blocks[:2]]" in shown or "while True" in shown


def test_the_time_limit_ends_with_the_answer(monkeypatch):
    monkeypatch.setattr(grading, "MOST_SECONDS", 0.2)
    assert wb.check(EXPAND, "expand_blocks").ok
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "answer", "words"),
    [
        ("is_accepted", lambda mask, tile: not mask & (mask - 1), ("tile = 32", "expected: False")),
        ("bits_differ", [False, False], ("got: [False, False]",)),
        ("hash_block_size", lambda *_: 1, ("[32768, 32768, 32768]", "expected: 1081344")),
        ("printed_tokens", lambda *_: 1, ("blocks_per_request = 10, max_model_len = 4096",)),
    ],
)
def test_a_verdict_shows_values_as_python_has_them(name, answer, words):
    said = repr(wb.check(answer, name))
    assert [one for one in words if one not in said] == [], said
