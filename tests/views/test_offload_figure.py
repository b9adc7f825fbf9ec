"""The chart of the host pool and the picture of one block: the numbers of the rules."""

from __future__ import annotations

import json

import pytest

from tests.views.plans import EVIL, all_plans, evil_plan, plan_of
from workbench.core.offload.fill import stored_prompt
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.views.offload.figure import PROMPTS, host_block_figure, offload_figure
from workbench.views.palette import THEMES

GIB = 2**30
POOL = OffloadRequest(cpu_bytes_to_use=64 * GIB)
MARKS = -1


def cached(**fields):
    return plan_of(model="qwen3.5-4b", enable_prefix_caching=True, **fields)


def test_every_point_is_what_the_rules_say():
    figure = offload_figure(cached(), POOL)
    checked = 0
    for line, prompt in zip(figure.data[:MARKS], PROMPTS, strict=True):
        for gib, held in zip(line.x, line.y, strict=True):
            if gib is None:
                continue
            request = OffloadRequest(cpu_bytes_to_use=round(gib * GIB))
            found = offload(cached(), request)
            assert held == stored_prompt(cached(), found, prompt).requests
            checked += 1
    assert checked > 100


def test_the_memory_of_the_request_is_marked():
    figure = offload_figure(cached(), POOL)
    marks = figure.data[MARKS]
    assert set(marks.x) == {64}
    assert tuple(marks.y) == (992, 248, 62, 15, 3)
    assert figure.data[0].name == "1,024 tokens: 992"


def test_where_vllm_stops_the_remedy_is_dotted_and_named():
    figure = offload_figure(plan_of(model="qwen3.5-4b"), POOL)
    assert "✕ vLLM fails at start-up: offload_hash_block_size" in figure.layout.title.text
    assert "dotted: with enable_prefix_caching = yes" in figure.layout.title.text
    assert {line.line.dash for line in figure.data[:MARKS]} == {"dot"}
    assert figure.data[MARKS].x == (None,)
    legal = offload_figure(cached(), POOL)
    assert [line.y for line in figure.data[:MARKS]] == [line.y for line in legal.data[:MARKS]]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (OffloadRequest(1000, GIB), "dotted: with block_size = 1,056"),
        (OffloadRequest(), "dotted: with any host memory"),
        (OffloadRequest(hash_block_size=100, cpu_bytes_to_use=GIB), "hash_block_size = 88"),
    ],
)
def test_requests_that_are_refused_show_the_nearest(request_, words):
    figure = offload_figure(cached(), request_)
    assert words in figure.layout.title.text
    assert figure.data[1].x != (None,)


def test_prompts_that_store_nothing_are_in_the_legend():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", enable_prefix_caching=True)
    assert offload_figure(plan, POOL).data[0].name == "1,024 tokens: nothing stored"


def test_number_order_and_kind_of_traces_never_change():
    for plan in all_plans():
        if plan.cache is None:
            with pytest.raises(ValueError, match="cannot be made equal"):
                offload_figure(plan, POOL)
            continue
        figure = offload_figure(plan, POOL)
        assert len(figure.data) == len(PROMPTS) + 1
        assert {trace.type for trace in figure.data} == {"scatter"}


def test_lines_differ_by_more_than_colour():
    symbols = [line.marker.symbol for line in offload_figure(cached(), POOL).data[:MARKS]]
    assert len(set(symbols)) == len(PROMPTS)


@pytest.mark.parametrize("theme", THEMES)
def test_themes(theme):
    for figure in (offload_figure(cached(), POOL, theme), host_block_figure(cached(), theme)):
        assert figure.layout.font.color == THEMES[theme].text
        assert figure.layout.paper_bgcolor == THEMES[theme].paper


def test_the_figures_are_small_and_the_same_every_time():
    for draw in (lambda: offload_figure(cached(), POOL), lambda: host_block_figure(cached())):
        texts = {draw().to_json() for _ in range(2)}
        assert len(texts) == 1
        assert len(json.dumps(json.loads(texts.pop()))) < 150_000


def test_no_name_reaches_a_figure():
    assert EVIL not in offload_figure(evil_plan(), POOL).to_json()
    assert EVIL not in host_block_figure(evil_plan()).to_json()


def test_the_parts_of_a_block_add_up_to_it():
    for plan in all_plans():
        if plan.cache is None or not plan.cache.groups:
            continue
        bars = host_block_figure(plan).data
        for sizes in zip(*(bar.x for bar in bars), strict=True):
            assert sum(sizes) == plan.cache.grouping.bytes_per_block


def test_padding_and_empty_slots_are_hatched_and_right():
    data, padding, empty = host_block_figure(plan_of(model="nemotron-3-nano-30b-a3b")).data
    assert padding.x[0] == 6 * 12_288
    assert sorted(empty.x) == [0, 0, 0, 0, 2_146_304]
    assert padding.marker.pattern.shape
    assert empty.marker.pattern.shape
    assert len(data.x) == 5
