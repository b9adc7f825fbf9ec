"""Weights of drafters: the bytes that real ones have in an installed vLLM.

`tests/data/draft_weights.jsonl.gz` holds what `tools/record_weights.py` recorded.
"""

import json

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.models.configs import llama
from tests.recorded import recorded
from workbench.core.capacity.draft_weights import draft_bytes, draft_weights
from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.ranks import Split
from workbench.core.weights import EMBEDDING

RECORDED = recorded("draft_weights")
GIB = 2**30
HEAD = llama(architectures=["LlamaForCausalLMEagle3"], num_hidden_layers=1, vocab_size=1000)
MISTRAL = {**HEAD, "architectures": ["MistralForCausalLM"]}
TARGET = llama(vocab_size=1000, intermediate_size=1024)


def plan_of(line, answer):
    return wb.resolve(
        model=line["config"],
        draft_model=line["draft_config"],
        speculative_method=line["method"],
        num_speculative_tokens=1,
        tensor_parallel=answer["tensor_parallel"],
        max_model_len=8192,  # as the recorder had it
        kv_cache_memory_bytes=64 * GIB,
        enable_prefix_caching=True,
        max_num_batched_tokens=line.get("max_num_batched_tokens"),
        kv_cache_dtype=line.get("kv_cache_dtype", "auto"),
        rules=answer["vllm"],
    )


def drafted(**more):
    head = {**HEAD, "intermediate_size": 1024, **more}
    return wb.resolve(
        model=TARGET,
        draft_model=head,
        speculative_method="eagle3",
        num_speculative_tokens=3,
        device="H100",
    )


@in_groups
@pytest.mark.parametrize("line", RECORDED, ids=lambda line: line["name"])
def test_bytes_of_a_drafter_are_vllms(line):
    for answer in line["answers"]:
        plan, ranks = plan_of(line, answer), Split(answer["tensor_parallel"])
        found, weights = draft_bytes(plan), draft_weights(plan)
        recorded = answer["draft_bytes"]
        # what is in the target's checkpoint never has a vocabulary of its own
        if plan.speculative_method != "mtp" and line["draft_config"] is not None:
            recorded += answer["draft_vocabulary_bytes"]
        like = sum(part.size(ranks, plan.model_dtype) for part in weights.shared)
        embeddings = [part for part, _ in plan.model.weights.parts if part.name == EMBEDDING]
        own = [part for part in weights.shared if part._replace(name=EMBEDDING) not in embeddings]
        assert found.uncertain == like - sum(part.size(ranks, plan.model_dtype) for part in own)
        assert found.size + found.uncertain == recorded, answer
        if "target_bytes" in answer:
            assert weights_of(plan, None) == answer["target_bytes"]


def test_every_method_is_recorded_in_both_versions():
    methods = {(line["method"], answer["vllm"]) for line in RECORDED for answer in line["answers"]}
    common = {"eagle", "eagle3", "dflash", "mtp", "draft_model"}
    assert methods == {
        *((method, version) for method in common for version in ("0.23", "0.33")),
        ("medusa", "0.23"),
        ("dspark", "0.33"),
    }


def test_a_pruned_vocabulary_is_the_drafters_own():
    whole, pruned = (draft_bytes(drafted(**more)) for more in ({}, {"draft_vocab_size": 512}))
    hidden = TARGET["hidden_size"]
    assert pruned.uncertain == 2 * 1024 * hidden  # the embedding, padded to 64 rows
    assert whole.uncertain == 2 * pruned.uncertain
    assert pruned.size - whole.size == 2 * 512 * hidden + 8 * (512 - 1000)


def test_the_drafter_is_a_term_of_the_memory():
    plan = drafted(draft_vocab_size=512)
    terms = {term.name: term for term in plan.memory().terms}
    assert terms["weights of the drafter"].size_bytes == draft_bytes(plan).size
    assert sum(term.size_bytes for term in terms.values()) == plan.device_memory_bytes
    alone = wb.resolve(model=TARGET, device="H100")
    assert terms["weights"].size_bytes == alone.memory().terms[0].size_bytes


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"draft_model": None}, "no draft model is given"),
        (
            {"speculative_method": "eagle", "draft_model": MISTRAL},
            "the weights of EagleMistralForCausalLM are not described",
        ),
    ],
)
def test_a_drafter_without_a_description_says_so(more, reason):
    scenario = {"model": TARGET, "num_speculative_tokens": 3, "device": "H100"}
    answer = wb.resolve(**{**scenario, "speculative_method": "eagle3", **more}).memory()
    assert (answer.starts, answer.missing.field) == ("unknown", "weights_bytes")
    assert answer.missing.reason == reason


def last_of_two_stages(**more):
    """Return the bytes of the target and of the drafter on the last stage of 0.33."""
    plan = wb.resolve(pipeline_parallel=2, device="H100", rules="0.33", **more)
    return weights_of(plan, plan.stages[-1].layers), draft_bytes(plan)


def test_the_last_stage_has_the_targets_embedding_for_heads():
    """`llama-3.1-405b` as vLLM builds it, whose embedding takes 4,202,692,608 bytes."""
    sizes = {"hidden_size": 16384, "vocab_size": 128_256, "intermediate_size": 4096}
    head = {**HEAD, **sizes}
    drafts = {"speculative_method": "eagle3", "num_speculative_tokens": 3, "draft_model": head}
    alone, _ = last_of_two_stages(model="llama-3.1-405b")
    target, drafter = last_of_two_stages(model="llama-3.1-405b", **drafts)
    assert (target, target - alone) == (410_089_653_232, 4_202_692_608)
    assert drafter.uncertain == 2 * 4_202_692_608


def test_layers_of_the_target_have_an_embedding_of_their_own_over_stages():
    """As vLLM builds GLM-4.5-Air's, which takes 155,189,248 bytes on each of eight ranks."""
    drafts = {"speculative_method": "mtp", "num_speculative_tokens": 1, "tensor_parallel": 8}
    one = draft_bytes(wb.resolve(model="glm-4.5-air", device="H100", rules="0.33", **drafts))
    _, several = last_of_two_stages(model="glm-4.5-air", **drafts)
    assert several.size - one.size == 155_189_248


def test_ranks_that_do_not_divide_a_drafter_are_named():
    odd = {**HEAD, "intermediate_size": 1023}
    plan = wb.resolve(
        model=TARGET,
        draft_model=odd,
        speculative_method="eagle3",
        num_speculative_tokens=3,
        tensor_parallel=2,
        device="H100",
    )
    assert plan.memory().missing.field == "tensor_parallel"


def test_targets_of_equal_caches_keep_their_own_weights(tmp_path):
    """Their drafter is read once, by its path."""
    (tmp_path / "config.json").write_text(json.dumps(HEAD), encoding="utf-8")
    drafts = {"speculative_method": "eagle3", "num_speculative_tokens": 3}
    first, second = (
        wb.resolve(
            model={**TARGET, "intermediate_size": width}, draft_model=str(tmp_path), **drafts
        )
        for width in (1024, 2048)
    )
    assert first.model == second.model
    assert first.model.weights != second.model.weights
