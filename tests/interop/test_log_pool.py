"""A pool whose memory no line prints follows from its tokens and its concurrency."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.interop.exchange import explain_log
from workbench.interop.logs.numbers import pool_of, tokens_before_0_20
from workbench.interop.logs.releases import rules_for
from workbench.interop.logs.report import AGREES, READ, UNSURE
from workbench.models import catalog_names

QWEN = """\
vllm serve Qwen3.5-27B --max-model-len 32768 --max-num-seqs 16 --max-num-batched-token 16384
INFO [core.py:101] Initializing a V1 LLM engine (v0.19.0) with config: model='Qwen3.5-27B'
INFO [kv_cache_utils.py:1319] GPU KV cache size: 290,864 tokens
INFO [kv_cache_utils.py:1324] Maximum concurrency for 32,768 tokens per request: 33.04x
"""
"""Of 0.19: vllm-project/vllm#40691."""
GEMMA = """\
WARNING 11-13 11:03:06 [kv_cache_utils.py:982] Add 1 padding layers, may waste at most 3.45% KV \
cache memory
INFO 11-13 11:03:06 [kv_cache_utils.py:1087] GPU KV cache size: 317,136 tokens
INFO 11-13 11:03:06 [kv_cache_utils.py:1091] Maximum concurrency for 3,072 tokens per request: \
102.78x
"""
"""Of gemma-3-4b: ovg-project/kvcached#215."""


def test_both_numbers_of_a_public_log_are_those_of_one_pool():
    report = explain_log(QWEN)
    assert {line.message: line.verdict for line in report.lines} == {
        "serve_command": READ,
        "engine_config": READ,
        "tokens": AGREES,
        "concurrency": AGREES,
    }
    assert report.reading.plan.cache.num_blocks == 1487
    found = "follows from 290,864 tokens and 33.04 x: 1,487 blocks."
    assert f"The log has no size of the cache, which {found}" in report.reading.notes


@pytest.mark.thorough
def test_three_lines_without_a_model_are_those_of_one_model_of_the_catalog():
    report = explain_log(GEMMA)
    assert {scene.fields["model"] for scene in report.scenes} == {"gemma-3-4b"}
    chosen = explain_log(GEMMA, "gemma-3-4b")
    assert {line.verdict for line in chosen.lines} == {AGREES}
    assert chosen.reading.plan.cache.num_blocks == 138_747


@pytest.mark.parametrize("concurrency", ["32.04", "34.04"])
def test_numbers_that_no_pool_gives_are_not_compared(concurrency):
    report = explain_log(QWEN.replace("33.04", concurrency))
    assert {line.verdict for line in report.lines} == {READ, UNSURE}
    assert "kv_cache_memory_bytes" not in report.reading.fields


def test_the_blocks_that_an_error_names_are_those_of_the_pool():
    """Of 0.25.1 on an H100: kaito-project/kaito#2319."""
    error = "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (614)."
    report = explain_log(f"vllm serve Qwen/Qwen3.6-27B\n{error}")
    assert report.reading.plan.cache.num_blocks == 614
    assert report.failure.is_reproduced
    assert {"max_num_seqs": 614} in [dict(one.changes) for one in report.failure.remedies]


def test_a_printed_memory_wins():
    log = QWEN + "INFO [gpu_worker.py:508] Available KV cache memory: 71.15 GiB\n"
    report = explain_log(log)
    assert "The log has no size of the cache" not in " ".join(report.reading.notes)
    assert report.reading.fields["kv_cache_memory_bytes"] == pytest.approx(71.15 * 2**30, rel=1e-3)


@given(
    st.sampled_from(catalog_names()), st.sampled_from(["0.23", "0.33"]), st.integers(1, 60 * 2**30)
)
def test_the_pool_of_any_plan_is_found_from_what_any_version_prints_of_it(model, rules, size):
    try:
        plan = wb.resolve(model, rules=rules, kv_cache_memory_bytes=size)
    except wb.Refused:
        return
    cache = plan.cache
    if cache is None or not cache.groups or not cache.max_concurrency:
        return
    said = round(cache.max_concurrency, 2)
    for tokens in {cache.printed_tokens, tokens_before_0_20(plan)}:
        blocks = pool_of(plan, tokens, said)
        again = wb.resolve(
            model, rules=rules, kv_cache_memory_bytes=blocks * cache.grouping.bytes_per_block
        )
        assert tokens in {again.cache.printed_tokens, tokens_before_0_20(again)}
        assert again.cache.max_concurrency == pytest.approx(said, abs=0.011)


@pytest.mark.parametrize(
    ("model", "stages"), [("qwen3.5-27b", 3), ("nemotron-3-nano-30b-a3b", 4), ("gemma-3-27b", 2)]
)
def test_the_pool_of_pipeline_stages_is_that_of_the_stage_that_has_least(model, stages):
    fields = {"pipeline_parallel": stages, "max_model_len": 32_768}
    plan = wb.resolve(model, **fields, kv_cache_memory_bytes=11 * 2**30)
    command = f"vllm serve {model} -pp {stages} --max-model-len 32768"
    report = explain_log("\n".join([command, *plan.log_lines]))
    assert report.reading.plan.cache.num_blocks == plan.cache.num_blocks
    assert {line.verdict for line in report.lines} <= {AGREES, READ}


DFLASH2 = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "dflash_config": {"mask_token_id": 248070, "target_layer_ids": [5, 19, 33, 47, 61]},
    "head_dim": 128,
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "layer_types": ["sliding_attention"] * 5,
    "max_position_embeddings": 262144,
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "sliding_window": 2048,
    "use_sliding_window": True,
    "vocab_size": 248320,
}
"""From `configs/qwen3.6-27b-dflash2.json` of sgl-project/SpecForge."""
TWO_PADDINGS = """\
INFO [core.py:123] Initializing a V1 LLM engine (v0.29.0) with config: model='Qwen/Qwen3.8-27B'
vllm serve Qwen/Qwen3.8-27B --max-model-len 60928 --kv-cache-memory-bytes 6000000000 \
--mamba-ssm-cache-dtype float16 --speculative-config \
'{"method": "dflash", "model": "MODEL", "num_speculative_tokens": 7}'
INFO [interface.py:918] Setting attention block size to 448 tokens to ensure that attention page \
size is >= mamba page size.
WARNING Add 4 padding layers, may waste at most 25.00% KV cache memory
WARNING Add 2 padding layers, may waste at most 4.17% KV cache memory
INFO GPU KV cache size: 61,303 tokens, Maximum concurrency for 60,928 tokens per request: 1.01x
"""
"""Public lines of 2026-10: three kinds of layers, of which two are padded."""


@pytest.mark.parametrize("second", [2, 3])
def test_every_kind_of_layers_prints_its_own_padding(tmp_path, second):
    path = tmp_path / "dflash2.json"
    path.write_text(json.dumps(DFLASH2), encoding="utf-8")
    report = explain_log(TWO_PADDINGS.replace("Add 2", f"Add {second}").replace("MODEL", str(path)))
    first, other = (line for line in report.lines if line.message == "padding_layers")
    assert first.verdict == AGREES
    assert first.expected == {"padding_layers": (2, 4)}
    assert (other.verdict == AGREES) == (second == 2)
    # By the rules of 0.33 FlashInfer runs the prefill of GDN layers, which it did not there.
    found = any("gdn_flashinfer_prefill = no" in scene.text for scene in report.scenes)
    assert found == (second == 2)


def test_a_release_in_the_middle_has_the_newer_rules():
    """0.28 has DFlash2, and a hidden state's block is the largest divisor, as in 0.33."""
    assert [rules_for(f"0.{minor}.0")[0] for minor in (27, 28, 29)] == ["0.23", "0.33", "0.33"]
    assert rules_for("1.0.0")[0] == "0.33"


def test_a_build_without_a_number_has_the_rules_that_print_its_lines():
    rules, note = rules_for("0.1.dev1+g4d2a68d64", "0.33")
    assert rules == "0.33"
    assert "which prints such lines" in note
    assert rules_for("0.1.dev1+g4d2a68d64")[0] == "0.23"


def test_a_start_of_a_release_in_the_middle_has_the_rules_that_know_its_drafter():
    args = {
        "model": "deepseek-ai/DeepSeek-V4-Flash-0731",
        "speculative_config": {"method": "dspark", "num_speculative_tokens": 7},
    }
    report = explain_log(
        f"vLLM API server version 0.26.0\nnon-default args: {args}\n"
        "Model loading took 156.32 GiB and 233.014771 seconds"
    )
    assert report.reading.fields["rules"] == "0.33"
    assert "is of vLLM 0.26.0, and 0.23 refuses it" in report.reading.notes[0]
    assert report.lines[-1].verdict == AGREES


def test_a_start_without_a_release_has_the_rules_that_know_its_drafter(tmp_path):
    path = tmp_path / "dflash2.json"
    path.write_text(json.dumps(DFLASH2), encoding="utf-8")
    command, *lines = TWO_PADDINGS.replace("MODEL", str(path)).splitlines()[1:]
    # a line of 0.33 would choose the rules by itself
    lines = [line.replace(" tokens, ", " tokens\n") for line in lines]
    report = explain_log("\n".join([command, *lines]))
    assert report.reading.fields["rules"] == "0.33"
    assert "0.23 refuses it" in report.reading.notes[0]
    failed = explain_log(f"{command}\nValueError: No available memory for the cache blocks.")
    assert failed.reading.fields["rules"] == "0.23"
