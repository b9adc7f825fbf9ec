"""The search for the model of a log that names none: the likeliest first, and how far it went."""

from __future__ import annotations

import re
from random import Random
from types import SimpleNamespace

import pytest

import workbench as wb
from tests.interop.test_log_explain import SIZE, log_of
from tests.models.configs import llama
from workbench.core.errors import WorkbenchError
from workbench.core.resolve import resolve_numbers
from workbench.interop.exchange import explain_log
from workbench.interop.logs import candidates, missing, tries
from workbench.interop.logs.explain import targets_of
from workbench.interop.logs.find import find_messages
from workbench.interop.logs.text import lines_of, numbered_lines
from workbench.interop.logs.tries import Changes, Outcome, Refusal, Sizes, start_of
from workbench.models.names import models_named_in
from workbench.scenario.fields import changed


@pytest.fixture(autouse=True)
def forget():
    """Remember nothing of other tests, whose limits and models differ, nor for them."""
    kept = (candidates._candidates, candidates._known)
    for remembered in kept:
        remembered.cache_clear()
    yield
    for remembered in kept:
        remembered.cache_clear()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("most", "is_whole"), [(40, False), (10**6, True)])
def test_a_search_says_how_many_combinations_it_tried(most, is_whole, monkeypatch):
    monkeypatch.setattr(candidates, "MOST_TRIED", most)
    [text] = explain_log(SIZE.format(523)).missing
    tried = int(re.search(r"([\d,]+) (?:likeliest )?combinations", text)[1].replace(",", ""))
    assert (tried < most, tried == most) == (is_whole, not is_whole)
    assert ("The others were not tried" in text) != is_whole


def test_rare_dtypes_are_tried_only_next_to_a_block_size(monkeypatch):
    monkeypatch.setattr(candidates, "catalog_names", lambda: ("qwen3.5-4b",))
    tokens = "GPU KV cache size: 482,081 tokens"
    texts = [explain_log(log).missing[0] for log in (tokens, f"{SIZE.format(523)}\n{tokens}")]
    assert ["were not tried" in text for text in texts] == [True, False]


@pytest.mark.parametrize("why", ["enough", "fewer changes fit", ""])
def test_a_search_that_stops_with_candidates_says_so(why, monkeypatch):
    monkeypatch.setattr(candidates, "MOST", 3 if why == "enough" else 10**6)
    if not why:
        fewer = candidates.STEPS[: candidates.STEPS.index(candidates.UNLIKELY[0])]
        monkeypatch.setattr(candidates, "STEPS", fewer)
    report = explain_log(log_of("size_alone_528"))
    assert report.scenes
    assert (len(report.scenes) == 3) == (why == "enough")
    [text] = report.missing
    assert "pick a candidate" in text
    assert ("stopped after" in text) == bool(why)


def test_what_is_likelier_is_tried_before_the_search_ends(monkeypatch):
    every = explain_log(log_of("size_alone_528")).scenes
    candidates._candidates.cache_clear()
    monkeypatch.setattr(candidates, "MOST_TRIED", 60)
    few = explain_log(log_of("size_alone_528")).scenes
    assert few
    assert all(len(scene.fields) == len(few[0].fields) for scene in few)
    assert {scene.words for scene in few} <= {scene.words for scene in every}


@pytest.mark.thorough
def test_a_model_with_a_rare_kv_dtype_and_a_state_dtype_is_found():
    # Qwen3.6-27B with a DFlash drafter, as in a log that people published.
    log = f"{SIZE.format(864)}\nPadding mamba page size by 1.09% to ensure that"
    fields = {
        "model": "qwen3.6-27b",
        "kv_cache_dtype": "int8_per_token_head",
        "mamba_ssm_cache_dtype": "float16",
        "num_speculative_tokens": 7,
    }
    assert any(fields.items() <= scene.fields.items() for scene in explain_log(log).scenes)


def test_a_log_without_a_size_names_no_search():
    [text] = explain_log("Available KV cache memory: 22.5 GiB").missing
    assert "too few numbers" in text


FEW_MODELS = ("qwen3-8b", "qwen3-next-80b-a3b", "nemotron-3-nano-30b-a3b", "granite-4.0-h-small")
"""Enough for several answers, and few enough for a plain search."""
FIXED: tuple[Changes, ...] = (
    {"rules": "0.33"},
    {"rules": "0.23", "kv_cache_memory_bytes": 20 * 2**30},
    {"rules": "0.23", "max_model_len": 10**6},  # more than some of the models have
    {"rules": "0.23", "kv_cache_memory_bytes": 2**26},  # refused with some of the changes
    {"rules": "0.23", "speculative_method": "ngram", "tensor_parallel": 3},
)
"""What logs report."""


def lines_of_numbers(block_size, tokens):
    size = f"Setting attention block size to {block_size} tokens to ensure" if block_size else ""
    pool = f"GPU KV cache size: {tokens:,} tokens" if tokens else ""
    return find_messages(lines_of(f"{size}\n{pool}", numbered_lines))


def logs():
    """Yield (fields, targets): numbers that a combination has, and numbers that none has."""
    for fixed in FIXED:
        for change in ({}, {"kv_cache_dtype": "fp8"}, {"num_speculative_tokens": 2}):
            for name in FEW_MODELS:
                outcome = Outcome(change)
                start = start_of({"model": name, **fixed})
                plan = outcome.plan(start, lambda _sizes: True)
                if isinstance(plan, Refusal):
                    continue
                tokens = plan.cache and plan.cache.printed_tokens
                for numbers in ((plan.block_size, None), (None, tokens), (plan.block_size, tokens)):
                    if any(numbers):
                        yield fixed, targets_of(lines_of_numbers(*numbers))
        yield fixed, targets_of(lines_of_numbers(7, 12_345))


def plainly(outcome, start, may_fit):
    """Resolve as `Outcome.plan` does, and remember nothing."""
    chosen = changed(start.settings, outcome.change)
    try:
        return resolve_numbers(start.model, chosen, lambda plan: may_fit(Sizes.of(plan)))
    except WorkbenchError as error:
        return Refusal(error.field)


@pytest.fixture
def few_models(monkeypatch):
    assert set(FEW_MODELS) <= set(candidates.catalog_names())
    monkeypatch.setattr(candidates, "catalog_names", lambda: FEW_MODELS)


def search(fixed, targets):
    """Search once more, whatever was answered before."""
    candidates._candidates.cache_clear()
    return candidates.candidates(fixed, None, targets)


@pytest.mark.thorough
def test_a_search_among_remembered_combinations_finds_what_a_plain_one_finds(
    few_models, monkeypatch
):
    searched = [*logs()] * 2
    Random(0).shuffle(searched)  # with every other log before it, and after itself
    remembered = [search(fixed, targets) for fixed, targets in searched]
    monkeypatch.setattr(Outcome, "plan", plainly)
    plain = [search(fixed, targets) for fixed, targets in searched]
    assert remembered == plain
    counts = [len(one.scenes) for one in plain]
    assert 0 in counts
    assert max(counts) > 1


def test_a_log_with_the_same_fields_resolves_nothing_again(few_models, monkeypatch):
    fixed, targets = FIXED[1], targets_of(lines_of_numbers(7, None))
    first = candidates.candidates(fixed, None, targets)
    assert first.tried > 100
    monkeypatch.setattr(tries, "resolve_numbers", lambda *_: pytest.fail("resolved again"))
    other_pool = {**fixed, "kv_cache_memory_bytes": 3 * 2**30}
    assert search(other_pool, targets) == search(fixed, targets) == first


def test_a_log_that_is_explained_again_is_not_searched_again(few_models, monkeypatch):
    fixed, targets = FIXED[1], targets_of(lines_of_numbers(None, 12_345))
    first = candidates.candidates(fixed, None, targets)
    monkeypatch.setattr(candidates, "Tries", lambda *_: pytest.fail("searched again"))
    assert candidates.candidates(dict(fixed), None, targets) == first


def test_what_is_remembered_is_bounded(few_models):
    targets = targets_of(lines_of_numbers(7, None))
    for length in range(4096, 4096 + 2 * candidates.KEPT):
        candidates.candidates({"rules": "0.33", "max_model_len": length}, None, targets)
    assert candidates._known.cache_info().currsize == candidates.KEPT


def other_changes(block_size, **fields):
    """Return the changes that give this size, for a log of a model with these fields."""
    size = f"Setting attention block size to {block_size} tokens to ensure"
    lines = explain_log(f"non-default args: {fields}\n{size}").lines
    return [one.candidates for one in lines if one.message == "attention_block_size"]


OF_THE_LOG = (
    {"model": FEW_MODELS[1]},
    {"model": FEW_MODELS[2]},
    {"model": FEW_MODELS[2], "tensor_parallel_size": 1},  # the default, which stays now
    {"model": FEW_MODELS[2], "tensor_parallel_size": 2},
)


def test_changes_among_remembered_ones_are_those_of_a_plain_search(few_models, monkeypatch):
    logs = [(size, fields) for size in (7, 528, 1056, 2112) for fields in OF_THE_LOG] * 2
    Random(0).shuffle(logs)
    remembered = [other_changes(size, **fields) for size, fields in logs]
    monkeypatch.setattr(Outcome, "plan", plainly)
    assert remembered == [other_changes(size, **fields) for size, fields in logs]
    assert len({str(one) for one in remembered}) > len(OF_THE_LOG)


def test_another_log_with_the_same_fields_resolves_nothing_again(few_models, monkeypatch):
    first, other = (other_changes(size, **OF_THE_LOG[2]) for size in (7, 2112))
    assert first != other
    monkeypatch.setattr(tries, "resolve_numbers", lambda *_: pytest.fail("resolved again"))
    assert [other_changes(size, **OF_THE_LOG[2]) for size in (7, 2112)] == [first, other]


@pytest.mark.thorough
def test_a_drafter_of_its_own_leaves_the_models_with_the_block_sizes():
    """Blocks of a start with seven drafts, and the capacity that the drafter's layers leave."""
    sizes = "Setting attention block size to 832 tokens to ensure that attention page size is\n"
    sizes += "Padding mamba page size by 1.71% to ensure that\n"
    tokens = "GPU KV cache size: 35,945 tokens, Maximum concurrency for 4,096 tokens per request: "
    report = explain_log(f"{sizes}{tokens}8.78x\n")
    with_drafts = next(one for one in report.scenes if one.fields["model"] == "qwen3.6-27b")
    assert with_drafts.fields["num_speculative_tokens"] == 7
    assert with_drafts.lacks == ("tokens",)
    assert "but not its tokens:" in report.missing[0]
    assert not any(one.lacks for one in explain_log(sizes).scenes)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("draft_model", ["llama-3.2-1b", llama(num_attention_heads=16)])
def test_a_value_is_tried_with_the_drafter_of_the_log(rules, draft_model):
    fields = {"model": "llama-3.1-8b", "rules": rules, "num_speculative_tokens": 3}
    fields |= {"draft_model": draft_model, "speculative_method": "draft_model"}
    with pytest.raises(WorkbenchError) as refused:
        wb.resolve(wb.Scenario(**fields), tensor_parallel=64)
    assert refused.value.code.startswith("draft")
    tried = []
    ending = SimpleNamespace(code_among=tried.extend)
    missing._quick_check(SimpleNamespace(fields=fields), ending)("tensor_parallel", 64)
    assert [code for code, _text in tried] == [refused.value.code]


OF_0_19 = """Available KV cache memory: 24.05 GiB
GPU KV cache size: 482,080 tokens
Maximum concurrency for 262,144 tokens per request: 6.42x"""
"""A public note, next to which is the name of a Qwen3.5-122B-A10B with MTP and an fp8 cache."""
CACHED = {"enable_prefix_caching": True, "num_speculative_tokens": 1, "kv_cache_dtype": "fp8"}


@pytest.mark.thorough
def test_prefix_caching_of_a_hybrid_model_is_found():
    [scene] = explain_log(OF_0_19).scenes
    assert scene.fields["model"] == "qwen3.5-122b-a10b"
    assert CACHED.items() <= scene.fields.items()


def tried_combinations(report):
    return int(re.search(r"([\d,]+) combinations", report.missing[0])[1].replace(",", ""))


def test_models_that_a_text_names_are_tried_before_all_others():
    named = explain_log(f"# qwen3.5-122b-a10b-nvfp4-resharded, with MTP\n{OF_0_19}")
    unnamed = explain_log(OF_0_19)
    assert [one.fields for one in named.scenes] == [one.fields for one in unnamed.scenes]
    assert tried_combinations(named) * 10 < tried_combinations(unnamed)


@pytest.mark.thorough
def test_all_models_are_tried_where_the_named_one_does_not_fit():
    unnamed, other = explain_log(OF_0_19), explain_log(f"not with Qwen3-0.6B\n{OF_0_19}")
    assert [one.fields for one in other.scenes] == [one.fields for one in unnamed.scenes]


def test_names_in_a_text_are_those_of_models_and_of_their_files():
    text = "Qwen3.5-9B-FP8 by x-y; [utils.py:299] openai/gpt-oss-20b, and gpt-oss-20b again"
    assert models_named_in(text) == ("qwen3.5-9b", "gpt-oss-20b")


OF_0_33 = """Current kv cache memory in use is 8.64 GiB.
GPU KV cache size: 315,039 tokens, Maximum concurrency for 262,144 tokens per request: 1.20x"""


@pytest.mark.thorough
def test_a_line_that_one_release_prints_chooses_its_rules():
    report = explain_log(OF_0_33)
    assert report.reading.fields["rules"] == "0.33"
    assert "0.33, which prints such lines" in report.reading.notes[0]
    named = explain_log(f"vLLM server version 0.23.0\n{OF_0_33}")
    assert named.reading.fields["rules"] == "0.23"


@pytest.mark.thorough
def test_a_named_model_with_the_block_sizes_alone_is_shown_before_others():
    sizes = "Setting attention block size to 832 tokens to ensure that attention page size is >= "
    lines = f"{sizes}mamba page size.\nGPU KV cache size: 35,945 tokens"
    named = explain_log(f"Qwen/Qwen3.8-27B-FP8 with a drafter\n{lines}").scenes
    assert {one.fields["model"] for one in named} == {"Qwen/Qwen3.8-27B-FP8"}
    assert all(one.lacks for one in named)
    assert len({one.fields["model"] for one in explain_log(lines).scenes}) > 1


HALF_A_CACHE = """vLLM API server version 0.33.0
non-default args: {'model': 'Qwen/Qwen3-8B', 'kv_cache_memory_bytes': 21474836480}
GPU KV cache size: 291,264 tokens
Maximum concurrency for 40,960 tokens per request: 7.11x"""


def test_an_explanation_names_values_that_start_and_equal_ones_once():
    report = explain_log(HALF_A_CACHE)
    line = next(one for one in report.lines if one.message == "concurrency")
    texts = line.candidates
    [cache] = [text for text in texts if "kv_cache_dtype" in text]
    assert "With kv_cache_dtype = fp8 (or fp8_e4m3, fp8_e5m2) the rules give" in cache
    assert len({text.split(" = ")[0] for text in texts}) == len(texts)
