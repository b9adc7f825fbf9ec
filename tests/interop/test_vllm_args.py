"""A scenario as a `vllm serve` command that can be pasted."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given

from tests.core.strategies import scenarios
from tests.groups import in_groups
from workbench.core.errors import Refused
from workbench.interop.commands.vllm_args import (
    vllm_args,
    vllm_command,
    vllm_environment,
)
from workbench.models import catalog_config, catalog_names, load_model, repository
from workbench.scenario import FIELDS, MODEL, Scenario
from workbench.scenario.resolution import resolve

HUB_ID = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"
FLAGS = [
    ("tensor_parallel", 4, ("--tensor-parallel-size", "4")),
    ("pipeline_parallel", 2, ("--pipeline-parallel-size", "2")),
    ("data_parallel", 4, ("--data-parallel-size", "4")),
    ("enable_expert_parallel", True, ("--enable-expert-parallel",)),
    ("decode_context_parallel", 2, ("--decode-context-parallel-size", "2")),
    ("dtype", "float16", ("--dtype", "float16")),
    ("quantization", "fp8", ("--quantization", "fp8")),
    ("kv_cache_dtype", "fp8", ("--kv-cache-dtype", "fp8")),
    ("backend", "FLASHINFER", ("--attention-backend", "FLASHINFER")),
    ("mamba_cache_dtype", "float32", ("--mamba-cache-dtype", "float32")),
    ("mamba_ssm_cache_dtype", "float32", ("--mamba-ssm-cache-dtype", "float32")),
    ("mamba_cache_mode", "align", ("--mamba-cache-mode", "align")),
    ("block_size", 64, ("--block-size", "64")),
    ("mamba_block_size", 1024, ("--mamba-block-size", "1024")),
    ("max_model_len", 4096, ("--max-model-len", "4096")),
    ("max_model_len", -1, ("--max-model-len", "-1")),
    ("max_num_batched_tokens", 8192, ("--max-num-batched-tokens", "8192")),
    ("max_num_seqs", 512, ("--max-num-seqs", "512")),
    ("gpu_memory_utilization", 0.8, ("--gpu-memory-utilization", "0.8")),
    ("device_memory_bytes", 2**36, ()),
    ("weights_bytes", 2**35, ()),
    ("activation_bytes", 2**30, ()),
    ("cuda_graph_bytes", 2**30, ()),
    ("kv_cache_memory_bytes", 2**34, ("--kv-cache-memory-bytes", str(2**34))),
    ("num_gpu_blocks_override", 100, ("--num-gpu-blocks-override", "100")),
    ("enable_prefix_caching", True, ("--enable-prefix-caching",)),
    ("enable_prefix_caching", False, ("--no-enable-prefix-caching",)),
    ("platform", "xpu", ()),
    ("compute_capability", "10.0", ()),
    ("rules", "before-37467", ()),
    ("batch_invariant", True, ()),
    (
        "kv_cache_dtype_skip_layers",
        ("0", "sliding_window"),
        ("--kv-cache-dtype-skip-layers", "0", "sliding_window"),
    ),
    (
        "hf_overrides",
        {"max_position_embeddings": 512},
        ("--hf-overrides", '{"max_position_embeddings": 512}'),
    ),
    ("gdn_flashinfer_prefill", True, ("--gdn-prefill-backend", "flashinfer")),
    ("gdn_flashinfer_prefill", False, ("--gdn-prefill-backend", "triton")),
    ("trtllm_kernels", True, ()),
    ("disable_hybrid_kv_cache_manager", True, ("--disable-hybrid-kv-cache-manager",)),
    ("kv_cache_layout", "HND", ()),
    (
        "kv_connector",
        "NixlConnector",
        ("--kv-transfer-config", '{"kv_role": "kv_both", "kv_connector": "NixlConnector"}'),
    ),
    ("pipeline_layers", (16, 16), ()),
    ("kv_cache_memory_bytes_by_rank", (2**34,), ()),
    (
        "hidden_state_layers",
        1,
        (
            "--speculative-config",
            (
                '{"method": "extract_hidden_states", "num_speculative_tokens": 0, '
                '"draft_model_config": {"hf_config": {"eagle_aux_hidden_state_layer_ids": [0]}}}'
            ),
        ),
    ),
    ("torch_version", "2.8", ()),
    ("device", "H100", ()),
    ("entry_point", "LLM", ()),
    ("enable_chunked_prefill", False, ("--no-enable-chunked-prefill",)),
    ("async_scheduling", True, ("--async-scheduling",)),
    ("v2_model_runner", True, ()),
    ("rocm_aiter", True, ()),
    ("max_cudagraph_capture_size", 64, ("--max-cudagraph-capture-size", "64")),
    ("cudagraph_capture_sizes", (1, 2), ("--cudagraph-capture-sizes", "1", "2")),
    ("performance_mode", "throughput", ("--performance-mode", "throughput")),
    ("enforce_eager", True, ("--enforce-eager",)),
    ("cudagraph_mode", "PIECEWISE", ("--compilation-config", '{"cudagraph_mode": "PIECEWISE"}')),
    ("language_model_only", True, ("--language-model-only",)),
    ("images_per_prompt", 0, ("--limit-mm-per-prompt", '{"image": 0}')),
    ("videos_per_prompt", 2, ("--limit-mm-per-prompt", '{"video": 2}')),
    ("audios_per_prompt", 1, ("--limit-mm-per-prompt", '{"audio": 1}')),
    ("mm_encoder_tp_mode", "data", ("--mm-encoder-tp-mode", "data")),
    ("enable_lora", True, ("--enable-lora",)),
    ("max_loras", 4, ("--max-loras", "4")),
    ("max_lora_rank", 64, ("--max-lora-rank", "64")),
    ("prefix_cache_retention_interval", 0, ("--prefix-cache-retention-interval", "0")),
    ("flex_attn_block_m", 16, ("--attention-config", '{"flex_attn_block_m": 16}')),
    ("flex_attn_block_n", 0, ("--attention-config", '{"flex_attn_block_n": 0}')),
    ("flex_attn_q_block_size", 64, ("--attention-config", '{"flex_attn_q_block_size": 64}')),
    ("flex_attn_kv_block_size", -8, ("--attention-config", '{"flex_attn_kv_block_size": -8}')),
]


def args_of(**values):
    scenario = Scenario(**values)
    model = load_model(scenario.model)
    return vllm_args(scenario, model)


def test_lists_are_written_as_vllm_reads_them():
    assert vllm_environment(Scenario(pipeline_layers=(16, 36))) == {
        "VLLM_PP_LAYER_PARTITION": "16,36"
    }


def test_every_field_has_a_flag_or_a_reason_to_have_none():
    tried = {field for field, _value, _args in FLAGS}
    drafts = {"num_speculative_tokens", "speculative_method", "draft_model"}
    drafts |= {"draft_tensor_parallel", "draft_attention_backend", "draft_kv_cache_dtype"}
    assert tried | drafts | {"model"} == set(FIELDS)
    without = {field for field, _value, args in FLAGS if not args}
    assert without == {name for name, field in FIELDS.items() if not field.flag.startswith("--")}


@in_groups
@pytest.mark.parametrize(("field", "value", "expected"), FLAGS)
def test_one_field_gives_one_flag(field, value, expected):
    assert args_of(**{field: value}) == (HUB_ID, *expected)


def test_defaults_give_no_flag():
    assert args_of() == (HUB_ID,)


def test_draft_tokens_come_with_a_method_because_vllm_refuses_a_bare_number():
    name, flag, value = args_of(num_speculative_tokens=3)
    assert (name, flag) == (HUB_ID, "--speculative-config")
    drafts = json.loads(value)
    assert drafts["num_speculative_tokens"] == 3
    assert drafts["method"] == "ngram"


def test_a_checkpoint_with_mtp_layers_drafts_with_them():
    _name, _flag, value = args_of(model="qwen3.5-4b", num_speculative_tokens=2)
    assert json.loads(value) == {"method": "mtp", "num_speculative_tokens": 2}


def test_a_method_with_a_checkpoint_of_its_own_has_a_place_for_it():
    _name, _flag, value = args_of(num_speculative_tokens=3, speculative_method="eagle3")
    drafts = json.loads(value)
    assert (drafts["method"], drafts["num_speculative_tokens"]) == ("eagle3", 3)
    assert drafts["model"].startswith("<hub id")


def test_hidden_states_have_a_method_of_their_own():
    _name, _flag, value = args_of(num_speculative_tokens=1, hidden_state_layers=3)
    drafts = json.loads(value)
    assert (drafts["method"], drafts["num_speculative_tokens"]) == ("extract_hidden_states", 1)
    ids = drafts["draft_model_config"]["hf_config"]["eagle_aux_hidden_state_layer_ids"]
    assert len(set(ids)) == 3


def test_the_plan_gives_the_same_arguments():
    plan = resolve(tensor_parallel=2, num_speculative_tokens=1, block_size=32)
    assert plan.to_vllm_args() == args_of(
        tensor_parallel=2, num_speculative_tokens=1, block_size=32
    )
    assert plan.to_vllm_command() == vllm_command(plan.scenario, plan.model)


@in_groups
@pytest.mark.parametrize("name", catalog_names())
def test_a_catalog_name_becomes_the_hub_id_that_it_came_from(name):
    hub_id = catalog_config(name)["_source"]["repo"]
    assert args_of(model=name)[0] == repository(name) == hub_id
    assert repository(name.upper()) == hub_id
    assert repository(hub_id.lower()) == hub_id


def test_other_references(tmp_path):
    assert repository("some-owner/some-model") == "some-owner/some-model"
    assert repository("no such model") is None
    assert repository({"model_type": "llama"}) is None
    folder = tmp_path / "my model"
    folder.mkdir()
    assert repository(str(folder)) == str(folder)
    assert repository(str(folder / "config.json")) == str(folder)
    assert repository(str(folder / "other.json")) is None
    assert repository("~/models/one/config.json") == str(Path.home() / "models" / "one")


def test_a_config_object_goes_by_its_name():
    config = catalog_config("llama-3.1-8b") | {"_name_or_path": "my/llama"}
    assert args_of(model=config) == ("my/llama",)


@pytest.mark.parametrize(
    "name",
    ["a b", "it's", 'say "x"', "$(touch x)", "`x`", "a;b", "a\nb", "ü", "<img src=x>", "*", "\\"],
)
def test_the_command_survives_any_shell_word(name):
    model = catalog_config("llama-3.1-8b") | {"_name_or_path": name}
    plan = resolve(model=model, block_size=32, num_speculative_tokens=2)
    script = 'vllm() { printf "%s\\0" "$@"; }\n' + plan.to_vllm_command()
    words = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert words.split("\0")[:-1] == ["serve", *plan.to_vllm_args()]
    assert plan.to_vllm_args()[0] == name


def test_one_flag_a_line():
    plan = resolve(tensor_parallel=2, enable_prefix_caching=True, block_size=32)
    assert plan.to_vllm_command().splitlines() == [
        f"vllm serve {HUB_ID} \\",
        "  --tensor-parallel-size 2 \\",
        "  --block-size 32 \\",
        "  --enable-prefix-caching",
    ]


@given(scenarios())
def test_any_scenario_gives_a_command_that_a_shell_reads_back(scenario):
    try:
        plan = resolve(scenario)
    except Refused:
        return
    args = plan.to_vllm_args()
    one_line = plan.to_vllm_command().replace(" \\\n", " ")
    variables = [f"{name}={value}" for name, value in vllm_environment(scenario).items()]
    assert shlex.split(one_line) == [*variables, "vllm", "serve", *args]
    flags = [arg for arg in args[1:] if arg.startswith("--")]
    assert len(set(flags)) == len(flags)
    arguments = {
        field.argument[0]
        for field in FIELDS.values()
        if field is not MODEL and getattr(scenario, field.name) != field.default
    }
    assert len(flags) == len(arguments - {"", "speculative_config"}) + (
        "--speculative-config" in flags
    )
    assert ("--speculative-config" in flags) == bool(
        scenario.num_speculative_tokens or scenario.hidden_state_layers
    )


def test_what_has_no_flag_is_an_environment_variable_of_the_command():
    plan = resolve(model="llama-3.1-8b", batch_invariant=True)
    assert plan.to_vllm_command().startswith("VLLM_BATCH_INVARIANT=1 vllm serve ")
    assert resolve(Scenario()).to_vllm_command().startswith("vllm serve ")
