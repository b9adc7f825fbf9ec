"""Pickers offer what is legal, all of it and nothing else."""

from __future__ import annotations

import pytest

from workbench.core.what_if.choices import conflicts
from workbench.models import load_model
from workbench.scenario import Scenario
from workbench.ui.controls import ENGINE, Choice
from workbench.ui.sections import Controls

SCENARIOS = (
    {},
    {"platform": "xpu", "tensor_parallel": 4},
    {"platform": "rocm", "enable_prefix_caching": True},
    {"platform": "cpu"},
    {"compute_capability": "8.0", "kv_cache_dtype": "fp8"},
    {"model": "plamo-2-1b"},
    {"model": "jamba-1.5-mini", "backend": "FLASHINFER"},
    {"model": "qwen3-next-80b-a3b", "num_speculative_tokens": 2},
    {"model": "kimi-linear-48b-a3b", "compute_capability": "10.0"},
    {"model": "deepseek-v3"},
    {"model": "gpt-oss-20b"},
    {"model": "mamba-2.8b"},
    {"model": "minimax-text-01", "tensor_parallel": 8},
    {"block_size": 15},
    {"platform": "xpu", "tensor_parallel": 4, "rules": "before-37467"},
)


def choices(scenario, *, free):
    model = load_model(scenario.model)
    for picker in Controls().pickers:
        if isinstance(picker, Choice) and picker._free == free:
            picker.refresh(scenario, model)
            yield picker, [value for _label, value in picker.widget.options]


@pytest.mark.parametrize("fields", SCENARIOS, ids=str)
def test_offered_is_exactly_what_brings_no_new_conflict(fields):
    scenario = Scenario(**fields)
    model = load_model(scenario.model)
    for picker, offered in choices(scenario, free=False):
        present = getattr(scenario, picker.field)
        before = conflicts(model, scenario, picker.field)
        assert picker.widget.value == (ENGINE if present is None else present)
        for value in picker._candidates(scenario, model):
            codes = conflicts(model, scenario.replace(**{picker.field: value}), picker.field)
            legal = value == present or (codes is not None and codes <= before)
            shown = ENGINE if value is None else value
            assert (shown in offered) == legal, (picker.field, value, codes)
        assert len(set(offered)) == len(offered)


def test_the_pickers_really_leave_something_out():
    left_out = 0
    for fields in SCENARIOS:
        scenario = Scenario(**fields)
        for picker, offered in choices(scenario, free=False):
            candidates = list(picker._candidates(scenario, load_model(scenario.model)))
            left_out += len(candidates) - len(offered)
    assert left_out > 100


def test_tensor_parallel_sizes_divide_the_heads():
    for fields in SCENARIOS:
        scenario = Scenario(**fields)
        heads = load_model(scenario.model).total_num_attention_heads
        for picker, offered in choices(scenario, free=False):
            if picker.field == "tensor_parallel" and heads:
                assert all(heads % size == 0 for size in offered)


def test_free_pickers_keep_a_value_that_they_would_not_offer():
    scenario = Scenario(num_speculative_tokens=12)
    drafts = {picker.field: offered for picker, offered in choices(scenario, free=True)}
    assert drafts["num_speculative_tokens"] == [*range(9), 12]


def test_an_inline_model_has_a_name_in_the_list():
    config = {**Scenario().to_dict(), "model": {"model_type": "unknown"}}
    scenario = Scenario(**config)
    picker = Controls().pickers[0]
    picker.refresh(scenario, None)
    assert picker.widget.options[-1] == ("inline config", {"model_type": "unknown"})
    assert picker.widget.value == {"model_type": "unknown"}


def test_without_a_readable_model_everything_is_offered():
    scenario = Scenario(model="./missing.json", backend="FLASHINFER")
    controls = Controls()
    controls.refresh(scenario, None)
    assert len(controls.pickers) > len(scenario.to_dict())
