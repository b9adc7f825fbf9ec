"""The offload tab: inputs good and bad, remedies as buttons, the other side of a transfer."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.views.plans import EVIL, evil_config, plan_of
from workbench.door.session import Session
from workbench.scenario import Scenario
from workbench.ui.panels.offload import DECODE, SAME, OffloadPanel

QWEN = Scenario(model="qwen3.5-4b", max_model_len=32768)


class Shown:
    """The panel in a session of its own, as the tabs drive it."""

    def __init__(self, scenario):
        self.session = Session(scenario, self._show)
        self.panel = OffloadPanel(self.session)
        self.session.request(scenario)

    def _show(self, outcome):
        if outcome.plan is not None:
            self.panel.show(outcome.plan)

    def type(self, name, value):
        self.panel.controls[name].value = value

    @property
    def html(self):
        return self.panel._offload.value

    @property
    def transfer(self):
        return self.panel._transfer.value

    @property
    def error(self):
        return self.panel._input_error.value

    @property
    def buttons(self):
        return {button.description: button for button in self.panel._buttons.children}

    @property
    def title(self):
        return self.panel._figure.figure.layout.title.text

    @property
    def is_stale(self):
        return "wb-stale" in self.panel._offload._dom_classes


@pytest.fixture
def shown():
    shown = Shown(QWEN)
    yield shown
    assert shown.session.errors == []


def test_a_remedy_is_a_button_that_changes_the_scenario(shown):
    assert 'data-legal="false"' in shown.html
    shown.buttons["Apply Prefix caching on"].click()
    assert shown.session.scenario == QWEN.replace(enable_prefix_caching=True)
    assert 'data-legal="true" data-value="3971"' in shown.html
    assert shown.buttons == {}
    assert "✓" in shown.title


def test_memory_is_read_with_its_unit():
    shown = Shown(QWEN.replace(enable_prefix_caching=True))
    shown.type("cpu_bytes_to_use", "10 GiB")
    assert 'data-value="620"' in shown.html
    shown.type("cpu_bytes_to_use", "10 GB")
    assert 'data-value="577"' in shown.html
    assert "9.31 GiB" in shown.title


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cpu_bytes_to_use", "64", "the unit is missing"),
        ("cpu_bytes_to_use", "much", "such as 20 GiB"),
        ("block_size", "many", "an integer"),
        ("block_size", "-528", "from 1 to"),
        ("hash_block_size", "0", "from 1 to"),
    ],
)
def test_bad_input_says_what_is_allowed_and_loses_nothing(name, value, said):
    shown = Shown(QWEN.replace(enable_prefix_caching=True))
    before, title = shown.html, shown.title
    kept = shown.panel.controls[name].value
    shown.type(name, value)
    assert said in shown.error
    assert (shown.html, shown.title) == (before, title)
    assert shown.is_stale
    assert shown.panel.controls[name].value == value
    shown.type(name, kept)
    assert shown.error == ""
    assert not shown.is_stale
    assert shown.session.errors == []


def test_a_block_that_is_not_a_multiple_gets_buttons_with_the_nearest():
    shown = Shown(QWEN.replace(enable_prefix_caching=True))
    shown.type("block_size", "1,000")
    assert "offload_block_not_multiple" in shown.html
    assert list(shown.buttons) == ["Set block_size = 1056", "Set block_size = 528"]
    shown.buttons["Set block_size = 1056"].click()
    assert shown.panel.controls["block_size"].value == "1056"
    assert 'data-legal="true"' in shown.html


def test_an_empty_memory_is_a_failed_check_and_no_error(shown):
    shown.type("cpu_bytes_to_use", "")
    shown.session.change(lambda present: present.replace(enable_prefix_caching=True))
    assert "offload_bytes_missing" in shown.html
    assert "any host memory" in shown.title


def test_the_figure_is_updated_in_place(shown):
    view = shown.panel._figure.view
    for changes in ({"enable_prefix_caching": True}, {"model": "llama-3.1-8b"}):
        shown.session.change(lambda present, new=changes: present.replace(**new))
        assert shown.panel._figure.view is view


def test_pages_that_cannot_be_equal_leave_nothing_to_draw(shown):
    broken = plan_of(
        model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
    )
    shown.panel.show(broken)
    assert "cannot be made equal" in shown.html
    assert shown.panel._figure.widget.layout.display == "none"
    shown.panel.show(plan_of(model="qwen3.5-4b"))
    assert shown.panel._figure.widget.layout.display is None


def test_the_other_side_of_a_transfer():
    fp8 = {"model": "nemotron-3-nano-30b-a3b", "kv_cache_dtype": "fp8", "block_size": 32}
    shown = Shown(Scenario(**fp8))
    assert "homogeneous: equal" in shown.transfer
    shown.type("other_tensor_parallel", 4)
    assert "4,192 (prefill) and 2,112 (decode)" in shown.transfer
    shown.type("role", DECODE)
    assert "2,112 (prefill) and 4,192 (decode)" in shown.transfer
    shown.type("other_tensor_parallel", SAME)
    shown.type("other_kv_cache_dtype", "auto")
    assert "transfer_fingerprint" in shown.transfer
    assert shown.session.errors == []


def test_the_choice_for_the_other_side_stays_with_another_plan():
    shown = Shown(QWEN)
    shown.type("other_tensor_parallel", 4)
    shown.session.change(lambda present: present.replace(tensor_parallel=2))
    assert shown.panel.controls["other_tensor_parallel"].value == 4
    assert "≠ unequal" in shown.transfer


def test_names_are_escaped():
    shown = Shown(Scenario(model=evil_config()))
    assert EVIL not in shown.html + shown.transfer + shown.title


def test_an_unexpected_error_is_shown_and_goes_away(monkeypatch):
    shown = Shown(QWEN)
    with monkeypatch.context() as patched:
        patched.setattr("workbench.ui.panels.offload.transfer_html", lambda *_sides: 1 / 0)
        shown.type("other_tensor_parallel", 2)
        assert "ZeroDivisionError" in shown.panel._error.value
    shown.type("other_tensor_parallel", SAME)
    assert shown.panel._error.value == ""
    assert [error.callback for error in shown.session.errors] == ["_changed"]


def test_chunks_are_set_in_blocks_from_0_33_on():
    shown = Shown(QWEN.replace(rules="0.33"))
    shown.type("blocks_per_chunk", "2")
    assert "GPU blocks in an offloaded block" in shown.html
    shown.type("block_size", str(2 * wb.resolve(QWEN.replace(rules="0.33")).block_size))
    assert "GPU blocks (blocks_per_chunk), not both" in shown.html
    shown.type("blocks_per_chunk", "")
    assert "✕ stops here" not in shown.html
    assert shown.session.errors == []


def test_measured_rates_give_the_length_from_which_loading_pays():
    door = wb.explore("qwen3-next-80b-a3b, 4 x H100, prefix caching")
    panel = door.open("Offload and transfer")
    assert "When does loading pay?" in panel._break_even.value
    assert "pays from" not in panel._break_even.value
    panel.controls["prefill"].value = "40,000"
    panel.controls["link"].value = "25 GB"
    found = door.plan.offload(cpu_bytes_to_use=64 * 2**30)
    tokens = found.break_even_tokens(prefill_tokens_per_s=40_000, link_bytes_per_s=25 * 10**9)
    assert f"loading pays from {tokens:,} tokens of shared prefix on" in panel._break_even.value
    panel.controls["link"].value = "1 MB"
    assert "computing is quicker than loading" in panel._break_even.value
