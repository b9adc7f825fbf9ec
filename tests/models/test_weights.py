"""Weights: the bytes of parameters and tables that real models have in an installed vLLM.

`tests/data/weights.jsonl.gz` holds what `tools/record_weights.py` recorded.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.groups import in_groups
from tests.models.configs import FAMILIES, llama
from tests.recorded import recorded
from workbench import resolve
from workbench.core.capacity.draft_weights import has_several_chunks
from workbench.core.capacity.memory_estimate import loaded_weights, weights_of
from workbench.core.formats import Format
from workbench.core.groups.pipeline import ALL, layers_of_stages
from workbench.core.model import DEFAULT_MAX_MODEL_LEN
from workbench.core.published import digest
from workbench.core.ranks import Split, repeated_gates, split_of
from workbench.core.versions import RULE_SETS
from workbench.core.weights import CHUNKED, LENGTH, NO_WEIGHTS, STEP, STREAMS, Part
from workbench.core.working_plan import UntracedPlan
from workbench.models import catalog_config, catalog_names, load_model
from workbench.models.read import read_model
from workbench.models.weights.stored import NVFP4
from workbench.scenario import Scenario

RECORDED = recorded("weights")
OF_STAGES = recorded("stage_weights")
OF_ENGINES = recorded("engine_weights")
RECORDED_LENGTH = 4096
"""max_model_len of the recorded servers whose tables of positions are as long."""
RECORDED_STEP = 2048
"""max_num_batched_tokens of those whose tables have a row for each."""
OF_STEPS = {LENGTH: RECORDED_LENGTH, STEP: RECORDED_STEP, STREAMS: 0}
"""Copies of those; vLLM does not register the streams, so that they were not recorded."""


SHARED_TABLES = {
    "Plamo3ForCausalLM of few layers": {2**19},
}
"""Models with tables of positions for other lengths than the recorded -> the bytes too many."""


def model_of(line):
    config = line.get("config")
    return read_model(config, line["name"]) if config else load_model(line["name"])


def paddings_of(answer, model):
    """Return what kernels of experts round up on a device; most were recorded on 9.0."""
    major = answer.get("capability", (9, 0))[0]
    return tuple(
        one
        for one in RULE_SETS[answer["vllm"]].expert_paddings
        if one.platform == "cuda" and major in one.majors
        if one.is_tried(model)
    )


@in_groups
@pytest.mark.parametrize("line", RECORDED, ids=lambda line: line["name"])
def test_bytes_of_every_rank_are_vllms(line):
    model = model_of(line)
    assert not model.weights.unknown
    for answer in line["answers"]:
        copies = {**RULE_SETS[answer["vllm"]].weight_copies, **OF_STEPS}
        if not has_several_chunks(model, answer["tensor_parallel"]):
            copies[CHUNKED] = 0
        split = Split(
            answer["tensor_parallel"],
            repeated=repeated_gates(model, "cuda"),
            paddings=paddings_of(answer, model),
        )
        size = model.weights.size(split, "bfloat16", copies)
        recorded = sum(answer[f"{part}_bytes"] for part in ("parameter", "buffer", "vision"))
        assert size == recorded, answer


@in_groups
@pytest.mark.parametrize("line", OF_STAGES, ids=lambda line: f"{line['name']}-{line['vllm']}")
def test_bytes_of_every_pipeline_stage_are_vllms(line):
    known = [one for one in RECORDED if one["name"] == line["name"]]
    model, rules = model_of((known or [line])[0]), RULE_SETS[line["vllm"]]
    *parts, last = layers_of_stages(model.num_hidden_layers, len(line["stages"]))
    longest = model.default_max_model_len or model.derived_max_model_len
    copies = {**rules.weight_copies, **OF_STEPS, LENGTH: longest or DEFAULT_MAX_MODEL_LEN}
    for layers, theirs in zip([*parts, range(last.start, ALL)], line["stages"], strict=True):
        size = model.weights.size(Split(), "bfloat16", copies, layers)
        assert size - theirs in SHARED_TABLES.get(line["name"], {0})


@in_groups
@pytest.mark.parametrize("line", OF_ENGINES, ids=lambda line: f"{line['name']}-{line['vllm']}")
def test_bytes_of_every_engine_are_vllms(line):
    known = [one for one in RECORDED if one["name"] == line["name"]]
    model, rules = model_of((known or [line])[0]), RULE_SETS[line["vllm"]]
    plan = UntracedPlan(model, Scenario(**line["fields"]), rules)
    copies = {**rules.weight_copies, **OF_STEPS}
    *parts, last = layers_of_stages(model.num_hidden_layers, len(line["stages"]))
    stages = [*parts, range(last.start, ALL)] if parts else [None]
    split = split_of(plan)
    found = [model.weights.size(split, "bfloat16", copies, layers) for layers in stages]
    assert found == line["stages"]


def test_engines_are_recorded_with_shares_of_experts_and_with_whole_ones():
    fields = [line["fields"] for line in OF_ENGINES]
    assert len(fields) > 300
    assert {one["enable_expert_parallel"] for one in fields} == {False, True}
    assert {one["data_parallel"] for one in fields} >= {1, 2, 8}


def test_both_versions_and_several_ranks_are_recorded():
    answers = [answer for line in RECORDED for answer in line["answers"]]
    assert len(answers) > 700
    assert {answer["vllm"] for answer in answers} == {"0.23", "0.33"}
    assert {answer["tensor_parallel"] for answer in answers} == {1, 2, 4, 8, 16}


@in_groups
@pytest.mark.parametrize("name", catalog_names())
def test_weights_of_the_catalog_are_known(name):
    weights = load_model(name).weights
    assert weights.parts
    assert not weights.unknown


def test_lfm2_names_its_width_as_its_first_files_do_and_rounds_it_by_default():
    config = catalog_config("lfm2-1.2b")
    rounding = ("block_auto_adjust_ff_dim", "block_multiple_of", "block_ffn_dim_multiplier")
    older = {key: one for key, one in config.items() if key not in {"intermediate_size", *rounding}}
    weights = read_model({**older, "block_ff_dim": 12288}, "x").weights
    known = load_model("lfm2-1.2b").weights
    assert not weights.unknown
    assert weights.size(Split(), "bfloat16", {}) == known.size(Split(), "bfloat16", {})


def test_groups_of_inputs_that_are_not_whole_have_no_scale():
    assert NVFP4.size([64], 88, 88) == 64 * 88 // 2 + 64 * (88 // 16) + 8
    assert Format(8, block=(128, 128), scale_bytes=4).size([192], 192, 192) == 192 * 192 + 4 * 4


def test_weights_are_read_once_from_the_config_as_it_was():
    config = {**llama(), "vocab_size": 512, "intermediate_size": 512}
    model = read_model(config, "x")
    config["vocab_size"] = 1024
    assert model.weights.vocabulary == 512
    assert replace(model, name="y").weights is model.weights


def test_a_plan_has_the_same_fingerprint_whatever_its_weights():
    model = load_model("qwen3-8b")
    other = replace(model, unread_weights=NO_WEIGHTS)
    assert other == model
    assert digest(other) == digest(model)


def test_omitted_experts_are_those_of_the_class_and_not_none():
    """Qwen3NextConfig has 512 of them: a file without the field is not of a dense model."""
    whole = catalog_config("qwen3-next-80b-a3b")
    plain = {key: value for key, value in whole.items() if key != "num_experts"}
    assert plain != whole
    assert weights_of(wb.resolve(plain)) == weights_of(wb.resolve(whole))
    plan = wb.resolve({key: value for key, value in plain.items() if "moe_inter" not in key})
    assert "moe_intermediate_size" in plan.model.weights.unknown
    assert plan.problems == ()


def test_a_family_without_a_description_says_so():
    config = llama(model_type="dory", architectures=["DoryForCausalLM"])
    weights = read_model(config, "x").weights
    assert weights.unknown == "the weights of dory are not described"
    assert weights.size(Split(), "bfloat16", {}) is None


def test_a_quantization_without_a_format_says_so():
    config = llama(quantization_config={"quant_method": "torchao"})
    assert "'torchao'" in read_model(config, "x").weights.unknown


@pytest.mark.parametrize("pattern", [r"re:(a+)+$", r"re:(.*)*b", "re:" + 30 * ".*" + "x"])
def test_an_expression_that_takes_forever_is_not_evaluated(pattern):
    group = {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}}
    config = llama(
        vocab_size=1000,
        intermediate_size=1024,
        quantization_config={
            "quant_method": "compressed-tensors",
            "config_groups": {"group_0": group},
            "ignore": [pattern],
        },
    )
    assert "expression" in read_model(config, "x").weights.unknown


@pytest.mark.parametrize("key", ["vocab_size", "intermediate_size"])
@pytest.mark.parametrize("value", [None, "many", -1, [1], {}, 0.5])
def test_a_field_that_only_weights_read_never_stops_a_model(key, value):
    fields = {"vocab_size": 1000, "intermediate_size": 1024, key: value}
    weights = read_model({**llama(), **fields}, "x").weights
    assert weights.unknown


@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 64))
def test_ranks_together_have_at_least_what_one_alone_has(name, ranks):
    weights = read_model(
        {**FAMILIES[name](), "vocab_size": 512, "intermediate_size": 512}, "x"
    ).weights
    alone, each = (weights.size(Split(count), "bfloat16", {}) for count in (1, ranks))
    if alone is not None and each is not None:
        assert each * ranks >= alone
        assert each <= alone


@given(st.integers(1, 64), st.integers(1, 64), st.sampled_from([1, 2, 4]))
def test_a_format_of_sixteen_bits_is_two_bytes_per_element(outputs, inputs, merged):
    assert Format(16).size([outputs] * merged, inputs, inputs) == 2 * outputs * merged * inputs


def test_a_bias_of_divided_inputs_is_whole_on_every_rank():
    part = Part("o_proj", ((8, 1),), 16, shard="inputs", bias=True)
    assert part.size(Split(4), "bfloat16") == 2 * (8 * 4 + 8)


@pytest.mark.parametrize("experts", [1, 2, 3])
def test_two_experts_are_experts(experts):
    config = {**catalog_config("mixtral-8x7b"), "num_local_experts": experts}
    assert read_model(config, "x").weights.may_have_experts == (experts > 1)


@pytest.mark.parametrize("name", ["deepseek-v3", "kimi-k2"])
def test_flashinfers_table_of_positions_has_32_bits_on_cuda_alone(name):
    # as both real models have them, DeepSeek-V3 for 163,840 positions
    one, other = (
        sum(loaded_weights(resolve(Scenario(model=name, device=device, tensor_parallel=8))))
        for device in ("H200", "MI300X")
    )
    [length] = {
        part.outputs[0][0]
        for part in load_model(name).weights.known_parts
        if part.name.startswith("scaled cos_sin_cache")
    }
    assert one - other == length * 64 * 2
