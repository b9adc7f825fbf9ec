"""The commands `workbench offload` and `workbench transfer`."""

from __future__ import annotations

import pytest

from tests.commands import published, run

CACHED = ("qwen3.5-4b", "-s", "enable_prefix_caching=true")
NEMOTRON = ("nemotron-3-nano-30b-a3b", "-s", "kv_cache_dtype=fp8", "-s", "block_size=32")


def refused(*arguments):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    return done.stderr


def test_a_legal_offload_as_json():
    found = published("offload", *CACHED, "--cpu-memory", "10 GiB", "--block-size", 1056)
    assert found["is_legal"] is True
    assert (found["factor"], found["cpu_blocks"]) == (2, 310)
    assert found["request"]["cpu_bytes_to_use"] == 10 * 2**30
    assert [check["outcome"] for check in found["checks"]].count("passes") == 5


def test_an_offload_that_stops_is_an_answer():
    found = published("offload", "qwen3.5-4b", "--cpu-memory", "10 GiB")
    assert found["is_legal"] is False
    assert found["cpu_blocks"] is None
    (problem,) = found["problems"]
    assert problem["remedies"][0]["changes"] == {"enable_prefix_caching": True}
    assert problem["remedies"][0]["is_legal"] is True


def test_the_text_has_checks_and_remedy():
    done = run("offload", "qwen3.5-4b", "--cpu-memory", "10 GiB")
    assert done.exit_code == 0
    for words in ("✕ stops here", "tested remedy: enable_prefix_caching = yes", "vLLM says"):
        assert words in done.stdout


def test_the_text_names_the_hash_block_that_passes():
    done = run("offload", *CACHED, "--cpu-memory", "10 GiB", "--hash-block-size", 100)
    assert done.exit_code == 0
    assert "tested, and this check passes: hash_block_size = 88" in done.stdout
    assert "hash_block_size = nothing" in done.stdout


def test_prompts_of_which_nothing_is_stored_are_said_in_words():
    done = run("offload", "qwen3.5-4b", "-s", "rules=0.33", "--cpu-memory", "1 MiB")
    assert "nothing stored prompts" not in done.stdout
    done = run("offload", *CACHED, "--cpu-memory", "64 GiB", "--block-size", 52_800)
    assert "1,024 tokens: nothing stored" in done.stdout
    assert "1 host block, " in done.stdout


def test_a_missing_memory_is_a_failed_check():
    found = published("offload", *CACHED)
    assert found["problems"][0]["code"] == "offload_bytes_missing"


def test_ranks_and_context_parallelism_are_read():
    one = published("offload", *CACHED, "--cpu-memory", "10 GiB")
    two = published("offload", *CACHED, "--cpu-memory", "10 GiB", "--world-size", 2)
    assert two["bytes_per_cpu_block"] == 2 * one["bytes_per_cpu_block"]
    spread = published(
        "offload", *CACHED, "--cpu-memory", "1 GiB", "--prefill-context-parallel-size", 2
    )
    assert spread["problems"][0]["code"] == "context_parallel_with_groups"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("offload", "qwen3.5-4b", "--cpu-memory", "64"), "the unit is missing"),
        (("offload", "qwen3.5-4b", "--cpu-memory", "lots"), "such as 20 GiB"),
        (("offload", "qwen3.5-4b", "--block-size", "0"), "from 1 to"),
        (("offload", "qwen3.5-4b", "--hash-block-size", "0"), "Nearest valid value: 1"),
        (
            ("offload", *CACHED, "-s", "tensor_parallel=4", "--world-size", "1"),
            "Nearest valid value: 4",
        ),
        (("offload", "qwen3.5-4b", "-s", "platform"), "field=value"),
        (("offload", "qwen3.5-5b"), "error ["),
        (("transfer", *NEMOTRON, "--prefill", "tensor_parallel"), "--prefill and --set"),
        (("transfer", *NEMOTRON, "--decode", "tensor_paralel=2"), "Nearest: tensor_parallel"),
    ],
)
def test_wrong_options_are_refused(arguments, said):
    assert said in refused(*arguments)


def test_unequal_sides_as_json_and_text():
    sides = ("--prefill", "tensor_parallel=4", "--decode", "tensor_parallel=1")
    found = published("transfer", *NEMOTRON, *sides)
    assert (found["prefill"]["block_size"], found["decode"]["block_size"]) == (2112, 4192)
    assert found["is_legal"] is False
    done = run("transfer", *NEMOTRON, *sides)
    assert done.exit_code == 0
    assert "heterogeneous: unequal" in done.stdout


def test_equal_sides_fit():
    found = published("transfer", *NEMOTRON, "--decode", "tensor_parallel=2")
    assert found["is_legal"] is True
    assert found["remedies"] == []


@pytest.mark.parametrize(
    ("field", "read"),
    [("rules=0.23", True), ("gpu_memory_utilization=0.5", True), ("tensor_parallel=4.5", False)],
)
def test_names_and_numbers_are_distinguished(field, read):
    done = run("offload", *CACHED, "--cpu-memory", "1 GiB", "-s", field)
    assert (done.exit_code == 0) is read, done.output


NEW = ("qwen3.5-4b", "-s", "rules=0.33", "--cpu-memory", "10 GiB")


def test_chunks_and_units_of_0_33():
    found = published("offload", *NEW, "--blocks-per-chunk", 3)
    assert (found["is_legal"], found["factor"]) == (True, 3)
    assert found["hash_option"] == "prefix_match_unit"
    assert found["large_block_hash"] == "last"
    assert found["window_chunks"] == [1, 1, 1, None]
    both = run("offload", *NEW, "--blocks-per-chunk", 3, "--block-size", 1056)
    assert "Specify only one of" in both.stdout
    unit = run("offload", *NEW, "--prefix-match-unit", 100)
    assert "Invalid prefix_match_unit=100" in unit.stdout
    old = published("offload", *CACHED, "--cpu-memory", "10 GiB", "--blocks-per-chunk", 3)
    assert (old["factor"], old["unread_options"]) == (1, ["blocks_per_chunk"])


def test_sides_of_two_versions_do_not_fit():
    found = published("transfer", "llama-3.1-8b", "--decode", "rules=0.33")
    assert found["is_legal"] is False
    assert found["problems"][0]["code"] == "transfer_versions"
