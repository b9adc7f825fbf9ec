"""The batch form: whatever a line holds, one line comes out."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.core.strategies import scenarios
from workbench.core.errors import Refused
from workbench.interop.batch import resolve_lines
from workbench.scenario import FIELDS
from workbench.scenario.resolution import resolve


def resolve_line(line):
    [(text, _is_plan)] = resolve_lines([line])
    return json.loads(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
OTHER_THAN_MODEL = sorted(set(FIELDS) - {"model"})
LINES = st.one_of(
    st.text(),
    st.binary(),
    VALUES.map(json.dumps),
    st.dictionaries(st.sampled_from(OTHER_THAN_MODEL) | st.text(max_size=9), VALUES).map(
        json.dumps
    ),
    scenarios().map(lambda scenario: scenario.to_json()),
)


@given(st.lists(LINES, max_size=5))
def test_one_result_per_line_whatever_it_holds(lines):
    results = list(resolve_lines(lines))
    assert len(results) == len(lines)
    for text, is_plan in results:
        assert "\n" not in text
        assert text.isascii()
        result = json.loads(text, parse_constant=refuse_constant)
        assert is_plan == ("error" not in result)
        assert is_plan == ("block_size" in result)


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


@given(scenarios())
def test_a_line_gives_the_plan_of_its_scenario(scenario):
    assert resolve_line(scenario.to_json()) == json.loads(json.dumps(plan_or_error(scenario)))


def plan_or_error(scenario):
    try:
        return resolve(scenario).to_dict()
    except Refused as refusal:
        return {"error": refusal.to_dict()}


@given(scenarios())
def test_the_same_line_gives_the_same_bytes(scenario):
    line = scenario.to_json()
    assert list(resolve_lines([line])) == list(resolve_lines([line.encode()]))


BEFORE = {
    "model": "nemotron-3-nano-30b-a3b",
    "platform": "xpu",
    "tensor_parallel": 4,
    "rules": "before-37467",
}


def test_a_problem_lists_the_remedies_that_were_tried():
    result = resolve_line(json.dumps(BEFORE))
    [problem] = result["problems"]
    assert problem["remedies"]
    for remedy in problem["remedies"]:
        line = {**BEFORE, **remedy["changes"]}
        again = resolve_line(json.dumps(line))
        assert problem["code"] not in {other["code"] for other in again["problems"]}
        assert again["block_size"] == remedy["block_size"]


def test_lines_are_read_one_at_a_time():
    def endless():
        while True:
            yield '{"model": "bamba-9b"}'

    results = resolve_lines(endless())
    assert next(results)[1]
    assert next(results)[1]
