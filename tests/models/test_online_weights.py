"""Online quantization: the weights of real models that `--quantization` makes smaller.

`tests/data/online_weights.jsonl.gz` holds what `tools/record_weights.py` recorded.
"""

from collections import Counter
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.models.configs import llama
from tests.models.test_weights import model_of
from tests.recorded import recorded
from workbench.core.capacity.draft_weights import copies_of
from workbench.core.errors import Refused
from workbench.core.online import as_loaded
from workbench.core.ranks import Split, split_of
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS
from workbench.models import catalog_config, catalog_names, load_model
from workbench.models.read import read_model
from workbench.scenario import Scenario

RECORDED = recorded("online_weights")
HOPPER, BLACKWELL, AMPERE = ("H100",), ("B200",), ("A100-80GB", "L40S")
OTHERS = (*AMPERE, "RTX 5090")
NO_METHOD = llama(quantization_config={"quantization": {"quant_algo": "FP8"}})
"""A file whose quantization_config does not name a method."""
DESCRIBED = [
    (rules.name, word)
    for rules in RULE_SETS.values()
    for word, method in rules.quantization.online_methods.items()
    if method.is_described
]


def loaded(model, word, rules="0.33"):
    return as_loaded(model, word, RULE_SETS[rules].quantization.online_methods)


def size_of(model, rules="0.33", ranks=1):
    return model.weights.size(Split(ranks), "bfloat16", RULE_SETS[rules].weight_copies)


@in_groups
@pytest.mark.parametrize("name", sorted({row["name"] for row in RECORDED}))
def test_what_becomes_smaller_is_what_vllm_quantizes(name):
    for row in (row for row in RECORDED if row["name"] == name):
        rules = RULE_SETS[row["vllm"]]
        plain = model_of(row)
        kept = {part for part, _ in plain.weights.parts}
        found = Counter()
        for part, count in loaded(plain, row["quantization"], rules.name).weights.parts:
            if part.stored is None or part in kept:
                continue
            outputs, inputs = part.share(Split(row["tensor_parallel"]))
            copies = count * rules.weight_copies.get(part.kind, 1)
            kind = "experts" if part.experts > 1 else "linear"
            found[kind] += copies * sum(outputs) * inputs * part.experts
        assert found["linear"] == row["linear"] + row["vision"], row
        assert found["experts"] == row["experts"], row


@pytest.mark.parametrize(("rules", "word"), DESCRIBED)
def test_every_word_makes_plain_weights_smaller_and_leaves_layers_alone(rules, word):
    plain = load_model("qwen3-30b-a3b")
    quantized = loaded(plain, word, rules)
    assert size_of(quantized, rules) < size_of(plain, rules)
    assert quantized.layers == plain.layers
    assert loaded(plain, word, rules) is quantized


def test_fp8_takes_half_of_what_it_quantizes_and_a_scale_for_each_layer():
    plain = load_model("llama-3.1-8b")
    linear = sum(
        count * sum(units * each for units, each in part.outputs) * part.inputs
        for part, count in plain.weights.parts
        if part.is_linear
    )
    scales = 4 * sum(count for part, count in plain.weights.parts if part.is_linear)
    assert size_of(loaded(plain, "fp8")) == size_of(plain) - linear + scales


def test_models_that_differ_in_weights_alone_stay_apart():
    config = catalog_config("llama-3.1-8b")
    sizes = [config["intermediate_size"], 2 * config["intermediate_size"]]
    models = [read_model({**config, "intermediate_size": size}, "llama") for size in sizes]
    assert models[0] == models[1]
    first, second = (size_of(loaded(model, "fp8")) for model in models)
    assert first < second


@given(st.sampled_from(catalog_names()), st.sampled_from(DESCRIBED), st.sampled_from((1, 2, 4, 8)))
def test_no_rank_has_more_than_plain_weights_but_where_experts_get_a_gate(name, case, ranks):
    rules, word = case
    plain = load_model(name)
    quantized = loaded(plain, word, rules)
    before, after = (size_of(one, rules, ranks) for one in (plain, quantized))
    if before is None or after is None:
        assert before is after
        return
    assert after <= before * 1.01
    if plain.quantization is not None and quantized is plain:
        assert after == before


def test_a_word_without_described_bytes_leaves_the_weights_unknown():
    model = loaded(load_model("qwen3-30b-a3b"), "gguf", "0.23")
    assert "gguf" in model.weights.unknown
    assert size_of(model, "0.23") is None


@pytest.mark.parametrize(
    ("model", "word", "code"),
    [
        ("qwen3-30b-a3b", "awq", "quantization_not_described"),
        ("qwen3-30b-a3b", "fbgemm_fp8", "quantization_deprecated"),
        ("Qwen/Qwen3-30B-A3B-FP8", "awq", "quantization_differs"),
        (NO_METHOD, "fp8", "quantization_differs"),
        ("qwen3-30b-a3b", "bitsandbytes", "quantization_unknown"),
    ],
)
def test_words_that_do_not_fit_are_refused(model, word, code):
    scenario = Scenario(model=model, rules="0.33", quantization=word)
    read = read_model(model, "x") if isinstance(model, dict) else load_model(model)
    with pytest.raises(Refused) as refused:
        resolve(read, scenario)
    assert refused.value.code == code
    for change in refused.value.candidates:
        assert resolve(read, scenario.replace(**change)).block_size


def test_the_word_of_the_checkpoint_changes_nothing():
    name = "Qwen/Qwen3-30B-A3B-FP8"
    model = load_model(name)
    plan = resolve(model, Scenario(model=name, quantization="fp8"))
    assert plan.model.weights == model.weights


@pytest.mark.parametrize("rules", RULE_SETS)
def test_the_word_of_another_models_experts_stores_them_in_four_bits(rules):
    scenario = Scenario(
        model="Qwen/Qwen3-30B-A3B-FP8", quantization="deepseek_v4_fp8", rules=rules, device="H100"
    )
    plan = resolve(load_model(scenario.model), scenario)
    # of the installed releases, with scales of the cache that are deleted after loading
    assert plan.model.weights.size(split_of(plan), "bfloat16", copies_of(plan)) == 17588243584


SHARES = {
    ("0.23", "mxfp4"): {(2304, 896): OTHERS, (2176, 896): HOPPER, (2304, 1024): BLACKWELL},
    ("0.23", "deepseek_v4_fp8"): {(2304, 896): (*OTHERS, *HOPPER), (2304, 1024): BLACKWELL},
    ("0.33", "mxfp4"): {(2304, 896): (*OTHERS, *BLACKWELL), (2176, 896): HOPPER},
    ("0.33", "gpt_oss_mxfp4"): {(2304, 896): (*OTHERS, *BLACKWELL), (2176, 896): HOPPER},
    ("0.33", "deepseek_v4_fp8"): {
        (2304, 896): (*AMPERE, *BLACKWELL),
        (2112, 832): HOPPER,
        (2176, 896): ("RTX 5090",),
    },
}
"""Release and word -> hidden and inner size of experts of 2,112 and 800 -> devices, as recorded."""


@pytest.mark.parametrize(("rules", "word"), SHARES)
def test_experts_in_four_bits_are_rounded_up_as_their_kernel_needs(rules, word):
    config = {**catalog_config("qwen3-30b-a3b"), "hidden_size": 2112, "moe_intermediate_size": 800}
    found = {}
    for device in (device for devices in SHARES[rules, word].values() for device in devices):
        scenario = Scenario(model=config, quantization=word, rules=rules, device=device)
        plan = resolve(read_model(config, "x"), scenario)
        last = next(one for one in plan.model.weights.expert_parts if one.name == "mlp.experts.w2")
        (hidden,), inner = last.share(split_of(plan))
        found.setdefault((hidden, inner), set()).add(device)
    assert found == {sizes: set(devices) for sizes, devices in SHARES[rules, word].items()}


def test_routers_have_32_bits_where_the_device_has_no_kernel_for_them():
    name = "nemotron-3-nano-30b-a3b"
    plans = [
        resolve(load_model(name), Scenario(model=name, device=device))
        for device in ("H100", "A100-80GB")
    ]
    sizes = [one.model.weights.size(split_of(one), "bfloat16", copies_of(one)) for one in plans]
    assert sizes[1] - sizes[0] == 23 * 128 * 2688 * 2


ROCM = ("MI300X", "MI355X", "MI250X", "RX 7900 XTX", "Radeon AI PRO R9700")
NO_KERNEL = {
    "0.33": {
        (device, word, model)
        for device in ("MI250X", "RX 7900 XTX")
        for word in ("fp8", "fp8_per_tensor", "fp8_per_channel")
        for model in ("qwen3-8b", "qwen3-30b-a3b")
    },
    "0.23": {
        *((device, word, "qwen3-30b-a3b") for device in ROCM for word in ("mxfp4", "mxfp8")),
        *(("RX 7900 XTX", word, "qwen3-30b-a3b") for word in ("fp8", "fp8_per_tensor")),
    },
}
"""What the installed releases refuse."""


@pytest.mark.parametrize("rules", NO_KERNEL)
@pytest.mark.parametrize("device", ROCM)
@pytest.mark.parametrize("model", ["qwen3-8b", "qwen3-30b-a3b"])
def test_amd_devices_without_a_kernel_are_named_with_what_works(rules, device, model):
    for word in ("fp8", "fp8_per_tensor", "fp8_per_channel", "mxfp8", "mxfp4"):
        if word not in RULE_SETS[rules].quantization.methods:
            continue
        scenario = Scenario(model=model, rules=rules, device=device, quantization=word)
        plan = resolve(load_model(model), scenario)
        found = [problem for problem in plan.errors if problem.code == "no_online_kernel"]
        assert bool(found) == ((device, word, model) in NO_KERNEL[rules])
        for remedy in (one for problem in found for one in plan.remedies(problem)):
            assert remedy.changes["quantization"] != word


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize(("word", "needs_more"), [("mxfp4", False), ("experts_int8", True)])
def test_a_word_that_is_also_a_method_of_checkpoints_needs_no_newer_device(rules, word, needs_more):
    scenario = Scenario(quantization=word, rules=rules, compute_capability="7.5")
    refused = pytest.raises(Refused, match="compute capability")
    with refused if needs_more else nullcontext():
        assert not resolve(load_model("qwen3-30b-a3b"), scenario).errors


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("word", ["mxfp8", "fp8_per_tensor", "awq", "deepseek_v4_fp8"])
def test_deepseek_v4_takes_any_word_for_its_own(rules, word):
    scenario = Scenario(
        model="deepseek-v4-flash",
        rules=rules,
        device="H200",
        tensor_parallel=8,
        quantization=word,
        kv_cache_dtype="fp8",
    )
    assert not resolve(load_model(scenario.model), scenario).errors
