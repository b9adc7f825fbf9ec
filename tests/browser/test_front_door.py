"""The front door in a real JupyterLab: pick, and the right block size is on screen."""

import ast
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import workbench
from tests.browser.lab import DARK, LIGHT, LabPage, PlaywrightTimeout, expect
from workbench.scenario import FIELDS
from workbench.scenario.fields import SECTIONS

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
PANEL = ".wb-panel"
BLOCK_SIZE = ".wb-panel .wb-block-size"
ERROR = ".wb-panel .wb-error[data-workbench-error]"
FIGURE = ".wb-panel .wb-figure"
STALE_FIGURE = f"{FIGURE}.wb-stale"
LABELS = {
    "model": "Model",
    "platform": "Platform",
    "backend": "Backend",
    "tensor_parallel": "Tensor parallel",
    "rules": "vLLM rules",
}
ENGINE = "engine's choice"

# The body of the function that every plan comes from is replaced, for every holder of the function.
PLANT = """
from workbench.core.resolve import resolve as _resolve
_kept = _resolve.__code__
def _planted(*args, **kwargs):
    raise RuntimeError("planted by a test")
_resolve.__code__ = _planted.__code__
"""
PULL_OUT = "_resolve.__code__ = _kept"

NARROWER_IN_STEPS = """async () => {
  const panel = document.querySelector(".wb-panel");
  for (const smaller of [40, 80, 120, 160, 200, 240, 280]) {
    panel.style.maxWidth = `calc(100% - ${smaller}px)`;
    await new Promise((done) => setTimeout(done, 70));
  }
}"""

if not NOTEBOOK.exists():
    pytest.skip(f"there is no {NOTEBOOK.name} yet", allow_module_level=True)


def start() -> workbench.Scenario:
    """Return the scenario of the notebook's parameters cell."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    tagged = next(cell for cell in cells if "parameters" in cell["metadata"].get("tags", ()))
    values = {}
    for line in ast.parse("".join(tagged["source"])).body:
        target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
        values[target.id] = ast.literal_eval(line.value)
    fields = {name: values[name] for name in FIELDS if name in values}
    return workbench.Scenario(**{**fields, "backend": fields.get("backend") or None})


def pick(lab: LabPage, scenario: workbench.Scenario) -> workbench.Scenario:
    """Pick, one after the other, what differs from the choice on screen; return the scenario."""
    for field, label in LABELS.items():
        value = getattr(scenario, field)
        shown = ENGINE if value is None else str(value)
        if lab.selected(label) != shown:
            lab.choose(label, shown)
    return scenario


def expect_block_size(lab: LabPage, scenario: workbench.Scenario) -> None:
    """Expect the browser to show the library's answer, as text and as data."""
    expected = workbench.resolve(scenario).block_size
    expect(lab.element(BLOCK_SIZE)).to_have_attribute("data-value", str(expected))
    assert str(expected) in lab.text(BLOCK_SIZE).replace(",", "")
    expect(lab.element(ERROR)).to_have_count(0)


def expect_bars(lab: LabPage, scenario: workbench.Scenario) -> None:
    """Expect the drawn figure to have the bars, in bytes, of the figure that the library makes."""
    figure = workbench.figures.page(workbench.resolve(scenario))
    expected = [list(trace.x) for trace in figure.data if trace.type == "bar"]
    drawn = "inPage.figure(css).data.filter(({type}) => type === 'bar').map(({x}) => x)"
    same = f"([css, bars]) => JSON.stringify({drawn}) === JSON.stringify(bars)"
    lab.page.wait_for_function(same, arg=[FIGURE, expected])


def expect_fit(lab: LabPage) -> None:
    """Expect no control to stick out of the panel, and the drawing to use its width."""
    misfits = "inPage.misfits('.wb-panel', 'select, input, .wb-figure .main-svg')"
    try:
        lab.page.wait_for_function(f"{misfits}.length === 0")
    except PlaywrightTimeout:
        pytest.fail(f"wider than the panel, or a narrow drawing: {lab.page.evaluate(misfits)}")


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    """Return the notebook, run once."""
    shared_lab.set_viewport(1440, 1100)
    shared_lab.open(NOTEBOOK.name)
    shared_lab.run_all()
    shared_lab.hide_sidebar()
    expect(shared_lab.element(PANEL)).to_have_count(1)
    return shared_lab


def test_the_first_result_is_right(panel):
    first = start()
    expect_block_size(panel, first)
    shown = {label: panel.selected(label) for label in LABELS.values()}
    assert shown == {label: str(getattr(first, field) or ENGINE) for field, label in LABELS.items()}
    # a dropdown of a tab may have nothing to offer yet
    blank = "selects => selects.filter(s => s.options.length && s.selectedIndex < 0).length"
    assert panel.element(f"{PANEL} select").evaluate_all(blank) == 0
    expect_fit(panel)


def test_no_label_is_cut_off(panel):
    for title in filter(None, SECTIONS):
        header = panel.page.locator(f"{PANEL} .jupyter-widget-Collapse-header", has_text=title)
        header.first.click()
        panel.page.locator(f"{PANEL} .jupyter-widget-Collapse-open", has_text=title).wait_for()
        cut = """labels => labels
            .filter(label => label.offsetParent && label.scrollWidth > label.clientWidth)
            .map(label => label.textContent)"""
        assert panel.element(f"{PANEL} .widget-label").evaluate_all(cut) == []
        header.first.click()


def test_changing_platform_and_tensor_parallel_changes_the_number_and_the_figure(panel):
    sizes = set()
    base = start().replace(backend=None, compute_capability=None)
    for platform in ("cuda", "xpu"):
        for tensor_parallel in (1, 4):
            scenario = base.replace(platform=platform, tensor_parallel=tensor_parallel)
            expect_block_size(panel, pick(panel, scenario))
            expect_bars(panel, scenario)
            sizes.add(panel.element(BLOCK_SIZE).get_attribute("data-value"))
    assert len(sizes) > 2, "the scenarios of this test should differ"


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_the_panel_in_both_themes(panel, theme):
    name = theme.split()[-1].lower()
    panel.set_theme(theme)
    panel.scroll_to(PANEL)
    panel.screenshot(f"front-door-{name}")
    panel.screenshot(f"front-door-panel-{name}", PANEL)
    assert panel.contrast(BLOCK_SIZE) >= 4.5


def test_a_problem_is_shown_and_its_remedy_is_applied(panel):
    """Use a scenario whose pages were not divisible before #37467; the remedy is to upgrade."""
    sound = start().replace(platform="xpu", tensor_parallel=4, rules="0.23")
    broken = sound.replace(rules="before-37467")
    plan = workbench.resolve(broken)
    pick(panel, sound)
    pick(panel, broken)
    badge = panel.element(f".wb-problem[data-code={plan.problems[0].code}]")
    expect(badge).to_be_visible()
    expect_block_size(panel, broken)
    panel.screenshot("front-door-problem", PANEL)
    panel.element(".wb-apply").first.click()
    expect(badge).to_have_count(0)
    expect_block_size(panel, broken.replace(**plan.remedies(plan.problems[0])[0].changes))


@contextmanager
def planted_error(lab: LabPage) -> Iterator[None]:
    """Let every resolution in the notebook's kernel raise meanwhile."""
    lab.execute(PLANT)
    try:
        yield
    finally:
        lab.execute(PULL_OUT)


def test_a_callback_error_is_shown_and_the_figure_is_marked_stale(panel):
    expect(panel.element(STALE_FIGURE)).to_have_count(0)
    other = "2" if panel.selected("Tensor parallel") != "2" else "4"
    with planted_error(panel):
        panel.choose("Tensor parallel", other)
        expect(panel.element(ERROR)).to_contain_text("RuntimeError: planted by a test")
        expect(panel.element(ERROR)).to_contain_text("Traceback")
        expect(panel.element(STALE_FIGURE)).to_have_count(1)
        panel.scroll_to(PANEL)
        panel.screenshot("front-door-error")
    panel.choose("Tensor parallel", "1")
    expect(panel.element(ERROR)).to_have_count(0)
    expect(panel.element(STALE_FIGURE)).to_have_count(0)


def test_the_keyboard_reaches_the_pickers(panel):
    panel.element(BLOCK_SIZE).click()
    reached: list[str] = []
    while "vLLM rules" not in reached and len(reached) < 40:
        panel.press("Tab")
        reached.append(panel.focused_description())
    assert [label for label in reached if label in LABELS.values()] == list(LABELS.values())


def test_the_keyboard_changes_a_picker(panel):
    panel.control("Tensor parallel").locator("select").focus()
    before = panel.selected("Tensor parallel")
    panel.press("ArrowDown" if before == "1" else "ArrowUp")
    assert panel.selected("Tensor parallel") != before
    assert panel.focused_description() == "Tensor parallel"


@pytest.mark.parametrize("width", [1000, 1440, 1900])
def test_the_controls_and_the_figure_fit_the_panel(panel, width):
    panel.set_viewport(width, 1000)
    expect_fit(panel)


def test_a_width_that_changes_in_steps_is_followed(panel):
    panel.scroll_to(PANEL)
    expect_fit(panel)
    panel.page.evaluate(NARROWER_IN_STEPS)
    expect_fit(panel)
    panel.page.evaluate("() => { document.querySelector('.wb-panel').style.maxWidth = ''; }")
    expect_fit(panel)


def test_no_callback_failed_unnoticed(panel):
    assert panel.kernel_errors() == ()
