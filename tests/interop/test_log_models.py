"""Logs of checkpoints that are not in the catalog, of commands, of several servers, of any size."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.interop.test_log_explain import line_of
from workbench.core.devices import device_named
from workbench.core.errors import ConfigError
from workbench.interop.commands.command_line import read_command
from workbench.interop.exchange import explain_log
from workbench.interop.logs import large
from workbench.interop.logs.explain import has_messages
from workbench.interop.logs.large import LARGE_CHARACTERS, WINDOW
from workbench.models import catalog_names, load_model
from workbench.models.names import checkpoint_in, same_model, similar_model
from workbench.scenario import Scenario

LOGS = Path(__file__).parents[1] / "data" / "logs"
START = (LOGS / "whole_start_0_23.log").read_text(encoding="utf-8")
HEAD = "INFO 11-20 10:00:00 [loggers.py:127] "
NOISE = f"{HEAD}Engine 000: Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 0.3%\n"


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("RedHatAI/Qwen3-8B-FP8-dynamic", "qwen3-8b"),
        ("unsloth/Qwen3-8B-unsloth-bnb-4bit", "qwen3-8b"),
        ("nvidia/Qwen3.5-397B-A17B-NVFP4", "qwen3.5-397b-a17b"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "nemotron-3-nano-30b-a3b"),
        ("cyankiwi/Kimi-Linear-48B-A3B-Instruct-AWQ-4bit", "kimi-linear-48b-a3b"),
        ("/models/Qwen3-Next-80B-A3B-Thinking-AWQ-8bit/", "qwen3-next-80b-a3b"),
        ("~/.cache/huggingface/qwen3.6-27b-autoround-int4", "qwen3.6-27b"),
        ("/root/hub/models--Qwen--Qwen3.5-4B/snapshots/1a2b", "qwen3.5-4b"),
        ("/modelscope/LLM-Research/Meta-Llama-3___1-8B-Instruct", "llama-3.1-8b"),
        ("C:\\models\\gpt-oss-20b", "gpt-oss-20b"),
        ("/app/data/qwen3.6-27b-fp8/model", "qwen3.6-27b"),
        ("/out/Qwen3-8B-sft/checkpoint-1500", "qwen3-8b"),
        ("RedHatAI/Kimi-K2-Instruct-quantized.w4a16", "kimi-k2"),
        ("some/Kimi-K2-Thinking-FP8", "kimi-k2-thinking"),
    ],
)
def test_a_quantized_or_tuned_checkpoint_has_the_sizes_of_its_base(reference, name):
    assert same_model(reference).name == name


@pytest.mark.parametrize(
    ("model", "served", "name"),
    [
        ("/mnt/models", ["Qwen/Qwen3-8B"], "qwen3-8b"),
        ("/mnt/models", "qwen3.6-27b-awq", "qwen3.6-27b"),
        ("/mnt/models", ["mine", "qwen3.5-4b"], "qwen3.5-4b"),
        ("Qwen/Qwen3-8B", ["gpt-oss-20b"], "qwen3-8b"),
        ("/mnt/models", ["mine"], None),
    ],
)
def test_a_folder_that_names_no_model_is_what_it_is_served_as(model, served, name):
    report = explain_log(
        f"non-default args: {{'model': {model!r}, 'served_model_name': {served!r}}}"
    )
    assert (report.scenario or {}).get("model") == name
    is_served = f"{model} is served as" in " ".join(report.reading.notes)
    assert is_served == (model == "/mnt/models" and name is not None)


def test_a_command_with_a_variable_for_its_model_is_of_the_model_it_is_served_as():
    command = 'vllm serve "$MODEL_DIR" --served-model-name qwen3.8-27b --kv-cache-dtype fp8'
    report = explain_log(command)
    assert report.scenario["model"] == "qwen3.8-27b"
    assert report.scenario["kv_cache_dtype"] == "fp8"
    assert "$MODEL_DIR is served as qwen3.8-27b" in " ".join(report.reading.notes)
    other = explain_log(command.replace("qwen3.8-27b", "my-model"))
    assert "model" not in (other.scenario or {})


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/public/models/GLM-5.2-NVFP4", "nvidia/GLM-5.2-NVFP4"),
        ("C:\\models\\GLM-5.2-NVFP4\\", "nvidia/GLM-5.2-NVFP4"),
        ("./glm-5.2-nvfp4", "nvidia/GLM-5.2-NVFP4"),
        ("GLM-5.2-NVFP4", "nvidia/GLM-5.2-NVFP4"),
        ("/root/hub/models--nvidia--GLM-5.2-NVFP4/snapshots/1a2b", "nvidia/GLM-5.2-NVFP4"),
        ("/root/hub/models--other--GLM-5.2-NVFP4/snapshots/1a2b", None),
        ("other/GLM-5.2-NVFP4", None),
        ("/models/GLM-5.2-AWQ", None),
        ("", None),
    ],
)
def test_a_folder_that_is_named_as_a_repository_has_its_checkpoint(folder, name):
    assert checkpoint_in(folder) == name


@pytest.mark.parametrize(
    ("reference", "similar"),
    [
        ("Qwen/Qwen3-8B-Base", "qwen3-8b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2607", "qwen3-30b-a3b"),
        ("moonshotai/Kimi-K2", "kimi-k2"),
        ("org/Qwen3-8B-VL", "qwen3-8b"),
        ("tiiuae/Falcon-H1-7B-Instruct", "falcon-h1-7b"),
        ("org/ThinkingCap-Qwen3.6-27B-FP8", "qwen3.6-27b"),
        ("org/DeepSeek-R1-0528-Qwen3-8B", "qwen3-8b"),
        ("Qwen/Qwen3-Coder-80B-A3B-Instruct-FP8", None),
        ("Qwen/Qwen3.5-7B-GPTQ-Int4", None),
        ("/model", None),
        ("", None),
    ],
)
def test_other_words_in_a_name_are_not_certain(reference, similar):
    assert same_model(reference) is None
    assert similar_model(reference) == similar


def test_every_checkpoint_of_the_catalog_is_its_own_base():
    for name in catalog_names():
        found = same_model(load_model(name).name) or same_model(name)
        assert found is None or found.name == name


def test_the_base_is_named_and_an_uncertain_one_is_only_proposed():
    size = "Setting attention block size to 528 tokens to ensure that attention page size is >="
    text = f"vllm serve {{}}\n{size}"
    report = explain_log(text.format("RedHatAI/Qwen3.5-4B-FP8-dynamic"))
    assert report.scenario["model"] == "qwen3.5-4b"
    assert any(
        "has the sizes of qwen3.5-4b (Qwen/Qwen3.5-4B)" in one for one in report.reading.notes
    )
    report = explain_log(text.format("org/Qwen3.5-4B-Vision"))
    assert report.scenario is None
    assert any("Give qwen3.5-4b if" in one for one in report.reading.notes)


@pytest.mark.parametrize("model", ["qwen3.5-4b", "Qwen/Qwen3.5-4B", "RedHatAI/Qwen3.5-4B-FP8"])
def test_a_requested_model_replaces_the_one_of_the_log(model):
    text = "non-default args: {'model': '/model'}\nSetting attention block size to 528 tokens to"
    report = explain_log(text, model)
    assert line_of(report, "attention_block_size").verdict == "agrees"
    assert any("the log names /model" in note for note in report.reading.notes)


def test_an_unknown_requested_model_is_an_error():
    with pytest.raises(ConfigError):
        explain_log(START, "no-such-model")


COMMANDS = {
    "$ docker run --gpus all -e VLLM_USE_V1=1 vllm/vllm-openai:v0.23.0 \\\n "
    "--model Qwen/Qwen3.5-4B \\\n  -tp 2": {"model": "qwen3.5-4b", "tensor_parallel": 2},
    "docker run vllm/vllm-openai:v0.23.0 vllm serve Qwen/Qwen3.5-4B -tp 2": {
        "model": "qwen3.5-4b",
        "tensor_parallel": 2,
    },
    "root@x:~# python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3.5-4B 2>&1 | tee l": {
        "model": "qwen3.5-4b"
    },
    "VLLM_KV_CACHE_LAYOUT=HND \\\n  vllm serve Qwen/Qwen3.5-4B --kv-cache-dtype fp8": {
        "model": "qwen3.5-4b",
        "kv_cache_dtype": "fp8",
        "kv_cache_layout": "HND",
    },
    "ExecStart=/opt/v/bin/vllm serve $MODEL --max-model-len 4096": {"max_model_len": 4096},
    "run `vllm serve Qwen/Qwen3.5-4B -tp 2` first": {
        "model": "qwen3.5-4b",
        "tensor_parallel": 2,
    },
    "use vllm serve to start it": {},
}


@pytest.mark.parametrize("text", COMMANDS)
def test_the_command_before_a_log_is_read(text):
    report = explain_log(f"{text}\n{HEAD}GPU KV cache size: 1,000 tokens")
    fields = {name: value for name, value in report.reading.fields.items() if name != "rules"}
    assert fields == COMMANDS[text]


def test_what_the_log_prints_wins_over_the_command():
    text = "vllm serve Qwen/Qwen3.5-4B -tp 2\nnon-default args: {'tensor_parallel_size': 4}"
    fields = explain_log(text).reading.fields
    assert (fields["model"], fields["tensor_parallel"]) == ("qwen3.5-4b", 4)


@pytest.mark.parametrize(
    ("tag", "rules", "noted"),
    [
        (":v0.33.0", "0.33", False),
        (":v0.23.0-cu130", "0.23", False),
        (":v0.11.2", None, True),
        (":latest", None, False),
        ("", None, False),
    ],
)
def test_the_tag_of_an_image_names_the_version(tag, rules, noted):
    found = read_command(f"docker run vllm/vllm-openai{tag} --model Qwen/Qwen3.5-4B")
    assert found.fields.get("rules") == rules
    assert any("not among the versions here" in note for note in found.notes) == noted


def test_an_image_that_runs_the_command_itself_is_not_its_model():
    fields = read_command("docker run vllm/vllm-openai vllm serve Qwen/Qwen3.5-4B").fields
    assert fields == {"model": "qwen3.5-4b"}


SERVER = (
    "INFO [api_server.py:1] vLLM API server version 0.23.0\n"
    "INFO [utils.py:1] non-default args: {{'model': '{}'}}\n"
    "INFO [interface.py:1] Setting attention block size to {} tokens to ensure\n"
)
TWO = (("Qwen/Qwen3.5-4B", 528), ("Qwen/Qwen3.5-27B", 784))


def is_separated(text):
    report = explain_log(text)
    seen = [(one.scenario["model"], line_of(one, "attention_block_size")) for one in report.servers]
    assert [(name, line.said["block_size"]) for name, line in seen] == [
        ("qwen3.5-4b", 528),
        ("qwen3.5-27b", 784),
    ]
    assert {line.verdict for _name, line in seen} == {"agrees"}
    return report


def test_servers_one_after_the_other_are_separated():
    report = is_separated("".join(SERVER.format(*one) for one in TWO))
    assert report.scenario["model"] == "qwen3.5-27b"
    assert report.to_dict()["servers"][0]["scenario"]["model"] == "qwen3.5-4b"
    assert report.servers[1].lines[0].line == 4
    assert "Server 2 of 2, lines 4 to 6" in report._repr_html_()


@pytest.mark.parametrize("prefix", ["vllm-{}-1  | ", "[pod/vllm-{}/vllm] "])
def test_services_whose_lines_are_mixed_are_separated(prefix):
    servers = [SERVER.format(*one).splitlines() for one in TWO]
    lines = [
        f"{prefix.format('ab'[at])}{line}"
        for both in zip(*servers, strict=True)
        for at, line in enumerate(both)
    ]
    is_separated("\n".join(lines))


def test_a_restart_with_the_same_arguments_is_one_server():
    assert explain_log(SERVER.format(*TWO[0]) * 2).servers == ()
    assert explain_log(START).servers == ()


def test_a_change_that_the_log_omits_is_named_alone():
    report = explain_log(LOGS / "arguments_cut_0_24.log")
    assert [scene.words for scene in report.scenes] == ["num_speculative_tokens = 3"]
    fixed = wb.resolve(Scenario.from_dict(report.scenes[0].fields))
    assert (fixed.block_size, fixed.cache.printed_tokens) == (1584, 289661)


def test_facts_that_were_cut_off_are_found_together():
    report = explain_log(LOGS / "three_facts_cut_0_24.log")
    assert any("neither all arguments" in note for note in report.reading.notes)
    fields = report.scenes[0].fields
    found = ("tensor_parallel", "kv_cache_dtype", "num_speculative_tokens")
    # what the same composition has in noonghunna/club-3090#295, uncut
    assert [fields[name] for name in found] == [2, "fp8", 3]


def test_tokens_of_old_versions_may_differ_by_what_rounding_the_memory_allows():
    exact = 76_410_000_000
    plan = wb.resolve(model="qwen3.5-27b", max_model_len=32768, kv_cache_memory_bytes=exact)
    cache = plan.cache
    old = cache.num_blocks // len(cache.groups) * min(g.spec.block_size for g in cache.groups)
    text = (
        "vLLM API server version 0.19.0\nvllm serve Qwen/Qwen3.5-27B --max-model-len 32768\n"
        f"Available KV cache memory: {exact / 2**30:.2f} GiB\nGPU KV cache size: {old:,} tokens"
    )
    assert line_of(explain_log(text), "tokens").verdict == "agrees"
    off = text.replace(f"{old:,}", f"{old + 5:,}")
    assert line_of(explain_log(off), "tokens").verdict == "differs"


@pytest.mark.parametrize("drafts", [6, 11, 16])
def test_any_number_of_drafts_up_to_16_is_found(drafts):
    plan = wb.resolve(model="qwen3.5-27b", num_speculative_tokens=drafts)
    assert plan.block_size != wb.resolve(model="qwen3.5-27b").block_size
    text = "vllm serve Qwen/Qwen3.5-27B\nINFO [a.py:1] non-default args: {'model': 'x', \n"
    text = (
        "INFO vLLM API server version 0.23.0\nInitializing a V1 LLM engine (v0.23.0) with config:"
    )
    text += " model='Qwen/Qwen3.5-27B', tensor_parallel_size=1, kv_cache_dtype=auto\n"
    text += "\n".join(line for line in plan.log_lines if "page size" in line)
    words = [scene.words for scene in explain_log(text).scenes]
    assert any(f"num_speculative_tokens = {drafts}" in one for one in words)


def test_tokens_show_whether_a_request_takes_these_blocks_without_the_memory():
    start = (LOGS / "without_memory_0_20.log").read_text(encoding="utf-8")
    alone = "\n".join(line for line in start.splitlines() if "Maximum concurrency" not in line)
    assert "an integral number of blocks" in line_of(explain_log(alone), "tokens").why[0]
    for log in (start, alone):
        other = explain_log(log.replace("619,479", "619,480"))
        assert line_of(other, "tokens").verdict == "differs"


def test_a_backend_of_one_kind_of_device_names_that_device():
    """GLM-5.2 in NVFP4 on four GB200; no line names the device."""
    command = "vllm serve nvidia/GLM-5.2-NVFP4 -tp 4 --kv-cache-dtype fp8"
    name = "FLASHINFER_MLA_SPARSE"
    chosen = f"Using {name} attention backend out of potential backends: ['{name}']."
    report = explain_log(f"{command}\n{chosen}")
    assert report.scenario["compute_capability"] == "10.0"
    assert report.reading.plan.backend == name
    assert not report.reading.plan.errors
    # a device that the log names is not changed, and what runs on it is only requested
    named = explain_log(f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n{command}\n{chosen}")
    assert named.scenario["backend"] == name
    triton = chosen.replace(name, "TRITON_ATTN")
    other = explain_log(f"vllm serve Qwen/Qwen3-8B\n{triton}").scenario
    assert other["backend"] == "TRITON_ATTN"
    assert "compute_capability" not in other


def test_the_error_of_a_public_page_is_that_of_the_rules():
    """MiniMax-M2 on four ranks; pages retype the possessive of "the models's max seq len"."""
    command = "vllm serve MiniMaxAI/MiniMax-M2 -tp 4"
    for words in ("the models's max", "the model's max", "the model max"):
        error = (
            f"ValueError: To serve at least one request with {words} seq len (196608), (11.62 GiB "
            "KV cache is needed, which is larger than the available KV cache memory (9.38 GiB). "
            "Based on the available memory, the estimated maximum model length is 158560."
        )
        assert line_of(explain_log(f"{command}\n{error}"), "not_enough_memory").verdict == "agrees"


@pytest.mark.parametrize("bracket", ["(", ""])
def test_too_little_memory_is_read_with_and_without_a_bracket(bracket):
    text = (
        f"ValueError: To serve at least one request with the models's max seq len (262144), "
        f"{bracket}24.00 GiB KV cache is needed, which is larger than the available KV cache "
        "memory (3.18 GiB). Based on the available memory, the estimated maximum model length is "
        "34736. Try increasing"
    )
    report = explain_log(text)
    assert report.failure.message == "not_enough_memory"
    assert line_of(report, "not_enough_memory").said["needed_gib"] == 24.0
    assert line_of(report, "estimated_length").advice == ("Set --max-model-len 34736.",)


def test_the_blocks_of_graph_profiling_are_not_an_override():
    text = "Overriding num_gpu_blocks={} with num_gpu_blocks_override=512"
    assert "num_gpu_blocks_override" not in explain_log(text.format(0)).reading.fields
    assert explain_log(text.format(9)).reading.fields["num_gpu_blocks_override"] == 512


def test_prefix_caching_is_not_advised_where_it_is_on():
    error = "tokens_per_block=4 not divisible by tokens_per_hash=512."
    off = line_of(explain_log(error), "hash_block_not_divisible")
    assert off.advice[0].startswith("--enable-prefix-caching aligns")
    text = f"vllm serve org/any-7b --enable-prefix-caching\n{error}"
    on = line_of(explain_log(text), "hash_block_not_divisible")
    assert "Prefix caching is on already" in on.advice[0]
    assert "a group of 4 tokens" in on.advice[0]


def test_group_sizes_and_their_multiple_are_compared():
    plan = wb.resolve(model="qwen3.5-4b", rules="0.33")
    sizes = tuple(group.spec.block_size for group in plan.cache.groups)
    text = "vLLM API server version 0.33.0\nnon-default args: {'model': 'Qwen/Qwen3.5-4B'}\n"
    report = explain_log(f"{text}kv cache group sizes {sizes}\nkv lcm block sizes {sizes[0]}")
    assert line_of(report, "group_sizes").verdict == "agrees"
    assert line_of(report, "lcm_block").verdict == "agrees"


def test_a_large_log_is_the_same_start_as_a_small_one():
    small = explain_log(START)
    noise = NOISE * (LARGE_CHARACTERS // len(NOISE))
    for text in (f"{START}INFO:     Application startup complete.\n{noise}", noise + START):
        large = explain_log(text)
        assert large.scenario == small.scenario
        assert large.total_lines == text.count("\n")
        offset = text[: text.index(START)].count("\n")
        assert [line.line - offset for line in large.lines] == [line.line for line in small.lines]
    started = time.perf_counter()
    explain_log(noise * 4 + START)
    assert time.perf_counter() - started < 60


def test_a_large_log_shows_how_far_it_is():
    noise = NOISE * (LARGE_CHARACTERS // len(NOISE))
    for text, total in ((START + noise, -(-len(START + noise) // WINDOW)), (START, 0)):
        seen = []
        wb.explain_log(text, progress=lambda *counts, seen=seen: seen.append(counts))
        assert seen == [(done, total) for done in range(1, total + 1)]


@given(
    st.text("ab\n", max_size=60),
    st.sets(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=3),
)
def test_a_word_is_found_wherever_a_window_begins(text, words):
    def kept(characters):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(large, "WINDOW", characters)
            patch.setattr(large, "BEFORE", 0)
            patch.setattr(large, "AFTER", 0)
            return large.kept_lines(text, words, ["bb"])

    lines = {number: line for number, line in kept(5) if line}
    searched = {*words, "bb"}
    assert kept(5) == kept(1000)
    assert lines == {
        number: line
        for number, line in enumerate(text.split("\n"), 1)
        if any(word in line for word in searched)
    }


def test_a_large_log_that_ends_with_an_error_fails():
    noise = NOISE * (LARGE_CHARACTERS // len(NOISE))
    report = explain_log(
        f"{noise}{START}ERROR ValueError: No available memory for the cache blocks"
    )
    assert report.failure.message == "no_memory"
    report = explain_log(f"{noise}{START}torch.OutOfMemoryError: CUDA out of memory.")
    assert "OutOfMemoryError" in report.failure.text


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("GPU 0: NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("configs/E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json", "NVIDIA H100 80GB HBM3"),
        ("configs/E=8,N=2,device_name=NVIDIA_GeForce_RTX_3090,dtype=fp8.json", "RTX 3090"),
        ("configs/E=8,N=2,device_name=Some_Thing.json", None),
    ],
)
def test_a_device_that_a_log_names_is_the_scenarios(line, device):
    found = explain_log(line).reading.fields.get("device")
    assert found == (None if device is None else device_named(device).name)


IMAGE = "docker run --gpus all vllm/vllm-openai:v0.33.0-cu130 --model Qwen/Qwen3-8B"
COMPOSE = "    image: vllm/vllm-openai:v0.33.0-cu130"
LINE = "Using max model len 40960"


@pytest.mark.parametrize("image", [IMAGE, COMPOSE])
def test_a_container_says_the_version_where_the_log_does_not(image):
    assert explain_log(f"{image}\n{LINE}").reading.version == "0.33.0"
    assert explain_log(f"{image}\nvLLM server version 0.23.0\n{LINE}").reading.version == "0.23.0"


def test_an_image_alone_is_not_a_log():
    assert not has_messages(COMPOSE)


def test_a_version_ends_before_the_next_line_without_a_head():
    head = "INFO 11-02 10:00:00 [api_server.py:1] vLLM API server version"
    for version in ("0.33.0", "0.19.1rc1.dev301+g60995c05b", "0.6.3.post1"):
        report = explain_log(f"{head} {version}\nvllm serve Qwen/Qwen3-8B -tp 4\n")
        assert report.reading.version.startswith(version)
        if "+" not in version:
            assert report.reading.version == version
