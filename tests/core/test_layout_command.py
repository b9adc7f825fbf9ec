"""The command `workbench layout`."""

import json
from functools import partial

import pytest

from tests.commands import run

command = partial(run, "layout")
ROCM = ("qwen3.5-4b", "-s", "platform=rocm", "-s", "backend=ROCM_ATTN", "--num-blocks", "2")


def test_the_command_prints_json():
    done = command(*ROCM, "--layout", "HND", "--json")
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["layout"] == "HND"
    assert found["attention"]["rewritten"] is True
    assert found["attention"]["block_dim"] == 1
    assert found["attention"]["stride"] == [540672, 1081344, 1024, 256, 1]
    assert found["attention"]["misplaced_bytes"] == found["mamba"]["misplaced_bytes"] == 0
    assert [state["name"] for state in found["mamba"]["states"]] == ["conv", "recurrent"]


def test_the_command_prints_text():
    done = command("nemotron-3-nano-30b-a3b")
    assert done.exit_code == 0
    for words in (
        "block dimension        0",
        "strides rewritten      no",
        "misplaced bytes",
        "mamba",
        "nemotron-3-nano-30b-a3b",
        "FLASH_ATTN",
    ):
        assert words in done.stdout


def test_the_command_says_what_vllm_says():
    done = command(*ROCM, "--runner", "v2")
    assert done.exit_code == 2
    assert "[ambiguous_shape]" in done.stderr
    assert "vLLM says: AssertionError: Cannot determine layout" in done.stderr
    done = command(*ROCM, "--runner", "v2", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["vllm_exception"] == "AssertionError"


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--layout", "NDH", "Nearest"),
        ("--runner", "v3", "Allowed: v1, v2"),
        ("--rule", "guesed", "Nearest: guessed"),
        ("--num-blocks", "-1", "Nearest valid value: 1"),
        ("--set", "platform", "field=value"),
    ],
)
def test_the_command_refuses_wrong_options(option, value, said):
    done = command("qwen3.5-4b", option, value)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_command_shows_the_older_guess():
    done = command(*ROCM, "--rule", "guessed_unchecked", "--num-blocks", "2")
    assert done.exit_code == 0
    assert "misplaced bytes" in done.stdout
    reported = command(*ROCM, "--num-blocks", "2")
    never = command(*ROCM, "--num-blocks", "2", "--rule", "never")
    assert reported.stdout != never.stdout


def test_the_one_allocation_of_0_33():
    done = command("qwen3.5-4b", "-s", "rules=0.33")
    assert done.exit_code == 0
    for words in ("one allocation", "LBNHC", "block b of layer l", "no: every view counts blocks"):
        assert words in done.stdout
    found = json.loads(
        command("qwen3.5-4b", "-s", "rules=0.33", "--layout", "HND", "--json").stdout
    )
    assert found["layout"] == "LBHNC"
    assert found["attention"]["axes"] == [
        "num_blocks",
        "num_kv_heads",
        "block_size",
        "keys_then_values",
    ]
    split = ("qwen3.5-4b", "-s", "rules=0.33", "-s", "backend=FLASHINFER", "--layout", "BLNHC")
    refused = command(*split)
    assert refused.exit_code == 2
    assert "cannot be split into" in refused.output


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_layer_whose_tensor_is_another(rules):
    """TurboQuant leaves the first layer in bfloat16: its tensor has another page."""
    packed = ("llama-3.1-8b", "-s", "kv_cache_dtype=turboquant_4bit_nc", "-s", f"rules={rules}")
    first, third = (
        json.loads(command(*packed, "--layer", f"model.layers.{n}.attn", "--json").stdout)
        for n in (0, 2)
    )
    assert json.loads(command(*packed, "--json").stdout) == first
    assert (first["attention"]["dtype"], third["attention"]["dtype"]) == ("bfloat16", "uint8")
    assert third["attention"]["axes"][-1] == "slot"
    assert third["attention"]["page_size_bytes"] < first["attention"]["page_size_bytes"]
    wrong = command(*packed, "--layer", "model.layers.2.att")
    assert wrong.exit_code == 2
    assert "model.layers.2.attn" in wrong.output


def test_a_state_layer_alone():
    found = json.loads(command("qwen3.5-4b", "--layer", "model.layers.0.mixer", "--json").stdout)
    assert found["attention"] is None
    assert [state["name"] for state in found["mamba"]["states"]] == ["conv", "recurrent"]
