"""Figures without a script: what the SVG draws is what the figure's data says, with words."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import plotly.graph_objects as go
import plotly.io
import pytest

import workbench as wb
from tests.views.plans import EVIL, all_plans, plan_of
from workbench.views.frame import Figure, bar, curve, figure
from workbench.views.static.axis import nice_steps
from workbench.views.static.picture import picture
from workbench.views.static.show import static_bundle
from workbench.views.static.words import alternative_text

VIEWS = Path(__file__).parents[2] / "workbench" / "views"
PLAN = {"model": "nemotron-3-nano-30b-a3b", "tensor_parallel": 4, "enable_prefix_caching": True}


def figures() -> dict[str, go.Figure]:
    """Return one figure of every kind."""
    plan = plan_of(**PLAN, kv_cache_memory_bytes="20 GiB")
    flex = plan_of(model="llama-3.1-8b", backend="FLEX_ATTENTION").flex(227 * 1024)
    step = wb.tables(plan, "2q700_3q1s3000").launch()
    found = wb.sweep(plan.scenario, tensor_parallel=(1, 2, 4), kv_cache_dtype=("auto", "fp8"))
    draw = wb.figures
    return {
        "page": draw.page(plan),
        "sizes": draw.block_sizes(plan.across((1, 2, 4)), plan),
        "map": draw.page_map(plan, "tensor", num_blocks=3),
        "groups": draw.groups(plan),
        "reserved": draw.reserved_bytes(plan),
        "memory": draw.memory_bar(plan),
        "hits": draw.hit_curve(plan),
        "tables": draw.block_tables(step),
        "slots": draw.slot_map(step),
        "raster": draw.pool_raster(plan, 5000),
        "grids": draw.nested_grids(flex),
        "pairs": draw.legal_pairs(flex),
        "order": wb.stale_picture().order_figure(),
        "front": found.pareto_figure(),
        "parallel": found.parallel_figure(),
        "upgrade": draw.upgrade_matrix([wb.compare(wb.Scenario(**PLAN))]),
    }


@pytest.fixture(scope="module", name="every")
def _every() -> dict[str, go.Figure]:
    return figures()


def parsed(drawn: str) -> ET.Element:
    return ET.fromstring(drawn)


def elements(drawn: str, name: str) -> list[ET.Element]:
    return list(parsed(drawn).iter(f"{{http://www.w3.org/2000/svg}}{name}"))


def test_every_figure_is_a_picture_with_words_and_without_anything_else(every):
    for name, drawn in every.items():
        bundle = drawn._repr_mimebundle_()
        svg = bundle["image/svg+xml"]
        words = parsed(svg).get("aria-label")
        assert len(words) > 40, name
        assert f'alt="{words[:20]}'.replace("'", "&#x27;") in bundle["text/html"], name
        assert not re.search(r"<script|https?://(?!www\.w3\.org/2000/svg)| on\w+=", svg), name
        assert not re.search(r"[\s\"HVLM]-?(nan|inf)\b", re.sub(r">[^<]*<", "", svg)), name
        assert len(svg) < 130_000, name


def test_no_button_of_a_figure_in_a_cell_leads_elsewhere(every, monkeypatch):
    monkeypatch.setattr(plotly.io.renderers, "default", "plotly_mimetype")
    shown = every["page"]._repr_mimebundle_()["application/vnd.plotly.v1+json"]
    assert shown["config"]["displaylogo"] is False
    assert "sendChartToCloud" in shown["layout"]["modebar"]["remove"]


def test_every_text_is_inside_the_picture(every):
    for name, drawn in every.items():
        svg = picture(drawn)
        width, height = map(float, parsed(svg).get("viewBox").split()[2:])
        for text in elements(svg, "text"):
            assert 0 <= float(text.get("x")) <= width, (name, "".join(text.itertext()))
            assert 0 < float(text.get("y")) <= height, (name, "".join(text.itertext()))


def test_no_text_is_smaller_than_12_pixels(every):
    for name, drawn in every.items():
        sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', picture(drawn))]
        assert min(sizes) >= 12, name


@pytest.mark.parametrize("plan", all_plans()[::7], ids=repr)
def test_the_bars_of_a_page_are_to_scale(plan):
    drawn = wb.figures.page(plan)
    sizes = [t.x[0] for t in drawn.data if t.type == "bar" and t.x[0]]
    rows = [row for row in elements(picture(drawn), "rect") if row.get("y") and row.get("fill")]
    bars = [float(row.get("width")) for row in rows][: len(sizes)]
    longest = sizes.index(max(sizes))
    assert bars == pytest.approx([bars[longest] * s / sizes[longest] for s in sizes], abs=0.02)


def test_stacked_bars_end_where_the_next_begins_and_hatching_is_defined():
    names = ("one", "two", "three")
    traces = [bar(n, [5.0], ["row"], ("#0072B2", "/"), orientation="h") for n in names]
    svg = picture(figure(traces, "t", "auto", barmode="stack"))
    rows = [r for r in elements(svg, "rect") if str(r.get("fill")).startswith("url") and r.get("y")]
    starts = [float(row.get("x")) for row in rows[:3]]
    assert starts[1] - starts[0] == pytest.approx(float(rows[0].get("width")), abs=0.02)
    assert starts[2] - starts[1] == pytest.approx(float(rows[1].get("width")), abs=0.02)
    assert elements(svg, "pattern")[0].get("id") == rows[0].get("fill")[5:-1]


def test_a_gap_ends_a_line_and_a_logarithmic_axis_is_even():
    look = ("#0072B2", "dash", "circle")
    line = curve("a", [1, 10, 100, None, 1000], [1, 2, 3, 3, 4], look)
    svg = picture(figure([line], "t", "auto", x={"type": "log"}))
    assert re.search(r'd="M[^"M]*M[^"M]*"[^>]*stroke="#0072B2"', svg)
    x = [float(mark.get("cx")) for mark in elements(svg, "circle")]
    assert np.diff(x) == pytest.approx([x[1] - x[0]] * 3, abs=0.2)


def test_cells_have_the_colours_of_their_kinds():
    drawn = go.Heatmap(z=[[0, 1], [1, None]], zmin=-0.5, zmax=1.5, x=["a", "b"], y=["c", "d"])
    drawn.colorscale = [(0, "#111111"), (0.5, "#111111"), (0.5, "#eeeeee"), (1, "#eeeeee")]
    svg = picture(Figure(drawn))
    cells = {p.get("fill"): p.get("d").count("M") for p in elements(svg, "path") if p.get("fill")}
    assert cells == {"#111111": 1, "#eeeeee": 2}


def test_a_stranger_s_words_stay_words():
    drawn = figure([bar(EVIL, [1], [EVIL], ("#0072B2", ""), orientation="h")], EVIL, "auto")
    bundle = static_bundle(drawn)
    assert "<img src=x" not in bundle["image/svg+xml"]
    assert bundle["text/html"].count("<") == 1


@pytest.fixture
def shell():
    """Start IPython's shell for one test: other tests are not to find one."""
    from IPython.core.interactiveshell import InteractiveShell

    yield InteractiveShell.instance()
    InteractiveShell.clear_instance()


def test_a_cell_shows_plotly_s_data_and_the_picture(shell, monkeypatch):
    from IPython.utils.capture import capture_output

    monkeypatch.setattr("plotly.io.renderers.default", "plotly_mimetype")
    monkeypatch.setattr("plotly.io.renderers.render_on_display", True)
    with capture_output() as shown:
        wb.figures.page(plan_of(**PLAN))._ipython_display_()
    assert set(shown.outputs[0].data) == {
        "application/vnd.plotly.v1+json",
        "image/svg+xml",
        "text/html",
    }


def test_what_cannot_be_drawn_is_named():
    drawn = Figure(go.Pie(values=[1, 2]), layout={"title": {"text": "shares"}})
    assert "pie, not drawn" in alternative_text(drawn)
    assert parsed(picture(drawn)) is not None


def test_light_and_dark_are_the_figure_s_own_or_the_reader_s():
    plan = plan_of(**PLAN)
    assert "prefers-color-scheme:dark" in picture(wb.figures.page(plan))
    dark = picture(wb.figures.page(plan, theme="dark"))
    assert "#111111" in dark
    assert "prefers-color-scheme" not in dark


def test_steps_are_round_and_inside():
    for low, high in ((0, 1), (0, 8320), (-3, 17), (1e9, 3e9), (0, 1e-4)):
        steps = nice_steps(low, high, 6)
        assert 3 <= len(steps) <= 12
        assert low <= steps[0]
        assert steps[-1] <= high * 1.000001


def test_every_view_makes_figures_that_show_themselves():
    allowed = {"frame.py"}
    for path in VIEWS.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name not in allowed:
            assert not re.search(r"go\.Figure\(|make_subplots\(", text), path
