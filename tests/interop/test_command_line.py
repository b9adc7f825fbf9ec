"""A vLLM command line as a scenario, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings

import workbench as wb
from tests.catalog import distinct_models
from tests.core.strategies import scenarios
from tests.groups import in_groups
from tests.models.configs import nemotron_h
from workbench.core.errors import ConfigError, Refused, ScenarioError, nearest_names
from workbench.interop.commands import flags as flags_module
from workbench.interop.commands.command_line import read_command
from workbench.interop.commands.flags import flags_of, releases
from workbench.interop.exchange import from_vllm_command
from workbench.models import load_model
from workbench.scenario import Scenario

MODEL = "qwen3.5-4b"
SERVE = "vllm serve Qwen/Qwen3.5-4B"
MACHINE = (
    "platform",
    "compute_capability",
    "rules",
    "device_memory_bytes",
    "weights_bytes",
    "activation_bytes",
    "cuda_graph_bytes",
    "torch_version",
    "kv_cache_memory_bytes_by_rank",
    "trtllm_kernels",
)
"""Fields that no command line holds."""

CORNERS = (
    {},
    {"tensor_parallel": 4, "kv_cache_dtype": "fp8", "block_size": 32},
    {"enable_prefix_caching": True, "max_num_batched_tokens": 16384, "num_speculative_tokens": 3},
    {"enable_prefix_caching": False, "max_model_len": -1, "kv_cache_memory_bytes": 2**34},
    {"backend": "FLEX_ATTENTION", "flex_attn_block_m": 16, "flex_attn_kv_block_size": 16},
    {"batch_invariant": True, "gpu_memory_utilization": 0.5, "max_num_seqs": 7},
)


def fields_of(command, **machine):
    return from_vllm_command(command, **machine).scenario


def machine_of(scenario):
    return {name: getattr(scenario, name) for name in MACHINE}


def with_its_method(plan):
    """The scenario with the method that drafts: a command always names it, and none without."""
    method = plan.speculative_method
    explicit = None if method == "extract_hidden_states" else method
    return plan.scenario.replace(speculative_method=explicit)


@in_groups
@pytest.mark.parametrize("name", distinct_models())
@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: "-".join(corner) or "defaults")
def test_a_command_leads_back_to_the_same_plan(name, corner):
    try:
        plan = wb.resolve(model=name, **corner)
    except Refused:
        return
    plan = wb.resolve(with_its_method(plan))
    command = plan.to_vllm_command()
    again = fields_of(command)
    assert again == plan.scenario
    assert wb.resolve(again) == plan
    assert wb.resolve(again).fingerprint == plan.fingerprint
    assert wb.resolve(again).to_vllm_command() == command


@pytest.mark.parametrize(
    "values",
    [
        {"kv_cache_dtype_skip_layers": ("0", "sliding_window"), "kv_cache_dtype": "fp8"},
        {"kv_cache_dtype_skip_layers": ("0",), "kv_cache_dtype": "fp8"},
        {"hidden_state_layers": 3, "num_speculative_tokens": 1},
    ],
)
def test_layers_that_are_named_come_back_without_a_note(values):
    plan = wb.resolve(**values)
    given = read_command(plan.to_vllm_command())
    assert {name: given.fields[name] for name in values} == values
    assert given.notes == []
    assert fields_of(plan.to_vllm_command()) == plan.scenario


@given(scenarios())
@settings(deadline=None, max_examples=50)
def test_any_scenario_comes_back_from_its_command(scenario):
    try:
        plan = wb.resolve(scenario)
    except (Refused, ConfigError):
        assume(False)
    again = fields_of(plan.to_vllm_command(), **machine_of(scenario))
    expected = {**with_its_method(plan).to_dict(), "model": again.model}
    assert again.to_dict() == expected


@given(scenarios())
@settings(deadline=None, max_examples=50)
def test_exported_flags_are_flags_of_their_release(scenario):
    try:
        args = wb.resolve(scenario).to_vllm_args()[1:]
    except (Refused, ConfigError):
        assume(False)
    flags = flags_of(scenario.rules)
    for flag in (arg for arg in args if arg.startswith("--")):
        assert flags.named(flag)[0] in flags.kinds, flag


def test_each_release_has_its_flags():
    old, new = map(flags_of, releases())
    assert old.named("-tp") == ("--tensor-parallel-size", "value")
    assert old.named("--no-enable-prefix-caching") == ("--enable-prefix-caching", "off")
    assert new.named("--disable-prefix-caching") == ("--enable-prefix-caching", "off")
    assert old.named("--language-model-only") == ("--language-model-only", "switch")
    assert new.named("--device-memory-utilization") == ("--gpu-memory-utilization", "value")
    (note,) = read_command(f"{SERVE} --disable-prefix-caching", "0.23").notes
    assert "vLLM 0.23 does not have this flag" in note
    (note,) = read_command(f"{SERVE} --prefix-match-unit 16").notes
    assert "vLLM 0.33 has it" in note
    command = f"{SERVE} --disable-prefix-caching --enable-hybrid-kv-cache-manager"
    scenario = fields_of(command, rules="0.33")
    assert scenario.enable_prefix_caching is False
    assert scenario.disable_hybrid_kv_cache_manager is False


@pytest.mark.parametrize(
    "words",
    [
        """--quantization-config '{"linear": "mxfp8"}'""",
        "-O1",
        "-cc.mode=0",
        """--kv-transfer-config '{"kv_connector": "MyConnector"}'""",
        "--skip-mm-profiling",
        "--config engine.yaml",
    ],
)
def test_what_can_change_a_size_is_not_said_to_change_none(words):
    (note,) = from_vllm_command(f"{SERVE} {words}").notes
    assert "not modelled here, although" in note
    assert "No size depends" not in note


def test_a_variable_can_change_a_size_too():
    (note,) = from_vllm_command(f"VLLM_MLA_DISABLE=1 {SERVE}").notes
    assert "MLA then keeps whole keys and values" in note
    for interval in (0, 1024):
        given = f"VLLM_PREFIX_CACHE_RETENTION_INTERVAL={interval}"
        (note,) = from_vllm_command(f"{given} {SERVE}").notes
        assert "not modelled here, although 0.23 does not start with it" in note
    (note,) = from_vllm_command(f"VLLM_LOGGING_LEVEL=DEBUG {SERVE}").notes
    assert note.startswith("No size depends on")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (f"{SERVE} --tensor-parallel-size=4", {"tensor_parallel": 4}),
        (f"{SERVE} -tp 2", {"tensor_parallel": 2}),
        (f"{SERVE} --cudagraph-capture-sizes 1 2 4", {"cudagraph_capture_sizes": (1, 2, 4)}),
        (
            f"""{SERVE} -cc '{{"cudagraph_capture_sizes": [1, 2], "mode": 3}}'""",
            {"cudagraph_capture_sizes": (1, 2)},
        ),
        (f"{SERVE} -cc.max_cudagraph_capture_size=64", {"max_cudagraph_capture_size": 64}),
        (f"VLLM_USE_V2_MODEL_RUNNER=0 {SERVE}", {"v2_model_runner": False}),
        (f"VLLM_USE_V2_MODEL_RUNNER=1 {SERVE}", {"v2_model_runner": True}),
        (f"VLLM_ROCM_USE_AITER=1 {SERVE}", {"rocm_aiter": True, "platform": "rocm"}),
        (f"{SERVE} --tensor_parallel_size 2", {"tensor_parallel": 2}),
        (f"{SERVE} --max-num-batched-token 16384", {"max_num_batched_tokens": 16384}),
        (f"{SERVE} --max-model-len 16k", {"max_model_len": 16000}),
        (f"{SERVE} --max-model-len 16K", {"max_model_len": 16384}),
        (f"{SERVE} --max-model-len auto", {"max_model_len": -1}),
        (f"{SERVE} --max-model-len -1", {"max_model_len": -1}),
        (f"{SERVE} --dtype half", {"dtype": "float16"}),
        (f"{SERVE} --attention-backend flash_attn", {"backend": "FLASH_ATTN"}),
        (f"{SERVE} --no-enable-prefix-caching", {"enable_prefix_caching": False}),
        (
            f'{SERVE} --speculative-config \'{{"method":"mtp","num_speculative_tokens":2}}\'',
            {"num_speculative_tokens": 2, "speculative_method": "mtp"},
        ),
        (
            f"{SERVE} --spec-method qwen3_5_mtp --spec-tokens 1",
            {"num_speculative_tokens": 1, "speculative_method": "mtp"},
        ),
        (
            f"{SERVE} --spec-model yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --spec-tokens 3",
            {
                "num_speculative_tokens": 3,
                "speculative_method": "eagle3",
                "draft_model": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
            },
        ),
        (
            f"{SERVE} --speculative-config.model some/small --spec-tokens 3",
            {
                "num_speculative_tokens": 3,
                "speculative_method": "draft_model",
                "draft_model": "some/small",
            },
        ),
        (
            f"{SERVE} --spec-method suffix",
            {"num_speculative_tokens": 24, "speculative_method": "suffix"},
        ),
        (f"{SERVE} --speculative-config.num_speculative_tokens 2", {"num_speculative_tokens": 2}),
        (f"{SERVE} --gdn-prefill-backend flashinfer", {"gdn_flashinfer_prefill": True}),
        (f"{SERVE} --gdn-prefill-backend=triton", {"gdn_flashinfer_prefill": False}),
        (f"{SERVE} --gdn-prefill-backend cutedsl", {"gdn_flashinfer_prefill": False}),
        (f"{SERVE} --spec-tokens 2", {"num_speculative_tokens": 2}),
        (f"{SERVE} -ac.flex_attn_block_m 16", {"flex_attn_block_m": 16}),
        (
            f"{SERVE} --attention-config.backend FLEX_ATTENTION",
            {"backend": "FLEX_ATTENTION"},
        ),
        (f"VLLM_BATCH_INVARIANT=1 {SERVE}", {"batch_invariant": True}),
        (
            f"export VLLM_BATCH_INVARIANT=1\n$ CUDA_VISIBLE_DEVICES=0 {SERVE}",
            {"batch_invariant": True},
        ),
        (f"nohup /opt/venv/bin/{SERVE} -tp 2 > log 2>&1 &", {"tensor_parallel": 2}),
        (
            f"cd /models && {SERVE} \\\n  --enforce-eager \\\n  -tp 2 | tee log",
            {"tensor_parallel": 2, "enforce_eager": True},
        ),
        (
            "python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3.5-4B -tp 2",
            {"tensor_parallel": 2},
        ),
        (
            "docker run -e VLLM_BATCH_INVARIANT=1 vllm/vllm-openai --model Qwen/Qwen3.5-4B -tp 2",
            {"tensor_parallel": 2, "batch_invariant": True},
        ),
        (f"{SERVE} --quantization auto_round", {"quantization": "auto-round"}),
        ("--model Qwen/Qwen3.5-4B -tp 2", {"tensor_parallel": 2}),
        ("vllm serve --enforce-eager Qwen/Qwen3.5-4B", {"enforce_eager": True}),
        (f"{SERVE} --served-model-name a b -tp 2", {"tensor_parallel": 2}),
    ],
)
def test_what_people_type_is_read(command, expected):
    assert fields_of(command) == Scenario(model=MODEL, **expected)


def test_unknown_flags_are_named_with_the_nearest_and_everything_else_is_kept():
    found = from_vllm_command(
        f"{SERVE} --block-sise 32 --host 0.0.0.0 --prefill-context-parallel-size 2 stray -tp 2 "
        "--max-num-seqs"
    )
    assert found.scenario == Scenario(model=MODEL, tensor_parallel=2)
    notes = "\n".join(found.notes)
    for words in (
        "--block-sise 32: vLLM 0.23 does not have this flag, and stops. Nearest: --block-size",
        "No size depends on: --host 0.0.0.0",
        "tokens are spread over ranks",
        "stray",
        "--max-num-seqs: the value is missing",
    ):
        assert words in notes


def test_a_variable_that_no_release_reads_is_noted_with_the_flag_instead():
    found = read_command(f"VLLM_ATTENTION_BACKEND=FLASHINFER {SERVE}")
    assert "backend" not in found.fields
    assert any("reads it no longer. Use --attention-backend" in note for note in found.notes)


def test_layers_that_a_command_cuts_off_are_not_in_its_lists_either():
    plan = wb.resolve(model="gpt-oss-20b", hf_overrides={"num_hidden_layers": 4})
    assert len(plan.model.layers) == 4
    with pytest.raises(ScenarioError, match="sliding_window = null"):
        Scenario(model="gpt-oss-20b", hf_overrides={"sliding_window": 1024})


@pytest.mark.parametrize("given", [["LlamaForCausalLM"], None, [5], ["X", "OPTForCausalLM"]])
def test_a_class_of_another_module_is_refused_with_those_that_read_the_same_fields(given):
    # LlamaForCausalLM builds pages of 65536 bytes of this file, its own class 18432 (0.23, 0.33).
    with pytest.raises(
        ScenarioError, match="Expected DeepseekForCausalLM, DeepseekV2ForCausalLM, "
    ):
        wb.resolve(model="deepseek-v2-lite", hf_overrides={"architectures": given})


@pytest.mark.parametrize(
    ("model", "name"),
    [("deepseek-v2-lite", "DeepseekV3ForCausalLM"), ("qwen3-8b", "Qwen3ForTokenClassification")],
)
def test_a_class_of_the_same_module_is_applied(model, name):
    plan = wb.resolve(model=model, hf_overrides={"architectures": [name]})
    pooling = plan.model.pooling
    assert name == (plan.model.architecture if pooling is None else pooling.name)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_language_model_is_served_as_a_reranker(rules):
    """As the model's page says: two tokens of the vocabulary become one row that scores."""
    changes = {
        "architectures": ["Qwen3ForSequenceClassification"],
        "classifier_from_token": ["no", "yes"],
        "is_original_qwen3_reranker": True,
    }
    words = f"vllm serve Qwen/Qwen3-8B --hf-overrides '{json.dumps(changes)}'"
    read = read_command(words, rules)
    assert read.fields["hf_overrides"] == changes
    plan = wb.resolve(**read.fields, rules=rules)
    assert plan.model.pooling.name == "Qwen3ForSequenceClassification"
    [score] = [part for part in plan.model.weights.known_parts if part.name == "score"]
    assert (score.outputs, score.inputs) == (((1, 1),), 4096)


def test_lengths_that_a_command_changes_are_changed_and_the_rest_is_noted():
    rope = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    changes = {"text_config": {"hidden_size": 64}, "rope_scaling": rope}
    server = "vllm serve Qwen/Qwen3-8B --max-model-len 131072"
    words = f"{server} --hf-overrides '{json.dumps(changes)}'"
    read = read_command(words, "0.23")
    assert read.fields["hf_overrides"] == {"rope_scaling": rope}
    [note] = [note for note in read.notes if "not modelled" in note]
    assert note.startswith('--hf-overrides {"text_config": {"hidden_size": 64}}: not modelled here')
    plan = wb.resolve(**read.fields, rules="0.23")
    assert (plan.max_model_len, plan.model.name) == (131072, "qwen3-8b")
    with pytest.raises(Refused, match="max_model_len"):
        wb.resolve(**read.fields, rules="0.33")


def test_of_two_values_the_last_counts_with_a_note():
    found = from_vllm_command(f"{SERVE} -tp 2 -tp 4")
    assert found.scenario.tensor_parallel == 4
    assert "given again" in found.notes[0]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--kv-cache-dtype fp9", ("--kv-cache-dtype fp9", "Nearest: fp8")),
        ("--tensor-parallel-size 0", ("--tensor-parallel-size 0", "Nearest valid value: 1")),
        ("--block-size abc", ("--block-size abc", "Expected an integer")),
        ("--attention-backend FLASH_ATN", ("FLASH_ATN", "Nearest: FLASH_ATTN")),
        ("--attention-config 3", ("JSON object", "Quote it")),
    ],
)
def test_a_wrong_value_names_its_flag_and_the_nearest_valid_one(flags, words):
    with pytest.raises(ScenarioError) as caught:
        from_vllm_command(f"{SERVE} {flags}")
    assert all(word in str(caught.value) for word in words)


@pytest.mark.parametrize(
    "text", ["", "hello", "python train.py", "vllm bench serve", "'", "x" * 200_000]
)
def test_text_without_a_command_is_refused(text):
    with pytest.raises(ScenarioError) as caught:
        from_vllm_command(text)
    assert caught.value.code in {"not_a_vllm_command", "out_of_range"}


def test_a_model_name_of_any_length_is_not_a_system_error():
    assert fields_of(f"vllm serve {'x' * 5000} -tp 2").tensor_parallel == 2


def test_a_folder_with_a_config_comes_back(tmp_path):
    import json

    folder = tmp_path / "my model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(nemotron_h()), encoding="utf-8")
    plan = wb.resolve(model=str(folder / "config.json"), tensor_parallel=2)
    assert wb.resolve(fields_of(plan.to_vllm_command())) == plan


def test_a_text_that_is_read_again_looks_for_near_names_once(monkeypatch):
    searched = []

    def search(name, names):
        searched.append(name)
        return nearest_names(name, names)

    monkeypatch.setattr(flags_module, "nearest_names", search)
    command = "vllm serve bamba-9b --block-sice 16 --block-sice-2 16"
    first, again = read_command(command), read_command(command)
    assert again.notes == first.notes
    assert searched == ["--block-sice", "--block-sice-2"]


def test_unknown_flags_are_noted_once_and_the_first_ones_with_near_names():
    flags = [f"--block-sise-{number}" for number in range(100)]
    notes = read_command(f"vllm serve bamba-9b {' 1 '.join(flags * 3)} 1").notes
    assert len(notes) == len(flags)
    assert ["Nearest" in note for note in notes] == [True] * 20 + [False] * 80


@pytest.mark.parametrize(
    "text",
    [
        "export MODEL=qwen3-8b TP=2\nvllm serve $MODEL -tp ${TP} --port $PORT",
        "NAME=8b; MODEL=qwen3-$NAME; vllm serve ${MODEL} -tp ${TP:-2}",
    ],
)
def test_a_shell_variable_has_the_value_that_the_text_sets(text):
    read = read_command(text)
    assert read.fields == {"model": "qwen3-8b", "tensor_parallel": 2}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("vllm serve $MODEL -tp 2", "MODEL"),
        ("vllm serve /models/${NAME}", "NAME"),
        ("vllm serve qwen3-8b -tp $TP", "TP"),
    ],
)
def test_a_shell_variable_without_a_value_is_named(text, name):
    with pytest.raises(ScenarioError, match=f"{name}=VALUE vllm serve") as caught:
        from_vllm_command(text)
    assert caught.value.code == "variable_not_set"


def test_a_model_that_is_a_shell_variable_is_said_to_be_one():
    with pytest.raises(ConfigError, match="is a shell variable"):
        load_model("$MODEL")
