"""The boundary: what a scenario accepts, and what it says about everything else."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.strategies import scenarios
from tests.models.configs import llama
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.platforms import PLATFORMS
from workbench.core.versions import RULE_SETS, V0_23
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import resolve


def error_of(**values):
    with pytest.raises(ScenarioError) as caught:
        Scenario(**values)
    return caught.value


@pytest.mark.parametrize(
    ("value", "code", "nearest"),
    [
        pytest.param(0, "out_of_range", 16, id="zero"),
        pytest.param(-16, "out_of_range", 16, id="negative"),
        pytest.param(2**31, "out_of_range", 2**31 - 16, id="too-large"),
        pytest.param(10**5000, "out_of_range", 2**31 - 16, id="huge"),
        pytest.param(1e9, "wrong_type", 10**9, id="exponent"),
        pytest.param("16", "wrong_type", 16, id="string"),
        pytest.param("sixteen", "wrong_type", None, id="word"),
        pytest.param(16.0, "wrong_type", 16, id="float"),
        pytest.param(math.nan, "wrong_type", None, id="nan"),
        pytest.param(math.inf, "wrong_type", None, id="infinity"),
        pytest.param(True, "wrong_type", 16, id="bool"),
        pytest.param([16], "wrong_type", None, id="list"),
    ],
)
def test_an_impossible_block_size_is_explained(value, code, nearest):
    error = error_of(block_size=value)
    assert (error.code, error.field) == (code, "block_size")
    assert error.message.startswith("Invalid block_size ")
    assert "Expected an integer" in error.message
    assert len(error.message) < 300
    assert ("Nearest valid value" in error.message) == (nearest is not None)
    if nearest is not None:
        assert f"Nearest valid value: {nearest}." in error.message
        assert resolve(model=llama(), block_size=nearest).errors == ()


@pytest.mark.parametrize(
    ("settings", "nearest"),
    [
        ({"backend": "FLASH_ATTN", "block_size": 15}, 16),
        ({"backend": "FLASH_ATTN", "block_size": 40}, 32),
        ({"block_size": 15}, 16),
        ({"block_size": 1, "platform": "rocm"}, 16),
    ],
)
def test_a_block_size_that_no_kernel_takes_is_explained_by_the_plan(settings, nearest):
    plan = resolve(model=llama(), **settings)
    problem = plan.errors[0]
    assert problem.code in {"backend_not_valid", "no_valid_backend"}
    assert "block_size must be a positive multiple of 16 for FLASH_ATTN" in problem.message or (
        settings.get("platform") == "rocm"
    )
    assert f"got {settings['block_size']}; nearest valid: {nearest}" in problem.message
    assert plan.remedies(problem)[0].changes == {"block_size": nearest}


@pytest.mark.parametrize(
    ("field", "low", "high"),
    [
        ("tensor_parallel", 1, 1024),
        ("mamba_block_size", 1, 2**31 - 1),
        ("max_num_batched_tokens", 1, 2**31 - 1),
        ("num_speculative_tokens", 0, 1024),
        ("max_model_len", 1, 2**31 - 1),
    ],
)
def test_a_number_out_of_range_names_the_nearest_one(field, low, high):
    for value, nearest in ((low - 5, low), (high + 1, high)):
        error = error_of(**{field: value})
        assert (error.code, error.field) == ("out_of_range", field)
        assert error.message == (
            f"Invalid {field} {value}. Expected an integer from {low} to {high}. "
            f"Nearest valid value: {nearest}."
        )
    for value in (low, high):
        assert getattr(Scenario(**{field: value}), field) == value


def test_minus_one_means_the_models_own_length():
    plan = resolve(model=llama(), max_model_len=-1)
    assert plan.max_model_len == 262144


@pytest.mark.parametrize(
    ("field", "value", "nearest"),
    [
        ("platform", "nvidia cuda", "cuda"),
        ("platform", "romc", "rocm"),
        ("backend", "flash_atn", "FLASH_ATTN"),
        ("backend", "FLASHINFR", "FLASHINFER"),
        ("dtype", "fp16", "float16"),
        ("kv_cache_dtype", "fp8_e4m4", "fp8_e4m3"),
        ("mamba_cache_dtype", "float-32", "float32"),
        ("mamba_ssm_cache_dtype", "bf16", "bfloat16"),
        ("mamba_cache_mode", "aling", "align"),
        ("compute_capability", "9", "9.0"),
        ("rules", "0.24", "0.23"),
    ],
)
def test_a_wrong_name_lists_the_nearest_right_ones(field, value, nearest):
    error = error_of(**{field: value})
    assert (error.code, error.field) == ("unknown_name", field)
    hint = error.message.split("Nearest: ")[1].split(".  ")[0]
    assert hint.startswith(nearest)
    assert (
        f"Allowed: {', '.join(sorted(FIELDS[field].kind.candidates('0.23') or RULE_SETS))}."
        in error.message
    )


def test_a_state_space_backend_is_not_an_attention_backend():
    assert V0_23.backends["GDN_ATTN"].is_ssm
    assert error_of(backend="GDN_ATTN").code == "unknown_name"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("block_sise", "block_size"),
        ("kv_cache_dtyp", "kv_cache_dtype"),
        ("tensor-parallel", "tensor_p"),
        ("tp", "tensor_parallel"),
        ("vllm_version", "rules"),
        ("max_sequences", "max_num_seqs"),
    ],
)
def test_an_unknown_field_lists_the_nearest_fields(name, nearest):
    error = error_of(**{name: 1})
    assert (error.code, error.field) == ("unknown_field", name)
    assert f"Nearest: {nearest}" in error.message
    assert len(error.message) < 200


def test_an_unknown_field_like_no_other_lists_the_first_fields():
    error = error_of(qwertz=1)
    assert f"Fields: {', '.join([*FIELDS][:18])} and {len(FIELDS) - 18} more." in error.message
    assert len(error.message) < 500


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("platform", 3),
        ("platform", None),
        ("rules", None),
        ("tensor_parallel", None),
        ("tensor_parallel", "2"),
        ("enable_prefix_caching", 1),
        ("enable_prefix_caching", "yes"),
        ("backend", True),
        ("model", None),
        ("model", 5),
        ("model", ["llama"]),
        ("compute_capability", [9]),
    ],
)
def test_a_wrong_type_is_explained(field, value):
    error = error_of(**{field: value})
    assert (error.code, error.field) == ("wrong_type", field)
    assert type(value).__name__ in error.message


def test_a_capability_may_be_a_number():
    assert Scenario(compute_capability=9.0) == Scenario(compute_capability="9.0")
    assert Scenario(compute_capability=10).compute_capability == "10.0"
    assert error_of(compute_capability=math.nan).code == "unknown_name"


@pytest.mark.parametrize("platform", ["rocm", "xpu", "cpu"])
@pytest.mark.parametrize("capability", ["8.0", "100.0", "none"])
def test_a_capability_is_read_on_cuda_only(platform, capability):
    plain = resolve(model=llama(), platform=platform)
    given = resolve(model=llama(), platform=platform, compute_capability=capability)
    assert given.to_dict() == plain.to_dict()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("", "scenario_not_json", id="empty"),
        pytest.param("{", "scenario_not_json", id="cut"),
        pytest.param("[" * 100_000, "scenario_not_json", id="deep"),
        pytest.param('{"block_size": ' + "9" * 5000 + "}", "scenario_not_json", id="digits"),
        pytest.param("[]", "scenario_not_object", id="list"),
        pytest.param("null", "scenario_not_object", id="null"),
        pytest.param('{"model": "m", "block_size": NaN}', "wrong_type", id="nan"),
        pytest.param('{"model": "m", "block_size": 1e9}', "wrong_type", id="exponent"),
        pytest.param('{"block_size": 16, "block_size": 32}', "duplicate_field", id="twice"),
        pytest.param('{"model": {"a": 1, "a": 2}}', "duplicate_field", id="twice-in-model"),
        pytest.param('{"model": "m", "": 1}', "unknown_field", id="no-name"),
        pytest.param("{}", "missing_field", id="no-model"),
    ],
)
def test_an_invalid_line_is_a_typed_error(text, code):
    with pytest.raises(ScenarioError) as caught:
        Scenario.from_json(text)
    assert caught.value.code == code
    assert set(caught.value.to_dict()) == {"code", "message", "field"}


@given(scenarios())
def test_json_round_trips(scenario):
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert set(json.loads(scenario.to_json())) == set(FIELDS)


def test_a_line_names_its_model_and_the_rest_has_defaults():
    assert Scenario.from_json('{"model": "llama-3.1-8b"}') == Scenario(model="llama-3.1-8b")
    assert resolve(Scenario()).model.name == "nemotron-3-nano-30b-a3b"


def test_replace_gives_a_checked_copy():
    scenario = Scenario(model=llama(), tensor_parallel=2)
    changed = scenario.replace(block_size=32)
    assert (changed.block_size, changed.tensor_parallel) == (32, 2)
    assert scenario.block_size is None
    with pytest.raises(ScenarioError, match="tensor_parallel"):
        scenario.replace(tensor_parallel=0)
    with pytest.raises(ScenarioError, match="block_sise"):
        scenario.replace(block_sise=16)


def test_a_scenario_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        Scenario().block_size = 16


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=5), children)
    ),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(tuple(FIELDS)) | st.text(max_size=12), VALUES, max_size=4))
def test_any_values_give_a_scenario_or_a_typed_error(values):
    with suppress(WorkbenchError):
        resolve(Scenario.from_dict(values).replace(model=llama()))


def test_membership_in_a_registry_never_raises():
    assert PLATFORMS.get("tpu") is None
    assert PLATFORMS.get("cuda") is PLATFORMS["cuda"]


@pytest.mark.parametrize(
    ("field", "written", "stored"),
    [
        ("backend", "flashinfer", "FLASHINFER"),
        ("backend", "Auto", None),
        ("draft_attention_backend", "flash_attn", "FLASH_ATTN"),
        ("platform", "CUDA", "cuda"),
        ("dtype", "half", "float16"),
    ],
)
def test_another_form_of_a_word_is_the_word(field, written, stored):
    # validate_backend_before of vLLM 0.23 and 0.33 takes any case, and auto as None
    assert getattr(Scenario(model="any", **{field: written}), field) == stored
    assert getattr(Scenario.from_dict({"model": "any", field: written}), field) == stored
