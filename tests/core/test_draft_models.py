"""Groups with the layers of a second checkpoint, as whole real models gave them to vLLM.

`tests/data/draft_groups.jsonl.gz` holds what `tools/record_cache_groups.py` recorded.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.models.configs import gpt_oss, granitemoehybrid, llama, qwen3_next
from tests.recorded import recorded
from workbench import from_vllm_command
from workbench.core.errors import Refused
from workbench.core.resolve import resolve
from workbench.core.speculation import class_of_head, eagle3_class, eagle_class
from workbench.core.versions import RULE_SETS
from workbench.interop.logs.facts import entries, logged_fields
from workbench.models.drafter import read_drafter, with_drafter
from workbench.models.read import read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve as resolve_scenario
from workbench.views.capacity.html import pool_html
from workbench.views.text import plan_text

GIB = 2**30
RANKS = {"tensor_parallel_size": "tensor_parallel"}
NAMES = {
    "draft_tensor_parallel_size": "draft_tensor_parallel",
    "attention_backend": "draft_attention_backend",
    "method": "speculative_method",
    "kv_cache_dtype": "draft_kv_cache_dtype",
}
HEAD = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "num_hidden_layers": 1,
    "max_position_embeddings": 2048,
}


RECORDED = recorded("draft_groups")
BUILT = [answer for answer in RECORDED if "refused" not in answer]
REFUSED = [answer for answer in RECORDED if "refused" in answer]


def planned(answer):
    given = dict(answer["arguments"])
    drafted = given.pop("speculative_config", {})
    given |= {NAMES.get(name, name): value for name, value in drafted.items()}
    scenario = Scenario(
        model=answer["config"],
        rules=answer["rules"],
        compute_capability=".".join(map(str, answer["capability"])),
        # FlashInfer is in the wheel: 0.33 takes it for gated delta nets where it runs.
        gdn_flashinfer_prefill=answer["rules"] == "0.33",
        draft_model=answer.get("draft_config"),
        **{RANKS.get(name, name): value for name, value in given.items()},
    )
    model = read_model(answer["config"], answer["name"])
    return resolve(with_drafter(model, scenario.draft_model), scenario)


def beyond_hidden_states(errors):
    """Errors of the cache alone: the recording did not request hidden states."""
    return [error for error in errors if error.code != "target_gives_no_hidden_states"]


def label(answer):
    used = {**answer["arguments"], **answer["arguments"].get("speculative_config", {})}
    rest = [str(value) for name, value in used.items() if name != "speculative_config"]
    return "-".join((answer["rules"], answer["name"], str(answer["capability"][0]), *rest))


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_groups_blocks_and_concurrency_are_vllms(answer):
    plan = planned(answer)
    assert beyond_hidden_states(plan.errors) == []
    assert plan.speculative_method == answer["method"]
    cache, own = plan.built_cache(), plan.model.num_hidden_layers
    reported = [
        [group["kind"], group["block_size"], group["page_size_bytes"],
         sorted(map(tuple, group["layers"]))]
        for group in answer["groups"]
    ]  # fmt: skip
    found = []
    for group in cache.groups:
        layers = Counter(
            (spec.kind, spec.block_size, spec.page_size_bytes, int(name.split(".")[2]) >= own)
            for name, spec in zip(group.layers, group.layer_specs, strict=True)
        )
        spec = [group.kind, group.spec.block_size, group.page_size_bytes]
        found.append([*spec, sorted((*key, count) for key, count in layers.items())])
    # The order of groups is vLLM's order of construction, and no number depends on it.
    assert sorted(found) == sorted(reported)
    assert plan.block_size == answer["block_size"]
    assert cache.num_blocks == answer["num_blocks"]
    assert cache.max_concurrency == pytest.approx(answer["max_concurrency"], rel=1e-12)


@in_groups
@pytest.mark.parametrize("answer", REFUSED, ids=label)
def test_what_vllm_refuses_is_refused(answer):
    message = answer["refused"]["message"]
    try:
        found = beyond_hidden_states(planned(answer).errors)
    except Refused as refusal:
        found = (refusal,)
    assert found
    assert (found[0].vllm_text or "") in message
    assert found[0].vllm_text or not message


def test_the_record_has_every_method_with_layers():
    for rules in ("0.23", "0.33"):
        built = {answer["method"] for answer in BUILT if answer["rules"] == rules}
        assert {"eagle", "eagle3", "draft_model", "dflash", "mtp"} <= built
    assert "dspark" in {answer["method"] for answer in BUILT}


SMALL = {"max_model_len": 1024, "kv_cache_memory_bytes": GIB}
TARGETS = st.sampled_from([llama(), gpt_oss(), qwen3_next(num_nextn_predict_layers=1)])


@given(
    TARGETS,
    st.sampled_from(["0.23", "0.33"]),
    st.sampled_from(["eagle3", "draft_model"]),
    st.integers(1, 6),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([64, 128, 256]),
)
@settings(deadline=None, max_examples=60)
def test_a_drafter_never_makes_a_request_cheaper(target, rules, method, layers, heads, size):
    """The longest requests that fit never become more: blocks may become more, and smaller."""
    draft = {
        **HEAD,
        "num_hidden_layers": layers,
        "num_key_value_heads": heads,
        "head_dim": size,
        "vocab_size": target.get("vocab_size", 1000),
    }
    if method == "draft_model":
        draft["architectures"] = ["LlamaForCausalLM"]
    fields = {"model": target, "rules": rules, "num_speculative_tokens": 1, **SMALL}
    alone = resolve_scenario(Scenario(speculative_method="ngram", **fields))
    plan = resolve_scenario(Scenario(speculative_method=method, draft_model=draft, **fields))
    if plan.cache is None:
        assert plan.errors
        return
    assert plan.cache.max_concurrency <= alone.built_cache().max_concurrency
    if len(plan.cache.groups) == 1:
        assert plan.cache.num_blocks <= alone.built_cache().num_blocks


@given(TARGETS, st.sampled_from(["0.23", "0.33"]), st.sampled_from(["ngram", "suffix", "medusa"]))
@settings(deadline=None, max_examples=20)
def test_a_method_without_layers_changes_no_group(target, rules, method):
    fields = {"model": target, "rules": rules, "num_speculative_tokens": 1, **SMALL}
    if method not in RULE_SETS[rules].speculation.methods:
        return
    one = resolve_scenario(Scenario(speculative_method="ngram", **fields))
    other = resolve_scenario(Scenario(speculative_method=method, **fields))
    assert one.grouping == other.grouping
    assert one.draft_backend is None
    assert other.drafter is None


def test_a_command_a_log_and_a_dictionary_give_the_same_plan():
    fields = {
        "model": "llama-3.1-70b",
        "tensor_parallel": 8,
        "num_speculative_tokens": 3,
        "draft_model": "llama-3.1-8b",
        "kv_cache_memory_bytes": 20 * GIB,
        "draft_tensor_parallel": 8,
    }
    plan = resolve_scenario(Scenario(**fields))
    assert plan.speculative_method == "draft_model"
    command = from_vllm_command(plan.to_vllm_command()).scenario
    logged = logged_fields(
        entries(
            "'model': 'meta-llama/Llama-3.1-70B', 'tensor_parallel_size': 8, "
            f"'kv_cache_memory_bytes': {20 * GIB}, 'speculative_config': {{'model': "
            "'meta-llama/Llama-3.1-8B', 'num_speculative_tokens': 3, "
            "'draft_tensor_parallel_size': 8}"
        )
    )
    logged["model"] = fields["model"]
    for other in (command, Scenario(**logged)):
        again = resolve_scenario(other.replace(speculative_method=None))
        assert again.grouping == plan.grouping
        assert again.built_cache().num_blocks == plan.built_cache().num_blocks
        assert other.draft_model == "llama-3.1-8b"


def test_a_file_of_the_speculators_library_has_its_layers_inside():
    inner = {name: value for name, value in HEAD.items() if name != "architectures"}
    file = {"speculators_model_type": "eagle3", "transformer_layer_config": inner}
    draft = read_drafter(file, "head")
    assert draft.architecture == "Eagle3LlamaForCausalLM"
    assert (draft.attention.num_kv_heads, len(draft.layers)) == (2, 1)


def test_the_class_of_a_head_follows_the_method():
    assert eagle_class("LlamaForCausalLM") == "EagleLlamaForCausalLM"
    assert eagle3_class("LlamaForCausalLMEagle3") == "LlamaForCausalLMEagle3"
    rules = RULE_SETS["0.33"].speculation
    head = read_drafter({**HEAD, "model_type": "deepseek_v3", "num_nextn_predict_layers": 1}, "h")
    assert class_of_head(head, rules.methods["eagle"], rules) == "EagleDeepSeekMTPModel"
    assert class_of_head(head, rules.methods["eagle3"], rules) == "Eagle3DeepSeekMTPModel"


def test_a_whole_model_may_have_other_words_for_its_layers():
    own = granitemoehybrid(layer_types=["attention"] * 3)
    plan = resolve_scenario(
        Scenario(model=own, draft_model=own, num_speculative_tokens=2, rules="0.33")
    )
    assert plan.errors == ()
    assert [len(group.layers) for group in plan.built_cache().groups] == [6]


def test_ranks_are_checked_before_the_vocabulary_and_that_before_the_layers():
    """SpeculativeConfig checks both; layers are built later, by V1 with as many ranks only."""
    draft = {**HEAD, "architectures": ["LlamaForCausalLM"], "vocab_size": 64}
    fields = {"num_speculative_tokens": 1, "tensor_parallel": 3, "rules": "0.33"}
    target = llama(num_attention_heads=24, num_key_value_heads=24, vocab_size=192)
    with pytest.raises(Refused) as refused:
        resolve_scenario(Scenario(model=target, draft_model=draft, **fields))
    assert refused.value.code == "draft_heads_not_divisible"
    with pytest.raises(Refused) as refused:
        resolve_scenario(
            Scenario(model=target, draft_model=draft, **fields, draft_tensor_parallel=1)
        )
    assert refused.value.code == "draft_vocabulary_differs"
    for platform, code in (("cpu", "draft_ranks_differ"), ("cuda", None)):
        scenario = Scenario(
            model=target,
            draft_model={**draft, "vocab_size": 192},
            draft_tensor_parallel=1,
            platform=platform,
            **fields,
        )
        try:
            found = resolve_scenario(scenario).speculative_method and None
        except Refused as refusal:
            found = refusal.code
        assert found == code


def test_a_short_draft_model_shortens_requests_in_0_33_only():
    draft = {**HEAD, "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 512}
    fields = {"model": llama(), "draft_model": draft, "num_speculative_tokens": 1}
    lengths = [
        resolve_scenario(Scenario(rules=rules, max_model_len=1024, **fields)).max_model_len
        for rules in ("0.23", "0.33")
    ]
    assert lengths == [1024, 512]
    same = resolve_scenario(Scenario(rules="0.33", max_model_len=512, **fields))
    assert not any("draft model" in line for line in same.log_lines)


def test_the_cost_of_a_drafter_counts_tokens_and_empty_places():
    """A thirteenth layer of full attention alongside twelve windows leaves a place empty."""
    fields = {"model": gpt_oss(), "num_speculative_tokens": 1, **SMALL}
    draft = {**HEAD, "num_key_value_heads": 8, "head_dim": 64, "num_attention_heads": 64}
    plan = resolve_scenario(Scenario(speculative_method="eagle3", draft_model=draft, **fields))
    alone = resolve_scenario(Scenario(**{**fields, "num_speculative_tokens": 0}))
    cost = plan.drafter_cost()
    assert cost.sentences[0] == "The drafter keeps 1 layer in the cache."
    assert cost.tokens_without == alone.built_cache().printed_tokens
    assert cost.tokens_lost == cost.tokens_without - plan.built_cache().printed_tokens > 0
    assert cost.empty_bytes > cost.empty_bytes_without == 0
    assert 1 not in cost.layers_without_padding
    assert cost.layers_without_padding
    assert alone.drafter_cost() is None
    assert "Drafting costs" in plan_text(plan)
    assert "Drafting costs" in pool_html(plan)


def test_a_vocabulary_that_no_model_has_is_not_printed():
    huge = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 10**5000}
    sizes = {"hidden_size": 256, "num_hidden_layers": 1, "num_attention_heads": 2}
    given = {"model": "llama-3.1-8b", "num_speculative_tokens": 3}
    plan = resolve_scenario(**given, draft_model=huge | sizes)
    assert all(len(problem.message) < 1000 for problem in plan.problems)
