"""Two versions compared: text, tables, JSON and figures."""

from __future__ import annotations

import json

import plotly.graph_objects as go
import pytest

import workbench as wb
from tests.catalog import distinct_models
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.differences import compare, outcomes, plan_differences
from workbench.models import load_model
from workbench.scenario import Scenario
from workbench.views.versions.differences import (
    differences_dict,
    differences_html,
    differences_text,
    matrix_html,
    matrix_rows,
    matrix_text,
    why_text,
)
from workbench.views.versions.figure import upgrade_matrix, versions

MODELS = ("llama-3.1-8b", *distinct_models())


def compared(model, **values):
    return compare(load_model(model), Scenario(model=model, **values))


def of_catalog():
    return [compared(name) for name in MODELS]


def test_fewer_blocks_of_a_smaller_device_are_not_those_of_a_larger_page():
    old = wb.resolve("qwen3-next-80b-a3b", device="H200", tensor_parallel=4)
    new = wb.resolve("qwen3-next-80b-a3b", device="H100", tensor_parallel=2)
    why = {one.fact.name: why_text(one) for one in plan_differences(old, new)}
    assert why["num_blocks"] == "the memory for the cache: 92,318,543,687 B (85.98 GiB) -> none"
    assert why["block_size"].startswith("Mamba page")
    other = wb.resolve("qwen3-next-80b-a3b", device="H200", tensor_parallel=4, rules="0.33")
    why = {one.fact.name: why_text(one) for one in plan_differences(old, other)}
    assert why["num_blocks"].startswith("Alignment granularity A")


def test_text_has_numbers_step_and_meaning():
    text = differences_text(compared("kimi-linear-48b-a3b"))
    assert "block size: 1,888 tokens -> 1,920 tokens" in text
    assert "Alignment granularity A: 16 " in text
    assert "vLLM 0.33, platforms/interface.py: Platform._align_hybrid_block_size" in text
    assert "why: as for block size" in text
    assert "hash of a large block" in text


def test_text_of_a_model_that_stays_the_same():
    assert "No number of this scenario changes." in differences_text(compared("llama-3.1-8b"))


def test_text_of_a_refusal():
    text = differences_text(compared("bamba-9b"))
    assert "vLLM 0.33: refused." in text
    assert "No number" not in text


def test_html_escapes_and_names_both_versions():
    html = differences_html(compared("nemotron-3-nano-30b-a3b"))
    assert "<th>0.23</th>" in html
    assert "<th>0.33</th>" in html
    assert "->" not in html.split("</style>")[1].replace("-&gt;", "")


def test_json_is_json():
    published = json.loads(json.dumps(differences_dict(compared("kimi-linear-48b-a3b"))))
    block = next(entry for entry in published["differences"] if entry["name"] == "block_size")
    assert (block["from"], block["to"], block["step"]) == (1888, 1920, "alignment_granule")


def test_the_matrix_has_one_row_per_model():
    rows = matrix_rows(of_catalog())
    assert len(rows) == len(MODELS) + 1
    by_name = {row[0]: row for row in rows}
    assert by_name["bamba-9b"][1].startswith("stops: architecture not served")
    assert set(by_name["llama-3.1-8b"][2:]) == {""}
    assert "1,888 -> 1,920" in by_name["kimi-linear-48b-a3b"]


def test_the_matrix_as_text_and_html():
    comparisons = of_catalog()
    assert "llama-3.1-8b" in matrix_html(comparisons)
    line = next(
        line for line in matrix_text(comparisons).splitlines() if line.startswith("llama-3.1-8b ")
    )
    assert line.endswith("starts; no number changes")


def test_the_lines_of_a_matrix_begin_their_verdicts_in_one_column():
    names = ("bamba-9b", "deepseek-r1-distill-llama-70b")
    comparisons = [
        compare(load_model(name), Scenario(model=name), "0.23", "0.33") for name in names
    ]
    begins = [line.index(line.split()[1]) for line in matrix_text(comparisons).splitlines()]
    assert begins == [len(names[1]) + 2] * 2


@pytest.mark.parametrize("theme", ["auto", "light", "dark"])
def test_the_figure_has_one_marker_per_version_and_only_what_differs(theme):
    name = "kimi-linear-48b-a3b"
    found = outcomes(load_model(name), Scenario(model=name), tuple(RULE_SETS))
    figure = versions(found, theme)
    assert [trace.name for trace in figure.data] == [rules.title for rules in RULE_SETS.values()]
    assert {"block size", "kernel block"} <= set(figure.data[0].y)
    assert "mamba state" not in figure.data[0].y
    assert len(figure.to_json()) < 150_000


def test_markers_on_the_same_place_have_one_text():
    name = "kimi-linear-48b-a3b"
    found = outcomes(load_model(name), Scenario(model=name), tuple(RULE_SETS))
    written = [
        (label, text)
        for trace in versions(found).data
        for label, text in zip(trace.y, trace.text, strict=True)
        if text
    ]
    expected = {
        pair
        for trace in versions(found).data
        for pair in zip(trace.y, trace.customdata, strict=True)
    }
    assert sorted(written) == sorted(expected)


def test_the_figure_of_refusals_only():
    found = outcomes(load_model("bamba-9b"), Scenario(model="bamba-9b"), ("0.33",))
    assert versions(found).data == ()


def test_the_matrix_figure_shows_both_values():
    figure = upgrade_matrix(of_catalog())
    assert isinstance(figure, go.Figure)
    row = list(figure.data[0].y).index("nemotron-3-nano-30b-a3b")
    assert "16 -> 2,096" in figure.data[0].text[row]
    assert len(figure.to_json()) < 150_000
    # what stays as it is has no row, and what is written the same is not a change
    named = [*figure.data[0].y]
    assert f"{len(named)} of {len(of_catalog())} models" in figure.layout.title.text
    assert len(named) < len(of_catalog())
    pairs = (text.split(" -> ") for texts in figure.data[0].text for text in texts if text)
    assert all(old != new for old, new, *_more in (pair for pair in pairs if len(pair) > 1))


def test_nothing_that_changes_is_a_figure_without_rows():
    same = wb.compare(wb.Scenario("llama-3.1-8b"), "0.33", "0.33")
    assert upgrade_matrix([same]).layout.title.text.endswith("by model: 0 of 1 model")
