"""How Quark's description of a checkpoint is read; recorded bytes are in `test_weights.py`."""

import pytest

import workbench as wb
from tests.models.configs import llama
from workbench.core.capacity.draft_weights import copies_of
from workbench.core.ranks import split_of
from workbench.models.read import read_model
from workbench.models.weights.quark import quark

FP8 = {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}
MXFP4 = {"dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}
ENTRY = {"weight": FP8, "input_tensors": FP8}


def described(**changes):
    found = {"quant_method": "quark", "export": {"kv_cache_group": []}, "exclude": ["lm_head"]}
    return {**found, "global_quant_config": ENTRY, "layer_quant_config": {}, **changes}


def bits(scheme, path):
    found = scheme.format_of(path, is_expert=False)
    return found and found.bits


def test_the_first_entry_that_matches_counts():
    first, second = {"weight": MXFP4}, {"weight": {**FP8, "qscheme": "per_channel"}, **ENTRY}
    entries = {"*mlp*": first, "*down_proj": second, "model.layers.1.self_attn.o_proj": first}
    scheme = quark(described(layer_quant_config=entries))
    assert bits(scheme, "model.layers.0.mlp.down_proj") == 4
    assert bits(scheme, "model.layers.0.self_attn.o_proj") == 8
    assert bits(scheme, "model.layers.1.self_attn.o_proj") == 4
    entries = dict(reversed(entries.items()))
    assert bits(quark(described(layer_quant_config=entries)), "model.layers.0.mlp.down_proj") == 8


def test_experts_have_the_entry_of_any_of_them():
    entries = {"model.layers.0.mlp.experts.7.up_proj": {"weight": MXFP4}}
    scheme = quark(described(global_quant_config={}, layer_quant_config=entries))
    assert scheme.format_of("model.layers.0.mlp.experts", is_expert=True).bits == 4
    assert scheme.format_of("model.layers.1.mlp.experts", is_expert=True) is None


def test_excluded_layers_are_plain():
    scheme = quark(described(exclude=["re:.*q_proj", "model.layers.0.mlp.experts.3.up_proj"]))
    assert scheme.format_of("model.layers.0.self_attn.qkv_proj", is_expert=False) is None
    assert scheme.format_of("model.layers.0.mlp.experts", is_expert=True) is None
    assert bits(scheme, "model.layers.0.self_attn.o_proj") == 8


@pytest.mark.parametrize(
    "changes",
    [
        {"global_quant_config": None},
        {"layer_quant_config": ["a"]},
        {"layer_quant_config": {"*a": 3}},
        {"global_quant_config": "x"},
        {"global_quant_config": {"weight": ["a", "b"]}},
        {"global_quant_config": {"weight": {"dtype": ["fp4"]}}},
        {"global_quant_config": {**ENTRY, "weight": {**FP8, "qscheme": "per_block"}}},
        {"global_quant_config": {**ENTRY, "weight": {"dtype": "int8"}}},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_what_cannot_be_read_is_said_in_our_words(changes):
    model = read_model(llama(quantization_config=described(**changes)), "llama")
    assert "Quark" in model.weights.unknown
    assert not model.weights.parts


EXPERTS = {
    "model_type": "qwen3_moe",
    "architectures": ["Qwen3MoeForCausalLM"],
    "hidden_size": 1920,
    "intermediate_size": 6144,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "num_experts": 16,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 640,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}
IN_4_BITS = {**MXFP4, "is_dynamic": True}


@pytest.mark.parametrize(
    ("device", "has_aiter", "inputs", "expected"),
    [
        ("MI355X", True, IN_4_BITS, 1_348_750_944),
        ("MI355X", True, None, 1_375_489_632),
        ("MI355X", True, FP8, 1_340_395_696),
        ("MI355X", False, IN_4_BITS, 1_340_395_104),
        ("MI300X", True, IN_4_BITS, 1_340_395_104),
        ("MI300X", True, None, 1_375_489_632),
        ("MI300X", True, FP8, 1_340_395_696),
        ("MI300X", False, None, 1_340_395_104),
    ],
)
def test_amd_devices_pad_experts_for_the_kernel_that_they_have(device, has_aiter, inputs, expected):
    """What models of 0.33 have on the meta device, and their tables of positions."""
    numbers = {"weight": MXFP4, "input_tensors": inputs}
    config = {**EXPERTS, "quantization_config": described(global_quant_config=numbers)}
    fields = {"device": device, "rocm_aiter": has_aiter}
    plan = wb.resolve(config, **fields, rules="0.33", max_model_len=4096)
    size = plan.model.weights.size(split_of(plan), plan.model_dtype, copies_of(plan))
    assert size == expected
