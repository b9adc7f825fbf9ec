"""The timeline: every step in the order it ran, labelled in words, small in JSON."""

import itertools

import pytest

import workbench as wb
from workbench.views.palette import THEMES
from workbench.views.versions.figure import STEPS

XPU = wb.Scenario(model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4)


@pytest.fixture(scope="module")
def plans():
    return {
        "before #37467": wb.resolve(XPU.replace(rules="before-37467")),
        "vLLM 0.23": wb.resolve(XPU),
    }


def rows(figure):
    return {trace.name: trace for trace in figure.data if trace.name}


def test_each_row_has_its_steps_in_the_order_of_the_trace(plans):
    shown = rows(wb.figures.timeline(plans))
    assert list(shown) == list(plans)
    for name, plan in plans.items():
        steps = [step for step in plan.steps if step.rule.name in STEPS]
        assert list(shown[name].hovertext) == [str(step) for step in steps]
        assert list(shown[name].x) == list(range(1, len(steps) + 1))
        assert len(shown[name].text) == len(steps)


def test_results_are_next_to_their_steps(plans):
    before, after = rows(wb.figures.timeline(plans)).values()
    assert any("<b>64 tokens</b>" in text for text in before.text)
    assert "<b>no</b>" in before.text[-1]
    assert before.marker.symbol[-1] == "x"
    assert "<b>yes</b>" in after.text[-1]
    assert after.marker.symbol[-1] != "x"
    assert any("<b>1,088 tokens</b>" in text for text in after.text)


def test_links_join_equal_steps(plans):
    figure = wb.figures.timeline(plans)
    links = [trace for trace in figure.data if not trace.name]
    names = [
        [step.rule.name for step in plan.steps if step.rule.name in STEPS]
        for plan in plans.values()
    ]
    found = {(names[0][link.x[0] - 1], names[1][link.x[1] - 1]) for link in links}
    assert found == {(name, name) for name in set(names[0]) & set(names[1])}
    assert len(links) == len(found)


@pytest.mark.parametrize("theme", THEMES)
def test_it_is_small_and_the_same_every_time(plans, theme):
    text = wb.figures.timeline(plans, theme).to_json()
    assert len(text) < 30_000
    assert text == wb.figures.timeline(plans, theme).to_json()


@pytest.mark.parametrize("count", [0, 1, 3])
def test_any_number_of_plans(plans, count):
    names = itertools.islice(itertools.cycle(plans), count)
    many = {f"{i} {name}": plans[name] for i, name in enumerate(names)}
    assert list(rows(wb.figures.timeline(many))) == list(many)
