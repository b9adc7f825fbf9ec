"""The language of a sweep's axes: what is read, what is refused with the nearest, what is next."""

from __future__ import annotations

import subprocess
import sys
from difflib import get_close_matches

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.ui.panels import TORCHAO
from workbench.core.errors import ScenarioError
from workbench.scenario import FIELDS
from workbench.sweeps import language
from workbench.sweeps.axes import checked_axes, default_axes
from workbench.sweeps.language import axes_text, completion, parse_axes

START = wb.Scenario(model="qwen3.5-4b")


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        (
            "tensor_parallel 1 2 4 8, kv_cache_dtype auto fp8",
            {"tensor_parallel": (1, 2, 4, 8), "kv_cache_dtype": ("auto", "fp8")},
        ),
        ("tensor_parallel=1,2", {"tensor_parallel": (1, 2)}),
        ("dtype auto block_size 16", {"dtype": ("auto",), "block_size": (16,)}),
        ("kv_cache_memory_bytes 20 GiB 40 GiB", {"kv_cache_memory_bytes": ("20 GiB", "40 GiB")}),
        ("device 'RTX 4090' H100", {"device": ("RTX 4090", "H100")}),
        ("mamba_cache_mode none, align", {"mamba_cache_mode": ("none", "align")}),
        ("mamba_cache_mode null align", {"mamba_cache_mode": (None, "align")}),
        ("block_size none 16;enable_prefix_caching true", {
            "block_size": (None, 16), "enable_prefix_caching": (True,)}),
        (
            "Tensor parallel 1 2, KV-cache dtype auto fp8",
            {"tensor_parallel": (1, 2), "kv_cache_dtype": ("auto", "fp8")},
        ),
        ("tensor parallel: 1, 2\nPREFIX CACHING = on off auto", {
            "tensor_parallel": (1, 2), "enable_prefix_caching": (True, False, None)}),
        ("Block size auto, 16; Tile, queries 16 32", {
            "block_size": (None, 16), "flex_attn_block_m": (16, 32)}),
        ("", {}),
    ],
)  # fmt: skip
def test_axes_are_read(text, axes):
    assert parse_axes(text) == axes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tensor_parallel", "without values"),
        ("tensor_parallel, kv_cache_dtype fp8", "without values"),
        ("tensor_paralel 1 2", "Nearest: tensor_parallel"),
        ("tensor_parallel 1, kv_cache_dtyp fp8", "Nearest: kv_cache_dtype"),
        ("tensor_parallel 1, kv_cache_dtyp", "Nearest: kv_cache_dtype"),
        ("tensor_parallel 1 kv_cache_dtyp fp8", "Nearest: kv_cache_dtype"),
        ("block_size 16, block_size 32", "twice"),
        ("1 2", "has no field '1'"),
        ("tp 1 2", "has no field 'tp'. Nearest: tensor_parallel"),
    ],
)
def test_what_cannot_be_read_names_the_nearest(text, said):
    with pytest.raises(wb.ScenarioError, match=said):
        parse_axes(text)


def test_a_value_that_is_nearly_a_word_names_the_nearest_word():
    with pytest.raises(wb.ScenarioError, match="Nearest: fp8_e4m3"):
        checked_axes(START, parse_axes("kv_cache_dtype auto fp8_e4m"))


@pytest.mark.parametrize("name", ["rules", "platform", "device", "model"])
def test_of_many_wrong_values_the_first_alone_is_looked_at(name, monkeypatch):
    made = []
    monkeypatch.setattr(wb.Scenario, "__init__", counted(wb.Scenario.__init__, made))
    with pytest.raises(wb.WorkbenchError, match="x0' is not known") as caught:
        wb.sweep(START, {name: [f"x{number}" for number in range(3000)]})
    assert len(caught.value.message) < 900
    assert len(made) < 10


def test_few_words_of_a_long_axis_are_compared_with_the_fields(monkeypatch):
    compared = []
    monkeypatch.setattr(language, "get_close_matches", counted(get_close_matches, compared))
    words = [f"x_{number}" for number in range(3000)]
    assert parse_axes(f"draft_model {' '.join(words)}") == {"draft_model": tuple(words)}
    assert len(compared) == language.MOST_COMPARED


def counted(function, calls):
    def one(*args, **named):
        calls.append(args)
        return function(*args, **named)

    return one


@pytest.mark.parametrize("memory", [None, "20 GiB"])
def test_the_default_axes_are_read_back(memory):
    axes = default_axes(START.replace(kv_cache_memory_bytes=memory))
    assert parse_axes(axes_text(axes)) == axes


@pytest.mark.parametrize(
    ("changes", "is_assumed"),
    [
        ({}, True),
        ({"device": "H100"}, False),
        ({"device": "H100", "weights_bytes": "200 GB"}, False),
        ({"device": "H100", "model": TORCHAO, "max_model_len": 2048}, True),
        ({"num_gpu_blocks_override": 100}, False),
    ],
)
def test_memory_is_assumed_only_where_none_is_given_or_estimated(changes, is_assumed):
    axes = default_axes(START.replace(**changes))
    assert ("kv_cache_memory_bytes" in axes) == is_assumed


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.is_listed])
def test_every_value_that_is_offered_is_read_as_what_it_is(name):
    field = FIELDS[name]
    model = wb.load_model(START.model)
    values = tuple(dict.fromkeys(field.candidates(START, model)))
    assert values
    assert parse_axes(axes_text({name: values})) == {name: values}
    checked_axes(START, {name: values[:3]})


def test_the_default_axes_are_written_as_the_controls_are_labelled():
    assert axes_text(default_axes(START)).splitlines()[:4] == [
        "Tensor parallel 1 2 4 8",
        "KV-cache dtype auto fp8",
        "Block size auto 16 32 64 128 256",
        "Prefix caching off on",
    ]


def test_no_label_is_a_word_of_a_field():
    words = {word for name in FIELDS for word in language._plain_words(name)}
    labels = {field.label.casefold() for field in FIELDS.values()}
    assert labels.isdisjoint(map(str.casefold, words - FIELDS.keys()))
    assert len(labels) == len(FIELDS)


def offered(text):
    found = completion(text, len(text), START)
    return [one.word for one in found.offers]


def test_fields_then_values_then_fields_are_offered():
    assert offered("")[:2] == ["Tensor parallel", "KV-cache dtype"]
    assert offered("ten")[0] == "Tensor parallel"
    assert offered("cache_dt")[0] == "KV-cache dtype"
    assert offered("Tensor p") == ["Tensor parallel"]
    assert offered("Tensor parallel 1, mamba cache") == ["Mamba cache mode"]
    assert offered("Tensor parallel ")[:2] == ["1", "2"]
    assert offered("tensor_parallel ")[:2] == ["1", "2"]
    assert "1" not in offered("tensor_parallel 1 2 ")
    assert offered("tensor_parallel 1 2, ")[0] == "KV-cache dtype"
    assert "Tensor parallel" not in offered("tensor_parallel 1 2, tens")
    assert offered("tensor_parallel 1 2, kv_cache_dtype f")[0] == "fp8"
    assert offered("model qwen3.5")[0].startswith("qwen3.5")
    assert offered("enable_prefix_caching ")[:2] == ["off", "on"]


def test_what_is_offered_in_the_middle_of_a_text_is_of_its_place():
    text = "tensor_parallel 1, kv_cache_dtype auto"
    found = completion(text, len("tensor_parallel 1"), START)
    assert found.start == len("tensor_parallel ")
    assert {one.word[0] for one in found.offers} == {"1"}


@given(st.text(alphabet="abkv_cache_dtype 128,;=\n\"'GiB", max_size=60), st.integers(0, 60))
def test_any_text_is_read_refused_or_completed(text, cursor):
    completion(text, cursor, START)
    try:
        found = parse_axes(text)
    except wb.ScenarioError:
        return
    assert all(found.values())


def test_every_field_can_be_completed_to():
    for name, field in FIELDS.items():
        assert field.label in offered(name[:-1])
        assert field.label in offered(field.label.partition(",")[0][:-1])


def test_a_switch_is_refused_with_the_words_that_are_offered():
    assert parse_axes("Prefix caching True, OFF") == {"enable_prefix_caching": (True, False)}
    with pytest.raises(ScenarioError, match=r"caching 'maybe'.* Allowed: auto, off, on\."):
        parse_axes("Prefix caching on maybe")


def test_empty_lines_are_read_in_one_pass():
    """100,000 of them took an hour, as every line was read to the end of the text."""
    code = "from workbench.sweeps.language import parse_axes; parse_axes('\\n' * 10**5)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
