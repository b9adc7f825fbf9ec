"""Views of a sweep: the front, what colour alone does not show, and why one plan is better."""

from __future__ import annotations

import json
import re

import pytest

import workbench as wb
from workbench.views.sweeps.figure import parallel_coordinates, pareto_front
from workbench.views.sweeps.progress import (
    measured_html,
    note_html,
    progress_text,
    winners_html,
    winners_rows,
)
from workbench.views.sweeps.rows import (
    axes_of,
    counts_html,
    counts_text,
    sweep_table_html,
    sweep_text,
    value_text,
)
from workbench.views.sweeps.why import changed_settings, changed_steps, why_html, why_text

LARGEST_JSON = 150_000


@pytest.fixture(scope="module")
def found():
    start = wb.Scenario(model="qwen3.5-4b", enable_prefix_caching=True)
    return wb.sweep(
        start,
        tensor_parallel=(1, 2, 4, 8),
        kv_cache_dtype=("auto", "fp8"),
        block_size=(None, 16, 64, 528, 1024, 2048),
        num_speculative_tokens=(0, 1, 2, 3),
        max_num_batched_tokens=(2048, 8192),
        kv_cache_memory_bytes=[f"{size} GiB" for size in range(2, 42, 4)],
    )


def test_figures_stay_small_and_are_the_same_each_time(found):
    for draw in (found.pareto_figure, found.parallel_figure):
        text = draw().to_json()
        assert len(text) < LARGEST_JSON
        assert text == draw().to_json()
        assert draw(theme="dark").layout.font.color == "#e0e0e0"


def test_the_front_is_what_no_point_beats(found):
    rows = found.rows([i for i in range(len(found)) if found.table.is_kept[i]])

    def cost(row):
        prefix = row["smallest_prefix_tokens"]
        return (
            -row["concurrency_per_gpu"],
            float("inf") if prefix is None else prefix,
            row["waste_share"],
        )

    def beats(one, two):
        return one != two and all(a <= b for a, b in zip(one, two, strict=True))

    costs = {cost(row) for row in rows}
    best = {one for one in costs if not any(beats(other, one) for other in costs)}
    assert {cost(row) for row in found.rows(found.front)} == best
    assert len(found.front) == len(best) > 1


def test_points_of_the_front_have_a_sign_of_their_own(found):
    others, best, _present = pareto_front(found.rows(), found.front).data
    assert best.marker.symbol != others.marker.symbol
    assert len(best.x) == len(found.front)
    lines = parallel_coordinates(found.rows(), found.front).data[0]
    assert lines.dimensions[-1].label == "Pareto-optimal"
    assert sum(lines.dimensions[-1]["values"]) == len(found.front)


def test_the_present_plan_is_a_cross(found):
    start = found.scenario.replace(kv_cache_memory_bytes="20 GiB")
    row = wb.sweep(start, tensor_parallel=(1,)).present_row()
    figure = pareto_front(found.rows(), found.front, row)
    assert len(figure.data[2].x) == 1
    assert figure.data[2].x[0] == row["waste_share"]
    assert "current configuration" in figure.data[2].text[0]


def test_points_without_a_measure_are_omitted():
    unknown = wb.sweep(wb.Scenario(model="qwen3.5-4b"), tensor_parallel=(1, 2))
    assert sum(len(trace.x) for trace in unknown.pareto_figure().data) == 0
    assert unknown.parallel_figure().data


@pytest.mark.parametrize(
    ("x", "words"), [("waste_share", "name a device"), ("smallest_prefix_tokens", "vary Prefix")]
)
def test_a_picture_without_any_point_says_what_is_missing(x, words):
    rows = wb.sweep(wb.Scenario(model="bamba-9b"), tensor_parallel=(1, 2)).rows()
    title = pareto_front(rows, (), x=x).layout.title.text
    assert "No point has" in title
    assert words in title


def test_the_table_shows_what_varies_and_escapes_it(found):
    html = sweep_table_html(found.rows(found.front), found.front)
    assert "◆" in html
    assert "set: TP" in html
    assert "fp8" in html
    row = {**found.rows([0])[0], "sets": {"model": "<img onerror=x>", "block_size": 64}}
    other = {**row, "sets": {"model": "y", "block_size": 64}}
    assert "<img" not in sweep_table_html([row, other])
    assert "No point is left" in sweep_table_html([])
    assert axes_of([row, other]) == ("model", "block_size")
    assert axes_of([row, row]) == ("block_size",)


def test_texts_for_a_terminal(found):
    counts = counts_text(found.table.counts, found.table.reasons)
    assert re.match(r"3,840 points: \d", counts)
    assert "3,840" in counts_html(found.table.counts, found.table.reasons)
    text = sweep_text(found.rows(found.front), found.front)
    assert text.count("\n") == len(found.front) - 1
    assert all(line.startswith("*") for line in text.splitlines())
    assert sweep_text([]) == "No point is left."


@pytest.mark.parametrize(
    ("name", "value", "is_setting", "text"),
    [
        ("block_size", None, True, "auto"),
        ("block_size", None, False, "-"),
        ("waste_share", 0.125, False, "12.50%"),
        ("page_size_bytes", 2048, False, "2,048 B (2.00 KiB)"),
        ("max_concurrency", 12.345, False, "12.35"),
        ("enable_prefix_caching", True, True, "on"),
        ("num_blocks", 1234, False, "1,234"),
    ],
)
def test_values_are_written_for_people(name, value, is_setting, text):
    assert value_text(name, value, is_setting=is_setting) == text


def test_why_shows_the_settings_and_the_steps_that_differ():
    one = wb.resolve(model="qwen3.5-4b")
    two = wb.resolve(model="qwen3.5-4b", kv_cache_dtype="fp8", mamba_cache_dtype="auto")
    assert changed_settings(one, two) == {"kv_cache_dtype": ("auto", "fp8")}
    steps = {change.title: change for change in changed_steps(one, two)}
    assert steps["Block size"].before == f"{one.block_size:,} tokens"
    assert steps["Block size"].after == f"{two.block_size:,} tokens"
    assert "Mamba page" not in steps
    assert steps["Attention bytes of one token"].operands["kv_cache_dtype"] == ("auto", "fp8")
    html = why_html(one, two, {"waste": ("2%", "1%", "▲ better")})
    assert "kv_cache_dtype" in html
    assert "▲ better" in html
    assert "Block size" in why_text(one, two)
    assert changed_steps(one, one) == ()
    assert "Nothing" in why_html(one, one, {})


def test_a_step_that_only_one_plan_takes_is_said():
    one = wb.resolve(model="qwen3.5-4b")
    two = wb.resolve(model="qwen3.5-4b", kv_cache_memory_bytes="20 GiB")
    [blocks] = [change for change in changed_steps(one, two) if "Blocks" in change.title]
    assert blocks.before == "not taken"
    assert blocks.operands == {}
    other_model = wb.resolve(model="llama-3.1-8b")
    assert changed_settings(one, other_model)["model"] == ("qwen3.5-4b", "llama-3.1-8b")


def test_rows_are_json(found):
    assert json.loads(json.dumps(found.rows()[0]))["sets"]


def test_better_and_worse_are_said_in_words(found):
    start = found.scenario.replace(kv_cache_memory_bytes="2 GiB")
    html = wb.sweep(start, kv_cache_memory_bytes=("4 GiB",), block_size=(1024,)).why(0)
    assert "▲ better" in html
    assert "▼ worse" in html


def test_equal_winners_are_one_row_and_names_are_escaped():
    one = {"config": {"block_m": 64}, "seconds": 2e-4, "ties": 1}
    other = {"config": {"block_m": 16}, "seconds": 5e-5, "ties": 0}
    found = {"prefill": one, "chunk": one, "decode": other}
    assert winners_rows(found, ("block_m",)) == [
        ("prefill, chunk", "200.0 us", "64", "1 within 2 %"),
        ("decode", "50.0 us", "16", "0 within 2 %"),
    ]
    html = winners_html("<b>GPU</b>", found, ("block_m",))
    assert "<b>GPU</b>" not in html
    assert "Winners: &lt;b&gt;GPU" in html
    assert note_html(()) == ""
    assert "&lt;i&gt;" in note_html(("<i>",))
    assert measured_html((), ("block_m",)) == ""


def test_progress_and_rows_as_they_arrive():
    assert progress_text(0, 96, None, None, 0) == "0 of 96"
    assert progress_text(12, 96, 1.5, 56, 2) == "12 of 96, 1.5 per second, 56 s left, 2 failed"
    assert progress_text(1, 9, 0.25, 32, 0) == "1 of 9, 4.0 s each, 32 s left"
    row = {"status": "ok", "correct": True, "bitwise": None, "median_s": 1e-5, "message": ""}
    rows = [
        {**row, "config": {"block_m": 16}},
        {**row, "status": "oom", "median_s": None, "message": "<b>", "config": {}},
    ]
    html = measured_html(rows, ("block_m",))
    assert html.index("✕ oom") < html.index("✓ ok")
    assert "10.0 us" in html
    assert "no time" in html
    assert "&lt;b&gt;" in html
