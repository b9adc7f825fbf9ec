"""HTML of plans: complete, escaped, with a text fallback."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

import workbench as wb
from tests.models.configs import plamo2
from tests.views.plans import (
    EVIL,
    EVIL_ATTRIBUTE,
    all_plans,
    evil_config,
    evil_plan,
    large,
    plan_of,
    small,
)
from workbench.core.errors import Refused, WorkbenchError
from workbench.core.trace import Citation, Rule, Step
from workbench.core.what_if.answers import answers
from workbench.scenario.resolution import resolve
from workbench.views import html
from workbench.views.pages.sizes_figure import grid_html
from workbench.views.rows import plan_facts, sensitivity_rows
from workbench.views.settings import in_labels
from workbench.views.summary import plan_html
from workbench.views.text import plan_text, problem_lines

VOID = {"br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements and text of an HTML string; an element that is not closed is an error."""

    def __init__(self, source):
        super().__init__()
        self.elements = []
        self.text = []
        self._open = []
        self.feed(source)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style":
            self.text.append(data)

    def with_attribute(self, name):
        return {attrs[name]: (tag, attrs) for tag, attrs in self.elements if name in attrs}

    def count(self, tag):
        return sum(element == tag for element, _ in self.elements)

    @property
    def words(self):
        return "".join(self.text)


def assert_harmless(source):
    page = Page(source)
    images = [attrs["src"] for tag, attrs in page.elements if tag == "img"]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in images)
    assert page.count("script") == 0
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    return page


def evil_refusal(name):
    with pytest.raises(Refused) as caught:
        resolve(model=evil_config(name), tensor_parallel=3)
    return caught.value


def evil_sources(name=EVIL):
    plan = evil_plan(name)
    assert plan.problems
    step = Step(
        Rule(name, name, name, name), {name: name}, name, name, Citation(name, name, (name,), name)
    )
    return {
        "plan": plan_html(plan),
        "plan repr": plan._repr_html_(),
        "trace": html.trace_html(plan.steps),
        "a planted step": html.trace_html((step,)),
        "headline": html.headline_html(plan),
        "facts": html.facts_html(plan_facts(plan)),
        "origins": html.origins_html(plan),
        "problems": "".join(html.problem_html(p, plan.remedies(p)) for p in plan.problems),
        "refusal": html.refusal_html(evil_refusal(name)),
        "an error": html.refusal_html(WorkbenchError(name, name, field=name)),
        "log": html.log_html((name,)),
        "sensitivity": plan.sensitivity()._repr_html_(),
        "grid": grid_html(plan.across((1, 2, 3)), plan),
        "a check": wb.check(name, plan, plan.trace[0].rule.name)._repr_html_(),
    }


@pytest.mark.parametrize("view", evil_sources())
@pytest.mark.parametrize("name", [EVIL, EVIL_ATTRIBUTE])
def test_names_are_escaped(view, name):
    assert_harmless(evil_sources(name)[view])


@pytest.mark.parametrize("view", ["plan", "headline", "refusal", "a planted step", "an error"])
def test_an_escaped_name_is_still_readable(view):
    assert EVIL in Page(evil_sources()[view]).words


def test_an_unknown_name_is_escaped_in_the_refusal():
    with pytest.raises(WorkbenchError) as caught:
        resolve(model=EVIL)
    assert EVIL in assert_harmless(html.refusal_html(caught.value)).words


def test_every_plan_gives_well_formed_html():
    for plan in all_plans():
        page = Page(plan_html(plan))
        assert page.count("style") == 1
        value = page.with_attribute("data-value")
        assert list(value) == [str(plan.block_size)], plan
        assert f"{plan.block_size:,} tokens" in page.words


def test_the_headline_says_where():
    words = Page(html.headline_html(plan_of(model="nemotron-3-nano-30b-a3b"))).words
    for word in ("nemotron-3-nano-30b-a3b", "cuda", "FLASH_ATTN", "TP 1", "rules 0.23"):
        assert word in words


def test_the_headline_names_every_backend_of_attention():
    plan = plan_of(model="llama-3.1-8b", kv_cache_dtype="turboquant_k8v4")
    assert "cuda · TURBOQUANT + FLASH_ATTN · TP 1" in html.headline_html(plan)


def test_facts_carry_their_published_name():
    plan = plan_of(model="nemotron-3-nano-30b-a3b")
    facts = Page(plan_html(plan)).with_attribute("data-fact")
    published = plan.to_dict()
    assert set(facts) <= set(published)
    assert {"kernel_block_size", "padding_percent", "mamba_page_size_bytes"} <= set(facts)


def test_a_problem_is_a_badge_with_word_sign_and_remedies():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", block_size=15)
    problem = plan.errors[0]
    remedies = plan.remedies(problem)
    assert remedies
    page = Page(html.problem_html(problem, remedies))
    assert problem.code in page.with_attribute("data-code")
    assert "error" in page.with_attribute("data-severity")
    assert "✕ error" in page.words
    assert in_labels(problem.message) in page.words
    assert page.count("li") == len(remedies)


def test_a_refusal_names_the_field_and_what_vllm_says():
    with pytest.raises(Refused) as caught:
        resolve(model=plamo2(), dtype="float16")
    page = Page(html.refusal_html(caught.value))
    assert "dtype" in page.words
    assert f"{caught.value.vllm_text.rstrip(' .')}..." in page.words  # only how it begins is known


def test_the_trace_is_one_row_per_step():
    plan = large()
    page = Page(plan.trace._repr_html_())
    assert page.count("tr") == len(plan.trace) + 1
    for step in plan.trace:
        assert step.rule.title in page.words
        assert step.source in page.words


def test_the_sensitivity_table_starts_with_the_present_plan():
    plan = plan_of(model="nemotron-3-nano-30b-a3b")
    changes = plan.sensitivity()
    page = Page(changes._repr_html_())
    assert page.count("tr") == len(changes) + 2
    assert "current" in page.words
    assert page.count("code") == len(changes)
    assert "Tensor parallel" in page.words
    assert len(repr(changes).splitlines()) == len(changes) + 1


def test_the_grid_table_marks_the_present_plan_by_more_than_weight():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", tensor_parallel=2)
    grid = plan.across((1, 2, 3))
    page = Page(grid_html(grid, plan))
    assert page.count("tr") == len(grid.rows) + 1
    assert page.words.count("▸") == 1
    assert page.words.count("refused") == len(grid.rows)
    assert "TP 2" in page.words
    assert "▸" not in Page(grid_html(grid)).words


def test_no_log_no_element():
    assert html.log_html(()) == ""


def test_html_is_the_same_every_time():
    assert plan_html(large()) == plan_html(large())


def test_the_style_uses_the_variables_of_the_page_around_it():
    assert "var(--jp-" in html.style()


@pytest.mark.parametrize("plan", [small(), large(), evil_plan()], ids=["small", "large", "evil"])
def test_text_fallback(plan):
    text = plan_text(plan)
    assert text.splitlines()[0] == repr(plan)
    assert f"block_size {plan.block_size}" in text
    for problem in plan.problems:
        assert str(problem) in text
    for step in plan.steps:
        assert str(step) in text
    assert "<div" not in text
    assert "\n" not in repr(plan)


def test_text_has_the_answers_of_the_front_door():
    fields = {"device": "H100", "tensor_parallel": 4, "enable_prefix_caching": True}
    plan = plan_of(model="qwen3-next-80b-a3b", max_model_len=32_768, **fields)
    text, now = plan_text(plan), answers(plan)
    low, high = now.requests
    assert f"requests that fit            {low} to {high} requests of" in text
    assert f"prefix hits                  {now.hit_tokens} tokens: shortest prompt that" in text
    assert "which device?" in plan_text(small())


def test_sensitivity_rows_are_plain_values():
    rows = sensitivity_rows(plan_of(model="nemotron-3-nano-30b-a3b").sensitivity())
    sizes = {"block_size", "padding_bytes", "padding_percent", "kernel_block_size"}
    names = {"field", "value", "errors", *sizes}
    assert all(set(row) == names for row in rows)
    assert [row["block_size"] for row in rows] == sorted(row["block_size"] for row in rows)


def test_of_a_message_that_is_known_by_one_word_nothing_is_quoted():
    plan = wb.resolve(model="deepseek-v4-flash", device="B200", tensor_parallel=8)
    problem = plan.errors[0]
    assert problem.vllm_text == "DeepseekV4 "
    assert "vLLM says" not in html.problem_html(problem)
    assert problem_lines([problem]) == [str(problem)]
    assert "vLLM says" in html.problem_html(replace(problem, vllm_text="DeepseekV4 needs"))
