"""Pickers offer what is legal, all of it and nothing else."""

from __future__ import annotations

from random import Random

import pytest

from workbench.core.errors import WorkbenchError
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.choices import NO_BACKEND, LegalValues
from workbench.models import load_model
from workbench.resolution import resolve
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.field import ENGINE
from workbench.scenario.scenario import random_scenarios
from workbench.ui.controls import Choice, Controls

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
    controls = Controls()
    controls.refresh(scenario, model)
    controls.offer_legal(scenario, LegalValues(model))
    for picker in controls.pickers:
        if isinstance(picker, Choice) and picker.declared.only_legal != free:
            yield picker, [value for _label, value in picker.widget.options]


def conflicts(scenario, field):
    """Return the errors in a field's value, by resolving it; None when it is refused."""
    try:
        errors = resolve(scenario).errors
    except WorkbenchError:
        return None
    return {one.code for one in errors if one.field == field or one.code in NO_BACKEND}


@pytest.mark.parametrize("fields", SCENARIOS, ids=str)
def test_offered_is_exactly_what_brings_no_new_conflict(fields):
    scenario = Scenario(**fields)
    model = load_model(scenario.model)
    for picker, offered in choices(scenario, free=False):
        present = getattr(scenario, picker.field)
        before = conflicts(scenario, picker.field)
        assert picker.widget.value == (ENGINE if present is None else present)
        for value in picker.declared.candidates(scenario, model):
            codes = conflicts(scenario.replace(**{picker.field: value}), picker.field)
            legal = value == present or (codes is not None and codes <= before)
            shown = ENGINE if value is None else value
            assert (shown in offered) == legal, (picker.field, value, codes)
        assert len(set(offered)) == len(offered)


def test_the_pickers_really_omit_something():
    left_out = 0
    for fields in SCENARIOS:
        scenario = Scenario(**fields)
        for picker, offered in choices(scenario, free=False):
            candidates = list(picker.declared.candidates(scenario, load_model(scenario.model)))
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


def wandering(seed):
    """Yield scenarios of one model, each a few settings of random ones away from the last."""
    random = Random(seed)
    rules = random.choice(list(RULE_SETS))
    present, *others = random_scenarios(20, seed, rules)
    for other in others:
        names = random.sample([name for name in FIELDS if name not in {"model", "rules"}], 3)
        if not {"platform", "device", "compute_capability"}.isdisjoint(names):
            names += ["platform", "device", "compute_capability"]
        present = present.replace(**{name: getattr(other, name) for name in names})
        yield present


@pytest.mark.parametrize("seed", range(12))
def test_remembered_legal_values_are_those_that_are_found_afresh(seed):
    remembered, known = None, 0
    for scenario in wandering(seed):
        model = load_model(scenario.model)
        remembered = remembered or LegalValues(model)
        for field in FIELDS.values():
            if field.only_legal:
                question = scenario, field.name, field.candidates(scenario, model)
                known += remembered.are_known(*question)
                assert remembered.of(*question) == LegalValues(model).of(*question)
                assert remembered.are_known(*question)
    assert known
