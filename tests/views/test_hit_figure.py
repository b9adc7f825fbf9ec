"""The hit curve: five traces, numbers of the rules, and words where nothing is found."""

from __future__ import annotations

import json

import pytest

from tests.views.plans import EVIL, all_plans, evil_plan, plan_of
from tests.views.test_html import Page
from workbench.core.prefix.hits import caching_of, prefix_hit
from workbench.views.figures import checkpoint_table, hit_curve
from workbench.views.hits.figure import MAX_POINTS
from workbench.views.hits.html import MAX_ROWS
from workbench.views.palette import THEMES

SHARED, ATTENTION, CACHED, FIRST = range(4)


def qwen(**fields):
    return plan_of(model="qwen3.5-4b", **fields)


def cached():
    return qwen(enable_prefix_caching=True)


def points(figure, trace=CACHED):
    return dict(zip(figure.data[trace].x, figure.data[trace].y, strict=True))


def test_the_curve_is_what_the_rules_say():
    caching = caching_of(cached())
    for length, tokens in points(hit_curve(cached(), 600)).items():
        expected = prefix_hit(caching, length, max(0, length - 600))
        assert tokens == expected.cached_tokens


def test_the_first_hit_is_marked():
    figure = hit_curve(cached())
    assert (figure.data[FIRST].x, figure.data[FIRST].y) == ((529,), (528,))
    assert "Smallest cacheable prefix of any prompt: 528 tokens" in figure.layout.title.text
    differing = hit_curve(cached(), 600)
    assert (differing.data[FIRST].x, differing.data[FIRST].y) == ((2184,), (1584,))
    assert points(differing)[2184] == 1584
    assert points(differing)[2183] == 0


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({}, "off"),
        ({"enable_prefix_caching": True, "max_model_len": 512}, "Inert"),
        ({"enable_prefix_caching": True, "max_num_batched_tokens": 100}, "refuses to start"),
    ],
)
def test_where_nothing_is_found_the_title_says_why(fields, word):
    figure = hit_curve(qwen(**fields))
    assert word in figure.layout.title.text
    assert set(points(figure).values()) == {0}
    assert figure.data[FIRST].x == (None,)


def test_a_curve_that_ends_too_early_says_so():
    assert "No prompt up to 100 tokens" in hit_curve(cached(), longest=100).layout.title.text


def test_number_order_and_kind_of_traces_never_change():
    names = [trace.name for trace in hit_curve(cached()).data]
    for plan in all_plans():
        if plan.cache is None:
            with pytest.raises(ValueError, match="cannot be made equal"):
                hit_curve(plan)
            continue
        figure = hit_curve(plan, longest=2000)
        assert [trace.name for trace in figure.data] == names
        assert {trace.type for trace in figure.data} == {"scatter"}
        assert len(figure.data[CACHED].x) <= 2 * MAX_POINTS


def test_lines_differ_by_more_than_colour():
    figure = hit_curve(cached())
    dashes = [figure.data[trace].line.dash for trace in (SHARED, ATTENTION, CACHED)]
    assert len(set(dashes)) == 3


@pytest.mark.parametrize("theme", THEMES)
def test_themes(theme):
    figure = hit_curve(cached(), theme=theme)
    assert figure.layout.font.color == THEMES[theme].text
    assert figure.layout.paper_bgcolor == THEMES[theme].paper


def test_the_figure_is_the_same_every_time_and_small():
    texts = {hit_curve(cached(), 600).to_json() for _ in range(2)}
    assert len(texts) == 1
    assert len(json.dumps(json.loads(texts.pop()))) < 150_000


@pytest.mark.parametrize("values", [{"unique_tokens": -1}, {"longest": 0}])
def test_invalid_lengths_are_refused(values):
    with pytest.raises(ValueError, match="at least"):
        hit_curve(cached(), **values)


def test_the_table_shows_steps_and_checkpoints():
    page = Page(checkpoint_table(cached(), 2200, 1500))
    assert page.count("tr") == 4
    for words in ("state at 1,584", "state at 2,112", "Attention layers alone would reuse 1,056"):
        assert words in page.words
    assert "A 2,200-token prompt gets a hit once it shares at least 1,584 tokens" in page.words


def test_a_long_prompt_gives_a_short_table():
    plan = qwen(enable_prefix_caching=True, max_num_batched_tokens=528)
    page = Page(checkpoint_table(plan, 200_000))
    assert page.count("tr") == MAX_ROWS + 1
    assert "more steps" in page.words


def test_drafts_that_read_garbage_are_reported():
    plan = qwen(enable_prefix_caching=True, num_speculative_tokens=3)
    block = plan.block_size
    words = Page(checkpoint_table(plan, 4 * block + 8, 3 * block)).words
    assert f"counts {block:,} of them without" in words


def test_a_table_says_why_nothing_is_scheduled():
    plan = qwen(enable_prefix_caching=True, max_num_batched_tokens=100)
    assert "refuses to start" in Page(checkpoint_table(plan, 2200)).words


@pytest.mark.parametrize("prompt", [0, 262_145])
def test_the_table_takes_prompts_that_the_engine_takes(prompt):
    with pytest.raises(ValueError, match="max_model_len"):
        checkpoint_table(cached(), prompt)


def test_no_name_reaches_the_figure_or_the_table():
    plan = evil_plan()
    assert EVIL not in hit_curve(plan).to_json()
    assert "<img" not in checkpoint_table(plan, 100)
