"""Labs in cells of their own: pinned or following, the same numbers, nothing left when closed."""

from __future__ import annotations

import json
from html import escape, unescape

import pytest
from ipywidgets.widgets import widget as every

import workbench as wb
from tests.ui.panels import shown_in_time
from workbench.core.errors import ScenarioError
from workbench.door.labs import LABS
from workbench.ui.live_figure import FigureView
from workbench.ui.open_lab import OpenLab, shown_html

START = wb.Scenario(
    model="qwen3-next-80b-a3b", kv_cache_memory_bytes="31 GiB", enable_prefix_caching=True
)
FLEX = wb.Scenario(model="llama-3.1-8b", kv_cache_memory_bytes="20 GiB")
NAMES = {kind.name: title for title, kind in LABS.items()}


def alive() -> set[str]:
    return set(every._instances)


def content(widget) -> list[str]:
    """Return what a widget shows: its HTML and its figures, as JSON without random ids."""
    figures = [one.state.figure for one in drawn(widget)]
    return [*shown_html(widget), *(json.dumps(json.loads(one or "{}")["data"]) for one in figures)]


def drawn(widget):
    if widget.layout.display == "none":
        return
    if isinstance(widget, FigureView):
        yield widget
    for child in getattr(widget, "children", ()):
        yield from drawn(child)


def test_the_names_are_those_of_the_labs():
    assert set(NAMES) == {*wb.lab.__all__}
    for name in NAMES:
        assert f"wb.lab.{name}: " in repr(wb.lab)
        assert f"wb.lab.{name}(plan)" in wb.lab._repr_html_()
        assert getattr(wb.lab, name).__doc__
    with pytest.raises(AttributeError, match="Nearest: bytes"):
        wb.lab.byte  # noqa: B018 - the access is what is tested


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_a_lab_shows_what_the_front_door_shows_of_the_same_scenario(name):
    start = FLEX if name == "flex" else START
    door = wb.explore(start)
    pinned, following = getattr(wb.lab, name)(wb.resolve(start)), getattr(wb.lab, name)(door)
    below = door.open(NAMES[name])
    assert content(pinned.panel.widget) == content(following.panel.widget) == content(below.widget)
    door.apply(tensor_parallel=2)
    assert following.plan == door.plan != pinned.plan
    assert content(following.panel.widget) == content(below.widget)
    assert "TP 2" in repr(following)
    assert "TP 2" not in repr(pinned)
    assert door.session.errors == pinned.session.errors == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", NAMES)
def test_closing_a_lab_closes_every_widget_of_it(name):
    door = wb.explore(START)
    getattr(wb.lab, name)(door).close()  # what a kernel has once stays: plotly's script
    before = alive()
    for source in (door, door.plan, door.scenario):
        opened = getattr(wb.lab, name)(source)
        opened.session.replace(tensor_parallel=2)
        opened.close()
        assert alive() == before
        assert "closed" in repr(opened)
        door.apply(tensor_parallel=1)
    assert door.session.errors == []


def test_a_refusal_is_said_and_what_is_older_is_greyed_out():
    door = wb.explore(START)
    opened = wb.lab.capacity(door)
    door.apply(tensor_parallel=3)
    assert opened.plan is None
    assert "does not divide" in "".join(shown_html(opened.widget))
    assert "wb-stale" in opened.panel.widget._dom_classes
    door.undo()
    assert opened.plan == door.plan
    assert "does not divide" not in "".join(shown_html(opened.widget))
    assert "wb-stale" not in opened.panel.widget._dom_classes


def test_what_is_applied_in_a_lab_changes_what_it_shows():
    off = START.replace(enable_prefix_caching=False)
    door, pinned = wb.explore(off), wb.lab.hits(off)
    following = wb.lab.hits(door)
    for opened in (pinned, following):
        opened.panel.switch_on.click()
        assert opened.plan.enable_prefix_caching
    assert door.plan.enable_prefix_caching


def test_a_lab_opens_from_fields_and_without_any():
    assert wb.lab.versions(tensor_parallel=2).scenario == wb.Scenario(tensor_parallel=2)
    assert wb.lab.versions().scenario == wb.Scenario()
    changed = wb.lab.versions(wb.resolve(START), tensor_parallel=2)
    assert changed.scenario == START.replace(tensor_parallel=2)
    assert wb.lab.versions(START, tensor_parallel=2).scenario == changed.scenario
    assert wb.lab.versions(wb.explore(START), tensor_parallel=2).scenario == changed.scenario
    with pytest.raises(wb.ScenarioError, match="tensor_parallel"):
        wb.lab.versions(tensor_paralel=2)


def test_an_exception_in_a_lab_is_its_own(monkeypatch):
    door = wb.explore(START)
    opened = wb.lab.backends(door)

    def fail(*_args):
        raise RuntimeError("planted by a test")

    with monkeypatch.context() as planted:
        planted.setattr("workbench.ui.panels.tables.grid_html", fail)
        door.apply(tensor_parallel=2)
    assert "planted by a test" in "".join(shown_html(opened.widget))
    assert [error.callback for error in door.session.errors] == ["show"]
    assert door.plan.settings.tensor_parallel == 2
    door.apply(tensor_parallel=1)
    assert "planted by a test" not in "".join(shown_html(opened.widget))


def test_the_real_kernels_run_in_a_lab_of_its_own():
    opened = wb.lab.tables(START)
    opened.panel.batch.value = "q40_2q1s90"
    opened.panel.buttons["Start"].click()
    assert shown_in_time(opened.panel.jobs)
    assert "agrees with the Python reference" in "".join(shown_html(opened.widget))
    opened.close()


class Shell:
    """What a lab looks at in IPython's shell."""

    def __init__(self, **user_ns) -> None:
        self.user_ns = user_ns


@pytest.mark.parametrize(
    ("held", "code"),
    [
        (lambda door: None, "wb.lab.hits(door)"),
        (lambda door: Shell(wb=wb, mine=door), "wb.lab.hits(mine)"),
        (lambda door: Shell(wb=wb, _7=door, mine=door), "wb.lab.hits(mine)"),
        (lambda door: Shell(_7=door), "import workbench as wb\nwb.lab.hits(_7)"),
    ],
)
def test_a_front_door_says_how_to_open_its_lab_in_another_cell(held, code, monkeypatch):
    door = wb.explore(START)
    monkeypatch.setattr("workbench.ui.labs.get_ipython", lambda: held(door))
    door.open("Prefix hits")
    assert door.labs.call.text == code


def test_the_code_of_a_lab_opens_it_in_another_cell(monkeypatch):
    monkeypatch.setattr("workbench.ui.labs.get_ipython", lambda: None)
    door = wb.explore(START)
    door.open("Prefix hits")
    opened = eval(door.labs.call.text, {"wb": wb, "door": door})
    assert isinstance(opened, OpenLab)
    assert opened.session is door.session
    assert door.labs.call.layout.display is None
    door.labs.close()
    assert door.labs.call.layout.display == "none"


def test_a_saved_notebook_has_the_words_of_a_lab():
    bundle = wb.lab.hits(START)._repr_mimebundle_()
    assert bundle["text/plain"].startswith("Prefix hits, pinned: qwen3-next-80b-a3b")
    assert "tokens" in bundle["text/html"]


def test_the_fields_of_a_model_are_listed_with_their_entries_and_its_layers():
    plan = wb.resolve(model="nemotron-3-nano-30b-a3b")
    found = wb.lab.fields(plan)
    shown = found._repr_mimebundle_()["text/html"]
    for name, origin in plan.model.origins.items():
        assert f"<code>{name}</code>" in shown
        assert escape(origin.value) in shown
        assert escape(origin.source) in shown
    for kind in {layer.kind for layer in plan.model.layers}:
        assert kind.replace("_", " ") in shown
    found.close()


def test_every_lab_says_what_it_shows_and_one_that_launches_what_a_gpu_adds():
    door = wb.explore(START)
    for title, kind in LABS.items():
        door.open(title)
        assert kind.line in unescape(door.labs.about.value)
        assert kind.with_gpu in unescape(door.labs.about.value)
    adds = {title for title, kind in LABS.items() if "Without a GPU" in kind.with_gpu}
    assert adds == {"Block tables", "Flex attention", "Kernel sweeps"}
    alone = wb.lab.kernel_sweeps(START)
    assert LABS["Kernel sweeps"].with_gpu in unescape(alone._source.value)
    alone.close()


@pytest.mark.parametrize("name", ["hits", "Prefix hits", "prefix hits"])
def test_a_lab_is_opened_by_its_name_or_its_title(name):
    plan = wb.resolve("qwen3-8b")
    opened = wb.lab(name, plan, tensor_parallel=2)
    assert repr(opened) == repr(wb.lab.hits(plan, tensor_parallel=2))


@pytest.mark.parametrize(("name", "nearest"), [("hit", "Nearest: hits."), ("", ""), (None, "")])
def test_a_lab_that_does_not_exist_is_answered_with_those_that_do(name, nearest):
    with pytest.raises(ScenarioError, match=rf"{nearest}.*Allowed: backends, bytes.*wb\.lab\(\"h"):
        wb.lab(name)
