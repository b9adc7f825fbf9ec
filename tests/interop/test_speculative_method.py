"""The speculative method as commands and logs name it."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.interop.commands.command_line import read_command
from workbench.interop.commands.speculation import speculative_method
from workbench.interop.logs.facts import entries, logged_fields

SERVE = "vllm serve Qwen/Qwen3.5-4B"


@pytest.mark.parametrize(
    ("method", "model", "expected"),
    [
        ("mtp", None, "mtp"),
        ("deepseek_mtp", None, "mtp"),
        ("qwen3_5_mtp", None, "mtp"),
        ("kimi_k3_mtp", None, "mtp"),
        ("[ngram]", None, "ngram"),
        (None, "[ngram]", "ngram"),
        (None, "yuhuili/EAGLE-LLaMA3-Instruct-8B", "eagle"),
        (None, "AngelSlim/Qwen3-8B_eagle3", "eagle3"),
        (None, "z-lab/Qwen3-8B-DFlash", "dflash"),
        (None, "some/small-model", "draft_model"),
        (None, None, None),
    ],
)
def test_the_method_follows_from_its_name_or_the_draft_model(method, model, expected):
    assert speculative_method(method, model) == expected


def test_a_former_name_and_a_checkpoint_of_mtp_are_notes():
    given = read_command(
        f"{SERVE} --speculative-config "
        '\'{"method": "qwen3_5_mtp", "model": "some/mtp", "num_speculative_tokens": 1}\''
    )
    assert given.fields["speculative_method"] == "mtp"
    assert any("former name of mtp" in note for note in given.notes)
    assert given.fields["draft_model"] == "some/mtp"


DRAFTS = ("speculative_method", "num_speculative_tokens", "hidden_state_layers")


@pytest.mark.parametrize(
    ("flags", "code", "drafts"),
    [
        ("--spec-tokens 2", "speculative_method_missing", {"num_speculative_tokens": 2}),
        ("--speculative-config.method mtp", "speculative_tokens_not_given", {}),
        ("--speculative-config.method ngram", "speculative_tokens_not_given", {}),
        (
            "--speculative-config.method extract_hidden_states --spec-tokens 1",
            "hidden_state_ids_missing",
            {},
        ),
    ],
)
def test_what_vllm_misses_stops_the_command(flags, code, drafts):
    """`SpeculativeConfig` and `ExtractHiddenStatesProposer` raise for each, in both releases."""
    command = f"{SERVE} {flags}"
    given = read_command(command)
    assert {name: given.fields[name] for name in DRAFTS if name in given.fields} == drafts
    [problem] = wb.from_vllm_command(command).problems
    assert problem.code == code
    assert problem.vllm_text
    assert problem.message in given.notes


def test_without_a_number_vllm_takes_what_the_checkpoint_predicts():
    name = "zai-org/GLM-4.7"
    given = read_command(f"vllm serve {name} --spec-method mtp --spec-model {name}")
    assert given.fields["speculative_method"] == "mtp"
    assert given.fields["num_speculative_tokens"] == 1
    assert any("vLLM uses 1" in note for note in given.notes)


def test_a_method_without_a_number_is_a_note():
    given = read_command(f"{SERVE} --spec-method eagle3 --spec-model owner/head")
    assert given.fields["speculative_method"] == "eagle3"
    assert any("num_speculative_tokens is missing" in note for note in given.notes)


@pytest.mark.parametrize(
    ("printed", "method", "tokens"),
    [
        ("SpeculativeConfig(method='mtp', model='Qwen/Qwen3.5-4B', num_spec_tokens=2)", "mtp", 2),
        ("SpeculativeConfig(method='ngram', model=None, num_spec_tokens=5)", "ngram", 5),
        ("SpeculativeConfig(method='eagle3', model='a/b', num_spec_tokens=3)", "eagle3", 3),
    ],
)
def test_the_engine_line_names_the_method(printed, method, tokens):
    line = f"model='Qwen/Qwen3.5-4B', speculative_config={printed}, dtype=torch.bfloat16"
    fields = logged_fields(entries(line))
    assert (fields["speculative_method"], fields["num_speculative_tokens"]) == (method, tokens)


def test_the_arguments_name_the_method_as_they_were_given():
    line = (
        "{'model': 'Qwen/Qwen3.5-4B', 'speculative_config': "
        "{'method': 'qwen3_5_mtp', 'num_speculative_tokens': 2}}"
    )
    fields = logged_fields(entries(line))
    assert (fields["speculative_method"], fields["num_speculative_tokens"]) == ("mtp", 2)


def test_without_speculation_a_log_names_no_method():
    assert "speculative_method" not in logged_fields(entries("speculative_config=None"))


@pytest.mark.parametrize(
    ("model", "is_named"), [("deepseek-v4-flash-0731", False), ("qwen3-8b", True)]
)
def test_a_checkpoint_with_layers_that_draft_needs_no_other_in_its_command(model, is_named):
    drafts = {"speculative_method": "dspark", "num_speculative_tokens": 7}
    command = wb.resolve(model=model, rules="0.33", **drafts).to_vllm_command()
    assert ("draft model" in command) == is_named
    assert drafts.items() <= read_command(command, "0.33").fields.items()


@pytest.mark.parametrize("name", ["deepseek_mtp", "qwen3_next_mtp", "step3p5_mtp"])
def test_a_deprecated_name_of_a_method_is_mtp_in_a_scenario_too(name):
    scenario = wb.Scenario(num_speculative_tokens=1, speculative_method=name)
    assert scenario.speculative_method == "mtp"
