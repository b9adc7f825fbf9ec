"""JSON of a declared depth."""

from __future__ import annotations

import pytest

from workbench.access.json_text import parse_json


@pytest.mark.parametrize("depth", [65, 1000, 10**5])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_deeper_is_a_value_error(depth, start, end):
    text = start * depth + "1" + end * depth
    with pytest.raises(ValueError, match="nested more than 64 levels"):
        parse_json(text)


def test_what_is_nested_as_deep_as_declared_is_read():
    assert parse_json("[" * 64 + "]" * 64) is not None
    assert parse_json('{"a": [1, {"b": null}]}', most_depth=3) == {"a": [1, {"b": None}]}
    with pytest.raises(ValueError, match="nested"):
        parse_json('{"a": [1, {"b": null}]}', most_depth=2)


@pytest.mark.parametrize("text", ["[" + "[]," * 101 + "1]", b'{"a": [' + b"{}," * 101 + b"{}]}"])
def test_what_has_more_entries_than_declared_is_refused_before_it_is_read(text, monkeypatch):
    assert parse_json(text, most_entries=110)
    monkeypatch.setattr("json.loads", None)
    with pytest.raises(ValueError, match="it has more than 100 entries"):
        parse_json(text, most_entries=100)


@pytest.mark.parametrize("text", ["", "{", "1" * 5000, b"\xff", "nan"])
def test_every_other_mistake_is_a_value_error_too(text):
    with pytest.raises(ValueError, match=r"\S"):
        parse_json(text)
