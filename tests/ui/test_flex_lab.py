"""Tab "Flex attention", the parts that launch: results, stops, refusals, and the panel stays."""

from __future__ import annotations

import threading

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.mode import triton_mode
from workbench.run import flex_launch
from workbench.run.flex_launch import PATHS
from workbench.run.flex_mistakes import FLEX_MISTAKES
from workbench.run.launches import launch
from workbench.scenario import Scenario
from workbench.ui.panels import flex_launch as launch_panel
from workbench.ui.panels.flex import FlexPanel
from workbench.ui.session import Session

INTERPRETED = triton_mode().mode == "interpreter"
SMALL = {"model": "llama-3.1-8b", "backend": "FLEX_ATTENTION", "tensor_parallel": 8}
SECONDS = 300  # reached by what is broken, never by a busy machine


class Shown:
    """A session that shows its plans in one panel, of which one part is open."""

    def __init__(self, part, **fields):
        self.session = Session(Scenario(**{**SMALL, **fields}), self._show)
        self.panel = FlexPanel(self.session)
        self.panel.typed.batch.value = "q9_q3s70"
        self.session.request(self.session.scenario)
        self.open(part)

    def _show(self, outcome):
        self.panel.show(outcome.plan)

    def open(self, title):
        self.panel.part.value = dict(self.panel.part.options)[title]

    def wait(self, part):
        part.pending.exception(SECONDS)
        # what is shown comes after the job, in the same thread
        launch(lambda: None).result(SECONDS)


@pytest.fixture
def shown(request):
    made = Shown(request.param)
    yield made
    assert made.session.errors == []


def opened(part):
    return pytest.mark.parametrize("shown", [part], indirect=True)


def stale(widget):
    return "wb-stale" in widget._dom_classes


def test_the_names_are_those_of_the_launcher():
    assert launch_panel.PATHS == PATHS
    assert tuple(FLEX_MISTAKES) == launch_panel.MISTAKES


@opened("Launch")
@pytest.mark.parametrize("path", PATHS)
def test_a_launch_tells_path_error_and_poison(shown, path):
    part = shown.panel.launch
    part.path.value = path
    part.launch_button.click()
    shown.wait(part)
    assert path in part.result.value
    assert "✓ " in part.result.value
    assert "within the tolerance" in part.result.value
    assert "changes none of" in part.result.value or ("eager" in part.result.value and INTERPRETED)
    assert part.status.value == ""
    assert part.stop_button.disabled
    if INTERPRETED:
        assert "not timed" in part.result.value
        assert "float16 in place of the plan&#x27;s bfloat16" in part.result.value


@opened("Launch")
@pytest.mark.parametrize(
    ("control", "typed", "said"),
    [
        ("tile", "8 x 64", "nearest: 16"),
        ("tile", "64 x 48", "nearest: 32"),
        ("tile", "big", "Expected queries x keys"),
        ("dtype", "bfloat16", "bfloat16 is refused"),
    ],
)
def test_a_refusal_greys_the_result_and_the_next_launch_works(shown, control, typed, said):
    if control == "dtype" and not INTERPRETED:
        pytest.skip("bfloat16 is right on a GPU")
    part = shown.panel.launch
    part.launch_button.click()
    shown.wait(part)
    before = part.result.value
    widget = getattr(part, control)
    good, widget.value = widget.value, typed
    part.launch_button.click()
    shown.wait(part)
    assert said in part.status.value
    assert part.result.value == before
    assert stale(part.result)
    widget.value = good
    part.launch_button.click()
    shown.wait(part)
    assert part.status.value == ""
    assert not stale(part.result)


@opened("Launch")
def test_a_batch_that_cannot_be_read_launches_nothing(shown):
    shown.panel.typed.batch.value = "nonsense"
    shown.panel.launch.launch_button.click()
    assert shown.panel.launch.pending is None
    assert "is not a valid batch segment" in shown.panel.launch.status.value


class Gate:
    """Holds the launching thread inside the first kernel until it is opened."""

    def __init__(self, monkeypatch):
        self.entered, self.opened, self.calls = threading.Event(), threading.Event(), 0
        self._real = flex_launch.paged_attention
        monkeypatch.setattr(flex_launch, "paged_attention", self)

    def __call__(self, *arguments, **options):
        self.calls += 1
        self.entered.set()
        assert self.opened.wait(SECONDS)
        return self._real(*arguments, **options)


@opened("Launch")
def test_stop_ends_the_launch_politely(shown, monkeypatch):
    gate, part = Gate(monkeypatch), shown.panel.launch
    part.launch_button.click()
    assert gate.entered.wait(SECONDS)
    assert not part.stop_button.disabled
    part.stop_button.click()
    assert "Stopping" in part.status.value
    gate.opened.set()
    shown.wait(part)
    assert "Stopped" in part.status.value
    assert part.result.value == ""
    assert gate.calls == 1
    assert part.stop_button.disabled


@opened("Launch")
def test_the_newest_launch_wins(shown, monkeypatch):
    gate, part = Gate(monkeypatch), shown.panel.launch
    part.launch_button.click()
    first = part.pending
    assert gate.entered.wait(SECONDS)
    shown.panel.typed.batch.value = "q5"
    part.launch_button.click()
    gate.opened.set()
    shown.wait(part)
    assert first.done()
    assert "1 requests, 5 queries over 5 keys" in part.result.value
    assert part.status.value == ""


@opened("Launch")
def test_another_plan_greys_the_result(shown):
    part = shown.panel.launch
    part.launch_button.click()
    shown.wait(part)
    assert not stale(part.result)
    shown.session.request(shown.session.scenario.replace(block_size=32))
    assert stale(part.result)
    part.launch_button.click()
    shown.wait(part)
    assert not stale(part.result)
    assert "pages of 32 tokens" in part.result.value


@opened("Launch")
def test_a_failure_of_ours_is_shown_and_the_next_launch_works(shown, monkeypatch):
    part = shown.panel.launch

    def broken(*_arguments, **_options):
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(flex_launch, "paged_attention", broken)
        patch.delenv("WORKBENCH_STRICT", raising=False)
        part.launch_button.click()
        shown.wait(part)
    assert "planted" in shown.panel._error.value
    assert len(shown.session.errors) == 1
    shown.session.errors.clear()
    part.launch_button.click()
    shown.wait(part)
    assert shown.panel._error.value == ""
    assert "within the tolerance" in part.result.value


@opened("Same bits")
def test_the_lab_counts_locates_and_stands_beside_a_control(shown):
    part = shown.panel.bits
    assert [label for label, _ in part.request.options] == [
        "0: 9 queries over 9 keys",
        "1: 3 queries over 70 keys",
    ]
    part.batches.value = 1
    part.compare_button.click()
    shown.wait(part)
    assert "0 bits differ in all" in part.verdict.value
    assert "(negative control)" in part.verdict.value
    assert "first: token" in part.verdict.value
    assert len(part.figure.figure.data) == 3
    assert not stale(part.verdict)
    shown.panel.typed.batch.value = "q4"
    assert len(part.request.options) == 1
    shown.panel.typed.batch.value = "nonsense"
    assert len(part.request.options) == 1
    part.compare_button.click()
    assert "is not a valid batch segment" in part.status.value
    assert stale(part.verdict)


@opened("Tile order")
def test_orders_are_predicted_before_anything_runs_and_then_compared(shown):
    part = shown.panel.order
    assert "over pages 4, 11" in part.prediction.value
    assert "0.23 lists 11, 4" in part.prediction.value
    assert part.pending is None
    part.order_button.click()
    shown.wait(part)
    assert "exactly where another order was predicted" in part.orders.value


@opened("Mistakes")
@pytest.mark.parametrize("name", ["a tile of 48", "a mask with a Python if"])
def test_a_mistake_is_told_with_its_line_and_the_panel_lives(shown, name):
    part = shown.panel.mistakes
    part.mistake.value = name
    part.make_button.click()
    shown.wait(part)
    assert "The next launch works" in part.result.value
    said = {"a tile of 48": "nearest: 32", "a mask with a Python if": "if query &gt; key:"}
    assert said[name] in part.result.value


def test_what_flex_cannot_have_stops_what_runs(monkeypatch):
    shown = Shown("Launch")
    gate, part = Gate(monkeypatch), shown.panel.launch
    part.launch_button.click()
    assert gate.entered.wait(SECONDS)
    shown.session.request(Scenario(model="mamba-2.8b"))
    gate.opened.set()
    shown.wait(part)
    assert gate.calls == 1
    part.launch_button.click()  # without a plan it does nothing
    assert part.result.value == ""
    assert shown.session.errors == []
