"""The harness itself: it sees what a user sees, and it notices what no cell shows."""

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

pytestmark = pytest.mark.thorough  # what it sees, other browser tests would miss first

SETUP = """
import traceback
import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
from IPython.display import display
from workbench.ui.live_figure import LiveFigure

picker = widgets.Dropdown(options=[("one", 1), ("two", 2), ("three", 3)], description="Factor")
count = widgets.BoundedIntText(value=3, min=1, max=9, description="Count")
double = widgets.Button(description="Double")
answer = widgets.HTML()
errors = widgets.HTML()
figure = LiveFigure()
"""
CALLBACK = """
def show(factor: int) -> None:
    answer.value = f'<span class="answer" data-value="{factor * 11}">{factor} x 11</span>'
    bars = go.Bar(y=np.arange(1.0, count.value + 1) * factor)
    figure.show(go.Figure([bars], layout={"height": 250}))

def on_pick(change):
    try:
        show(change["new"])
    except Exception:
        errors.value = f'<pre class="shown-error">{traceback.format_exc()}</pre>'

def bare(change):
    if change["new"] == 3:
        raise ValueError("no cell shows this")

picker.observe(on_pick, "value")
picker.observe(bare, "value")
count.observe(lambda change: show(picker.value), "value")
double.on_click(lambda button: show(2 * picker.value))
show(1)
"""
SHOW = "display(widgets.VBox([picker, count, double, answer, errors, figure.widget]))"


@pytest.fixture(scope="module")
def notebook(shared_lab: LabPage) -> LabPage:
    """Return the notebook above, run once; each test picks values other than the shown ones."""
    shared_lab.set_viewport(1200, 900)
    cells = [SETUP, CALLBACK, "", SHOW]
    shared_lab.open(shared_lab.server.write_notebook("harness.ipynb", cells))
    shared_lab.run_all()
    shared_lab.hide_sidebar()
    return shared_lab


def test_a_choice_changes_text_and_figure_in_both_themes(notebook):
    assert notebook.options("Factor") == ("one", "two", "three")
    expect(notebook.element(".answer")).to_have_attribute("data-value", "11")
    figure = notebook.figure()
    assert figure["data"][0]["y"] == [1, 2, 3]

    for theme, option, factor in ((DARK, "two", 2), (LIGHT, "one", 1)):
        notebook.set_theme(theme)
        notebook.choose("Factor", option)
        assert notebook.selected("Factor") == option
        expect(notebook.element(".answer")).to_have_attribute("data-value", str(factor * 11))
        assert notebook.text(".answer") == f"{factor} x 11"
        figure = notebook.wait_for_new_figure(figure)
        assert figure["data"][0]["y"] == [factor, 2 * factor, 3 * factor]
        notebook.scroll_to(".widget-vbox:has(select)")
        notebook.screenshot(f"harness-{theme.split()[-1].lower()}")
    dark, light = (notebook.screenshots / f"harness-{name}.png" for name in ("dark", "light"))
    assert dark.read_bytes() != light.read_bytes()


def test_boxes_buttons_and_keys_reach_the_widgets(notebook):
    figure = notebook.figure()
    notebook.set_value("Count", 2)
    assert len(notebook.wait_for_new_figure(figure)["data"][0]["y"]) == 2
    doubled = 2 * int(notebook.element(".answer").get_attribute("data-value"))
    notebook.click("Double")
    expect(notebook.element(".answer")).to_have_attribute("data-value", str(doubled))
    notebook.control("Factor").locator("select").focus()
    notebook.press("Tab")
    assert notebook.focused_description() == "Count"


def test_exceptions_of_callbacks_are_seen(notebook):
    notebook.execute("def show(factor): raise RuntimeError('planted')")
    notebook.choose("Factor", "two" if notebook.selected("Factor") == "one" else "one")
    expect(notebook.element(".shown-error")).to_contain_text("RuntimeError: planted")
    assert notebook.kernel_errors() == (), "this one was caught and shown"

    notebook.choose("Factor", "three")
    notebook.page.wait_for_function("inPage.kernelErrors().length")
    assert "ValueError: no cell shows this" in notebook.kernel_errors()[0]


@pytest.mark.thorough
def test_a_failing_cell_fails_the_run(lab, server):
    lab.open(server.write_notebook("failing.ipynb", ["1", "undefined_name", "2"]))
    with pytest.raises(AssertionError, match="NameError: name 'undefined_name'"):
        lab.run_all()


@pytest.mark.thorough
def test_nothing_reaches_the_outside(lab, server):
    lab.open(server.write_notebook("empty.ipynb", []))
    lab.page.evaluate("fetch('http://example.com/').catch(() => null)")
    assert lab.outside_requests == ["http://example.com/"]
    lab.outside_requests.clear()
    lab.console_errors.clear()
    proxy = lab.execute("import urllib.request; print(urllib.request.getproxies()['https'])")
    assert proxy.strip() == "http://127.0.0.1:9"
