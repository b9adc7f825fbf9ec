"""Weights with `--language-model-only`: the bytes that real models with towers then have.

`tests/data/text_only_weights.jsonl.gz` holds what `tools/record_weights.py` recorded.
"""

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.models.test_weights import (
    OF_STEPS,
    RECORDED,
    model_of,
    paddings_of,
)
from tests.recorded import recorded
from workbench.core.capacity.memory_estimate import loaded_weights
from workbench.core.ranks import Split, repeated_gates
from workbench.core.versions import RULE_SETS
from workbench.core.weights import LENGTH, STEP, TOWERS
from workbench.models import load_model

LINES = {line["name"]: line for line in RECORDED}
NEWLINES = {
    **dict.fromkeys(("DeepseekOCRForCausalLM", "DeepseekVLV2ForCausalLM"), 5120),
    **dict.fromkeys(("LlavaNextForConditionalGeneration", "VoxtralRealtimeGeneration"), 8192),
    **dict.fromkeys(("LlavaOnevisionForConditionalGeneration", "UnlimitedOCRForCausalLM"), 8192),
    **dict.fromkeys(("Granite4VisionForConditionalGeneration", "DeepseekOCR2ForCausalLM"), 8192),
    "HCXVisionForCausalLM": 4096,
    "Ernie4_5_VLMoeForConditionalGeneration": 40,
}
"""Classes that keep the vectors between rows of images, or another small tensor -> bytes."""
PROJECTORS = {
    **dict.fromkeys(("BeeForConditionalGeneration", "RForConditionalGeneration"), "0.23"),
    "Blip2ForConditionalGeneration": "both",
    "DiffusionGemmaForBlockDiffusion": "both",
}
"""Classes that keep a part of their towers, which is not modelled -> in which release."""


@in_groups
@pytest.mark.parametrize("line", recorded("text_only_weights"), ids=lambda one: one["name"])
def test_bytes_without_towers_are_vllms(line):
    model, rules = model_of(LINES[line["name"]]), RULE_SETS[line["vllm"]]
    keeps = rules.model_registry.served.get(model.architecture) in rules.media.keeps_towers
    copies = {**rules.weight_copies, **OF_STEPS, LENGTH: line["max_model_len"]}
    split = Split(
        line["tensor_parallel"],
        repeated=repeated_gates(model, "cuda"),
        paddings=paddings_of(line, model),
    )
    with_towers = model.weights.size(split, "bfloat16", copies)
    size = model.weights.size(split, "bfloat16", copies if keeps else {**copies, TOWERS: 0})
    assert size == with_towers if keeps else size < with_towers
    if PROJECTORS.get(model.architecture) in {"both", line["vllm"]}:
        assert size < line["bytes"] < with_towers
    else:
        assert 0 <= line["bytes"] - size <= NEWLINES.get(model.architecture, 0)


def test_a_drafter_has_no_towers():
    drafts = {"num_speculative_tokens": 2, "speculative_method": "mtp", "device": "H100"}
    both, text = (
        loaded_weights(wb.resolve(model="qwen3.5-4b", **drafts, language_model_only=only))
        for only in (False, True)
    )
    alone = load_model("qwen3.5-4b").weights
    towers = [{**RULE_SETS["0.23"].weight_copies, TOWERS: count} for count in (1, 0)]
    sizes = [alone.size(Split(), "bfloat16", {**one, LENGTH: 1, STEP: 1}) for one in towers]
    assert both[0] - text[0] == sizes[0] - sizes[1] > 0


def test_a_stage_without_towers_has_the_layers_of_one_with_them():
    weights = model_of(LINES["qwen3.5-4b"]).weights
    copies = {**RULE_SETS["0.33"].weight_copies, **OF_STEPS}
    text = {**copies, TOWERS: 0}
    whole, alone = (weights.size(Split(), "bfloat16", one) for one in (copies, text))
    first, second = (
        [weights.size(Split(), "bfloat16", one, layers) for one in (copies, text)]
        for layers in (range(16), range(16, 2**31))
    )
    assert first[0] - first[1] == whole - alone > 0
    assert second[0] == second[1]
