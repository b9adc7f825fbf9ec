"""The page picture as inline SVG: its rectangles are the bytes, and its text needs no style."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.views.plans import EVIL, all_plans, evil_plan, large, plan_of, stateless
from tests.views.test_log_table import Balance
from workbench.views.pages.drawing import MAX_RULES, WIDTH, page_drawing
from workbench.views.pages.number_steps import number_steps, short_number
from workbench.views.pages.parts import KV, page_parts
from workbench.views.rows import PER_ENTRY, PlanFact, plan_facts


class Drawing(HTMLParser):
    """Rectangles by part, the numbers of steps, and the text, with a space where a tag was."""

    def __init__(self, source):
        super().__init__()
        self.parts, self.steps, self.labels, self.words, self.rules = {}, [], [], "", 0
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "rect" and "data-part" in found:
            self.parts[found["data-part"]] = float(found["x"]), float(found["width"])
        if "data-step" in found:
            self.steps.append((int(found["data-step"]), found["data-parts"].split()))
        if tag == "svg":
            assert found["role"] == "img"
            self.labels.append(found["aria-label"])
        if tag == "path" and found.get("stroke") == "#ffffff":
            self.rules = found["d"].count("M")

    def handle_data(self, data):
        self.words += data


@in_groups
@pytest.mark.parametrize("plan", all_plans(), ids=repr)
def test_bars_are_to_scale_and_end_where_the_next_begins(plan):
    source = page_drawing(plan)
    balance = Balance()
    balance.feed(source)
    assert (balance.open, balance.wrong) == ([], [])
    drawn, parts = Drawing(source), page_parts(plan)
    assert set(drawn.parts) == set(parts)
    longest = max(plan.attention_page_size_bytes or 0, plan.final_mamba_page_size_bytes or 0)
    end = 0
    for name, part in parts.items():
        start, width = drawn.parts[name]
        assert width == pytest.approx(part.size_bytes * WIDTH / longest, abs=0.001)
        assert part.words in drawn.words
        assert any(part.words in label for label in drawn.labels)
        if name != KV:
            assert start == pytest.approx(end, abs=0.002)
            end = start + width


@in_groups
@pytest.mark.parametrize("plan", all_plans(), ids=repr)
def test_a_step_is_that_of_the_trace_and_names_parts_that_are_drawn_or_absent(plan):
    steps = number_steps(plan)
    assert 1 <= len(steps) <= 5
    assert Drawing(page_drawing(plan)).steps == [(one.number, list(one.parts)) for one in steps]
    numbers = [one.number for one in steps]
    assert all(1 <= number <= len(plan.steps) for number in numbers)
    assert any(name in page_parts(plan) for one in steps for name in one.parts)


def test_the_steps_of_an_aligned_block_lead_to_it():
    plan = plan_of(model="qwen3.5-4b")
    titles = [step.title for step in number_steps(plan)]
    assert titles == ["state", "one token", "divide", "round up", "equal pages"]
    words = [step.text for step in number_steps(plan)]
    division = f"{plan.mamba_page_size_bytes:,} / {plan.attention_bytes_per_token:,}"
    for part, text in zip((division, f"{plan.block_size:,} tokens"), words[2:], strict=False):
        assert part in text
    assert f"{plan.final_mamba_page_size_bytes:,} B" in words[-1]


def test_a_model_without_a_state_has_one_row_and_no_division():
    plan = stateless()
    assert len(Drawing(page_drawing(plan)).labels) == 1
    assert "divide" not in {step.title for step in number_steps(plan)}


def test_a_block_of_many_kernel_blocks_is_ruled_up_to_a_limit():
    for plan in all_plans():
        ratio = plan.kernel_blocks_per_block or 1
        expected = ratio - 1 if ratio <= MAX_RULES else 0
        assert Drawing(page_drawing(plan)).rules == expected, plan


def test_the_text_has_spaces_where_a_style_sheet_is_dropped():
    words = Drawing(large()._repr_html_()).words
    assert f"{large().block_size:,} tokens per KV-cache block of {large().model.name} " in words


def test_names_are_escaped():
    assert "<img" not in page_drawing(evil_plan(EVIL))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "deepseek-v4-pro",
            "64 entries, each of 4 tokens, x 584 bytes + 64 bytes to align it = 37,440 B",
        ),
        (
            "deepseek-v4-flash",
            "2 entries, each of 128 tokens, x 584 bytes + 560 bytes to align it = 1,728 B",
        ),
    ],
)
def test_an_entry_of_several_tokens_is_not_called_a_token(model, words):
    plan = wb.resolve(model=model, device="B200", tensor_parallel=8, rules="0.33")
    drawn = page_drawing(plan)
    assert words in drawn
    assert "<b>one entry</b>: 584 B" in drawn
    assert "one token" not in drawn.casefold()
    assert PlanFact("attention_bytes_per_token", PER_ENTRY, "584 B") in plan_facts(plan)


@pytest.mark.parametrize("model", ["deepseek-v4-pro", "deepseek-v4-flash"])
def test_an_entry_is_none_either_where_no_backend_reads_the_dtype(model):
    """DeepSeek-V4 in 0.23 without a named dtype of the cache."""
    plan = wb.resolve(model=model)
    assert "no_valid_backend" in {problem.code for problem in plan.errors}
    drawn = page_drawing(plan)
    assert "<b>one entry</b>: 1,024 B" in drawn
    assert "one token" not in drawn.casefold()
    assert ("4 entries x 1,024 bytes" in drawn) == bool(plan.attention_page_size_bytes)
    assert any(fact.label == PER_ENTRY for fact in plan_facts(plan))


@pytest.mark.parametrize(
    ("number", "text"), [(353 + 1 / 3, "353.33"), (2084.0, "2,084"), (544.0004, "544.0004")]
)
def test_a_quotient_is_short_and_no_integer_unless_it_is_one(number, text):
    assert short_number(number) == text
