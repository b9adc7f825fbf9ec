"""Pasted start-up logs: real ones, broken ones, and text that is not a log."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench as wb
from tests.catalog import distinct_models
from workbench.core.errors import Refused, ScenarioError
from workbench.interop.exchange import explain_log
from workbench.interop.logs import candidates
from workbench.interop.logs.report import AGREES, KNOWN, READ, VERDICTS
from workbench.models import catalog_config
from workbench.scenario import Scenario

LOGS = Path(__file__).parents[1] / "data" / "logs"
EXPECTED = {
    "typed_arguments_0_27": (
        {"tensor_parallel": 2, "kv_cache_dtype": "int8_per_token_head", "max_model_len": 262144},
        {"typed_arguments": READ},
    ),
    "objects_in_arguments": (
        {"model": "llama-3.1-8b", "max_model_len": 1024, "max_num_batched_tokens": 8192},
        {"typed_arguments": READ, "max_model_len": "agrees", "token_budget": READ},
    ),
    "engine_config_0_10": (
        {"model": "qwen3-8b", "dtype": "bfloat16", "max_model_len": 16384, "platform": "cuda"},
        {"engine_config": READ},
    ),
    "engine_config_0_6": (
        {"model": "qwen3-8b", "rules": "before-37467"},
        {"engine_config": READ},
    ),
    "journald_ranks": (
        {"kv_cache_memory_bytes": round(5.35 * 2**30), "max_model_len": 8192},
        {"available_memory": READ, "tokens": "unsure", "concurrency": "unsure"},
    ),
    "drafts_480": ({}, {"attention_block_size": "unsure", "mamba_padding": "unsure"}),
    "size_alone_528": ({}, {"attention_block_size": "unsure", "mamba_padding": "unsure"}),
    "wrapped_1600": ({}, {"attention_block_size": "unsure", "mamba_padding": "unsure"}),
    "tokens_before_0_20": (
        {"model": "qwen3.5-27b", "max_model_len": 32768},
        {"tokens": "agrees", "concurrency": "agrees"},
    ),
    "padding_layers": ({"max_model_len": 1048576}, {"padding_layers": "unsure"}),
    "joined_line": ({"max_model_len": 262144}, {"tokens_and_concurrency": "unsure"}),
    "override": ({"num_gpu_blocks_override": 4338}, {"override": READ}),
    "not_enough_hard_wrapped": (
        {"max_model_len": 100000, "kv_cache_memory_bytes": round(4.25 * 2**30)},
        {"not_enough_memory": "unsure"},
    ),
    "too_many_sequences": ({"max_num_seqs": 1024}, {"too_many_sequences": "unsure"}),
    "backend_refused": ({"backend": "CUTLASS_MLA"}, {"backend_not_valid": "unsure"}),
    "banner_0_17": (
        {"tensor_parallel": 2, "max_num_seqs": 16, "enable_prefix_caching": True},
        {"version": "known", "typed_arguments": READ},
    ),
    "align_budget": (
        {"model": "nemotron-3-nano-30b-a3b", "max_num_batched_tokens": 2048},
        {"block_exceeds_budget": "agrees"},
    ),
    "hybrid_manager_off": ({}, {"hybrid_manager_off": "unsure"}),
    "hash_block_0_27": ({}, {"hash_block_not_divisible": "known"}),
    "rocm_arguments": (
        {"model": "qwen3-next-80b-a3b", "platform": "rocm", "tensor_parallel": 4},
        {"platform": READ, "architecture": "known"},
    ),
    "pages_not_divisible": ({}, {"pages_not_divisible": "unsure"}),
    "bench_report_0_24": (
        {"kv_cache_dtype": "fp8", "max_num_seqs": 1, "tensor_parallel": 1},
        {"typed_arguments": READ, "engine_config": READ, "tokens": "agrees"},
    ),
    "compose_0_8": ({"max_model_len": 8192}, {"tokens": "unsure", "concurrency": "unsure"}),
    "kimi_0_11": (
        {"enable_prefix_caching": False, "max_num_batched_tokens": 64000},
        {"prefix_caching_not_supported": READ, "mamba_padding": "unsure"},
    ),
    "host_time": ({}, {"pages_not_divisible": "unsure"}),
    "double_spaced_0_9": (
        {"tensor_parallel": 8, "platform": "cuda", "max_num_batched_tokens": 5120},
        {"engine_config": READ},
    ),
    "one_line_0_8": (
        {"platform": "cuda", "tensor_parallel": 2, "max_model_len": 8192},
        {"version": "known", "all_arguments": READ},
    ),
    "glm_5_2_0_26": (
        {"model": "nvidia/GLM-5.2-NVFP4", "compute_capability": "10.0"},
        {"weights": "agrees", "backend": "agrees", "preferred_block": "agrees"},
    ),
    "qwen3_235b_0_27": (
        {"tensor_parallel": 4, "kv_cache_memory_bytes": 29_903_709_798},
        {"tokens": "agrees", "concurrency": "agrees", "weights": "agrees"},
    ),
    "gpu_blocks_0_7": ({"max_model_len": 2048}, {"weights": "unsure", "num_blocks": "unsure"}),
    "stored_in_cache_0_6": (
        {"max_model_len": 29000},
        {"longer_than_cache": "unsure", "num_blocks": "unsure"},
    ),
    "padded_to_the_window": (
        {"tensor_parallel": 2, "max_num_batched_tokens": 4096, "max_model_len": 32768},
        {"version": "known", "typed_arguments": READ},
    ),
    "models_max_seq_0_11": (
        {"max_model_len": 262144, "kv_cache_memory_bytes": round(13.69 * 2**30)},
        {"not_enough_memory": "unsure"},
    ),
    "shell_between": ({"max_model_len": 32768}, {"concurrency": "unsure"}),
    "engine_core_0": ({"max_model_len": 40000}, {"tokens": "unsure"}),
    "all_arguments_0_6": (
        {"model": "qwen3-8b", "max_model_len": 16384, "kv_cache_dtype": "fp8"},
        {"all_arguments": READ},
    ),
    "progress_and_override": (
        {"kv_cache_memory_bytes": round(6.9 * 2**30), "max_model_len": 262144},
        {"profiling_blocks": "known", "concurrency": "unsure"},
    ),
    "whole_start_0_23": (
        {"model": "nemotron-3-nano-30b-a3b", "tensor_parallel": 4, "mamba_cache_mode": "align"},
        {
            "attention_block_size": "agrees",
            "mamba_padding": "agrees",
            "backend": "agrees",
            "padding_layers": "agrees",
            "tokens": "agrees",
            "concurrency": "agrees",
        },
    ),
    "whole_start_0_33": (
        {
            "model": "qwen3.5-4b",
            "enable_prefix_caching": True,
            "gdn_flashinfer_prefill": False,
        },
        {"preferred_block": "agrees", "attention_block_size": "agrees", "gdn_prefill": READ},
    ),
    "three_facts_cut_0_24": (
        {"model": "qwen3.6-27b", "max_model_len": 262144, "dtype": "float16"},
        {"tokens": "differs", "concurrency": "differs"},
    ),
    "without_memory_0_20": (
        {"model": "qwen3.6-27b", "kv_cache_dtype": "fp8_e5m2"},
        {"tokens": "agrees", "concurrency": "agrees"},
    ),
    "arguments_cut_0_24": (
        {"model": "qwen3.6-27b", "kv_cache_dtype": "int8_per_token_head"},
        {"attention_block_size": "differs", "tokens": "differs"},
    ),
    "same_sizes_0_24": (
        {"model": "nvidia/Qwen3.6-35B-A3B-NVFP4", "max_num_seqs": 1},
        {"tokens": "agrees", "concurrency": "agrees"},
    ),
    "kimi_command_0_11": (
        {"model": "kimi-linear-48b-a3b", "tensor_parallel": 2, "max_num_seqs": 8},
        {"serve_command": READ, "attention_block_size": "differs"},
    ),
    "command_rocm_0_10": (
        {"model": "qwen3-next-80b-a3b", "platform": "rocm", "tensor_parallel": 4},
        {"serve_command": READ},
    ),
    "graphs_estimated": (
        {"gpu_memory_utilization": 0.92, "kv_cache_memory_bytes": round(15.72 * 2**30)},
        {"graph_profiling": READ, "graphs_estimated": "known", "mamba_padding": "unsure"},
    ),
    "command_and_sizes": (
        {"model": "Qwen/Qwen3.8-27B-FP8", "kv_cache_dtype": "fp8_e4m3", "tensor_parallel": 2},
        {"tokens": "agrees", "concurrency": "agrees"},
    ),
    "pipeline_command": (
        {"gpu_memory_utilization": 0.9, "model": "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8"},
        {"not_enough_memory": "differs", "estimated_length": "known"},
    ),
    "gdn_kernel": (
        {"gdn_flashinfer_prefill": True, "max_model_len": 2048},
        {"gdn_prefill": READ, "attention_block_size": "unsure"},
    ),
}
"""Log -> fields that it gives, and verdicts by message."""

ARGUMENTS = "(APIServer pid=1) INFO 01-01 00:00:00 [u.py:1] non-default args: {{'model': '{}'{}}}\n"
SIZE = "Setting attention block size to {} tokens to ensure that attention page size is >= mamba"


def log_of(name):
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def code_of(log):
    """The error's code, or "log_explained" for one that can be published."""
    try:
        report = explain_log(log)
    except ScenarioError as error:
        return error.code
    json.dumps(report.to_dict())
    return "log_explained"


def line_of(report, message):
    return next(line for line in report.lines if line.message == message)


def test_every_log_is_expected_here():
    assert {path.stem for path in LOGS.glob("*.log")} == {*EXPECTED, "sglang"}
    assert len(EXPECTED) >= 12


@cache
def explained(name):
    """The report of a log that takes seconds and that two tests look at."""
    return explain_log(log_of(name))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_real_log_gives_a_scenario_and_every_line_is_explained(name):
    fields, verdicts = EXPECTED[name]
    report = explained(name)
    assert fields.items() <= dict(report.reading.fields).items()
    assert {message: line_of(report, message).verdict for message in verdicts} == verdicts
    assert all(line.means and line.verdict in VERDICTS for line in report.lines)
    assert report.scenario is not None or report.missing
    assert json.loads(json.dumps(report.to_dict()))["lines"]


def test_a_size_is_explained_with_its_operands():
    line = line_of(explain_log(log_of("whole_start_0_23")), "attention_block_size")
    assert (line.said, line.expected) == ({"block_size": 1056}, {"block_size": 1056})
    assert line.times == 2
    text = "\n".join(line.why)
    assert "The log says 1,056 tokens, the rules give 1,056 tokens because" in text
    for words in ("533,504 bytes", "attention_bytes_per_token=512", "A=16", "#37467"):
        assert words in text
    assert any(advice.startswith("Smaller: ") for advice in line.advice)


def test_what_is_advised_really_makes_the_block_smaller():
    report = explain_log(log_of("whole_start_0_23"))
    for advice in line_of(report, "attention_block_size").advice:
        field, _, rest = advice.removeprefix("Smaller: ").partition(" = ")
        value, _, size = rest.partition(" gives ")
        read = {"yes": True, "no": False}.get(value, int(value) if value.isdigit() else value)
        plan = wb.resolve(Scenario.from_dict({**report.scenario, field: read}))
        assert size == f"{plan.block_size:,} tokens."
        assert plan.block_size < 1056


def test_the_count_of_old_versions_is_recognised_and_said_to_be_wrong():
    line = line_of(explain_log(log_of("tokens_before_0_20")), "tokens")
    assert "1,487 blocks // 4 groups * 784 tokens = 290,864" in line.why[0]
    assert "vllm#40691" in line.why[0]


def test_the_smallest_memory_of_the_ranks_counts():
    report = explain_log(log_of("whole_start_0_23"))
    assert report.scenario["kv_cache_memory_bytes"] == 20 * 2**30


@pytest.mark.parametrize(
    ("more_bytes", "verdict"), [(5_000_000, "agrees"), (50_000_000, "differs")]
)
def test_capacity_may_differ_by_what_rounding_the_memory_allows(more_bytes, verdict):
    wanted = {"model": "lfm2-350m", "max_model_len": 1024}
    there = Scenario(**wanted, kv_cache_memory_bytes=20 * 2**30 + more_bytes)
    tokens = wb.resolve(there).cache.printed_tokens
    rounded = wb.resolve(**wanted, kv_cache_memory_bytes=20 * 2**30)
    assert rounded.cache.printed_tokens != tokens
    text = ARGUMENTS.format("lfm2-350m", ", 'max_model_len': 1024") + (
        f"Available KV cache memory: 20.0 GiB\nGPU KV cache size: {tokens:,} tokens"
    )
    line = line_of(explain_log(text), "tokens")
    assert line.verdict == verdict
    assert ("rounds the memory" in line.why[0]) == (verdict == "agrees")


def test_a_disagreement_names_what_would_explain_it_and_that_is_true():
    text = ARGUMENTS.format("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "") + SIZE.format(1056)
    line = line_of(explain_log(text), "attention_block_size")
    assert line.verdict == "differs"
    assert line.expected == {"block_size": 2096}
    assert "With tensor_parallel = 4 the rules give 1,056 tokens" in line.candidates[0]
    report = explain_log(text)
    assert report.scenes[0].words == "tensor_parallel = 4"
    for scene in report.scenes:
        assert wb.resolve(Scenario.from_dict(scene.fields)).block_size == 1056


def test_a_size_that_nothing_explains_is_reported():
    text = ARGUMENTS.format("Qwen/Qwen3.5-4B", "") + SIZE.format(12345)
    [text] = line_of(explain_log(text), "attention_block_size").candidates
    assert text.startswith("No single change and no pair")


def test_a_size_alone_offers_models_that_really_have_it():
    report = explain_log(log_of("size_alone_528"))
    assert report.scenario is None
    assert "qwen3.5-4b" in {scene.fields["model"] for scene in report.scenes}
    for scene in report.scenes:
        plan = wb.resolve(Scenario.from_dict(scene.fields))
        assert plan.block_size == 528
        assert round(plan.padding_percent, 2) == 0.76


@pytest.mark.thorough
def test_a_size_that_no_model_has_is_reported():
    text = SIZE.format(12345)
    assert "none in the catalog has block_size 12,345" in explain_log(text).missing[0]


def test_the_model_and_the_state_dtype_of_a_log_with_two_lines_are_found():
    fields = {
        "model": "qwen3.8-27b",
        "mamba_ssm_cache_dtype": "float16",
        "num_speculative_tokens": 15,
    }
    found = [scene.fields for scene in explained("drafts_480").scenes]
    assert any(fields.items() <= one.items() for one in found)


def test_a_model_on_this_machine_is_read(tmp_path):
    config = catalog_config("qwen3.5-4b")
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    report = explain_log(ARGUMENTS.format(tmp_path, "") + SIZE.format(528))
    assert line_of(report, "attention_block_size").verdict == "agrees"
    assert report.scenario["model"] == str(tmp_path / "config.json")


def test_flashinfer_first_means_compute_capability_10():
    text = ARGUMENTS.format("Qwen/Qwen3.5-4B", "") + (
        "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'FLASH_ATTN']"
    )
    report = explain_log(text)
    assert report.scenario["compute_capability"] == "10.0"
    assert line_of(report, "backend").verdict == "agrees"


@pytest.mark.parametrize("name", ["TRITON_ATTN", "FLASHINFER"])
def test_the_class_of_a_backend_is_not_part_of_its_name(name):
    """0.20 to 0.22 print the member of their enumeration where the backend was requested."""
    text = ARGUMENTS.format("Qwen/Qwen3-8B", f", 'attention_backend': '{name}'")
    report = explain_log(f"{text}Using AttentionBackendEnum.{name} backend.")
    assert line_of(report, "backend_in_words").verdict == "agrees"
    assert report.scenario["backend"] == name


def test_a_refusal_is_explained_with_remedies_that_were_tried():
    text = ARGUMENTS.format("Qwen/Qwen3.5-4B", ", 'max_model_len': 999999") + (
        "ValueError: User-specified max_model_len (999999) is greater than the derived "
        "max_model_len (max_position_embeddings=262144 or model_max_length=None in model's "
        "config.json)."
    )
    report = explain_log(text)
    line = line_of(report, "too_long")
    assert line.verdict == "agrees"
    assert any("max_model_len = 262,144" in advice for advice in line.advice)
    assert any(note.startswith("Omitted max_model_len") for note in report.reading.notes)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize("name", distinct_models())
def test_the_log_that_is_predicted_for_a_plan_agrees_with_it(name, rules):
    """The lines that the rules predict, explained, lead back to the same numbers."""
    wanted = {"model": name, "kv_cache_memory_bytes": 40 * 2**30, "max_model_len": 2048}
    try:
        plan = wb.resolve(**wanted, rules=rules)
    except Refused:
        return
    head = f"vLLM API server version {rules}.0\n" + ARGUMENTS.format(
        name, f", 'max_model_len': 2048, 'kv_cache_memory_bytes': {40 * 2**30}"
    )
    report = explain_log(head + "\n".join(plan.log_lines))
    assert {line.verdict for line in report.lines} <= {AGREES, READ, KNOWN}
    assert report.scenario["rules"] == rules
    assert wb.resolve(Scenario.from_dict(report.scenario)).block_size == plan.block_size


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "log_empty"),
        (b" \n\n\t", "log_empty"),
        (gzip.compress(b"INFO " * 100, mtime=0) + b"\0", "log_binary"),
        (b"\x7fELF\0\0\0", "log_binary"),
        (b"hello\nworld\n", "log_not_recognised"),
        (b"INFO 11-20 10:00:00 [interface.py:1] Setting", "log_not_recognised"),
    ],
)
def test_what_cannot_be_explained_is_refused(data, code):
    with pytest.raises(ScenarioError) as caught:
        explain_log(data)
    assert caught.value.code == code


def test_another_engine_is_named():
    with pytest.raises(ScenarioError, match="SGLang") as caught:
        explain_log(log_of("sglang"))
    assert caught.value.code == "log_of_another_engine"


def test_a_huge_log_is_read_to_its_end():
    noise = "INFO 11-20 10:00:00 [metrics.py:1] Avg prompt throughput: 1.0 tokens/s\n" * 100_000
    report = explain_log(noise + log_of("whole_start_0_23"))
    assert line_of(report, "attention_block_size").line == 100_010
    assert report.total_lines > 100_000


def test_a_file_of_windows_with_its_mark_is_read(tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes(log_of("whole_start_0_23").replace("\n", "\r\n").encode("utf-16"))
    assert line_of(explain_log(path), "tokens").verdict == "agrees"


@given(st.text(max_size=300) | st.binary(max_size=300))
def test_any_text_is_explained_or_refused_in_words(data):
    assert code_of(data).startswith("log_")


@given(st.data())
@settings(max_examples=settings.default.max_examples // 5, deadline=None)
def test_a_log_that_is_cut_or_shuffled_never_fails(data):
    text = log_of(data.draw(st.sampled_from(sorted(EXPECTED))))
    start = data.draw(st.integers(0, len(text)))
    piece = text[start : data.draw(st.integers(start, len(text)))]
    lines = data.draw(st.permutations(piece.split("\n")))
    try:
        with patch.object(candidates, "MOST_TRIED", 200):  # few logs say the same of a model
            assert code_of("\n".join(lines)).startswith("log_")
    finally:
        candidates._candidates.cache_clear()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Using FlashInfer GDN prefill kernel (requested=auto, head_k_dim=128).", True),
        ("Using Triton/FLA GDN prefill kernel (requested=flashinfer, head_k_dim=64).", False),
        ("Using CuteDSL GDN prefill kernel (requested=cutedsl, head_k_dim=128).", False),
        ("Using AITER FlyDSL GDN prefill kernel (requested=auto, head_k_dim=128).", None),
        ("Using CPU GDN prefill kernel (head_k_dim=128).", None),
        ("non-default args: {'model': 'qwen3.5-4b', 'gdn_prefill_backend': 'triton'}", False),
        ("non-default args: {'model': 'qwen3.5-4b', 'gdn_prefill_backend': 'flashinfer'}", True),
    ],
)
def test_the_prefill_kernel_of_a_log_is_the_scenarios(line, expected):
    model = "" if line.startswith("non-default") else "non-default args: {'model': 'qwen3.5-4b'}\n"
    log = f"vLLM API server version 0.33.0\n{model}{line}"
    assert explain_log(log).reading.fields.get("gdn_flashinfer_prefill") is expected


def test_the_keys_of_a_shared_indexer_explain_the_tokens_of_a_log():
    """0.26 shares the choice of an indexer among layers, as 0.33 does; 0.23 does not."""
    report = explained("glm_5_2_0_26")
    tokens = line_of(report, "tokens")
    assert tokens.verdict == "differs"
    assert "With rules = 0.33 the rules give 64 tokens, 1,139,456 tokens" in tokens.candidates[0]
