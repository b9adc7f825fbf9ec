"""What a speculative method changes: hits, layers, windows in flight, stages, warnings."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.configs import (
    bailing_hybrid,
    deepseek_v3,
    gpt_oss,
    llama,
    nemotron_h,
    qwen3_5,
    qwen3_next,
)
from workbench.core.byte_map.of_plan import byte_map
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.prefix.hits import caching_of, prefix_hit
from workbench.core.runner import is_async as runner_overlaps
from workbench.core.runner import model_runner
from workbench.core.speculation import HIDDEN_STATES, MTP
from workbench.core.versions import RULE_SETS, V0_23, V0_33
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.versions import compare

GIB = 2**30
READS_NEXT_TOKEN = {
    "0.23": {"eagle", "eagle3", "mtp", "dflash"},
    "0.33": {"eagle", "eagle3", "mtp"},
}
DRAFTS_ALONE = {"mtp", "ngram", "ngram_gpu", "suffix"}
METHODS = [(rules.name, method) for rules in (V0_23, V0_33) for method in rules.speculation.names]


def sparse(**changes):
    return deepseek_v3(index_topk=64, index_head_dim=128, **changes)


@pytest.mark.parametrize(("rules", "method"), METHODS)
def test_only_methods_that_read_the_next_token_cost_hits(rules, method):
    """Prompts of 2,200 tokens share 1,600: 0.23 drops a block of 16, 0.33 hashes a token ahead."""
    plan = resolve(
        deepseek_v3(num_nextn_predict_layers=1),
        rules=rules,
        num_speculative_tokens=2,
        speculative_method=method,
        enable_prefix_caching=True,
        block_size=64,
    )
    caching = caching_of(plan)
    reads = method in READS_NEXT_TOKEN[rules]
    assert caching.drafts == (reads and rules == "0.23")
    assert caching.lookahead_tokens == (1 if reads and rules == "0.33" else 0)
    hit = prefix_hit(caching, 2200, 1600)
    assert hit.cached_tokens == 1600 - (64 if reads else 0)


@pytest.mark.parametrize(("rules", "method"), METHODS)
def test_only_layers_that_nothing_describes_are_not_counted(rules, method):
    plan = resolve(
        deepseek_v3(num_nextn_predict_layers=1),
        rules=rules,
        num_speculative_tokens=1,
        speculative_method=method,
    )
    codes = [problem.code for problem in plan.problems]
    assert ("drafter_layers_not_counted" in codes) == (method == "custom_class")
    missing = method not in DRAFTS_ALONE | {"custom_class"}
    assert ("draft_model_missing" in codes) == missing
    assert [problem.code for problem in plan.errors] == ["draft_model_missing"] * missing
    assert plan.speculative_method == method


@pytest.mark.parametrize(
    ("model", "fields", "method"),
    [
        (llama(), {}, None),
        (llama(), {"num_speculative_tokens": 1}, "ngram"),
        (llama(), {"num_speculative_tokens": 0, "speculative_method": "eagle"}, None),
        (qwen3_5(), {"num_speculative_tokens": 1}, "mtp"),
        (qwen3_next(), {"num_speculative_tokens": 1}, "mtp"),
        (qwen3_next(num_nextn_predict_layers=0), {"num_speculative_tokens": 1}, "ngram"),
        (nemotron_h(), {"num_speculative_tokens": 1}, "ngram"),
        (nemotron_h(num_nextn_predict_layers=1), {"num_speculative_tokens": 1}, "mtp"),
        (llama(), {"num_speculative_tokens": 1, "hidden_state_layers": 2}, HIDDEN_STATES),
    ],
)
def test_the_method_that_drafts(model, fields, method):
    plan = resolve(model, **fields)
    assert plan.speculative_method == method
    assert plan.to_dict()["speculative_method"] == method


@given(st.integers(1, 8), st.integers(0, 3), st.sampled_from(("0.23", "0.33")))
@settings(deadline=None, max_examples=30)
def test_a_drafter_makes_a_block_of_one_group_larger_and_changes_no_page(attention, mtp, rules):
    """Alone in one group, every MTP layer takes one more page of each block."""
    model = deepseek_v3(num_hidden_layers=attention, num_nextn_predict_layers=mtp)
    fields = {"rules": rules, "kv_cache_memory_bytes": GIB, "max_model_len": 1024}
    without = resolve(model, **fields).built_cache().grouping
    plan = resolve(model, num_speculative_tokens=1, **fields)
    grouping = plan.built_cache().grouping
    assert grouping.page_size_bytes == without.page_size_bytes
    page = without.bytes_per_block // attention
    assert grouping.bytes_per_block == without.bytes_per_block + mtp * page
    assert plan.speculative_method == (MTP if mtp else "ngram")
    assert plan.built_cache().num_blocks == GIB // grouping.bytes_per_block


def test_a_skipped_number_is_that_of_vllms_name():
    """The drafter of Qwen3-Next is `mtp.layers.0`: number 0 means it, as well as a layer 0."""
    fields = {
        "rules": "0.33",
        "kv_cache_dtype": "fp8",
        "kv_cache_dtype_skip_layers": ("0",),
        "num_speculative_tokens": 1,
    }
    found = resolve(qwen3_next(num_nextn_predict_layers=1), **fields).built_cache()
    stored = {
        name: spec.stored
        for group in found.groups
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
        if not spec.is_mamba
    }
    drafter = max(stored, key=lambda name: int(name.split(".")[2]))
    assert [name for name in stored if stored[name] == "auto"] == [drafter]


def test_the_last_stage_has_the_drafter():
    plan = resolve(
        deepseek_v3(num_hidden_layers=4, num_nextn_predict_layers=1),
        rules="0.33",
        num_speculative_tokens=1,
        kv_cache_memory_bytes=GIB,
        max_model_len=1024,
        pipeline_parallel=2,
    )
    first, last = plan.built_cache().stages
    sizes = [sum(len(group.layers) for group in stage.grouping.groups) for stage in (first, last)]
    assert sizes == [2, 3]


@pytest.mark.parametrize(
    ("method", "batches"), [(None, 2), ("ngram", 2), ("eagle3", 2), ("suffix", 1)]
)
def test_windows_hold_the_tokens_of_overlapped_steps_in_0_33(method, batches):
    """Suffix decoding has no V2 runner, and the V1 runner does not overlap its steps."""
    plan = resolve(
        gpt_oss(),
        rules="0.33",
        num_speculative_tokens=0 if method is None else 1,
        speculative_method=method,
        max_model_len=65536,
        max_num_batched_tokens=4096,
        block_size=16,
    )
    cache = plan.built_cache()
    window = next(group.spec for group in cache.groups if group.spec.window_tokens)
    per_window = -(-(window.window_tokens - 1 + batches * 4096) // window.block_size) + 1
    windows = sum(group.spec.window_tokens is not None for group in cache.groups)
    full = sum(
        65536 // group.spec.block_size for group in cache.groups if not group.spec.window_tokens
    )
    assert cache.blocks_per_request == windows * per_window + full


def test_chained_mtp_layers_hash_the_whole_draft_ahead():
    """0.33: two layers draft one after the other, so their keys depend on all drafted tokens."""
    fields = {"rules": "0.33", "enable_prefix_caching": True, "block_size": 64}
    model = deepseek_v3(num_nextn_predict_layers=2)
    for tokens, lookahead in ((1, 1), (2, 2), (4, 4)):
        caching = caching_of(resolve(model, num_speculative_tokens=tokens, **fields))
        assert caching.lookahead_tokens == lookahead
        shared = 640 + lookahead
        assert prefix_hit(caching, 2200, shared).cached_tokens == 640
        assert prefix_hit(caching, 2200, shared - 1).cached_tokens == 576


def test_an_indexer_keeps_a_key_and_its_scale_of_every_token():
    """128 elements of a byte and one float32 scale: 132 bytes plus 576 * 2 of the latent."""
    plan = resolve(sparse(num_hidden_layers=4), kv_cache_memory_bytes=GIB, max_model_len=1024)
    cache = plan.built_cache()
    (group,) = cache.groups
    assert group.kind == "UniformTypeKVCacheSpecs"
    assert [spec.token_bytes for spec in group.layer_specs] == [132, 1152] * 4
    assert [name.split(".")[-1] for name in group.layers] == ["indexer", "attn"] * 4
    assert cache.num_blocks == GIB // (64 * 4 * (132 + 1152))


@pytest.mark.parametrize(("rules", "indexers"), [("0.23", 9), ("0.33", 4)])
def test_layers_that_take_an_earlier_choice_have_no_indexer_in_0_33(rules, indexers):
    """Eight layers, of which 0, 1 and 5 choose (`max(layer - 1, 0) % 4 == 0`), and the drafter."""
    model = sparse(num_hidden_layers=8, num_nextn_predict_layers=1, index_topk_freq=4)
    plan = resolve(model, rules=rules, num_speculative_tokens=1)
    names = [name for group in plan.built_cache().groups for name in group.layers]
    found = [name for name in names if name.endswith("indexer")]
    assert len(found) == indexers
    assert found[-1].split(".")[2] == "8"


def test_every_method_of_a_rule_set_has_a_record():
    for rules in RULE_SETS.values():
        assert set(rules.speculation.names) < set(rules.speculation.methods)
        assert HIDDEN_STATES not in rules.speculation.names


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_every_byte_of_an_indexers_page_is_a_key_or_a_scale(rules):
    """All keys of a kernel block come first, then the scales; attention is shown by default."""
    plan = resolve(sparse(num_hidden_layers=2), rules=rules)
    pool = byte_map(plan, num_blocks=3)
    name = "model.layers.1.indexer"
    assert plan_layout(plan, num_blocks=3).attention.shape[-1] == 576
    assert plan_layout(plan, num_blocks=3, layer=name).attention.shape[-1] == 132
    (keys,) = pool.bytes_of(layer=name, block=1, part="index key", token=5)
    (scale,) = pool.bytes_of(layer=name, block=1, part="index scale", token=5)
    page = 64 * 132
    assert (keys.start - page, len(keys)) == (5 * 128, 128)
    assert (scale.start - page, len(scale)) == (64 * 128 + 5 * 4, 4)


def test_an_upgrade_names_another_drafter():
    """0.23 knows of no MTP layers of Bailing's hybrids, so a bare number means ngram there."""
    scenario = Scenario(model=bailing_hybrid(num_nextn_predict_layers=1), num_speculative_tokens=1)
    comparison = compare(scenario)
    (found,) = [d for d in comparison.differences if d.fact.name == "speculative_method"]
    assert (found.old, found.new) == ("ngram", "mtp")
    assert found.after.rule.name == "speculative_method"
    assert "mtp drafts instead of ngram" in found.means


@pytest.mark.parametrize(
    ("rules", "model", "fields", "runner", "is_async"),
    [
        # What VllmConfig of the releases decides.
        ("0.33", "qwen3-8b", {}, "v2", True),
        ("0.33", "qwen3.5-4b", {"num_speculative_tokens": 1}, "v2", True),
        ("0.33", "gpt-oss-20b", {"num_speculative_tokens": 2}, "v2", True),
        ("0.33", "qwen3-8b", {"speculative_method": "suffix"}, "v1", False),
        ("0.33", "qwen3-8b", {"platform": "cpu"}, "v1", False),
        ("0.23", "qwen3-8b", {}, "v2", True),
        ("0.23", "qwen3-8b", {"speculative_method": "ngram"}, "v1", False),
        ("0.23", "qwen3-8b", {"speculative_method": "ngram_gpu"}, "v1", True),
        ("0.23", "qwen3.5-4b", {"speculative_method": "mtp"}, "v1", True),
        ("0.23", "qwen3-30b-a3b", {}, "v1", True),
        ("0.23", "qwen3-8b", {"platform": "cpu"}, "v1", False),
    ],
)
def test_runner_and_overlap_of_steps(rules, model, fields, runner, is_async):
    drafted = {"num_speculative_tokens": 2} if "speculative_method" in fields else {}
    plan = resolve(model=model, rules=rules, **{**drafted, **fields})
    assert (model_runner(plan), runner_overlaps(plan)) == (runner, is_async)


LARGER_IN_LAYERS = [
    # answers of vLLM: get_state_shape of the first SSM layer, and mamba_page_size of the alignment
    ("0.23", "bamba-9b", 3, 8, (6, 1280), 277_504, 269_824),
    ("0.23", "falcon-h1-3b", 3, 2, (6, 2560), 1_079_296, 1_063_936),
    ("0.23", "granite-4.0-h-micro", 5, 2, (8, 2304), 1_122_304, 1_076_224),
    ("0.23", "zamba2-2.7b", 2, 1, (5, 5248), 707_840, 686_848),
    ("0.33", "lfm2-1.2b", 3, 1, (5, 2048), 20_480, 8_192),
]


@pytest.mark.parametrize(
    ("rules", "model", "drafts", "ranks", "conv", "kept", "counted"), LARGER_IN_LAYERS
)
def test_a_layer_keeps_more_than_the_alignment_counts(
    rules, model, drafts, ranks, conv, kept, counted
):
    plan = resolve(
        model,
        rules=rules,
        num_speculative_tokens=drafts,
        speculative_method="ngram",
        tensor_parallel=ranks,
        dtype="float32" if model.startswith("granite") else "bfloat16",
    )
    assert (plan.layer_state_shapes[0], plan.layer_state_bytes) == (conv, kept)
    assert plan.mamba_page_size_bytes == counted
    assert plan.mamba_state_shapes[0][0] == conv[0] - drafts
    spec = next(group.spec for group in plan.cache.groups if group.spec.is_mamba)
    page = plan.mamba_page_size_padded
    assert spec.page_size_bytes == page
    assert spec.padding_bytes == plan.padding_bytes == max(0, page - kept)
    outgrown = "drafted_states_outgrow_page" in {problem.code for problem in plan.errors}
    assert outgrown == (kept > page)


def test_states_that_outgrow_their_page_stop_lfm2_in_0_33():
    # vLLM 0.33 stops with a bare AssertionError (MambaSpec.page_size_bytes): 45,056 > 32,768.
    plan = resolve(
        "lfm2-1.2b",
        rules="0.33",
        num_speculative_tokens=9,
        speculative_method="ngram",
        block_size=16,
    )
    assert [one.code for one in plan.errors] == ["drafted_states_outgrow_page"]
