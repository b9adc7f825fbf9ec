"""Groups with the layers of MTP drafters and indexers, as whole real models gave them to vLLM.

`tests/data/cache_groups.jsonl.gz` holds what `tools/record_cache_groups.py` recorded.
"""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.recorded import recorded
from workbench.core.errors import Refused
from workbench.core.groups.layer_backend import is_drafted
from workbench.core.resolve import resolve
from workbench.models.read import read_model
from workbench.scenario import Scenario

FIELDS = {
    "tensor_parallel_size": "tensor_parallel",
    "decode_context_parallel_size": "decode_context_parallel",
}


RECORDED = recorded("cache_groups")
BUILT = [answer for answer in RECORDED if "refused" not in answer]
REFUSED = [answer for answer in RECORDED if "refused" in answer]


def scenario_of(answer):
    given = dict(answer["arguments"])
    drafted = given.pop("speculative_config", None)
    fields = {FIELDS.get(name, name): value for name, value in given.items()}
    if drafted:
        fields["speculative_method"] = drafted["method"]
        fields["num_speculative_tokens"] = drafted["num_speculative_tokens"]
    return Scenario(
        model=answer["config"],
        rules=answer["rules"],
        compute_capability=".".join(map(str, answer["capability"])),
        # FlashInfer is in the wheel: 0.33 takes it for gated delta nets on these devices.
        gdn_flashinfer_prefill=answer["rules"] == "0.33",
        **fields,
    )


def planned(answer):
    return resolve(read_model(answer["config"], answer["name"]), scenario_of(answer))


def label(answer):
    drafted = answer["arguments"].get("speculative_config") or {}
    return "-".join(
        (
            answer["rules"],
            answer["name"],
            answer["arguments"].get("kv_cache_dtype", "auto"),
            str(answer["arguments"].get("block_size", "")),
            *map(str, drafted.values()),
        )
    )


def published(group):
    """One group in the form of the record."""
    return [group.kind, group.spec.block_size, group.page_size_bytes, len(group.layers)]


def expect_vllms_cache(plan, answer):
    """Expect block size, groups, number of blocks and concurrency to be those of the record."""
    assert plan.errors == ()
    cache = plan.built_cache()
    reported = [
        [group["kind"], group["block_size"], group["page_size_bytes"],
         sum(layers[-1] for layers in group["layers"])]
        for group in answer["groups"]
    ]  # fmt: skip
    # The order of groups is vLLM's order of construction, and no number depends on it.
    assert sorted(map(published, cache.groups)) == sorted(reported)
    assert plan.block_size == answer["block_size"]
    assert cache.num_blocks == answer["num_blocks"]
    assert cache.max_concurrency == pytest.approx(answer["max_concurrency"], rel=1e-12)


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_groups_blocks_and_concurrency_are_vllms(answer):
    plan = planned(answer)
    assert plan.speculative_method == answer["method"]
    expect_vllms_cache(plan, answer)


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_every_kind_of_layer_is_in_the_groups_as_often_as_vllm_builds_it(answer):
    cache = planned(answer).built_cache()
    found: dict[tuple[str, int, int], int] = {}
    for group in cache.groups:
        for spec in group.layer_specs:
            key = (spec.kind, spec.block_size, spec.page_size_bytes)
            found[key] = found.get(key, 0) + 1
    wanted: dict[tuple[str, int, int], int] = {}
    for group in answer["groups"]:
        for kind, block, page, _drafted, count in group["layers"]:
            wanted[kind, block, page] = wanted.get((kind, block, page), 0) + count
    assert found == wanted


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_hashes_look_as_far_ahead_as_the_drafter_reads(answer):
    from workbench.core.prefix.hits import caching_of

    plan = planned(answer)
    caching = caching_of(plan)
    if answer["hash_lookahead_tokens"] is None:
        assert caching.drafts == answer["drops_a_block"]
        assert caching.lookahead_tokens == 0
    elif plan.enable_prefix_caching:
        assert caching.lookahead_tokens == answer["hash_lookahead_tokens"]


def refusals_of(answer):
    """What stops this configuration, in the form that vLLM's text is compared with."""
    try:
        return planned(answer).errors
    except Refused as refusal:
        return (refusal,)


@in_groups
@pytest.mark.parametrize("answer", REFUSED, ids=label)
def test_what_vllm_refuses_is_refused(answer):
    message, found = answer["refused"]["message"], refusals_of(answer)
    assert found
    # vLLM stops with an assertion that says nothing where pages cannot be made equal.
    assert (found[0].vllm_text or "") in message
    assert found[0].vllm_text or not message


def test_the_record_has_every_family_with_such_layers():
    names = {answer["name"] for answer in BUILT if answer["method"] == "mtp"}
    assert {"deepseek-v3", "deepseek-v3.2", "glm-5", "glm-5.2", "nemotron-super"} <= names
    assert {"qwen3-next", "qwen3.5-4b", "glm4-moe", "glm4-moe-lite", "ernie", "pangu"} <= names
    assert "bailing" in {answer["name"] for answer in BUILT if answer["rules"] == "0.33"}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_layers_past_those_of_the_model_are_the_drafters(rules):
    plan = wb.resolve(
        model="qwen3-next-80b-a3b", rules=rules, num_speculative_tokens=2, speculative_method="mtp"
    )
    names = [name for group in plan.built_cache().groups for name in group.layers]
    drafted = [name for name in names if is_drafted(plan, name)]
    assert len(names) - len(drafted) == plan.model.num_hidden_layers
    assert len(drafted) == 1


@pytest.mark.parametrize("slides", [None, False, True])
def test_the_window_of_a_qwen_head_counts_where_it_is_in_use(slides):
    """Qwen3Config drops it otherwise, whatever kinds the list names (both releases)."""
    head = {
        "architectures": ["Eagle3Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": 2816,
        "intermediate_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 256,
        "num_hidden_layers": 5,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
        "torch_dtype": "float16",
        "sliding_window": 512,
        "layer_types": ["sliding_attention"] * 5,
        **({} if slides is None else {"use_sliding_window": slides}),
    }
    plan = wb.resolve(
        "gemma-4-26b-a4b",
        rules="0.33",
        device="A100-80GB",
        num_speculative_tokens=1,
        speculative_method="eagle3",
        draft_model=head,
        draft_tensor_parallel=1,
    )
    windows = [group.spec.window_tokens for group in plan.cache.groups]
    assert windows.count(512) == (1 if slides else 0)
    assert windows.count(None) == (1 if slides else 2)


@pytest.mark.parametrize("method", ["dflash", "dspark"])
@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ({"sliding_window": 2048}, False),
        ({"sliding_window": 2048, "use_sliding_window": True}, True),
        ({"dflash_config": {"swa_window_size": 512}}, True),
    ],
)
def test_a_flash_head_that_slides_needs_a_window_in_use(method, given, starts):
    """0.33 stops with a ValueError; 0.23 builds every layer whole."""
    flash = {"target_layer_ids": [1, 15, 30], "mask_token_id": 0, **given.get("dflash_config", {})}
    head = {
        "architectures": ["DFlashDraftModel" if method == "dflash" else "Qwen3DSparkModel"],
        "model_type": "qwen3",
        "hidden_size": 4096,
        "intermediate_size": 8192,
        "head_dim": 128,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 3,
        "vocab_size": 248_320,
        "torch_dtype": "bfloat16",
        "block_size": 8,
        "markov_rank": 256,
        "layer_types": ["sliding_attention"] * 3,
        **given,
        "dflash_config": flash,
    }
    fields = {"device": "H100", "num_speculative_tokens": 7, "draft_model": head}
    plan = wb.resolve("qwen3.5-9b", rules="0.33", speculative_method=method, **fields)
    codes = {problem.code for problem in plan.errors}
    assert ("draft_window_missing" not in codes) == starts
    if method == "dflash":
        old = wb.resolve("qwen3.5-9b", rules="0.23", speculative_method=method, **fields)
        assert not old.errors


@pytest.mark.parametrize(
    ("folder", "method"),
    [("Eagle3-heads/first", "eagle3"), ("eagle-heads", "eagle"), ("heads/first", "draft_model")],
)
def test_the_whole_path_of_a_drafter_says_its_method(tmp_path, folder, method):
    """`SpeculativeConfig.__post_init__` looks for words in what `model` names, 0.23 and 0.33."""
    place = tmp_path / folder
    place.mkdir(parents=True)
    head = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 151_936}
    sizes = {"hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
    (place / "config.json").write_text(json.dumps(head | sizes | heads))
    plan = wb.resolve("qwen3-8b", draft_model=str(place), num_speculative_tokens=2)
    assert plan.speculative_method == method


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_assistant_of_gemma_reads_the_caches_of_its_target(rules):
    """It drafts as MTP layers do, whatever method is set, and adds nothing to the groups."""
    text = {"model_type": "gemma4_text", "num_hidden_layers": 4, "num_attention_heads": 4}
    sizes = {"num_key_value_heads": 2, "head_dim": 256, "hidden_size": 256, "vocab_size": 262_144}
    names = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_assistant"}
    fields = {"device": "H100", "rules": rules, "max_model_len": 8192}
    drafts = {"draft_model": {**names, "text_config": text | sizes}, "num_speculative_tokens": 4}
    plan = wb.resolve("gemma-4-e4b", **fields, **drafts)
    assert (plan.speculative_method, plan.errors) == ("mtp", ())
    assert plan.cache.groups == wb.resolve("gemma-4-e4b", **fields).cache.groups
    with pytest.raises(Refused, match="qwen3-8b"):
        wb.resolve("qwen3-8b", **fields, **drafts)
