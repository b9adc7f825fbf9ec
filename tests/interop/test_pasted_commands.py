"""Commands as people paste them: of containers, of other shells, of texts that quote them."""

import json
import time

import pytest

import workbench as wb
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.interop.commands.command_line import read_command
from workbench.interop.omnibox import understand
from workbench.scenario import Scenario

SERVE = "vllm serve Qwen/Qwen3.5-4B"


@pytest.mark.parametrize(
    "command",
    [
        f"docker run --gpus all image:tag bash -lc '\nNCCL_P2P_LEVEL=SYS \\\n{SERVE} -tp 2'",
        f'kubectl exec pod -- /bin/sh -c "cd /x && exec {SERVE} -tp 2"',
        f"bash -c \"bash -c '{SERVE} -tp 2'\"",
    ],
)
def test_a_command_that_a_shell_gets_as_one_word(command):
    read = read_command(command)
    assert (read.fields["model"], read.fields["tensor_parallel"]) == ("qwen3.5-4b", 2)


def test_other_uses_of_c_are_not_a_shell():
    assert read_command(f"docker run -c 512 image {SERVE} -tp 2").fields["tensor_parallel"] == 2
    with pytest.raises(ScenarioError, match="This is not a vLLM command"):
        read_command("bash -c 'echo vllm'")
    with pytest.raises(ScenarioError, match="No closing quotation"):
        read_command(f'bash -c "{SERVE} --served-model-name \'x"')


DOUBLED = " ".join(f"A{at}=$A{at - 1}$A{at - 1}" for at in range(1, 60))


@pytest.mark.parametrize(
    "command",
    [
        f"A0=x {DOUBLED} {SERVE} --served-model-name $A59",  # 2^59 characters
        f"A={'x' * 40_000} {SERVE} --served-model-name {'$A ' * 9_000}",
        f"A={'x' * 30_000} {' '.join(f'B{at}=$A' for at in range(4_000))} {SERVE}",
    ],
)
def test_variables_that_multiply_each_other_are_refused(command):
    with pytest.raises(ScenarioError, match="add more than 100,000 characters"):
        wb.from_vllm_command(command)


def test_a_default_that_does_not_end_is_not_searched_again_and_again():
    start = time.thread_time()
    read_command(f"A=b {SERVE} {'${A:-' * 19_000}")
    assert time.thread_time() - start < 3


LONG = "q" * 20_000


@pytest.mark.parametrize(
    "words",
    [
        *(f"--block-size={LONG}", f"--{LONG}", f"--seed {LONG}", f"-O{LONG}", f"x {LONG}"),
        *(f"--kv-cache-memory-bytes {LONG} -tp 2 -tp={LONG}", f"--compilation-config.{LONG} 3"),
        f"--hf-overrides.{LONG} 3 --hf-overrides.max_position_embeddings={LONG}",
        f"--speculative-config.method={LONG}",
        f"--speculative-config.model={LONG} --speculative-config.method=medusa",
        f"--kv-transfer-config.kv_connector={LONG} --kv-offloading-size {LONG}",
        f"--served-model-name {LONG} {LONG} --enable-lora --max-loras={LONG}",
    ],
)
def test_notes_repeat_no_long_value(words):
    for command in (f"{SERVE} {words}", f"VLLM_{LONG}=1 VLLM_KV_CACHE_LAYOUT={LONG} {SERVE}"):
        try:
            said = wb.from_vllm_command(command).notes
        except WorkbenchError as error:
            said = (error.message,)
        assert max(map(len, said), default=0) < 2000


@pytest.mark.parametrize(
    "command",
    [
        f"{SERVE} \\ --block-size 32 \\ -tp 2",
        f"{SERVE} \\\\\n  --block-size 32 \\\\\n  -tp 2",
    ],
)
def test_lines_that_were_joined_or_quoted_are_continued(command):
    read = read_command(command)
    assert (read.fields["block_size"], read.fields["tensor_parallel"]) == (32, 2)
    assert not read.notes


@pytest.mark.parametrize(
    "words",
    [
        "-cc.cudagraph_mode=full_decode_only",
        "--compilation-config.cudagraph_mode FULL_DECODE_ONLY",
        '--compilation-config \'{"mode": 3, "cudagraph_mode": "full_decode_only"}\'',
    ],
)
def test_a_graph_mode_in_any_case(words):
    found = wb.from_vllm_command(f"{SERVE} {words} --language-model-only")
    assert found.scenario.cudagraph_mode == "FULL_DECODE_ONLY"
    assert found.scenario.language_model_only
    assert not any("not modelled" in note for note in found.notes)


def test_an_unknown_graph_mode_is_refused():
    with pytest.raises(ScenarioError, match="Nearest: FULL_DECODE_ONLY"):
        wb.from_vllm_command(f"{SERVE} -cc.cudagraph_mode=FULL_DECODES_ONLY")


@pytest.mark.parametrize(
    ("children", "rules", "child"),
    [
        (("NixlConnector", "MooncakeStoreConnector"), "0.33", "NixlConnector"),
        (("DecodeBenchConnector", "SimpleCPUOffloadConnector"), "0.33", "DecodeBenchConnector"),
        (("NixlConnector", "OffloadingConnector"), "0.23", "OffloadingConnector"),
        (("NixlConnector", "OffloadingConnector"), "0.33", None),
        (("LMCacheConnectorV1", "MooncakeStoreConnector"), "0.23", "LMCacheConnectorV1"),
        (("LMCacheConnectorV1", "NixlConnector"), "0.23", None),
        (("MyConnector", "NixlConnector"), "0.23", None),
        ((), "0.23", None),
    ],
)
def test_several_connectors_are_read_as_the_one_that_requests_as_much(children, rules, child):
    """`supports_hma_config` and `get_required_kvcache_layout` of MultiConnector."""
    each = [{"kv_connector": name, "kv_role": "kv_both"} for name in children]
    config = {"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": each}}
    read = read_command(f"{SERVE} --kv-transfer-config '{json.dumps(config)}'", rules)
    assert read.fields.get("kv_connector") == child
    assert bool(read.not_modelled) == (child is None)


CONNECTOR = """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'"""
EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512,expandable_segments:True"


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        (f"{EXPANDABLE} {SERVE} {CONNECTOR}", True),
        (f"{EXPANDABLE} {SERVE} --kv-offloading-size 5", True),
        (f"{EXPANDABLE} {SERVE} {CONNECTOR} --enable-sleep-mode", False),
        (f"{EXPANDABLE} {SERVE} {CONNECTOR} --enable-cumem-allocator", False),
        (f"{EXPANDABLE} {SERVE}", False),
        (f"{SERVE} {CONNECTOR}", False),
    ],
)
def test_segments_that_move_are_refused_with_a_connector(command, is_refused):
    notes = read_command(command).notes
    assert any("vLLM stops at the start" in note for note in notes) == is_refused


def test_a_level_after_an_equals_sign():
    assert read_command(f"{SERVE} -O=1").without_field == {"optimization_level": "1"}


@pytest.mark.parametrize(
    ("command", "platform"),
    [
        (f"docker run --device=/dev/kfd -v a:b my/image {SERVE}", "rocm"),
        ("docker run vllm/vllm-openai-rocm:latest Qwen/Qwen3.5-4B", "rocm"),
        ("docker run vllm/vllm-openai-xpu:latest Qwen/Qwen3.5-4B", "xpu"),
        ("docker run vllm/vllm-openai-cpu:latest-x86_64 Qwen/Qwen3.5-4B", "cpu"),
        (f"export VLLM_ROCM_USE_AITER=1\n{SERVE}", "rocm"),
        (f"VLLM_ROCM_USE_AITER=0 {SERVE}", "cuda"),
        (f"docker run --cpus=4 vllm/vllm-openai:latest {SERVE}", "cuda"),
        (f"/opt/cpu/vllm/bin/vllm serve {SERVE.rsplit(maxsplit=1)[-1]}", "cuda"),
    ],
)
def test_an_image_a_device_and_a_variable_name_the_platform(command, platform):
    found = wb.from_vllm_command(command)
    assert found.scenario.platform == platform
    assert ("platform" in found.fields) == (platform != "cuda")
    assert any("the platform is" in note for note in found.notes) == (platform != "cuda")


def test_a_named_device_is_not_replaced():
    rocm = f"VLLM_ROCM_USE_AITER=1 {SERVE}"
    assert wb.from_vllm_command(rocm, device="H100").scenario.platform == "cuda"
    assert wb.from_vllm_command(rocm, platform="xpu").scenario.platform == "xpu"


def test_a_platform_of_a_plugin_is_noted():
    found = wb.from_vllm_command(f"docker run -it vllm/vllm-tpu:nightly {SERVE}")
    assert found.scenario.platform == "cuda"
    assert found.notes == (
        "vllm/vllm-tpu:nightly: vLLM has this platform as a plugin, with rules of its own.",
    )


@pytest.mark.parametrize(
    "text",
    [
        'from vllm import LLM\nllm = LLM(model="Qwen/Qwen3.6-27B", tensor_parallel_size=2)',
        "args:\n- --model\n- Qwen/Qwen3.6-27B\n- --tensor-parallel-size\n- '2'",
        '- "--model=Qwen/Qwen3.6-27B"\n- "--tensor-parallel-size=2"',
        "model: Qwen/Qwen3.6-27B\ntensor-parallel-size: 2  # both",
        "engine = AsyncEngineArgs('Qwen/Qwen3.6-27B', tensor_parallel_size=2, seed=SEED)",
        "qwen3.6-27b\ntp 2",
    ],
)
def test_a_scenario_in_any_form_is_read(text):
    found = understand(text, Scenario())
    assert (found.scenario.model, found.scenario.tensor_parallel) == ("qwen3.6-27b", 2)
    assert found.scenario.entry_point == ("LLM" if "import" in text else "serve")


@pytest.mark.parametrize("text", ["LLM(", "model:\n", "a: b\nc: d", "- x\n- y"])
def test_other_texts_of_such_forms_are_refused(text):
    with pytest.raises(WorkbenchError):
        understand(text, Scenario())
