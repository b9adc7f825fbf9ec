"""The fatal error of a log: found, compared with the rules, and never passed over."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.interop.test_log_explain import LOGS
from tests.interop.test_log_messages import LINES
from workbench.interop.exchange import explain_log
from workbench.interop.logs import missing
from workbench.interop.logs.messages import MESSAGES
from workbench.views.logs.table import log_html, log_text

FATAL = [message.name for message in MESSAGES.values() if message.is_fatal]
START = (
    "vLLM API server version {}\n"
    "Automatically detected platform cuda.\n"
    "non-default args: {{'model': '{}'{}}}\n"
)
HEAD = "(EngineCore pid=9) {} 11-20 10:00:20 [core.py:1108] "
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FOLLOWING = "RuntimeError: Engine core initialization failed. See root cause above."


def start(error, model="Qwen/Qwen3.5-4B", more="", version="0.23.0"):
    return START.format(version, model, more) + HEAD.format("ERROR") + error


def errors_of(fields):
    try:
        return {problem.code for problem in wb.resolve(wb.Scenario.from_dict(fields)).errors}
    except wb.Refused as refusal:
        return {refusal.code}


def check_plain(report):
    """The rules give the error, or text and HTML say that they do not and what is missing."""
    failure = report.failure
    text, html = log_text(report.to_dict()), log_html(report.to_dict())
    assert "The log ends with a fatal error" in text
    assert "The log ends with a fatal error" in html
    if failure.is_reproduced:
        assert failure.problem in errors_of(report.scenario)
    else:
        assert "The rules do not find this problem in the scenario of the log." in text
        assert failure.missing
        assert all(f"missing: {what}" in text for what in failure.missing)


@in_groups
@pytest.mark.parametrize("version", ["0.23.0", "0.33.0"])
@pytest.mark.parametrize("name", FATAL)
def test_every_fatal_message_is_reproduced_or_said_not_to_be(name, version):
    report = explain_log(start(LINES[name], version=version))
    assert report.failure.message == name
    check_plain(report)


@pytest.mark.parametrize("name", FATAL)
def test_an_added_fact_that_is_offered_gives_the_error(name):
    report = explain_log(start(LINES[name]))
    if report.failure.is_reproduced:
        return
    for scene, what in zip(report.scenes, report.failure.missing, strict=False):
        if scene.text == what:
            assert any(scene.text.startswith(f"{field}: ") for field in scene.fields)
            assert errors_of(scene.fields)


def test_another_error_with_the_same_fields_resolves_nothing_again(monkeypatch):
    logs = [start(LINES[name]) for name in ("not_enough_memory", "no_common_block")]
    first = [explain_log(log).failure.missing for log in logs]
    monkeypatch.setattr(missing, "decide", lambda *_, **__: pytest.fail("resolved again"))
    assert [explain_log(log).failure.missing for log in logs] == first


def test_the_facts_of_a_fatal_line_make_the_scenario():
    """Without its own facts the block would be 2,176 tokens (cache mode all), and no error."""
    text = start(
        "ValueError: In Mamba cache align mode, block_size (2096) must be <= "
        "max_num_batched_tokens (2048).",
        model="nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    )
    report = explain_log(text)
    assert report.scenario["enable_prefix_caching"] is True
    assert report.scenario["mamba_cache_mode"] == "align"
    assert report.scenario["max_num_batched_tokens"] == 2048
    assert report.failure.problem == "block_exceeds_token_budget"
    assert wb.resolve(wb.Scenario.from_dict(report.scenario)).block_size == 2096


def test_a_value_that_vllm_refuses_stays_in_the_scenario():
    error = (
        "ValueError: User-specified max_model_len (999999) is greater than the derived "
        "max_model_len (max_position_embeddings=262144 or model_max_length=None in model's "
        "config.json)."
    )
    report = explain_log(start(error, more=", 'max_model_len': 999999"))
    assert report.scenario["max_model_len"] == 999999
    assert report.failure.problem == "max_model_len_too_long"


def test_a_remedy_was_tried_on_the_refused_scenario():
    """Without the refused field every change would seem to help."""
    error = (
        "ValueError: Total number of attention heads (16) must be divisible by tensor parallel "
        "size (3)."
    )
    report = explain_log(start(error, more=", 'tensor_parallel_size': 3"))
    advice = [text for line in report.lines for text in line.advice if "Tested remedy" in text]
    assert advice
    assert all("tensor_parallel = " in text for text in advice)


def test_rocm_is_the_platform_although_its_device_is_cuda():
    text = (
        "Automatically detected platform rocm.\n"
        "Initializing a V1 LLM engine (v0.23.0) with config: model='Qwen/Qwen3.5-4B', "
        "dtype=torch.bfloat16, device_config=cuda, enable_prefix_caching=True\n"
    )
    assert explain_log(text).scenario["platform"] == "rocm"


@pytest.mark.parametrize("backend", ["ROCM_ATTN", "ROCM_AITER_UNIFIED_ATTN"])
def test_a_backend_of_rocm_alone_names_the_platform(backend):
    """The second is not the first choice without a variable of the environment."""
    text = (
        "Initializing a V1 LLM engine (v0.33.0) with config: model='Qwen/Qwen3-8B', "
        "dtype=torch.bfloat16, device_config=cuda, enable_prefix_caching=True\n"
        f"Using {backend} backend out of potential backends: ['{backend}', 'TRITON_ATTN']\n"
    )
    report = explain_log(text)
    assert report.scenario["platform"] == "rocm"
    assert wb.resolve(**report.scenario).backend == backend


@pytest.mark.parametrize(
    ("argument", "field", "value"),
    [
        ("'attention_config': {'backend': 'FLASHINFER'}", "backend", "FLASHINFER"),
        (
            "'attention_backend': <AttentionBackendEnum.TRITON_ATTN: 'vllm.v1.TritonBackend'>",
            "backend",
            "TRITON_ATTN",
        ),
        ("'kv_cache_dtype_skip_layers': ['0', '3']", "kv_cache_dtype_skip_layers", ("0", "3")),
        ("'kv_cache_dtype_skip_layers': '0,3'", "kv_cache_dtype_skip_layers", ("0", "3")),
        ("'gdn_prefill_backend': 'flashinfer'", "gdn_flashinfer_prefill", True),
        ("'spec_tokens': 3", "num_speculative_tokens", 3),
        ("'max_num_batched_tokens': 4096", "max_num_batched_tokens", 4096),
        ("'mamba_cache_mode': 'align', 'enable_prefix_caching': True", "mamba_cache_mode", "align"),
    ],
)
def test_an_argument_is_in_the_scenario(argument, field, value):
    assert explain_log(start("", more=f", {argument}")).scenario[field] == value


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("Using fp8 data type to store kv cache. It reduces", "kv_cache_dtype", "fp8"),
        (
            "Defaulting max_num_batched_tokens to 8192 for LLM_CLASS usage context",
            "max_num_batched_tokens",
            8192,
        ),
        ("Defaulting max_num_seqs to 256 for LLM_CLASS usage", "max_num_seqs", 256),
        ("Using FlashInfer GDN prefill kernel (requested=auto)", "gdn_flashinfer_prefill", True),
        (
            "`VLLM_KV_CACHE_LAYOUT` environment variable detected. Setting KV cache layout to HND.",
            "kv_cache_layout",
            "HND",
        ),
        (
            LINES["reserved_memory"],
            "kv_cache_memory_bytes",
            20 * 2**30,
        ),
        (LINES["cache_mode"], "mamba_cache_mode", "align"),
        (LINES["auto_fit"], "max_model_len", -1),
    ],
)
def test_a_line_is_in_the_scenario(line, field, value):
    assert explain_log(start("") + "\n" + line).scenario[field] == value


def test_an_unknown_error_is_reported_as_fatal():
    error = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    report = explain_log(start(f"{error}\n{FOLLOWING}"))
    assert report.failure.message is None
    assert error in report.failure.text
    check_plain(report)


def test_memory_that_ran_out_is_known_with_what_to_change():
    report = explain_log(start(f"{OUT_OF_MEMORY}\n{FOLLOWING}"))
    assert report.failure.message == "out_of_memory"
    assert OUT_OF_MEMORY in report.failure.text
    assert "--tensor-parallel-size" in log_text(report.to_dict())
    check_plain(report)


def test_an_error_of_a_rule_without_a_known_message_is_reproduced():
    error = (
        'ValueError: kv_cache_dtype="bfloat16" is incompatible with dtype="float16". Please set '
        "`--kv-cache-dtype auto` or `--kv-cache-dtype float16`."
    )
    report = explain_log(
        start(error, more=", 'dtype': 'float16', 'kv_cache_dtype': 'bfloat16'", version="0.33.0")
    )
    assert report.failure.message is None
    assert report.failure.problem == "float_kv_cache_dtype"


def test_a_cause_comes_before_what_follows_from_it():
    report = explain_log(start(f"{LINES['no_memory']}\n{FOLLOWING}"))
    assert report.failure.message == "no_memory"


@pytest.mark.parametrize(
    "line",
    [
        "INFO 11-20 10:00:20 [launcher.py:1] Application startup complete.",
        "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
    ],
)
def test_a_start_that_went_on_is_not_fatal(line):
    text = start(f"{LINES['no_memory']}\n{OUT_OF_MEMORY}\n{line}")
    assert explain_log(text).failure is None
    assert explain_log(f"{text}\n{LINES['no_memory']}").failure.message == "no_memory"


def test_an_exception_that_was_caught_is_not_fatal():
    """Some optional import fails, its traceback is printed, and the start goes on."""
    caught = "ModuleNotFoundError: No module named 'flash_attn_3'"
    text = start(f"{caught}\n{LINES['available_memory']}\n{LINES['concurrency']}")
    assert explain_log(text).failure is None


def test_a_warning_is_not_fatal():
    """VLLM_ALLOW_LONG_MAX_MODEL_LEN prints the words of the error as a warning."""
    text = START.format("0.23.0", "Qwen/Qwen3.5-4B", "") + HEAD.format("WARNING")
    assert explain_log(text + LINES["too_long"]).failure is None


def test_a_fatal_line_that_is_cut_off_is_still_fatal():
    report = explain_log(start(LINES["not_enough_memory"][:90]))
    assert report.failure.missing == ("the rest of the line: it is cut off",)


def test_other_numbers_are_reported():
    text = start(
        "In Mamba cache align mode, block_size (9999) must be <= max_num_batched_tokens (64).",
        more=", 'enable_prefix_caching': True",
    )
    failure = explain_log(text).failure
    assert failure.is_reproduced
    assert "with different numbers" in failure.summary


def test_a_log_without_a_model_says_what_is_missing():
    report = explain_log(HEAD.format("ERROR") + LINES["not_enough_memory"])
    assert report.scenario is None
    assert "states too little" in report.failure.summary
    assert report.failure.missing[0].startswith("the model")
    assert log_text(report.to_dict()).count(report.failure.missing[0]) == 1


def test_a_reproduced_error_has_tried_remedies():
    lines = (LOGS / "align_budget.log").read_text(encoding="utf-8")
    report = explain_log(lines)
    [first, *_] = report.failure.remedies
    assert report.failure.problem not in errors_of({**report.scenario, **first.changes})
    assert report.to_dict()["failure"]["remedies"][0] == first.to_dict()
    assert f"tested remedy: {first}" in log_text(report.to_dict())
    assert "Max batched tokens 2,096 (block size 2,096)" in log_html(report.to_dict())


def test_a_reproduced_refusal_has_tried_remedies():
    error = "ValueError: Total number of attention heads (32) must be divisible by tensor parallel"
    report = explain_log(start(f"{error} size (3).", "bamba-9b", ", 'tensor_parallel_size': 3"))
    assert report.reading.refusal is not None
    [first, *_] = report.failure.remedies
    assert not errors_of({**report.scenario, **first.changes})


NEEDED = (
    "ValueError: To serve at least one request with the model's max seq len (262144), (8.69 GiB KV "
    "cache is needed, which is larger than the available KV cache memory (1.5 GiB)."
)
LEFT = "Available KV cache memory: {} GiB\n"


@pytest.mark.parametrize(
    ("gib", "error"),
    [("-2.31", "ValueError: No available memory for the cache blocks."), ("1.5", NEEDED)],
)
def test_no_remedy_adds_memory_that_the_machine_does_not_have(gib, error):
    report = explain_log(start(f"{LEFT.format(gib)}{error}", "Qwen/Qwen3-8B"))
    assert report.failure.is_reproduced
    changed = {name for one in report.failure.remedies for name in one.changes}
    assert not any("memory" in name for name in changed)
    [*_, line] = report.lines
    assert not any("memory_bytes" in one for one in line.advice)
    assert any(one.startswith(("Raise --gpu-memory", "Set --max-model-len")) for one in line.advice)


def test_a_cache_whose_size_is_set_may_be_made_larger():
    more = ", 'kv_cache_memory_bytes': 1610612736"
    report = explain_log(start(NEEDED, "Qwen/Qwen3-8B", more))
    changed = {name for one in report.failure.remedies for name in one.changes}
    assert "kv_cache_memory_bytes" in changed


ADVISED = {
    "longer_than_cache": "Set --max-model-len 23648 or less",
    "too_many_sequences": "Set --max-num-seqs 600 or less",
    "heads_not_divisible": "divides 40: 1, 2, 4, 5, 8, 10, 20, 40.",
    "memory_in_use": "End the process that holds 2.28 GiB (`nvidia-smi` lists it), or set "
    "--gpu-memory-utilization 0.89 or less.",
    "no_valid_backend": "The fewest reasons are against FLASH_ATTN (head_size not supported).",
}


@pytest.mark.parametrize("name", ADVISED)
def test_advice_has_the_numbers_of_the_error(name):
    (line,) = explain_log(LINES[name]).lines
    assert ADVISED[name] in " ".join(line.advice)


@pytest.mark.parametrize("ranks", [1, 8])
def test_cause_and_change_come_before_what_is_missing(ranks):
    html = log_html(explain_log("\n".join([LINES["heads_not_divisible"]] * ranks)).to_dict())
    order = ["fatal error", "spread evenly", "What to change", "divides 40", "Missing: the model"]
    assert [*map(html.index, order)] == sorted(map(html.index, order))


def test_a_log_without_a_release_is_of_the_one_that_has_its_settings():
    """vllm#52435: dspark drafts are of 0.33, and the heads are what stopped it."""
    error = "Total number of attention heads (64) must be divisible by tensor parallel size (3)."
    drafts = "{'method': 'dspark', 'num_speculative_tokens': 7}"
    more = f"'tensor_parallel_size': 3, 'speculative_config': {drafts}"
    report = explain_log(
        f"non-default args: {{'model': '/data/deepseek-v4-flash-0731/model', {more}}}\n{error}"
    )
    assert (report.failure.problem, report.scenario["rules"]) == ("heads_not_divisible", "0.33")
    assert not any("dspark" in note for note in report.reading.notes)
