"""Tab "Flex attention", the parts that launch: results, stops, refusals, and the panel stays."""

from __future__ import annotations

import threading
from inspect import signature

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.ui.panels import shown_in_time
from workbench.core.flex.lab import ENGINE, KERNELS
from workbench.door.session import Session
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.plan import AttentionPlan
from workbench.labs.flex.labs import FLEX_LABS
from workbench.scenario import Scenario
from workbench.ui.panels.flex.panel import FlexPanel

INTERPRETED = triton_mode().mode == "interpreter"
SMALL = {"model": "llama-3.1-8b", "backend": "FLEX_ATTENTION", "tensor_parallel": 8}
SECONDS = 300  # reached by what is broken, never by a busy machine


class Shown:
    """A session that shows its plans in one panel, of which one part is open."""

    def __init__(self, part, **fields):
        self.session = Session(Scenario(**{**SMALL, **fields}), self._show)
        self.panel = FlexPanel(self.session)
        self.panel.batch_input.batch.value = "q9_q3s70"
        self.session.request(self.session.scenario)
        self.open(part)

    def _show(self, outcome):
        self.panel.show(outcome.plan)

    def open(self, title):
        self.panel.part.value = dict(self.panel.part.options)[title]

    def wait(self, part):
        assert shown_in_time(part.jobs, SECONDS)


@pytest.fixture
def shown(request):
    made = Shown(request.param)
    yield made
    assert made.session.errors == []


def opened(part):
    return pytest.mark.parametrize("shown", [part], indirect=True)


def stale(widget):
    return "wb-stale" in widget._dom_classes


@pytest.mark.parametrize("lab", FLEX_LABS, ids=lambda lab: lab.title)
def test_a_declared_lab_is_a_function_of_its_inputs(lab):
    found = signature(lab.function).parameters
    expected = {"job", *(one.name for one in lab.inputs)}
    if lab.takes_batch:
        expected |= {"batch", "mask", "mask_tokens"}
    assert expected <= set(found)


@pytest.mark.sampled(1)
@opened("Launch")
@pytest.mark.parametrize("path", KERNELS)
def test_a_launch_shows_path_error_and_poison(shown, path):
    part = shown.panel.labs["Launch"]
    part.inputs["kernel"].value = path
    part.button.click()
    shown.wait(part)
    assert path in part.result.value
    assert "✓ " in part.result.value
    assert "within the tolerance" in part.result.value
    # torch multiplies what it has masked
    assert ("changes none of" in part.result.value) or (path == ENGINE)
    assert ("multiplies every slot" in part.result.value) == ("✕ changes" in part.result.value)
    assert part.jobs.status.value == ""
    assert part.jobs.stop_button.disabled
    if INTERPRETED:
        assert "not timed" in part.result.value
        assert ("weights and results are rounded" in part.result.value) == (path != ENGINE)
        assert "tokens, bfloat16</td>" in part.result.value


@opened("Launch")
@pytest.mark.parametrize(
    ("control", "text", "message"),
    [
        ("tile", "8 x 64", "Nearest valid value: 16"),
        ("tile", "64 x 48", "value: 32"),
        ("tile", "big", "Expected queries x keys"),
    ],
)
def test_a_refusal_greys_the_result_and_the_next_launch_works(shown, control, text, message):
    part = shown.panel.labs["Launch"]
    part.button.click()
    shown.wait(part)
    before = part.result.value
    widget = part.inputs[control]
    good, widget.value = widget.value, text
    part.button.click()
    shown.wait(part)
    assert message in part.jobs.status.value
    assert part.result.value == before
    assert stale(part.result)
    widget.value = good
    part.button.click()
    shown.wait(part)
    assert part.jobs.status.value == ""
    assert not stale(part.result)


@opened("Launch")
def test_a_batch_that_cannot_be_read_launches_nothing(shown):
    shown.panel.batch_input.batch.value = "nonsense"
    shown.panel.labs["Launch"].button.click()
    assert shown.panel.labs["Launch"].jobs.pending is None
    assert "is not a valid batch segment" in shown.panel.labs["Launch"].jobs.status.value


class Gate:
    """Holds the launching thread inside the first kernel until it is opened."""

    def __init__(self, monkeypatch):
        self.entered, self.opened, self.calls = threading.Event(), threading.Event(), 0
        self._real = AttentionPlan.run

        # a function becomes a method, an object does not
        def waiting(*arguments):
            return self.wait(*arguments)

        monkeypatch.setattr(AttentionPlan, "run", waiting)

    def wait(self, *arguments):
        self.calls += 1
        self.entered.set()
        assert self.opened.wait(SECONDS)
        return self._real(*arguments)


@opened("Launch")
def test_stop_ends_the_launch_between_kernels(shown, monkeypatch):
    gate, part = Gate(monkeypatch), shown.panel.labs["Launch"]
    part.button.click()
    assert gate.entered.wait(SECONDS)
    assert not part.jobs.stop_button.disabled
    part.jobs.stop_button.click()
    assert "Stopping" in part.jobs.status.value
    gate.opened.set()
    shown.wait(part)
    assert "Stopped" in part.jobs.status.value
    assert part.result.value == ""
    assert gate.calls == 1
    assert part.jobs.stop_button.disabled


@opened("Launch")
def test_the_newest_launch_wins(shown, monkeypatch):
    gate, part = Gate(monkeypatch), shown.panel.labs["Launch"]
    part.button.click()
    first = part.jobs.pending
    assert gate.entered.wait(SECONDS)
    shown.panel.batch_input.batch.value = "q5"
    part.button.click()
    gate.opened.set()
    shown.wait(part)
    assert first.done()
    assert "1 request, 5 queries over 5 keys" in part.result.value
    assert part.jobs.status.value == ""


@opened("Launch")
def test_another_plan_greys_the_result(shown):
    part = shown.panel.labs["Launch"]
    part.button.click()
    shown.wait(part)
    assert not stale(part.result)
    shown.session.request(shown.session.scenario.replace(block_size=32))
    assert stale(part.result)
    part.button.click()
    shown.wait(part)
    assert not stale(part.result)
    assert "pages of 32 tokens" in part.result.value


@opened("Launch")
def test_a_failure_of_ours_is_shown_and_the_next_launch_works(shown, monkeypatch):
    part = shown.panel.labs["Launch"]

    def broken(*_arguments, **_options):
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(AttentionPlan, "run", broken)
        patch.delenv("WORKBENCH_STRICT", raising=False)
        part.button.click()
        shown.wait(part)
    assert "planted" in part._error.value
    assert len(shown.session.errors) == 1
    shown.session.errors.clear()
    part.button.click()
    shown.wait(part)
    assert part._error.value == ""
    assert "within the tolerance" in part.result.value


@opened("Batch invariance")
def test_the_lab_counts_and_locates_bits_and_has_a_control(shown):
    part = shown.panel.labs["Batch invariance"]
    assert [label for label, _value in part.inputs["subject"].options] == [
        "0: 9 queries over 9 keys",
        "1: 3 queries over 70 keys",
    ]
    part.inputs["batches"].value = 1
    # bfloat16 rounds off what another order of so few keys changes: the control would not differ
    part.inputs["dtype"].value = "float16"
    part.button.click()
    shown.wait(part)
    assert "0 bits differ in all" in part.result.value
    assert "(negative control)" in part.result.value
    assert "first: token" in part.result.value
    assert len(part.figure.figure.data) == 3
    assert not stale(part.result)
    shown.panel.batch_input.batch.value = "q4"
    assert len(part.inputs["subject"].options) == 1
    shown.panel.batch_input.batch.value = "nonsense"
    assert len(part.inputs["subject"].options) == 1
    part.button.click()
    assert "is not a valid batch segment" in part.jobs.status.value
    assert stale(part.result)


@opened("Reduction order")
def test_orders_are_predicted_before_anything_runs_and_then_compared(shown):
    part = shown.panel.labs["Reduction order"]
    assert "over pages 4, 11" in part.result.value
    assert "0.23 lists 11, 4" in part.result.value
    assert part.jobs.pending is None
    part.button.click()
    shown.wait(part)
    assert "exactly where another order was predicted" in part.result.value


@pytest.mark.parametrize(
    ("shown", "message"),
    [("Against torch", "mismatch"), ("Build cost", "generic, ms")],
    indirect=["shown"],
)
def test_a_lab_without_words_of_its_own_shows_its_rows(shown, message):
    part = shown.panel.parts[shown.panel.part.value]
    part.button.click()
    shown.wait(part)
    assert message in part.result.value
    shown.panel.batch_input.batch.value = "9000q9s9"
    part.button.click()
    shown.wait(part)
    assert "Expected at most" in part.jobs.status.value
    assert stale(part.result)


@opened("Failure demos")
@pytest.mark.parametrize("name", ["a tile of 48", "a mask with a Python if"])
def test_a_mistake_is_shown_with_its_line_and_the_panel_lives(shown, name):
    part = shown.panel.labs["Failure demos"]
    part.inputs["mistake"].value = name
    part.button.click()
    shown.wait(part)
    assert "The next launch works" in part.result.value
    message = {"a tile of 48": "value: 32", "a mask with a Python if": "if query &gt; key:"}
    assert message[name] in part.result.value


def test_a_plan_without_flex_stops_the_running_launch(monkeypatch):
    shown = Shown("Launch")
    gate, part = Gate(monkeypatch), shown.panel.labs["Launch"]
    part.button.click()
    assert gate.entered.wait(SECONDS)
    shown.session.request(Scenario(model="mamba-2.8b"))
    gate.opened.set()
    shown.wait(part)
    assert gate.calls == 1
    part.button.click()  # without a plan it does nothing
    assert part.result.value == ""
    assert shown.session.errors == []
