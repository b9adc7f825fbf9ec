"""A scenario in a few words, as people say it."""

from __future__ import annotations

import re
from random import Random

import pytest

import workbench as wb
from tests.groups import in_groups
from tests.interop.test_log_explain import LOGS
from workbench.core.errors import NEAREST, PHRASE, ScenarioError
from workbench.interop.description import read_description
from workbench.interop.omnibox import hub_ids, understand
from workbench.interop.unknown_words import EXAMPLE
from workbench.interop.words_of_fields import DESCRIBED, IN_A_SENTENCE
from workbench.models import catalog_names
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.kinds import Version
from workbench.scenario.numbers import Bytes, Integer, Share
from workbench.views.settings import changes_text

MODEL = "qwen3-next-80b-a3b"


def _shown_values():
    """Yield (field, value) of the fields whose values are one word, but for the model."""
    present = Scenario(model=MODEL)
    kinds = {Integer: 64, Bytes: 2**32, Share: 0.5, Version: "2.8"}
    for name, field in FIELDS.items():
        if name == "model":
            continue
        listed = field.candidates(present, None) if field.is_listed else kinds.get(type(field.kind))
        values = listed if isinstance(listed, tuple) else (listed,)
        yield from ((name, one) for one in values[:2] if one not in (None, field.default))


@pytest.mark.parametrize(("name", "value"), [*_shown_values()])
def test_a_field_is_read_as_it_is_shown(name, value):
    """What the front door prints is what people enter: "Expert parallel on"."""
    for text in (f"{MODEL}, {changes_text({name: value})}, 32K", f"{MODEL}, {name} {value}"):
        found = understand(text, Scenario())
        assert getattr(found.scenario, name) == value, text


@pytest.mark.parametrize("path", ["/models/a.json", "./a.json", "~/my-model", "../a/b", "a.json"])
def test_a_model_may_be_in_a_file_or_a_folder(path):
    found = read_description(f"{path} on 2 x MI300X, fp8 KV")
    expected = {"device": "MI300X", "tensor_parallel": 2, "kv_cache_dtype": "fp8"}
    assert found.fields == {"model": path, **expected}


def test_other_words_with_a_slash_name_no_path():
    assert read_description("open /etc/passwd please") is None
    for text in ("and/or on H100", "24/7 on H100"):
        with pytest.raises(ScenarioError):
            read_description(text)


@pytest.mark.parametrize(
    ("text", "fields", "length"),
    [
        (
            "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, 32k",
            {
                "model": MODEL,
                "device": "H100",
                "tensor_parallel": 4,
                "kv_cache_dtype": "fp8",
                "num_speculative_tokens": 1,
                "speculative_method": "mtp",
            },
            32_000,
        ),
        (
            "Qwen3-Next-80B, kv=fp8, mtp=2",
            {
                "model": MODEL,
                "kv_cache_dtype": "fp8",
                "num_speculative_tokens": 2,
                "speculative_method": "mtp",
            },
            None,
        ),
        (
            "qwen3-next 80b a3b,8xb200",
            {"model": MODEL, "device": "b200", "tensor_parallel": 8},
            None,
        ),
        ("MI300X, no prefix caching", {"device": "MI300X", "enable_prefix_caching": False}, None),
        ("H100, prefix caching off", {"device": "H100", "enable_prefix_caching": False}, None),
        ("2 x A100", {"device": "A100-80GB", "tensor_parallel": 2}, None),
        ("tp 2, pp 4", {"tensor_parallel": 2, "pipeline_parallel": 4}, None),
        (
            "DP 8, dcp2, EP",
            {"data_parallel": 8, "decode_context_parallel": 2, "enable_expert_parallel": True},
            None,
        ),
        ("vLLM 0.33, kv fp8", {"rules": "0.33", "kv_cache_dtype": "fp8"}, None),
        ("bamba-9b, 32,768 tokens", {"model": "bamba-9b"}, 32_768),
        ("bamba-9b, 8K requests", {"model": "bamba-9b"}, 8192),
        (
            "Nemotron 3 Nano on 2 L40S with 128K context and prefix caching",
            {
                "model": "nemotron-3-nano-30b-a3b",
                "device": "L40S",
                "tensor_parallel": 2,
                "enable_prefix_caching": True,
            },
            131_072,
        ),
    ],
)
def test_parts_are_read(text, fields, length):
    found = read_description(text)
    assert (found.fields, found.load.length_tokens) == (fields, length)


@pytest.mark.parametrize(
    ("text", "fields", "length"),
    [
        ("4x H100 qwen3 next", {"model": MODEL, "device": "H100", "tensor_parallel": 4}, None),
        (
            "Kimi-K2 8xH200 fp8",
            {"model": "kimi-k2", "device": "H200", "tensor_parallel": 8, "kv_cache_dtype": "fp8"},
            None,
        ),
        ("H200 x 8 Kimi K2", {"model": "kimi-k2", "device": "H200", "tensor_parallel": 8}, None),
        (
            "gpt-oss-120b on one H100 for 32K",
            {"model": "gpt-oss-120b", "device": "H100", "tensor_parallel": 1},
            32_768,
        ),
        (
            "nemotron nano 30b tp4 0.33",
            {"model": "nemotron-3-nano-30b-a3b", "tensor_parallel": 4, "rules": "0.33"},
            None,
        ),
        (
            "Qwen3.5 4B TP=2 prefix caching on",
            {"model": "qwen3.5-4b", "tensor_parallel": 2, "enable_prefix_caching": True},
            None,
        ),
        ("falcon h1 7b, 2 gpus", {"model": "falcon-h1-7b", "tensor_parallel": 2}, None),
        (
            "Qwen/Qwen3.5-4B 2 RTX 4090 GPUs vllm 0.33.0",
            {
                "model": "Qwen/Qwen3.5-4B",
                "device": "RTX 4090",
                "tensor_parallel": 2,
                "rules": "0.33",
            },
            None,
        ),
        (
            "bamba 9b bf16 kv-cache with the MI300X",
            {"model": "bamba-9b", "device": "MI300X", "kv_cache_dtype": "bfloat16"},
            None,
        ),
        (
            "qwen3-next awq on 4x3090 context 65,536",
            {
                "model": "qwen3-next-80b-a3b",
                "quantization": "awq",
                "device": "3090",
                "tensor_parallel": 4,
            },
            65_536,
        ),
        (
            "2 nodes of 8 H100 bamba 9b",
            {"model": "bamba-9b", "device": "H100", "tensor_parallel": 16},
            None,
        ),
        (
            "bamba 9b on 2 nodes of 8xH100, pp 2",
            {"model": "bamba-9b", "device": "H100", "tensor_parallel": 8, "pipeline_parallel": 2},
            None,
        ),
        ("bamba 9b 8-bit kv cache", {"model": "bamba-9b", "kv_cache_dtype": "fp8"}, None),
        (
            "bamba 9b mamba state fp32",
            {"model": "bamba-9b", "mamba_ssm_cache_dtype": "float32"},
            None,
        ),
        (
            "gpu memory utilization 0.95 bamba 9b",
            {"model": "bamba-9b", "gpu_memory_utilization": 0.95},
            None,
        ),
        ("jamba mini 8k", {"model": "jamba-1.5-mini"}, 8000),
    ],
)
def test_no_comma_and_no_order_is_needed(text, fields, length):
    found = read_description(text)
    assert (found.fields, found.load.length_tokens) == (fields, length)


@pytest.mark.parametrize(
    ("text", "phrase", "near"),
    [
        ("gemma 3 27b, a1000", "a1000", "A10"),
        ("gemma 3 27b a1000", "a1000", "A10"),
        ("H100 mamba9", "mamba9", "bamba-9b"),
        ("step 9.5 flash on 8xH100", "step 9.5 flash", "glm-5.3-flash"),
        ("jamba 1.7 on 2 H100", "jamba 1.7", "jamba-1.5-mini"),
        ("bge-m4 on H100", "bge-m4", "gemma-3-4b"),
    ],
)
def test_an_unknown_name_is_the_one_that_is_named(text, phrase, near):
    with pytest.raises(ScenarioError, match=f"'{re.escape(phrase)}' is not .*{near}") as caught:
        read_description(text)
    assert caught.value.operands[PHRASE] == phrase
    assert near in caught.value.operands[NEAREST]


@pytest.mark.parametrize(
    ("text", "phrase", "name"),
    [
        ("gemma 3 on L4", "gemma 3", "gemma-3-4b"),
        ("lfm2, cpu", "lfm2", "lfm2-1.2b"),
        ("llama 70b 4xH100 fp8", "llama 70b", "llama-3.3-70b"),
        ("qwen3", "qwen3", "qwen3-next-80b-a3b"),
    ],
)
def test_words_for_several_models_are_a_choice_between_them(text, phrase, name):
    with pytest.raises(ScenarioError, match="can be more than one model") as caught:
        read_description(text)
    assert caught.value.operands[PHRASE] == phrase
    assert name in caught.value.operands[NEAREST]
    assert not [one for one in caught.value.operands[NEAREST] if one.startswith("qwen3.")]


@pytest.mark.parametrize(
    ("text", "phrase", "message"),
    [
        ("gemma-3-27b, 2 x 24 GB", "24 GB", "24 GB does not name a device. .* L4, .*RTX 4090"),
        ("gemma-3-27b 2x24GB", "24GB", "24 GB does not name a device"),
        ("kimi-k2 8xH200 int4", "int4", "does not say how the weights .*: int4_per_token_head KV"),
        ("llama-3.3-70b w4a16 2xA100", "w4a16", "does not say how the weights are .*quantized.$"),
        ("deepseek v3.2 on 8xB200 nvfp4 weights", "nvfp4", "does not say .*: nvfp4 KV"),
        ("gemma 3 27b 4-bit on 4090", "4-bit", "does not say how the weights are quantized"),
        ("qwen3 32b 4bit", "4bit", "does not say how the weights are quantized"),
    ],
)
def test_words_that_leave_something_open_say_what(text, phrase, message):
    with pytest.raises(ScenarioError, match=message) as caught:
        read_description(text)
    assert caught.value.operands[PHRASE] == phrase
    for name in caught.value.operands[NEAREST]:
        assert read_description(text.replace(phrase, name)).fields["model"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("qwen3-8b 24GB 4090", {"model": "qwen3-8b", "device": "4090"}),
        ("qwen3-8b, H200 141GB", {"model": "qwen3-8b", "device": "H200 141GB"}),
        ("qwen3-8b on a single 6000 pro", {"model": "qwen3-8b", "device": "6000 pro"}),
    ],
)
def test_a_device_may_be_said_with_its_memory(text, expected):
    found = read_description(text).fields
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    ("text", "both"),
    [
        ("qwen3-8b on H100 and L4", "device is said twice: H100 and L4."),
        ("2 x H100 and 2 x A100, qwen3-next-80b-a3b", "H100 and A100-80GB"),
        ("qwen3-8b, TP 2, tp 4", "tensor parallel is said twice: 2 and 4."),
    ],
)
def test_two_values_of_a_field_are_refused(text, both):
    with pytest.raises(ScenarioError) as caught:
        read_description(text)
    assert both in caught.value.message
    assert read_description("qwen3-8b, TP 2, tp 2").fields["tensor_parallel"] == 2


def test_a_model_of_the_hub_is_a_model_and_other_slashes_are_not():
    found = read_description("org/Qwen3-Embedding-8B on L4")
    assert found.fields == {"model": "org/Qwen3-Embedding-8B", "device": "L4"}
    assert read_description("prefill/decode on L4 or tp2/tp4") is None


def test_words_in_any_order_say_the_same():
    words = ["qwen3-next-80b", "4 x H100", "fp8 KV", "MTP 1", "32K", "TP 2", "prefix caching"]
    expected = read_description(", ".join(words))
    for seed in range(40):
        Random(seed).shuffle(words)
        assert read_description(" ".join(words)) == expected, words


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_no_line_of_a_log_is_a_description(log):
    for line in log.read_text(encoding="utf-8").splitlines():
        assert read_description(line) is None, line


def test_the_example_is_understood():
    assert understand(EXAMPLE, Scenario()).scenario.enable_prefix_caching


@in_groups
@pytest.mark.parametrize("model", catalog_names())
def test_every_model_is_known_by_its_name(model):
    assert read_description(f"{model}, H100").fields["model"] == model


@pytest.mark.parametrize(
    "text", ["a poem about the sea", "", ",", "# x", "hello, world", "x" * 9000]
)
def test_other_lines_are_not_descriptions(text):
    assert read_description(text) is None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("h100 2", {"device": "H100", "tensor_parallel": 2}),
        ("A100 SXM 80, x2", {"device": "A100-80GB", "tensor_parallel": 2}),
        ("h100 80% gpu memory", {"device": "H100", "gpu_memory_utilization": 0.8}),
        ("util 90%", {"gpu_memory_utilization": 0.9}),
        ("cache 20 GiB", {"kv_cache_memory_bytes": 20 * 2**30}),
        ("seqs 128, lora", {"max_num_seqs": 128, "enable_lora": True}),
        ("cuda graphs off", {"cudagraph_mode": "NONE"}),
        ("ep 8", {"enable_expert_parallel": True, "tensor_parallel": 8}),
        (
            "mtp 2 b200",
            {"num_speculative_tokens": 2, "speculative_method": "mtp", "device": "B200"},
        ),
        ("eagle3 k=3", {"speculative_method": "eagle3", "num_speculative_tokens": 3}),
        (
            "qwen3 0.6b as draft model, 5 tokens",
            {
                "draft_model": "qwen3-0.6b",
                "speculative_method": "draft_model",
                "num_speculative_tokens": 5,
            },
        ),
    ],
)
def test_short_forms_of_settings_are_read(text, fields):
    found = read_description(f"qwen3-32b, {text}")
    known = Scenario(**found.fields)
    assert {name: getattr(known, name) for name in found.fields} == {"model": "qwen3-32b", **fields}
    assert found.load.length_tokens is None


@pytest.mark.parametrize(
    ("text", "words"),
    [("fp9 kv", "'fp9' is not known"), ("vllm 0.11", "'0.11' is not known"), ("8", "'8' is not")],
)
def test_a_value_that_there_is_not_is_named(text, words):
    with pytest.raises(ScenarioError, match=words):
        read_description(f"qwen3-8b, {text}")


@pytest.mark.parametrize("part", ["5 x nothing", "24GB A100", "qwen", "<img src=x>"])
def test_a_part_that_is_not_understood_is_named(part):
    with pytest.raises(ScenarioError, match="is not understood"):
        read_description(f"bamba-9b, {part}")


def test_what_is_not_said_stays_for_the_same_model_and_is_of_the_machine_for_another():
    present = Scenario(platform="rocm", kv_cache_dtype="fp8", rules="0.33", model="bamba-9b")
    for text in ("tp 2, 8k", "bamba-9b, tp 2"):
        assert understand(text, present).scenario == present.replace(tensor_parallel=2)
    assert understand("bamba-9b, H100", present).scenario.platform == "cuda"
    other = understand("qwen3.5-4b, tp 2", present).scenario
    assert other == Scenario(platform="rocm", rules="0.33", model="qwen3.5-4b", tensor_parallel=2)


@pytest.mark.parametrize(
    ("text", "tensor", "pipeline"),
    [
        ("TP 2, 4 x H100", 2, 1),
        ("4 x H100, TP 2", 2, 1),
        ("PP 2 on 8 H100", 4, 2),
        ("bamba-9b 4xH100", 4, 1),
        ("bamba-9b on an H100", 1, 1),
        ("bamba-9b on a single H100", 1, 1),
        ("bamba-9b dual H100", 2, 1),
    ],
)
def test_a_count_of_devices_is_shared_out_to_the_ranks_that_are_not_said(text, tensor, pipeline):
    fields = read_description(text).fields
    assert fields["device"] == "H100"
    assert fields.get("tensor_parallel", 1) == tensor
    assert fields.get("pipeline_parallel", 1) == pipeline


def test_a_comment_after_a_command_names_the_machine():
    command = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 # 4 x H100, 8K"
    door = wb.explore()
    door.submit(command)
    assert (door.scenario.device, door.scenario.tensor_parallel) == ("H100", 4)
    assert "requests of 8,192 tokens" in door.view.announced
    assert understand("vllm serve a/b -tp 2 # on my machine", Scenario(model="bamba-9b"))


@pytest.mark.parametrize("machine", ["# 8 x B200", "on 8 x B200"])
def test_devices_after_a_command_are_not_its_ranks(machine):
    found = understand(f"vllm serve Qwen/Qwen3.6-27B -dp 8 {machine}", Scenario())
    ranks = (found.scenario.tensor_parallel, found.scenario.data_parallel)
    assert (found.kind, found.scenario.device, *ranks) == ("command", "B200", 1, 8)


def test_a_colon_may_be_after_what_is_described():
    found = read_description("qwen3-next 80b: 4 x H100, fp8 KV")
    assert found.fields == {**read_description("qwen3-next 80b, 4 x H100, fp8 KV").fields}


def test_the_beginning_of_a_name_is_enough_where_one_model_has_it():
    present = Scenario(tensor_parallel=2)
    found = understand("Qwen3-Next-80B", present)
    assert found.scenario == present.replace(model=MODEL)
    assert MODEL in found.message
    assert understand("4xH200", present).scenario.device == "H200"


@pytest.mark.parametrize("text", ["MI300X", "bamba-9b on MI300X", "will it start on MI300X?"])
@pytest.mark.parametrize(
    "present", [{}, {"device": "H100"}, {"device": "H100", "compute_capability": "9.0"}], ids=str
)
def test_a_device_of_another_platform_is_taken(text, present):
    found = understand(text, Scenario(model="bamba-9b", **present)).scenario
    assert (found.device, found.platform, found.compute_capability) == ("MI300X", "rocm", None)


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("can I use fp8 kv cache", "what_if"),
        ("what if I use TP 8", "what_if"),
        ("how do I enable mtp", "what_if"),
        ("max context on 2 x H100", "fits"),
        ("block size of bamba-9b on MI300X", "why"),
    ],
)
def test_what_people_ask_without_a_question_mark_is_a_question(text, view):
    assert understand(text, Scenario()).question.topic.view == view


@pytest.mark.parametrize("text", ["", "  ", "help", "?"])
def test_help_says_what_can_be_entered(text):
    with pytest.raises(ScenarioError, match=r"Paste a `vllm serve` command.*that are answered"):
        understand(text, Scenario())


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("max_model_len=32768", "max_model_len", 32768),
        ("max-model-len 32768", "max_model_len", 32768),
        ("max_model_len = 32768", "max_model_len", 32768),
        ("tensor_parallel_size 2", "tensor_parallel", 2),
        ("gpu_memory_utilization 0.8", "gpu_memory_utilization", 0.8),
        ("mamba_ssm_cache_dtype float32", "mamba_ssm_cache_dtype", "float32"),
    ],
)
def test_fields_are_named_with_their_values(words, name, value):
    found = read_description(f"bamba-9b on H100, {words}")
    assert found.fields == {"model": "bamba-9b", "device": "H100", name: value}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("block_size many", "Invalid block_size 'many'. Expected an integer"),
        ("max-model-len=-5", "Invalid max_model_len -5. .* Nearest valid value"),
        ("gpu_memory_utilization 3", "Expected above 0 and at most 1. Nearest valid value: 1"),
    ],
)
def test_a_named_field_takes_what_it_takes_elsewhere(words, problem):
    with pytest.raises(ScenarioError, match=problem):
        understand(f"bamba-9b on H100, {words}", Scenario())


def test_a_sentence_with_the_name_of_a_field_is_none():
    assert understand("why does block_size grow for bamba-9b?", Scenario()).kind == "question"


@pytest.mark.parametrize(
    "text",
    [
        "bamba-9b --block-size 32 --kv-cache-dtype=fp8 -tp 2 on H100",
        "bamba 9b on H100 -tp 2 --kv-cache-dtype fp8 --block-size 32",
        "serve bamba-9b --block-size 32 -tp 2 --kv-cache-dtype fp8 # H100",
        "ibm-ai-platform/Bamba-9B-v2, 2 x H100 --block-size 32 --kv-cache-dtype fp8",
    ],
)
def test_flags_after_a_model_are_those_of_a_command(text):
    found = understand(text, Scenario(kv_cache_layout="NHD"))
    name = "ibm-ai-platform/Bamba-9B-v2" if "/" in text else "bamba-9b"
    said = {"device": "H100", "block_size": 32, "kv_cache_dtype": "fp8", "tensor_parallel": 2}
    assert found.kind == "command"
    assert found.scenario == Scenario(model=name, **said)
    assert found.said == {"model", *said}


def test_flags_after_a_model_are_checked_as_in_a_command():
    with pytest.raises(ScenarioError, match=r"^--block-size 0: Invalid block_size 0"):
        understand("bamba-9b --block-size 0", Scenario())
    found = understand("bamba-9b --tensor-parallel-sze 2", Scenario())
    assert any("--tensor-parallel-size" in note for note in found.notes)
    assert hub_ids("owner/some-model-7b --block-size 32") == ("owner/some-model-7b",)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("qwen3-8b fp8 on H100", "fp8 is read as the KV cache's.*or write: fp8 weights"),
        ("qwen3.5-35b nvfp4 on B200", "nvfp4 is read as the KV cache's.*name their checkpoint.$"),
        ("qwen3-8b, fp8 KV, H100", None),
        ("qwen3-8b, kv_cache_dtype=fp8", None),
        ("qwen3-8b fp8 weights on H100", None),
    ],
)
def test_a_dtype_without_its_place_says_how_it_is_read(text, note):
    notes = understand(text, Scenario()).notes
    assert (re.search(note, *notes) is not None) if note else notes == ()


@pytest.mark.parametrize(
    ("text", "requests", "length"),
    [
        ("bamba-9b 128k context, 2 users", 2, 128_000),
        ("128K context, two users", 2, 131_072),
        ("bamba-9b for 16 users at 32k", 16, 32_000),
        ("bamba-9b on H100, 50 concurrent users 8k each", 50, 8000),
        ("bamba-9b 4 requests of 8K", 4, 8192),
        ("bamba-9b 4 requests at a time", 4, None),
        ("bamba-9b with 32K requests", None, 32_768),
        ("does bamba-9b hold 16 users at 32K on H100?", 16, 32_768),
        ("can two H100 hold 16 requests of 32K?", 16, 32_768),
        ("how many 32K requests fit?", None, 32_768),
        ("TP 2 vs TP 4 for 64 users", 64, None),
    ],
)
def test_requests_at_a_time_are_a_number_of_their_own(text, requests, length):
    found = understand(text, Scenario(model="bamba-9b"))
    assert found.load == (requests, length)
    assert requests is None or f"{requests} requests" in found.message


@pytest.mark.parametrize(
    ("text", "method", "tokens"),
    [
        ("qwen3.5-27b with mtp 2 tokens on H200", "mtp", 2),
        ("qwen3.5-27b mtp with 3 draft tokens", "mtp", 3),
        ("qwen3.5-27b 2 mtp tokens", "mtp", 2),
        ("qwen3.5-27b eagle3 with 4 tokens on 2 H100", "eagle3", 4),
        ("qwen3.5-27b 3 speculative tokens", None, 3),
        ("qwen3.5-27b with speculative decoding", None, 1),
        ("qwen3.5-27b with speculative decoding mtp 3", "mtp", 3),
        ("speculative decoding with eagle3 for gpt-oss-120b", "eagle3", 1),
        ("draft model qwen3-0.6b for qwen3-32b with 5 tokens", None, 5),
        ("qwen3-32b with draft model qwen3-0.6b and 5 tokens", None, 5),
    ],
)
def test_tokens_of_a_drafter_are_not_a_length(text, method, tokens):
    found = understand(text, Scenario())
    assert (found.scenario.speculative_method, found.scenario.num_speculative_tokens) == (
        method,
        tokens,
    )
    assert found.load.length_tokens is None


@pytest.mark.parametrize("words", ["{}", "bamba-9b on {}", "will bamba-9b fit on a {}?", "2x {}"])
@pytest.mark.parametrize("name", ["rtx 2060", "GTX 1080 Ti", "v100", "mi100", "quadro 8000"])
def test_no_answer_is_for_another_device_than_the_one_that_is_said(words, name):
    """In lower case, too: an answer for the present device would look like one for this."""
    with pytest.raises(ScenarioError, match=f"'{name}' is not known"):
        understand(words.format(name), Scenario(device="H100"))


@pytest.mark.parametrize("name", ["TPU v5e", "gaudi 3", "m3 max", "MacBook"])
def test_a_device_of_no_known_platform_is_said_to_be_one(name):
    with pytest.raises(ScenarioError, match="none of the platforms"):
        understand(f"bamba-9b on {name}", Scenario())


@pytest.mark.parametrize("name", ["machine-9b", "macaw-11b"])
def test_a_model_that_begins_like_such_a_device_is_a_model(name):
    with pytest.raises(ScenarioError, match=f"'{name}' is not (known|understood)"):
        understand(f"{name} on H100", Scenario())


@pytest.mark.parametrize(
    ("text", "lab", "view"),
    [
        ("which tp has no padding for qwen3-next", "Sweeps", "what_if"),
        ("does NIXL work between TP 2 and TP 4", "Offload and transfer", "fits"),
        ("max batch for 8k prompts", "", "fits"),
        ("vram needed for nemotron nano 9b v2", "", "fits"),
    ],
)
def test_words_lead_to_their_topic_and_name_no_device(text, lab, view):
    found = understand(text, Scenario())
    assert (found.question.topic.lab, found.question.topic.view) == (lab, view)
    assert found.notes == ()


def test_an_answer_says_what_it_omits():
    found = understand("gemma 3 27b 4-bit on 4090", Scenario())
    assert found.kind == "question"
    assert "4-bit" in " ".join(found.notes)
    assert understand("max context for qwen3-8b on 4090", Scenario()).notes == ()


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("does gemma-3-27b fit on a 4090?", 1),
        ("does gemma-3-27b fit on two 4090?", 2),
        ("does qwen3-8b fit on a 4090?", 1),
        ("does gemma-3-27b fit?", 16),
        ("does it fit on a 4090?", 16),
    ],
)
def test_ranks_stay_unless_a_question_names_a_model_and_its_device(text, ranks):
    found = understand(text, Scenario(model="qwen3-8b", device="H100", tensor_parallel=16))
    assert (found.kind, found.scenario.tensor_parallel) == ("question", ranks)


@pytest.mark.parametrize(
    "unit", [*"x9_-./ ,=(", "x_", "x-", "x.", "9.", "a1", "1a", "x/", "-x", " x"]
)
def test_no_pattern_tries_a_row_of_characters_in_every_way(unit):
    """Sixty underscores in a row took years: each was a letter of a word, or between two words."""
    row = unit * (60 // len(unit))
    for pattern, _ in (*IN_A_SENTENCE, *DESCRIBED):
        for text in (row, f"a{row}", f"{row} x", f"max {row} x"):
            re.fullmatch(pattern, text, re.IGNORECASE)
            re.findall(pattern, text, re.IGNORECASE)


def test_a_list_with_commas_alone_has_as_many_words_as_any_other():
    assert read_description("tp2," * 10).fields == {"tensor_parallel": 2}
    assert read_description("tp2," * 50) is None
