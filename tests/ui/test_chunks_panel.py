"""The tab of chunk sizes: connectors, sizes good and bad, another engine of the store."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.ui.panels.chunks import ALONE
from workbench.ui.panels.offload import SAME


@pytest.fixture
def shown():
    panel = wb.explore(model="qwen3.5-4b", enable_prefix_caching=True, max_num_batched_tokens=8192)
    tab = panel.open("Chunks")
    yield tab
    assert panel.session.errors == []


def test_the_default_chunk_is_checked(shown):
    assert "✕ a chunk of 256 tokens is not legal" in shown._html.value
    assert "528, 1,056" in shown._html.value


def test_a_legal_size_and_what_it_costs(shown):
    shown.controls["chunk_tokens"].value = "1056"
    assert "✓ a chunk of 1,056 tokens is legal" in shown._html.value
    shown.controls["prompt_tokens"].value = "10000"
    assert "A prompt of 10,000 tokens" in shown._html.value


def test_a_bad_size_keeps_the_last_answer(shown):
    before = shown._html.value
    shown.controls["chunk_tokens"].value = "0"
    assert "chunk_tokens" in shown._refusal.value
    assert shown._html.value == before
    assert "wb-stale" in shown._html._dom_classes
    shown.controls["chunk_tokens"].value = ""
    assert shown._refusal.value == ""


def test_every_connector_has_an_answer(shown):
    for name in shown.controls["connector"].options:
        shown.controls["connector"].value = name
        assert name in shown._html.value


def test_another_engine_of_the_same_model_and_of_another(shown):
    shown.controls["model"].value = SAME
    shown.controls["kv_cache_dtype"].value = "fp8"
    assert "multiples of 1,056" in shown._html.value
    assert "<td>✕ 1</td>" in shown._html.value
    shown.controls["model"].value = "gpt-oss-20b"
    assert "gpt-oss-20b" in shown._html.value
    shown.controls["model"].value = ALONE
    assert "multiples of 528" in shown._html.value


def test_another_engine_that_is_refused_is_named(shown):
    shown.controls["model"].value = "bamba-9b"
    shown.controls["kv_cache_dtype"].value = "fp8_ds_mla"
    assert "wb-error" in shown._html.value or "refused" in shown._html.value
