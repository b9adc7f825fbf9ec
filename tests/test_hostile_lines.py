"""Hostile lines of a batch: exactly one answer each, of a bounded length, and the rest goes on."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.access.files import lines
from workbench.core.errors import SHOWN_CHARACTERS, ScenarioError, shown
from workbench.interop import batch
from workbench.interop.batch import MAX_LINE_BYTES, resolve_lines
from workbench.scenario import FIELDS

FILL = "q"
"""What long values consist of; no message of ours repeats this letter."""
LONG = FILL * 5000
NUMBERS = st.one_of(
    st.integers(min_value=1, max_value=4200).map(lambda digits: "9" * digits),
    st.integers(min_value=1, max_value=4200).map(lambda digits: "-" + "9" * digits),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999", "-0.0", "1e-999", "9" * 5000, "007"]),
)
DEEP = st.integers(1, 3000).flatmap(
    lambda depth: st.sampled_from(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
)
TEXTS = st.one_of(
    st.text(max_size=20).map(json.dumps),
    st.sampled_from(
        [
            json.dumps(LONG),
            json.dumps(LONG + ".json"),
            json.dumps(f"{LONG}/{LONG}"),
            json.dumps("./" + LONG),
            '"\\ud800"',
            '"\\u0000"',
            '"a/b.."',
            '"a/b--c"',
            '"a/-"',
            '"/dev/zero"',
            '"~/\\u0000.json"',
            json.dumps("0" * 3000 + "5"),
            json.dumps("9" * 3000 + " GiB"),
        ]
    ),
)
OTHERS = st.sampled_from(["true", "null", "[]", "{}", "[1]", '{"model_type": 1}', f'["{LONG}"]'])
ENTRIES = st.tuples(
    st.one_of(st.sampled_from(tuple(FIELDS)), st.just("model"), st.just(LONG), st.text(max_size=5)),
    st.one_of(NUMBERS, DEEP, TEXTS, OTHERS),
)


def line_of(entries):
    return "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in entries) + "}"


LINES = st.one_of(
    st.lists(ENTRIES, max_size=4).map(line_of).map(str.encode),
    st.lists(ENTRIES, max_size=3)
    .map(lambda entries: line_of([("model", '"bamba-9b"'), *entries]))
    .map(str.encode),
    DEEP.map(str.encode),
    st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"")),
    st.just(b'{"model": "\xed\xa0\x80"}'),
)


pytestmark = pytest.mark.usefixtures("offline")


@given(st.lists(LINES, max_size=4))
def test_every_line_gets_one_short_answer(given_lines):
    answers = list(resolve_lines(given_lines))
    assert len(answers) == len(given_lines)
    for text, is_plan in answers:
        result = json.loads(text, parse_constant=pytest.fail)
        assert is_plan == ("error" not in result)
        if not is_plan:
            check_error(result["error"])


def check_error(error):
    assert set(error) == {"code", "message", "field"}
    assert error["code"] != "internal_error", error
    assert not re.search(
        f"{FILL}{{{SHOWN_CHARACTERS + 1}}}", error["message"] + str(error["field"])
    )
    assert not re.search(r"9{81}|0{81}", error["message"])
    assert len(error["message"]) < 4000


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"model": "bamba-9b", "compute_capability": ' + "9" * 400 + "}", "unknown_name"),
        ('{"model": "a/b.."}', "invalid_hub_id"),
        ('{"model": "bamba-9b", "hf_overrides": {"": null}}', "unknown_name"),
        ('{"model": ' + "[" * 10**5 + "]" * 10**5 + "}", "scenario_not_json"),
        ('{"model": "bamba-9b", "block_size": ' + "9" * 5000 + "}", "scenario_not_json"),
        ('{"model": "' + "x" * (MAX_LINE_BYTES + 2) + '"}', "line_too_long"),
    ],
)
def test_a_line_that_used_to_end_a_batch_gets_an_answer(line, code):
    answers = [json.loads(text) for text, _ in resolve_lines([line, '{"model": "bamba-9b"}'])]
    assert answers[0]["error"]["code"] == code
    check_error(answers[0]["error"])
    assert "block_size" in answers[1]


def test_any_other_exception_is_an_answer_too(monkeypatch):
    def fault(_scenario):
        raise ZeroDivisionError("x" * 1000)

    monkeypatch.setattr(batch, "resolve", fault)
    [(text, _is_plan)] = resolve_lines(['{"model": "bamba-9b"}'])
    found = json.loads(text)["error"]
    assert found["code"] == "internal_error"
    assert found["field"] is None
    assert found["message"].startswith("ZeroDivisionError: xxx")
    assert len(found["message"]) < 200


def test_an_answer_that_is_not_json_is_an_internal_error(monkeypatch):
    class Odd:
        def to_dict(self):
            return {"block_size": float("nan")}

    monkeypatch.setattr(batch, "resolve", lambda _scenario: Odd())
    [(text, is_plan)] = resolve_lines(['{"model": "bamba-9b"}'])
    assert json.loads(text)["error"]["code"] == "internal_error"
    assert not is_plan


def test_a_file_with_one_huge_line_answers_line_by_line():
    text = b'{"model": "bamba-9b"}\n' + b"x" * (3 * MAX_LINE_BYTES) + b'\n{"model": "bamba-9b"}'
    answers = list(resolve_lines(lines(io.BytesIO(text), MAX_LINE_BYTES)))
    assert [is_plan for _, is_plan in answers] == [True, False, True]


VALUES = st.recursive(
    st.none()
    | st.integers()
    | st.text()
    | st.binary()
    | st.integers(1, 6000).map(lambda digits: 10**digits)
    | st.just(LONG),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_a_value_is_repeated_in_at_most_eighty_characters(value):
    assert len(shown(value)) <= SHOWN_CHARACTERS


def test_a_short_value_is_repeated_as_it_is():
    assert shown("0.23") == "'0.23'"
    assert shown(10**4400) == "a huge integer"
    assert isinstance(ScenarioError("code", shown([1, 2])), ValueError)
