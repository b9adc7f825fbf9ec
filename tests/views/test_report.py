"""The report: one file, everything inside, nothing from a network."""

from __future__ import annotations

import re

import pytest

from tests.groups import in_groups
from tests.views.plans import all_plans, evil_plan, plan_of
from tests.views.test_log_table import Balance
from workbench.core.capacity.occupancy import waste
from workbench.core.plan import Plan
from workbench.views.report import Page, report_html

BARE = Page()
SMALL = 300_000
OUTSIDE = re.compile(r"""(?:src|href)=["'](?!#)|@import|url\((?!["']?data:|#)""")


@in_groups
@pytest.mark.parametrize("plan", all_plans(), ids=repr)
def test_every_plan_has_a_whole_page(plan):
    text = report_html(plan, BARE)
    balance = Balance()
    balance.feed(text)
    assert (balance.open, balance.wrong) == ([], [])
    assert not OUTSIDE.search(text)
    assert f"{plan.block_size:,} tokens" in text
    assert all(step.rule.title.replace("'", "&#x27;") in text for step in plan.steps)
    for problem in plan.problems:
        assert f'data-code="{problem.code}"' in text


def full_page():
    plan = plan_of(
        model="qwen3.5-4b",
        enable_prefix_caching=True,
        max_num_batched_tokens=2048,
        max_model_len=32768,
        kv_cache_memory_bytes="20 GiB",
        max_num_seqs=5000,
    )
    page = Page(
        "A title",
        "One.\n\nTwo.",
        ("rules changed",),
        {"shell": "vllm serve <x>"},
        {"workbench": "9"},
        figures=True,
    )
    return plan, page, report_html(plan, page, plan.remedies)


def test_it_holds_trace_groups_capacity_problems_waste_and_commands():
    plan, _page, text = full_page()
    for anchor in (
        "problems",
        "commands",
        "page",
        "groups",
        "waste",
        "hits",
        "why",
        "log",
        "model",
    ):
        assert f'<section id="{anchor}">' in text
        assert f'<a href="#{anchor}">' in text
    for words in ("vllm serve &lt;x&gt;", "<p>Two.</p>", "rules changed", "workbench 9"):
        assert words in text
    assert plan.log_lines[0].replace("'", "&#x27;") in text
    assert "Tested remedies" in text
    parts = waste(plan, plan.cache, 1024).parts
    assert f"<td>1,024</td>\n<td>{sum(parts.values()):,}</td>" in text
    assert f"<td>{parts['checkpoint']:,}</td>" in text


def test_figures_come_with_their_script_and_nothing_is_fetched():
    _plan, _page, text = full_page()
    assert text.count("Plotly.newPlot") == 3
    before_script, _, rest = text.partition("<script>")
    after_script = rest.partition("</script>")[2]
    assert not OUTSIDE.search(before_script + after_script)
    assert len(text) < 6_000_000


def test_without_figures_it_is_small_and_has_no_script():
    text = report_html(full_page()[0], BARE)
    assert "<script" not in text
    assert len(text) < SMALL


def test_names_are_shown_not_run():
    plan = evil_plan()
    assert isinstance(plan, Plan)
    assert "<img" not in report_html(plan, Page(plan.model.name, plan.model.name))
