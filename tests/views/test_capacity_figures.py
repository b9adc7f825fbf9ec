"""The figures of memory and capacity show the plan's own numbers, and say where there are none."""

from __future__ import annotations

import random

import pytest

import workbench as wb
from tests.catalog import distinct_models, short_length
from workbench.core.capacity.occupancy import pool_use, requests_that_fit, waste
from workbench.core.capacity.separate_pools import request_bytes, separate_pools
from workbench.core.what_if.alternatives import fp8_gain, on_ranks
from workbench.views.figures import (
    capacity,
    gain_of_fp8,
    groups,
    memory_bar,
    shared_or_separate,
)

GIB = 2**30
NANO = "nemotron-3-nano-30b-a3b"
SIZE_LIMIT = 150_000
SCENARIOS = 10_000


def plan_of(model=NANO, **values):
    return wb.resolve(model=model, **values)


def test_ten_thousand_random_pools_add_up_to_the_last_byte():
    pick = random.Random(7)
    plans = []
    for name in distinct_models():
        for kv_cache_dtype in ("auto", "fp8"):
            for caching in (False, True):
                scenario = wb.Scenario(
                    model=name,
                    kv_cache_dtype=kv_cache_dtype,
                    enable_prefix_caching=caching,
                    num_speculative_tokens=pick.randrange(4),
                    kv_cache_memory_bytes=pick.randrange(1, 64 * GIB),
                )
                try:
                    plans.append(wb.resolve(scenario))
                except wb.WorkbenchError:
                    continue
    counted = 0
    while counted < SCENARIOS:
        plan = pick.choice(plans)
        prompt = pick.randint(1, plan.max_model_len)
        parts = waste(plan, plan.cache, prompt)
        assert sum(parts.parts.values()) == parts.reserved_bytes
        use = pool_use(plan, plan.cache, prompt)
        if use is not None:
            assert sum(use.values()) == plan.cache.available_bytes
            assert min(use.values()) >= 0
        counted += 1


def test_the_bars_hold_the_device_and_the_cache():
    plan = plan_of(
        device_memory_bytes="80 GiB",
        weights_bytes="60 GiB",
        activation_bytes="3 GiB",
        gpu_memory_utilization=0.9,
    )
    figure = memory_bar(plan, 4096)
    device = sum(bar.x[0] for bar in figure.data if bar.y[0] == "device")
    assert device == pytest.approx(80)
    cache = sum(bar.x[0] for bar in figure.data if bar.y[0] == "cache")
    assert cache == pytest.approx(plan.cache.available_bytes / GIB)
    assert len(memory_bar(plan_of(), 4096).data) == len(figure.data)
    assert "no memory yet" in memory_bar(plan_of(), 4096).layout.title.text


def test_without_a_device_size_its_row_is_not_drawn():
    bars = memory_bar(plan_of(kv_cache_memory_bytes="20 GiB")).data
    assert {bar.y[0] for bar in bars} == {"cache"}


def test_the_default_prompt_is_shown_without_an_explicit_one():
    for length, usual in ((1000, 1000), (65_536, 65_536), (None, 32_768)):
        plan = plan_of(kv_cache_memory_bytes="20 GiB", max_model_len=length)
        for figure in (memory_bar, capacity, shared_or_separate):
            assert figure(plan).to_json() == figure(plan, usual).to_json()
            with pytest.raises(wb.WorkbenchError, match="Nearest"):
                figure(plan, 0)


def test_capacity_is_that_of_every_size_and_missing_where_it_would_not_start():
    plan = plan_of(kv_cache_memory_bytes="20 GiB")
    auto, fp8 = capacity(plan, 8192).data
    assert list(auto.x) == [f"TP {size}" for size in (1, 2, 4, 8, 16)]
    for index, size in enumerate((1, 2, 4, 8)):
        for bar, dtype in ((auto, "auto"), (fp8, "fp8")):
            other = wb.resolve(plan.scenario.replace(tensor_parallel=size, kv_cache_dtype=dtype))
            assert bar.y[index] == requests_that_fit(other, other.cache, 8192)
    small = plan_of(kv_cache_memory_bytes="300 MiB", max_model_len=131072)
    assert capacity(small, 8192).data[0].text[0] == "✕"


def test_weights_are_split_anew_for_other_ranks():
    settings = wb.Scenario(weights_bytes=60 * GIB, tensor_parallel=2)
    assert on_ranks(settings, 4).weights_bytes == 30 * GIB
    assert on_ranks(settings, 1).weights_bytes == 120 * GIB


def test_fp8_gains_little_on_short_prompts_and_nearly_two_on_long_ones():
    gains = fp8_gain(plan_of(), (16, 262144))
    assert gains[0].factor < 1.01
    assert gains[1].factor > 1.9
    figure = gain_of_fp8(plan_of())
    assert figure.data[0].y[-1] == pytest.approx(gains[1].factor)
    assert fp8_gain(plan_of(kv_cache_dtype="fp8"), (16,)) is None
    assert "no fp8 gain" in gain_of_fp8(plan_of(kv_cache_dtype="fp8")).layout.title.text
    assert "no fp8 gain" in gain_of_fp8(plan_of("mamba-2.8b")).layout.title.text


def test_separate_pools_win_where_they_were_split_for_and_lose_elsewhere():
    plan = plan_of(kv_cache_memory_bytes="20 GiB")
    pools = separate_pools(plan, 8192)
    assert pools.attention_bytes + pools.state_bytes == 20 * GIB
    assert pools.block_size == 16
    there = pools.requests_that_fit(8192)
    assert there >= requests_that_fit(plan, plan.cache, 8192)
    for prompt in (128, 131072):
        assert pools.requests_that_fit(prompt) < requests_that_fit(plan, plan.cache, prompt)
    attention, states = request_bytes(plan, 16, 8192)
    assert states == 23 * plan.mamba_page_size_bytes
    assert attention == 6 * 8192 * plan.attention_bytes_per_token
    assert separate_pools(plan_of("llama-3.1-8b", kv_cache_memory_bytes=GIB), 8192) is None
    assert "no pools to compare" in shared_or_separate(plan_of(), 8192).layout.title.text


def test_every_layer_is_in_one_cell_of_the_groups():
    plan = plan_of()
    [table] = groups(plan).data
    cells = [label for row in table.text for label in row]
    layers = [layer.split(".")[2] for group in plan.cache.groups for layer in group.layers]
    assert sorted(label for label in cells if label != "∅") == sorted(layers)
    assert cells.count("∅") == plan.cache.grouping.padding_layers == 1
    assert "1 empty slot" in groups(plan).layout.title.text


@pytest.mark.sampled(10)
@pytest.mark.parametrize("model", distinct_models())
def test_every_model_can_be_drawn_in_little_space(model):
    plan = plan_of(model, kv_cache_memory_bytes="8 GiB", max_model_len=short_length(model))
    tokens = plan.max_model_len // 2
    for figure in (
        memory_bar(plan, tokens),
        capacity(plan, tokens),
        gain_of_fp8(plan),
        shared_or_separate(plan, tokens),
        groups(plan),
    ):
        assert len(figure.to_json()) < SIZE_LIMIT
