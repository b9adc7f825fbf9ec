"""What an upgrade changes: every number, where they diverge, and the rule that causes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

import workbench as wb
from tests.catalog import distinct_models
from tests.core.strategies import scenarios
from workbench.core.errors import Refused, ScenarioError
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS, V0_23, V0_33
from workbench.core.what_if.differences import compare, outcomes, plan_differences
from workbench.core.what_if.facts import FACTS, TRAITS, traits_of
from workbench.models import load_model
from workbench.scenario import Scenario


def compared(model, old="0.23", new="0.33", **values):
    scenario = Scenario(model=model, **values)
    return compare(load_model(model), scenario, old, new)


def found(comparison):
    return {entry.fact.name: entry for entry in comparison.differences}


def test_kimi_linear_diverges_at_the_granularity():
    block = found(compared("kimi-linear-48b-a3b"))["block_size"]
    assert (block.old, block.new) == (1888, 1920)
    assert block.before.rule.name == block.after.rule.name == "alignment_granule"
    assert (block.before.result, block.after.result) == (16, 128)
    assert block.before.source.startswith("vLLM 0.23")
    assert block.after.source.startswith("vLLM 0.33")
    assert "1,888" in block.means


def test_nemotron_parts_at_the_kernel_block_itself():
    kernel = found(compared("nemotron-3-nano-30b-a3b"))["kernel_block_size"]
    assert (kernel.old, kernel.new) == (16, 2096)
    assert kernel.after.rule.name == "kernel_block_size"
    assert kernel.before.operands["supported"] == [16, 32, 64]
    assert kernel.after.operands["supported"] == ["MultipleOf(16)"]


def test_hybrids_cache_prefixes_by_default_now():
    comparison = compared("qwen3.5-4b")
    caching = found(comparison)["enable_prefix_caching"]
    assert (caching.old, caching.new) == (False, True)
    assert comparison.parting[1].rule.name == "enable_prefix_caching"
    assert "enable_prefix_caching" not in found(compared("llama-3.1-8b"))
    explicit = compared("qwen3.5-4b", enable_prefix_caching=True)
    assert "enable_prefix_caching" not in found(explicit)


def test_hashes_differ_only_where_something_reads_them():
    """Without prefix caching and connectors both sizes are there, and unused."""
    names = {"scheduler_block_size", "hash_block_size"}
    off, other, on, sent = (
        wb.resolve("qwen3.5-4b", rules="0.23", **fields)
        for fields in (
            {},
            {"block_size": 32},
            {"enable_prefix_caching": True},
            {"block_size": 32, "kv_connector": "NixlConnector"},
        )
    )
    assert off.cache.hash_block_size != other.cache.hash_block_size
    plain, first, of_transfers = (
        {one.fact.name: one.means for one in plan_differences(off, plan) if one.fact.name in names}
        for plan in (other, on, sent)
    )
    assert plain == {}
    assert "Nothing was hashed before" in first["hash_block_size"]
    assert first.keys() == of_transfers.keys() == names
    last = {one.fact.name: one.means for one in plan_differences(on, off)}
    assert last["hash_block_size"] == "Nothing is hashed any more."


def test_before_37467_no_backend_gave_the_granularity():
    comparison = compared(
        "nemotron-3-nano-30b-a3b", "before-37467", "0.23", platform="xpu", tensor_parallel=4
    )
    assert not comparison.old.starts
    assert comparison.new.starts
    assert comparison.old.errors == ("pages_not_equal",)
    assert found(comparison)["block_size"].new == 1088


def test_an_architecture_that_is_gone_is_an_outcome():
    comparison = compared("bamba-9b")
    assert comparison.old.starts
    assert comparison.new.plan is None
    assert comparison.new.errors == ("architecture_not_served",)
    assert "BambaForCausalLM" in comparison.new.refused
    assert comparison.changes
    assert comparison.differences == ()


def test_a_setting_that_a_version_does_not_have_is_an_outcome():
    comparison = compared(
        "nemotron-3-nano-30b-a3b", mamba_cache_mode="all", enable_prefix_caching=True
    )
    assert comparison.new.plan is None
    assert "Allowed: align, none" in comparison.new.refused


@pytest.mark.parametrize("name", distinct_models())
def test_every_difference_of_the_catalog_has_its_rule_and_its_meaning(name):
    comparison = compared(name, kv_cache_memory_bytes=40 * 2**30)
    for entry in comparison.differences:
        assert entry.old != entry.new
        assert entry.means
        if entry.fact.name not in {"blocks_per_request", "max_concurrency", "num_blocks"}:
            assert entry.after is not None
            assert "0.33" in entry.after.source


@given(scenarios(memory=True))
def test_facts_differ_exactly_where_the_plans_do(scenario):
    model = load_model(scenario.model)
    comparison = compare(model, scenario)
    plans = []
    for rules in ("0.23", "0.33"):
        try:
            plans.append(resolve(model, scenario.replace(rules=rules)))
        except (Refused, ScenarioError):
            assert comparison.differences == ()
            return
    named = {entry.fact.name for entry in comparison.differences}
    assert named == {fact.name for fact in FACTS if fact.read(plans[0]) != fact.read(plans[1])}
    for entry in comparison.differences:
        if entry.before is not None and entry.after is not None:
            assert entry.before.rule.name == entry.after.rule.name
            assert entry.before.result != entry.after.result


def test_comparing_a_rule_set_with_itself_finds_nothing():
    comparison = compared("nemotron-3-nano-30b-a3b", "0.23", "0.23")
    assert not comparison.changes
    assert comparison.traits == ()


def test_an_unknown_rule_set_names_the_nearest():
    with pytest.raises(ScenarioError, match=r"0\.23"):
        compared("llama-3.1-8b", "0.2", "0.33")


def test_every_trait_has_words_in_every_rule_set():
    for rules in RULE_SETS.values():
        assert set(traits_of(rules)) == set(TRAITS)
    assert traits_of(RULE_SETS["before-37467"])["backends_asked"] == "none"


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("offload", {"big_hash", "hash_option", "offload_unit"}),
        ("layouts", {"cache_view", "stride_rewrite", "table_holds"}),
        ("groups", {"allocations", "unequal_pages", "null_block"}),
        ("all_backends", {"backends_asked"}),
    ],
)
def test_a_trait_is_read_from_the_rule_that_decides_it(part, changed):
    old, mixed = V0_23, replace(V0_23, **{part: getattr(V0_33, part)})
    one, other = traits_of(old), traits_of(mixed)
    assert {name for name in TRAITS if one[name] != other[name]} == changed
    assert {name: traits_of(V0_33)[name] for name in changed} == {n: other[n] for n in changed}


def test_every_fact_has_words():
    for fact in FACTS:
        assert "{" not in fact.meaning(1, 2)


def test_the_next_release_is_one_entry_of_the_registry():
    toy = V0_23.successor("0.99", mla_granule=256)
    RULE_SETS.add("0.99", toy)
    try:
        comparison = compared("kimi-linear-48b-a3b", "0.23", "0.99")
        block = found(comparison)["block_size"]
        assert block.new == 256 * -(-2_170_880 // (256 * 1152)) == 2048
        assert block.after.source.startswith("vLLM 0.99")
        names = [
            outcome.rules
            for outcome in outcomes(
                load_model("llama-3.1-8b"), Scenario(model="llama-3.1-8b"), RULE_SETS
            )
        ]
        assert names == list(RULE_SETS)
    finally:
        RULE_SETS.remove("0.99")
