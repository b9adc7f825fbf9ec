"""Tab "Flex attention": the plan's sizes, remedies that are tried, and masks of any batch."""

from __future__ import annotations

import pytest

from workbench.core.flex.batch import KINDS
from workbench.core.flex.picture import BUILDS, PRUNED
from workbench.door.session import Session
from workbench.scenario import Scenario
from workbench.ui.panels.flex.panel import FlexPanel
from workbench.ui.panels.flex.pictures import MASKS, SIZES

FP8 = {"backend": "FLEX_ATTENTION", "kv_cache_dtype": "fp8"}


class Shown:
    """A session that shows its plans in one panel."""

    def __init__(self, part="Sizes", **fields):
        self.session = Session(Scenario(**fields), self._show)
        self.panel = FlexPanel(self.session)
        self.open(part)
        self.session.request(self.session.scenario)

    def _show(self, outcome):
        self.panel.show(outcome.plan)

    def open(self, title):
        self.panel.part.value = dict(self.panel.part.options)[title]

    @property
    def buttons(self):
        return {button.description: button for button in self.panel.sizes.remedies.children}


@pytest.fixture
def flex():
    shown = Shown(model="bamba-9b", backend="FLEX_ATTENTION")
    yield shown
    assert shown.session.errors == []


def figure(live):
    return live.figure


def test_a_hybrid_block_fails_and_offers_both_remedies(flex):
    assert "got 528, None" in flex.panel.sizes.sizes.value
    assert list(flex.buttons)[:2] == [
        "Apply Mask block, kv 16",
        "Apply Block size 1,024, Tile, keys 64",
    ]


def test_the_mask_of_a_refused_plan_offers_the_same_remedies(flex):
    flex.open("Mask")
    assert "The mask cannot be built" in flex.panel.mask.error.value
    shown = flex.panel.mask.remedies.children
    assert [button.description for button in shown] == list(flex.buttons)
    shown[0].click()
    assert flex.session.scenario.flex_attn_kv_block_size == 16
    assert flex.panel.mask.error.value == ""
    assert flex.panel.mask.remedies.children == ()


@pytest.mark.parametrize(
    ("button", "build"),
    [
        ("Apply Block size 1,024, Tile, keys 64", "direct"),
        ("Apply Mask block, kv 16", "generic"),
    ],
)
def test_each_remedy_works_and_leads_to_another_build(flex, button, build):
    flex.buttons[button].click()
    assert "✓" in figure(flex.panel.sizes.figure).layout.title.text
    assert f"{build} build" in figure(flex.panel.sizes.figure).layout.title.text
    assert flex.buttons == {}
    flex.open("Mask")
    assert flex.panel.mask.error.value == ""


def test_another_backend_is_shown_as_if_it_were_flex():
    shown = Shown(model="bamba-9b")
    assert "another backend" in shown.panel._note.value
    shown.buttons["Apply Mask block, kv 16"].click()
    assert shown.session.scenario.backend == "FLEX_ATTENTION"
    assert shown.panel._note.value == ""
    assert shown.session.errors == []


@pytest.mark.parametrize(
    "fields", [{"model": "mamba-2.8b"}, {"model": "deepseek-v3"}, {"platform": "cpu"}, FP8]
)
def test_a_plan_without_flex_is_reported_and_recovered_from(fields):
    shown = Shown(**fields)
    assert shown.panel._all.layout.display == "none"
    assert shown.panel._note.value
    ways = shown.panel._remedies.children
    assert ways
    ways[0].click()
    assert shown.panel._all.layout.display is None
    assert shown.panel._remedies.children == ()
    shown.session.request(Scenario(model="llama-3.1-8b"))
    assert shown.panel._all.layout.display is None
    assert shown.session.errors == []


@pytest.mark.parametrize("name", SIZES)
def test_every_picture_follows_the_plan_and_the_device(name):
    shown = Shown(model="llama-3.1-8b", backend="FLEX_ATTENTION")
    shown.panel.sizes.picture.value = name
    before = figure(shown.panel.sizes.figure).to_json()
    shown.session.request(shown.session.scenario.replace(block_size=64))
    assert figure(shown.panel.sizes.figure).to_json() != before
    for device in dict(shown.panel.sizes.target.options).values():
        shown.panel.sizes.target.value = device
    assert shown.session.errors == []


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_mask_of_every_kind_and_build(name, kind):
    shown = Shown("Mask", model="llama-3.1-8b", backend="FLEX_ATTENTION")
    shown.panel.mask.picture.value = name
    shown.panel.batch_input.kind.value = kind
    for build in BUILDS:
        shown.panel.mask.build.value = build
        assert figure(shown.panel.mask.figure).layout.title.text
    assert shown.session.errors == []


def test_the_mask_starts_as_that_of_the_layers_and_says_so():
    shown = Shown("Mask", model="gemma-3-12b", backend="FLEX_ATTENTION")
    batch = shown.panel.batch_input
    assert (batch.kind.value, batch.size.value) == ("sliding window", "1024")
    assert (
        "The mask starts as that of 40 of 48 attention layers: sliding window of 1,024 tokens. "
        "The other layers: 8 causal."
    ) in batch.about.value
    batch.kind.value = "causal"
    shown.session.request(shown.session.scenario.replace(tensor_parallel=2))
    assert batch.kind.value == "causal"
    shown.session.request(Scenario(model="starcoder2-3b", backend="FLEX_ATTENTION"))
    assert (batch.kind.value, batch.size.value) == ("sliding window", "4096")
    assert "of all 30 attention layers" in batch.about.value
    shown.session.request(Scenario(model="llama-3.1-8b", backend="FLEX_ATTENTION"))
    assert (batch.kind.value, batch.size.value) == ("causal", "64")
    assert shown.session.errors == []


def test_stale_columns_cost_visits():
    shown = Shown("Mask", model="llama-3.1-8b", backend="FLEX_ATTENTION")
    before = shown.panel.mask.cost.value
    shown.panel.mask.stale.value = True
    assert shown.panel.mask.cost.value != before
    assert shown.session.errors == []


@pytest.mark.parametrize(
    ("control", "text", "message"),
    [
        ("batch", "nonsense", "is not a valid batch segment"),
        ("batch", "q8ks1000k", "the picture shows at most"),
        ("size", "0", "at least 1"),
        ("size", "-3", "integer"),
        ("size", "ten", "Nearest valid value: 64"),
    ],
)
def test_bad_input_keeps_the_picture_greyed(control, text, message):
    shown = Shown("Mask", model="llama-3.1-8b", backend="FLEX_ATTENTION")
    widget = getattr(shown.panel.batch_input, control)
    good = widget.value
    picture = figure(shown.panel.mask.figure).to_json()
    widget.value = text
    assert message in shown.panel.mask.error.value
    assert figure(shown.panel.mask.figure).to_json() == picture
    assert "wb-stale" in shown.panel.mask.figure.widget._dom_classes
    widget.value = good
    assert shown.panel.mask.error.value == ""
    assert "wb-stale" not in shown.panel.mask.figure.widget._dom_classes
    assert shown.session.errors == []


@pytest.mark.parametrize(("capability", "tile"), [(None, "16 x 64"), ("8.9", "16 x 32")])
def test_tiles_are_those_of_the_plans_own_device(capability, tile):
    shown = Shown(
        model="bamba-9b",
        backend="FLEX_ATTENTION",
        compute_capability=capability,
        flex_attn_kv_block_size=64,
    )
    assert f"<td>{tile}</td>" in shown.panel.sizes.sizes.value
    shown.panel.sizes.target.value = "sm_120"
    assert "<td>16 x 32</td>" in shown.panel.sizes.sizes.value
    assert shown.session.errors == []


def test_the_plans_own_build_is_that_of_its_version():
    visited = {}
    for rules in ("0.23", "0.33"):
        shown = Shown("Mask", model="llama-3.1-8b", backend="FLEX_ATTENTION", rules=rules)
        part = shown.panel.mask
        part.stale.value = True
        as_planned = part.cost.value
        part.build.value = PRUNED
        visited[rules] = (as_planned, part.cost.value)
        assert shown.session.errors == []
    assert visited["0.23"][0] != visited["0.23"][1]
    assert visited["0.33"][0] == visited["0.33"][1] == visited["0.23"][1]


def test_prefix_ranges_of_each_request():
    shown = Shown("Mask", model="llama-3.1-8b", backend="FLEX_ATTENTION")
    part = shown.panel.mask
    assert part.prefixes.layout.display == "none"
    shown.panel.batch_input.kind.value = "prefix-LM"
    assert part.prefixes.layout.display is None
    before = part.cost.value
    part.prefixes.value = "0-9; 0-47"
    assert part.cost.value != before
    part.prefixes.value = "9-0"
    assert "Nearest valid value: 0-9" in part.error.value
    part.prefixes.value = ""
    assert part.error.value == ""
    assert part.cost.value == before
    assert shown.session.errors == []


@pytest.mark.parametrize("device", ["MI300A", "Max 1550"])
def test_a_device_of_another_platform_is_replaced_and_breaks_nothing(device):
    shown = Shown(model="qwen3-8b", device=device, kv_cache_dtype="fp8")
    assert shown.session.errors == []
    for button in list(shown.panel._remedies.children):
        button.click()
        assert shown.session.errors == []
