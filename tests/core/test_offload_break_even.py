"""Loading against computing: bytes by a slow count, and the break-even by trying every length."""

from __future__ import annotations

import math

import pytest

import workbench as wb
from workbench.core.offload.break_even import LoadedPrefix

MODELS = (
    *("qwen3-8b", "qwen3-next-80b-a3b", "nemotron-nano-9b-v2", "gpt-oss-20b", "gemma-3-4b"),
    "jamba-1.5-mini",
)
GIB = 2**30


def offload_of(model, **changes):
    fields = {"enable_prefix_caching": True, "max_model_len": 16_384, **changes}
    found = wb.resolve(model, **fields).offload(cpu_bytes_to_use=64 * GIB)
    assert found.is_legal, found.problems
    return found


def counted_bytes(found, tokens):
    """Count the pages of every layer that a hit of so many tokens reads, one after the other."""
    total = 0
    for group in found.plan.cache.groups:
        blocks = range(0, tokens, group.spec.block_size)
        if group.spec.is_mamba:
            blocks = blocks[-1:]
        elif group.spec.window_tokens is not None:
            blocks = blocks[-math.ceil(group.spec.window_tokens / group.spec.block_size) :]
        total += len(blocks) * found.plan.cache.grouping.bytes_per_block
    return total


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_what_is_loaded_is_every_page_that_a_hit_reads(model, rules):
    found = offload_of(model, rules=rules)
    unit = max(found.gpu_block_sizes)
    for tokens in (0, 1, unit, unit + 1, 5 * unit, 16_384):
        loaded = found.loaded_prefix(tokens)
        assert loaded.tokens == tokens // unit * unit
        assert loaded.bytes_per_rank == counted_bytes(found, loaded.tokens)


@pytest.mark.parametrize("model", MODELS)
def test_the_break_even_is_the_first_length_that_pays(model):
    found = offload_of(model)
    unit, link = max(found.gpu_block_sizes), 25e9
    middle = found.loaded_prefix(8_192).most_prefill_tokens_per_s(link)
    for rate in (middle * 0.01, middle * 0.9, middle * 1.1, middle * 100):
        lengths = range(unit, 16_384 + 1, unit)
        loads = map(found.loaded_prefix, lengths)
        expected = next((x.tokens for x in loads if x.seconds(link) < x.tokens / rate), None)
        assert found.break_even_tokens(prefill_tokens_per_s=rate, link_bytes_per_s=link) == expected


def test_a_hybrid_model_has_a_shortest_prefix_and_one_of_attention_alone_has_none():
    link = 25e9
    for model, is_fixed in (("qwen3-8b", True), ("bamba-9b", False)):
        found = offload_of(model)
        rates = [found.loaded_prefix(n).most_prefill_tokens_per_s(link) for n in (2_112, 16_368)]
        assert (rates[0] == pytest.approx(rates[1])) == is_fixed


def test_both_rates_are_two_sides_of_the_same_number():
    loaded = LoadedPrefix(tokens=32_768, bytes_per_rank=GIB)
    rate = loaded.most_prefill_tokens_per_s(63e9)
    assert loaded.seconds(63e9) == pytest.approx(loaded.tokens / rate)


def test_a_failed_check_has_no_break_even():
    found = wb.resolve("qwen3-next-80b-a3b").offload(cpu_bytes_to_use=64 * GIB)
    with pytest.raises(ValueError, match="does not start"):
        found.loaded_prefix(4096)
