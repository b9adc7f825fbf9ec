"""What a newcomer asks in a sentence is answered in a sentence, with the numbers of the plan."""

from __future__ import annotations

import re
from html import unescape

import pytest

import workbench as wb
from tests.ui.panels import press, region
from workbench.core.capacity.memory_answer import BY_MEMORY
from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.what_if.answers import answers
from workbench.interop.exchange import scenes_with_block
from workbench.interop.omnibox import understand
from workbench.interop.questions import QUESTIONS, read_question
from workbench.scenario import Scenario
from workbench.views.door.scenario_bar import LENGTHS, length_text
from workbench.views.units import bytes_text


def plain_text(html):
    return unescape(re.sub(r"<[^>]+>", " ", html))


def answer(text):
    door = wb.explore()
    door.submit(text)
    return door, " ".join(plain_text(region(door, "understood")).split())


def test_both_halves_of_a_question_are_answered():
    _door, said = answer("will Kimi-K2 start on 8 x H200, and how many 128k requests fit?")
    assert "0 requests of 128,000 tokens fit on 8 GPUs" in said
    assert "would not start: One request of 131,072 tokens needs" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("which backends for gpt-oss-20b on B200?", ("FLASH_ATTN", "Not FLASHINFER: attention s")),
        ("which backends for qwen3-next-80b on 4 x B200?", ("vLLM chooses FLASHINFER, which com",)),
        ("which backends for deepseek-v4-flash on B200?", ("finds no backend", "FLASHMLA_SPARSE")),
        ("which backends for falcon-mamba-7b?", ("no attention layer",)),
    ],
)
def test_a_question_about_backends_names_the_chosen_one(text, words):
    _door, said = answer(text)
    assert all(one in said for one in words), said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "kernel block size for qwen3-next-80b",
            "kernel block of qwen3-next-80b-a3b: 544 tokens (",
        ),
        (
            "what is the hash block size?",
            "The hash block of nemotron-3-nano-30b-a3b: 34,340,864 tokens",
        ),
        ("what is the scheduler_block_size of gemma-3-27b", "scheduler block of gemma-3-27b: 16 t"),
        ("how large is the attention page?", "attention page of nemotron-3-nano-30b-a3b: 2,146,30"),
    ],
)
def test_a_size_of_the_plan_is_answered_with_its_value(text, words):
    assert words in answer(text)[1]


@pytest.mark.parametrize("text", ["what is byte 123,456?", "what is byte 123456?"])
def test_a_question_about_a_byte_says_what_it_is(text):
    door, said = answer(text)
    assert door.plan is not None
    for sentence in door.plan.byte_map(num_blocks=3).describe(0, 123_456):
        assert sentence in said


WHOLE = "Qwen3-Next-80B on 4 x H100, fp8 KV, MTP 1, 32K"


@pytest.mark.parametrize("text", ["what should I change?", f"{WHOLE}: what should I change?"])
def test_what_to_change_is_answered_with_changes_that_gain(text):
    door, said = answer(text)
    assert said.count("Apply ") >= 1
    assert "Gain: nothing" not in said
    assert door.plan.settings.num_speculative_tokens == (1 if WHOLE in text else 0)


def test_what_to_change_is_answered_for_what_else_is_in_question():
    text = f"{WHOLE}: which block size, will prefixes hit, how many fit, what should I change?"
    _door, said = answer(text)
    assert "Apply Prefix caching on Gain: prefix hits from" in said
    assert "requests of 32,768 tokens fit on 4 GPUs" in said
    assert "544 tokens: KV block" in said
    assert "Apply KV-cache dtype auto" not in said


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("how many 32K requests of Qwen/Qwen3-8B fit on H100?", "Qwen/Qwen3-8B"),
        ("will prefixes hit with tiiuae/Falcon-H1-0.5B-Base?", "tiiuae/Falcon-H1-0.5B-Base"),
        ("P/D disaggregation with TP4 prefill for Qwen3-Next, does it work?", "qwen3-next-80b-a3b"),
    ],
)
def test_a_question_may_hold_a_slash(text, model):
    door, said = answer(text)
    assert said.startswith(f"A question about {model}")
    assert door.scenario.model == model


@pytest.mark.parametrize(
    "text", ["is ./config.json right?", "is /models/a.json read?", "what is https://a.org/b-7b/c?"]
)
def test_a_path_is_not_a_question(text):
    assert read_question(text) is None


@pytest.mark.parametrize(
    "text",
    ["why is block_size in cache_config_info 4 while I passed 256?", "what is cache_config_info?"],
)
def test_a_question_about_a_metric_by_its_name_says_what_it_shows(text):
    _door, said = answer(text)
    assert "the smallest block of all groups" in said


def test_which_dtype_is_used_is_answered_with_it():
    _door, said = answer("what KV cache dtype does nvidia/Kimi-K2.6-NVFP4 use?")
    assert "fp8" in said
    assert "Apply" not in said


RANKS = ("tensor_parallel", "data_parallel")


@pytest.mark.parametrize(
    ("text", "before", "now"),
    [
        ("qwen3-32b on 8 x H200: TP8 or TP4 DP2?", (8, 1), (4, 2)),
        ("qwen3-32b on H200: TP4 DP2 or TP8?", (4, 2), (8, 1)),
        ("qwen3-32b: is TP 2 and DP 4 better than TP 8?", (2, 4), (8, 1)),
        ("qwen3-32b with DP 2: TP 2 or TP 4?", (2, 2), (4, 2)),
    ],
)
def test_ranks_that_are_compared_belong_to_their_own_side(text, before, now):
    question = read_question(text)
    sides = (question.said, *question.others)
    found = [tuple(side.fields.get(name, 1) for name in RANKS) for side in sides]
    assert found == [before, now]


def test_a_byte_is_one_of_the_pool_that_the_memory_has_room_for():
    door, said = answer("what is byte 0 of bamba-9b on H100?")
    assert f"In a pool of {door.plan.cache.num_blocks:,} blocks: Byte 0 of tensor 0" in said


def test_a_byte_after_the_end_of_a_small_pool_is_one_of_a_larger_pool():
    _door, said = answer("what is byte 10,000,000 of qwen3-8b?")
    assert "Byte 10,000,000 of tensor 0 is byte" in said


def test_a_byte_after_the_end_of_the_cache_is_answered_with_the_last_one():
    _door, said = answer("what is byte 9,000,000,000,000 of bamba-9b on H100?")
    assert "does not exist: there are 18,471,518,208" in said


def test_offload_is_answered_for_the_length_of_the_requests():
    _door, said = answer("offload qwen3-8b on H100 to host memory: how many gigabytes?")
    assert "of host memory holds 29,127 blocks or 14 prompts of 32,768 tokens" in said
    assert "That pays where" in said


def test_a_printed_concurrency_is_explained_by_the_cache_that_it_is_of():
    door, said = answer("why is my concurrency 1.9x with qwen3-8b on H100?")
    plan = door.plan
    assert f"requests of the max model length, here {plan.max_model_len:,} tokens" in said
    size = 1.9 * answers(plan, plan.max_model_len).request_bytes / 2**30
    assert f"so 1.9x is a cache of {size:.2f} GiB" in said
    assert f"Here it would print {plan.cache.max_concurrency:.2f}x." in said
    assert "requests of 32,768 tokens" in said
    _door, said = answer("Maximum concurrency of bamba-9b is 12.5 x, why?")
    assert "12.5x is a cache of" in said


def test_when_offload_pays_is_answered_with_the_break_even():
    door, said = answer("when does offload pay for qwen3-8b on H100?")
    loaded = door.plan.offload(cpu_bytes_to_use=2**36).loaded_prefix(32_768)
    assert f"loads {loaded.bytes_per_rank / 2**30:.2f} GiB on each GPU" in said
    assert f"{loaded.most_prefill_tokens_per_s(63e9):,.0f} over PCIe 5.0 x16" in said


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(500, "finds 272 tokens again"), (200, "finds nothing again"), (32_768, "finds 32,640 tok")],
)
def test_whether_a_prompt_of_a_length_hits_is_answered_for_that_length(tokens, words):
    door = wb.explore("Qwen3-Next-80B, 4 x H100, prefix caching")
    door.submit(f"why did prefix caching not hit at {tokens} tokens?")
    said = plain_text(region(door, "understood"))
    assert f"A prompt of {tokens:,} tokens that comes a second time {words}" in said
    assert "the shortest prompt that can hit has 273 tokens" in said


def test_offload_that_is_not_possible_is_answered_with_the_reason():
    _door, said = answer("offload to host memory: how many gigabytes, when does it pay?")
    assert "vLLM does not start with offload: Offload needs group blocks" in said
    assert "It starts with this change: Prefix caching on." in said


def test_a_sweep_is_a_topic_and_leads_to_its_lab():
    _door, said = answer("sweep TP and KV dtype")
    assert "Open Sweeps" in said
    assert "Apply KV-cache dtype fp8" in said


def test_what_is_not_known_is_not_answered_with_a_mark_alone():
    _door, said = answer("how many requests fit?")
    assert "? not known: requests fit on which device?" in said


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("will wav2vec2-large-960h start on H100?", "'wav2vec2-large-960h' is not known"),
        ("what is byte 12 of my-model-9b?", "'my-model-9b' is not known"),
        (
            "gemma 3 on L4, does it fit?",
            "'gemma 3' can be more than one model (4 of 5: gemma-3-12b, gemma-3-1b,",
        ),
        ("will bamba-9b start?", ""),
        ("will Qwen3-Next-80B start?", ""),
        ("what does an 8-bit cache with fp8-e4m3 bring for bamba-9b?", ""),
    ],
)
def test_a_model_that_is_not_known_is_not_answered_for_another(text, unknown):
    assert unknown in answer(text)[1]
    if not unknown:
        assert read_question(text) is not None


def test_a_line_of_a_log_with_numbers_and_commas_is_not_a_description():
    line = (
        "AssertionError: Each KV cache group's real block_size must be divisible by hash_block_size"
    )
    _door, said = answer(f"{line}. block_sizes=[544, 544, 544, 181], hash_block_size=98464")
    assert "The log ends with a fatal error (line 1)" in said


@pytest.mark.parametrize("number", ["123456", "1057", "2025"])
def test_a_number_that_is_not_a_block_starts_no_search_for_models(number):
    _door, said = answer(f"why {number}?")
    assert "tokens has:" not in said
    assert "KV block" in said


SIZES = ("12b", "1b", "270m", "27b", "4b")
"""Of Gemma 3, as the catalog has them."""


def test_the_text_is_entered_again_with_the_model_that_is_chosen():
    door, said = answer("how many gemma 3 on L4, if 8K requests?")
    assert "'gemma 3' can be more than one model (4 of 5: gemma-3-12b, gemma-3-1b," in said
    texts = re.findall(r'data-do="ask" data-arg="([^"]+)"', region(door, "understood"))
    assert texts == [f"how many gemma-3-{one} on L4, if 8K requests?" for one in SIZES]
    press(door, "ask", texts[SIZES.index("4b")])
    assert (door.scenario.model, door.scenario.device) == ("gemma-3-4b", "L4")
    assert "A question about gemma-3-4b" in plain_text(region(door, "understood"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"model_type": "llama", "hidden_size": 2048,}', ("line 1 column 45", "2048,")),
        ('{\n "model_type": "llama",\n "hidden_size" 5\n}', ("line 3", '"hidden_size"')),
        ('{"model_type": "llama"', ("Expecting", '"llama"')),
    ],
)
def test_a_typing_error_in_a_pasted_config_is_shown_with_its_place(text, words):
    _door, said = answer(text)
    assert "The pasted config.json is not JSON" in said
    assert all(one in said for one in words), said


def test_a_length_reads_as_it_was_entered():
    door, _said = answer("kimi-k2, 128k")
    assert "128k-token requests" in region(door, "bar")
    assert [length_text(tokens) for tokens in (32_000, 128_000, 131_072, 8_000, 8192)] == (
        ["32k", "128k", "128K", "8k", "8K"]
    )
    assert [length_text(tokens) for tokens in (2**20, 2 * 10**6)] == ["1M", "2m"]
    assert all(length_text(tokens).endswith("K") for tokens in LENGTHS)


def test_bytes_below_zero_have_separators_and_a_unit():
    assert bytes_text(-2_463_216_917) == "-2,463,216,917 B (-2.29 GiB)"
    assert bytes_text(-5) == "-5 B"


def test_the_view_of_hits_names_the_prompt_that_the_tile_names():
    door, _said = answer("Qwen3-Next-80B, 4 x H100, prefix caching")
    door.receive({"do": "view", "arg": "hits"})
    shown = plain_text(region(door, "body"))
    assert "Smallest prefix that can hit: 272 tokens ." in " ".join(shown.split())
    assert "The shortest prompt of any length that can hit has 273 tokens." in shown


def test_thousands_of_requests_are_written_out_on_a_card():
    door, _said = answer("falcon-mamba-7b on H100")
    shown = plain_text(region(door, "next"))
    assert re.search(r"\d,\d{3} requests per GPU instead of \d,\d{3}", shown)
    assert "e+" not in shown


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("Qwen3-Next-80B, 4 x H100", "prefills of at most 2,048 tokens per step"),
        ("kimi-k2, 8 x H200", "tokens are refused"),
        ("kimi-k2, 8 x H200", "less memory for anything else on the GPU"),
    ],
)
def test_what_a_change_costs_is_said_where_no_number_of_the_plan_says_it(text, cost):
    door, _said = answer(text)
    door.receive({"do": "all"})
    assert cost in plain_text(region(door, "next"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("use the flashinfer backend with qwen3-8b", ["FLASHINFER"]),
        ("which backends for qwen3-8b on H100?", ["FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION"]),
        ("can I use FLASHMLA with qwen3-8b", []),
    ],
)
def test_backends_that_can_be_set_are_one_click_away(text, names):
    door, _said = answer(text)
    shown = unescape(region(door, "understood"))
    found = re.findall(r'data-do="apply" data-arg="{"backend": "(\w+)"}"', shown)
    assert found[: len(names)] == names
    assert bool(found) == bool(names)


def test_a_dtype_is_that_of_the_weights_at_one_click():
    door, _said = answer("qwen3-8b fp8 on H100")
    [fields] = re.findall(r'data-do="use" data-arg="([^"]*)"', region(door, "understood"))
    press(door, "use", unescape(fields))
    stated = {"model": "qwen3-8b", "device": "H100", "quantization": "fp8"}
    assert door.scenario == Scenario(**stated)


@pytest.mark.parametrize(
    ("text", "names"),
    [("deepseek-v4", ["deepseek-v4-flash", "deepseek-v4-pro"]), ("qwen3-80b", []), ("hello", [])],
)
def test_the_nearest_models_are_one_click_away(text, names):
    door, _said = answer(text)
    shown = unescape(region(door, "understood"))
    found = re.findall(r'data-(?:do="ask" data-arg="|arg="{"model": ")([^"]+)"', shown)
    assert set(names) <= set(found)
    for name in {*found} - {*QUESTIONS}:
        assert wb.explore(model=name).error is None


def test_a_question_about_another_model_says_what_stays_as_it_was():
    door = wb.explore()
    door.submit("Qwen3-Next-80B, 4 x H100, fp8 KV")
    door.submit("will qwen3-8b start?")
    said = plain_text(region(door, "understood"))
    assert "As before: Device H100, Tensor parallel 4, KV-cache dtype fp8." in said
    door.submit("why this block size?")
    assert "As before" not in region(door, "understood")
    _door, said = answer("qwen3.8-flash-next on a 4090")
    assert "vLLM 0.33 has it and is shown" in said
    assert "As before" not in said  # the release is another one


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("what does mamba-cache-mode align do?", "The meaning of align. A state is kept where"),
        ("what is the difference between page and slot?", "The meaning of page and slot. page: Th"),
        ("set max-num-seqs 512", "Max sequences 512."),
        ("max model len 32k", "Max model length 32,000."),
        ("how do I get rid of padding?", "Apply KV-cache dtype fp8 Gain: 146.81 MiB per request"),
        ("what does fp8 KV bring?", "Apply KV-cache dtype fp8 Gain: 146.81 MiB per request"),
        ("does 0.33 fix it?", "Apply vLLM version 0.33 Gain: prefix hits from 2,097 tokens"),
        ("what does MTP cost?", "mtp needs layers for multi-token prediction in the checkpoint"),
        ("cost of MTP 2 for qwen3-next-80b-a3b?", "Apply Speculative tokens 2, Speculative method"),
        ("will it fit with fp8 weights?", "A question about nemotron-3-nano-30b-a3b, Quantization"),
        ("will it start on AMD?", "A question about nemotron-3-nano-30b-a3b, Platform rocm."),
        ("max-num-batched-tokens", "--max-num-batched-tokens of one scheduler step"),
        ("why 5 groups on H100?", "1 group of 5 layers (MambaSpec) and 1 padding layer; 1 group"),
        ("what are padding layers on H100?", "vLLM logs: Add 1 padding layers, may waste at most"),
        ("what is my num_gpu_blocks on H100?", "on each GPU, about 836 blocks; vLLM would print"),
        ("give me the vllm command", "vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
        ("explain step 2", "Step 2 of 20: Max model length L: 262,144 tokens"),
        ("eagle3", "Speculative tokens 1, Speculative method eagle3."),
        ("ngram 5", "Speculative tokens 5, Speculative method ngram."),
        ("8xA100 80G qwen3-8b", "qwen3-8b, Device A100-80GB, Tensor parallel 8."),
        ("is my kernel right?", "Open Flex attention"),
        ("run the block table kernel", "Open Block tables"),
        ("does my vLLM say the same?", "Open Live check"),
        ("why does my server not start?", "Paste the start-up log of a server that fails"),
        ("kv cache full, how to get more", "Apply KV-cache dtype fp8 Gain: 146.81 MiB per request"),
        (
            "why is my block 1056 with 1.34% padding?",
            "has: nemotron-3-nano-30b-a3b, Tensor parallel 4",
        ),
        ("what does align mode cost?", "No hit: A step of 2,048 tokens holds no block of 2,096"),
        (
            "what does a request of 12 tokens cost for bamba-9b?",
            "One request of 12 tokens takes 68.06 MiB of the KV cache. Even one token takes 68.0",
        ),
        ("kv cache of one token for qwen2.5-7b", "Each token of a request takes 57,344 B"),
        ("does LMCache work with qwen3.6-27b?", "LMCacheMPConnector stores states at the ends of"),
        ("lmcache chunk size for qwen3-8b?", "multiples of 16 tokens here; its default of 256 t"),
        ("lmcache chunk 1000 for qwen3-8b", "1,000 tokens is not, 992 tokens and 1,008 tokens are"),
        ("is a chunk of 1024 legal for qwen3-8b?", "multiples of 16 tokens here; 1,024 tokens is"),
        ("lmcache chunks for qwen3.5-4b", "multiples of 528 tokens here; its default of 256 tok"),
        ("lmcache chunks for qwen3.5-4b", "Apply Prefix caching on Gain: prefix"),
        ("mooncake chunks for qwen3-8b", "MooncakeStoreConnector: chunks of 16 tokens, which not"),
        (
            "chunk sizes for qwen3-8b and llama-3.1-70b that share a store",
            "One store for qwen3-8b and llama-3.1-70b. LMCacheMPConnector: chunks are multiples of",
        ),
        ("offload 64 GiB to cpu for qwen3-8b", "64.00 GiB of host memory holds"),
        ("how fast is it?", "Tokens per second are not predicted"),
        (
            "does enforce eager help on H100?",
            "Apply Enforce eager on Gain: starts, 43 requests",
        ),
        ("how many 32k requests fit for qwen3-8b on 4 x H100?", "requests of 32,000 tokens fit on"),
        ("chunked prefill budget", "The largest number of tokens that one step computes"),
        ("why is concurrency times length not the size of the cache", "rounded to two decimals"),
        ("what's the difference between a page and a block", "The meaning of page and manager"),
        ("what is max_num_batched_tokens for", "--max-num-batched-tokens of one scheduler step"),
        ('what does "Using block size 200 for hidden-state cache" mean', "share the pages of the"),
        ("how do I make blocks smaller", "Block: 1,072 tokens, 2,096 before. Gain: 219.84 MiB"),
        ("why did the block size change from tp 1 to tp 8", "Tensor parallel 1; now is nemotron"),
        ("does speculative decoding eat my kv cache", "mtp needs layers for multi-token predict"),
        ("is int8 kv cache supported", "Nearest: int8_per_token_head."),
        ("my GPU is an A100 40GB, why so little KV cache with gemma 3 27b", "weights 51.38 GiB"),
        ("what does utilization 0.9 leave for the cache on an H100", "KV cache gets 6.34 GiB to"),
        ("I have 2x 3090, how many users can qwen3-8b serve at 16k", "requests of 16,000 tokens f"),
        ("what's the biggest context on 2x 3090 for qwen3.6-27b awq", "Quantization awq."),
        ("cheapest way to serve gpt-oss-120b at 32k", "The fewest that start for requests of up"),
        ("can prefill and decode run with different TP", "TP 1 prefills; which others can read"),
        ("what shape is the kv cache tensor", "attention (393, 2, 16, 2, 128) of bfloat16; conv"),
        ("which backends on B200 and why not the others", "Can be set: FLASH_ATTN, TRITON_ATTN,"),
        ("which backends can I use for gpt-oss-20b on B200", "Not FLEX_ATTENTION: attention sinks"),
        ("what would 0.33 change for mamba cache", "Apply vLLM version 0.33"),
        ("how do I check this against my own vllm", "Open Live check"),
        ("why 2,096 and not 16?", "Aligned block size N: 2,096 tokens <- A=16, mamba_page=2"),
        ("where does the 2,146,304 come from", "2,146,304"),
        ("how big is one block in bytes", "A block of 2,096 tokens is a page of 2,146,304 B"),
        (
            "how many blocks does one request of 10k tokens use",
            "It holds 9 blocks of the pool, 4 of them for states.",
        ),
        ("should I set --block-size myself", "2,096 tokens: KV block"),
        ("what command should I run", "vllm serve nvidia/NVIDIA-Nemotron"),
        ("which models have mamba layers", "models of the catalog have SSM layers:"),
        ("what does TP mean", "The meaning of Tensor parallel"),
        ("how many users at 32k for bamba-9b on an H100 fp8", "fp8 is read as the KV cache's"),
        ("run llama 3.3 70b on 2 x l40s with 4 bit", "does not say how the weights are quantized"),
        ("what is the most efficient tp for qwen3-next", "Apply Tensor parallel 2"),
        ("what are padding layers", "A place in a group of layers that no layer takes"),
        ("turn off prefix caching and use fp8 KV", "KV-cache dtype fp8, Prefix caching off."),
        ("does kimi k2 use mla", "The attention is MLA."),
        ("weights of deepseek-v3 on h100 with TP 4", "KV cache nothing, 91.84 GiB are missing"),
        ("mamba2 state size of codestral mamba", "Each mamba2 layer keeps of a request"),
        ("what is a kv_cache_spec", "What vLLM knows of the cache of one layer"),
        ("how large is one request", "One request of 32,768 tokens takes"),
        ("qwen3-8b: prefill h100, decode h200", "one with Device H200 read its cache? it can."),
        (
            "can a b200 decode what an h100 prefilled",
            "with Device B200 read its cache? Prefill",
        ),
        ("prefill at tp 2 and decode at tp 4 for qwen3-8b", "both caches need the layout HND"),
        ("prefill mi300x decode h100", "backend: ROCM_ATTN and FLASH_ATTN"),
        ("prefixes of deepseek-v4-flash with TP 4 on H100", "No cache: the pages cannot be made"),
        ("will my chatbot reuse the conversation so far?", "Apply Prefix caching on Gain: prefix"),
    ],
)
def test_what_a_user_asks_in_other_words_is_answered(text, words):
    assert words in answer(text)[1]


def test_a_printed_size_is_the_concurrency_times_the_length_of_the_plan():
    door, said = answer(
        "concurrency times length against the size of the cache of qwen3-8b on H100?"
    )
    cache = door.plan.cache
    assert f"{cache.max_concurrency:.2f}x of 40,960 tokens is {cache.printed_tokens:,} tok" in said
    assert int(cache.max_concurrency * 40960) == cache.printed_tokens


def test_what_is_said_after_a_switch_is_not_its_value():
    door, _said = answer("chunked prefill off")
    assert door.scenario.enable_chunked_prefill is False


@pytest.mark.parametrize(
    "text",
    [
        "how much memory does {} need on one H100?",
        "vram needed for {} on 1 H100",
        "memory requirements of {} on a single H100",
    ],
)
@pytest.mark.parametrize(
    ("name", "problem"),
    [("qwen3.5-9b", "max_num_seqs_above_blocks"), ("llama-3.1-8b", "not_enough_memory")],
)
def test_vllm_starts_on_the_memory_that_a_gpu_is_said_to_need(text, name, problem):
    door, said = answer(text.format(name))
    found = re.search(r"that is a GPU of ([\d.]+) GiB to ([\d.]+) GiB", said)
    perhaps, surely = (float(one) * 2**30 for one in found.groups())
    assert "The fewest that start" in said
    fields = {
        "model": name,
        "device": "H100",
        "max_num_batched_tokens": door.plan.max_num_batched_tokens,
        "max_num_seqs": door.plan.max_num_seqs,
    }
    little, some, enough = (
        wb.resolve(**fields, device_memory_bytes=int(size))
        for size in (0.995 * perhaps, 1.005 * perhaps, 1.002 * surely)
    )
    assert [one.code for one in little.errors] == [problem]
    assert [plan.memory().starts for plan in (some, enough)] == ["perhaps", "yes"]


def test_weights_are_known_without_a_device_and_all_of_the_memory_with_one():
    door, said = answer("how big are the weights?")
    weights = weights_of(door.plan) / 2**30
    assert f"The weights take {weights:.2f} GiB on each GPU. The rest needs a device." in said
    _door, said = answer("how much memory do the weights take on H100?")
    assert f"On each GPU: weights {weights:.2f} GiB (config.json), activations" in said


def test_the_number_of_a_device_is_not_a_block():
    assert read_question("why this block on an RTX PRO 5000").block_tokens is None
    assert read_question("why 528 on an RTX PRO 5000").block_tokens == 528


@pytest.mark.parametrize("tokens", [528, 1056, 544])
def test_scenarios_with_a_block_size_are_refused_by_no_later_check(tokens):
    found = scenes_with_block(tokens, None, None)
    assert found
    for scene in found:
        plan = wb.resolve(Scenario.from_dict(dict(scene.fields)))
        assert {problem.code for problem in plan.errors} <= BY_MEMORY


def test_sizes_in_bytes_are_not_blocks():
    for text in ("is 32 KB page ok", "why 272 KiB"):
        question = read_question(text)
        assert question.topic.view == "why"
        assert question.block_tokens is None


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("how many requests fit at 95% utilization", "gpu_memory_utilization", 0.95),
        ("with 0.9 gpu memory utilisation how many requests", "gpu_memory_utilization", 0.9),
        ("how many requests fit with 16384 batched tokens", "max_num_batched_tokens", 16_384),
        ("how many fit with eager mode", "enforce_eager", True),
        ("qwen3-8b on H100, eager", "enforce_eager", True),
        ("qwen3-8b on H100, 0.8 utilization", "gpu_memory_utilization", 0.8),
    ],
)
def test_a_setting_next_to_other_words_is_set(text, field, value):
    door, _said = answer(text)
    assert getattr(door.scenario, field) == value


def test_words_of_the_other_engine_are_not_noted():
    said = answer("prefill on 4 h100 and decode on 8 h200 for qwen3-next")[1]
    assert "can one with Tensor parallel 8, Device H200 read its cache? The kernel block" in said
    assert "not understood" not in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("with gpu memory utilization 0.95 how many requests", "requests of 32,768 tokens fit on"),
        ("what happens with block size 64", "--block-size 64: vLLM raises it to 320 tokens"),
        ("how much of the cache is mamba", "The states of a request take"),
        ("how much cache fits on H100 for bamba-9b", "The KV cache gets "),
        ("does mamba state grow with context", "whatever its length"),
    ],
)
def test_what_is_in_question_is_answered(text, words):
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit(text)
    assert words in " ".join(plain_text(region(door, "understood")).split())


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("tp 2 for qwen3-next-80b-a3b?", {"model": "qwen3-next-80b-a3b", "tensor_parallel": 2}),
        ("qwen3-8b on H100 with flash infer", {"backend": "FLASHINFER"}),
        ("set backend flashinfer", {"backend": "FLASHINFER"}),
        ("compare FLASH_ATTN and FLASHINFER", {"backend": "FLASHINFER"}),
        ("flash attention vs flex attention", {"backend": "FLEX_ATTENTION"}),
        ("is TP 3 possible for qwen3-8b", {"tensor_parallel": 3}),
        ("can I use PP 2", {"pipeline_parallel": 2}),
        ("what if weights are fp8", {"quantization": "fp8"}),
        (
            "will deepseek-v3 fit on 8 h200 with dp 8 and ep",
            {"tensor_parallel": 1, "data_parallel": 8, "enable_expert_parallel": True},
        ),
        ("how many users qwen3-8b 4 h100 pp 2", {"tensor_parallel": 2, "pipeline_parallel": 2}),
        ("will it fit on 8 h100 with tp 4", {"device": "H100", "tensor_parallel": 4}),
        ("will qwen3-8b run on h100 with 80% gpu memory", {"gpu_memory_utilization": 0.8}),
    ],
)
def test_what_is_said_is_set(text, fields):
    door, _said = answer(text)
    assert {name: getattr(door.scenario, name) for name in fields} == fields


def test_what_stays_as_before_is_what_is_shown():
    door = wb.explore(model="llama-3.3-70b", device="H100", tensor_parallel=4)
    door.submit("llama 3.3 70b with llama 3.2 1b as draft model, 5 tokens")
    door.submit("will qwen3.6-27b fit on 2 x H200")
    assert door.scenario.draft_model is None
    assert "llama-3.2-1b" not in region(door, "understood")


def test_room_is_answered_with_models_and_memory_with_machines():
    _door, said = answer("what fits on 4 x 4090")
    assert "models of the catalog start on 4 x RTX 4090" in said
    _door, said = answer("is 48gb enough for qwen3.6-27b")
    assert "The fewest that start" in said
    assert "L40S" in said


def test_a_named_value_is_shown_by_its_name():
    door = wb.explore()
    door.submit("vllm serve qwen3-8b --max-model-len auto")
    assert "Max model length auto" in plain_text(region(door, "understood"))


def test_a_number_that_no_answer_depends_on_is_named():
    _door, said = answer("max concurrency qwen3.6-27b 2xh100 262144")
    assert "'262144' is not understood, and not used here" in said
    _door, said = answer("how many 32K requests fit for qwen3-8b with 3 bars?")
    assert "'3' is not understood" in said  # although the model's name has a 3
    _door, said = answer("what changed from 0.23 to 0.33")
    assert "not understood" not in said


@pytest.mark.parametrize(
    "text", ["will llama-3.1-8b run on a 4090 with 8k context", "llama-3.1-8b, 4090, 8k"]
)
def test_a_start_that_is_too_long_is_offered_with_the_length_that_is_said(text):
    door, said = answer(text)
    assert "It starts if no request is longer than 8,000 tokens" in said
    door.apply(max_model_len=8000)
    assert not door.plan.errors


def test_the_longest_request_does_not_start_where_something_else_stops_it():
    door, said = answer("longest context for qwen3.6-27b on h100")
    least = re.search(r"has ([\d,]+) to", said)[1].replace(",", "")
    assert "certainly starts" not in said
    assert wb.resolve(door.scenario.replace(max_model_len=int(least))).errors


def test_dtypes_of_several_scenarios_are_all_the_cache_s():
    found = understand("bf16 vs fp8 vs nvfp4 kv cache for llama-3.3-70b on 2 x b200", Scenario())
    dtypes = [side.scenario.kv_cache_dtype for side in found.compared]
    assert dtypes == ["bfloat16", "fp8", "nvfp4"]
    assert {side.scenario.device for side in found.compared} == {"B200"}


def test_the_longest_requests_of_several_are_those_that_fit():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.submit("longest prompt with 64 users")
    said = plain_text(region(door, "understood"))
    [sizes] = re.findall(r"64 requests at a time fit up to ([\d,]+) to ([\d,]+) tokens", said)
    for at, text in enumerate(sizes):
        tokens = int(text.replace(",", ""))
        assert answers(door.plan, tokens).requests[at] >= 64
        assert answers(door.plan, tokens + 1).requests[at] < 64


def test_a_shared_prefix_is_found_again_as_the_plan_has_it():
    door = wb.explore(model="qwen3-next-80b-a3b", enable_prefix_caching=True)
    door.submit("what is the hit rate if 10k of 12k tokens are shared?")
    found = door.plan.hits().hit(12_000, 10_000).cached_tokens
    assert f"{found:,} tokens are found again" in region(door, "understood")


def test_a_quoted_part_of_a_message_is_explained():
    _door, said = answer('what does "page_size_padded >= page_size" mean')
    assert "A page is larger than what it was to be padded to" in said


def test_more_ranks_of_any_kind_are_weighed():
    for text in ("does PP help?", "does DP help?", "does expert parallel help?"):
        _door, said = answer(text)
        assert said.count("Apply") >= 1


def test_an_offload_has_the_host_memory_that_is_said():
    door = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    door.apply(enable_prefix_caching=True)
    for text, size in (
        ("offload 100 GiB", 100 * 2**30),
        ("how much does offload hold?", 64 * 2**30),
    ):
        door.submit(text)
        blocks = door.plan.offload(cpu_bytes_to_use=size).cpu_blocks
        assert f"holds {blocks:,} blocks" in region(door, "understood")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("will it hit with a 5000 token conversation", 5000),
        ("a 6000 token prompt", 6000),
        ("will it hit if my prompt has 3090 tokens", 3090),
        ("4090 tokens per request", 4090),
        ("will it hit with a conversation of 5,000 tokens?", 5000),
    ],
)
def test_a_number_of_tokens_names_a_length(text, tokens):
    found = understand(text, Scenario())
    assert (found.scenario.device, found.load.length_tokens, found.notes) == (None, tokens, ())


def test_a_device_next_to_a_number_of_tokens_is_one():
    found = understand("how many fit on an RTX 4090 with 5000 tokens?", Scenario())
    assert (found.scenario.device, found.load.length_tokens) == ("RTX 4090", 5000)


def test_what_may_start_is_not_said_to_have_no_problem():
    door, said = answer("will qwen3.5-4b start on one L4 with 262144 tokens?")
    assert "may start" in said
    press(door, "view", "start")
    shown = plain_text(" ".join(door.view.regions.values()))
    assert "the lowest estimate is too little, the highest is enough" in shown
    assert "No start-up problem" not in shown
