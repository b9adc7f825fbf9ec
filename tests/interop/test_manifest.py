"""A docker-compose file and a Kubernetes manifest are read as the command that they run."""

from __future__ import annotations

import pytest

from workbench.interop.commands.command_line import read_command
from workbench.interop.commands.manifest import manifest_command
from workbench.interop.omnibox import understand
from workbench.scenario import Scenario

FIELDS = {"model": "qwen3.5-4b", "tensor_parallel": 2, "kv_cache_dtype": "fp8", "rules": "0.33"}
COMPOSE = """services:
  web:
    image: nginx
    command: ["nginx", "--daemon"]
  vllm:
    image: vllm/vllm-openai:v0.33.0
    environment:
      - HF_TOKEN=secret
      - VLLM_BATCH_INVARIANT=1
    {}
    deploy:
      resources:
        reservations:
          devices:
            - driver: nvidia
              count: 2
"""
FORMS = {
    "folded": """command: >
      --model Qwen/Qwen3.5-4B
      --tensor-parallel-size 2
      --kv-cache-dtype fp8""",
    "continued": """command: |
      vllm serve Qwen/Qwen3.5-4B \\
        -tp 2 \\
        --kv-cache-dtype fp8""",
    "one line": "command: --model Qwen/Qwen3.5-4B -tp 2 --kv-cache-dtype fp8  # two GPUs",
    "quoted": 'command: "--model Qwen/Qwen3.5-4B -tp 2 --kv-cache-dtype fp8"',
    "flow": 'command: ["--model", "Qwen/Qwen3.5-4B", "-tp", "2", "--kv-cache-dtype", "fp8"]',
    "flow over lines": """command: [
      '--model', 'Qwen/Qwen3.5-4B',
      "-tp=2",
      --kv-cache-dtype, fp8
    ]""",
    "list": """command:
      - --model=Qwen/Qwen3.5-4B
      - "--tensor-parallel-size"
      - "2"
      # the cache
      - --kv-cache-dtype=fp8  # half of it""",
    "a program before": """entrypoint: ["python3", "-m", "vllm.entrypoints.openai.api_server"]
    command: --model Qwen/Qwen3.5-4B -tp 2 --kv-cache-dtype fp8""",
    "the model alone": "command: Qwen/Qwen3.5-4B -tp 2 --kv-cache-dtype fp8",
}
KUBERNETES = """apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.33.1
        {}
        env:
        - name: VLLM_BATCH_INVARIANT
          value: "1"
        resources:
          limits:
            nvidia.com/gpu: "2"
"""
IN_A_POD = {
    "a shell": """command: ["/bin/sh", "-c"]
        args:
        - "vllm serve Qwen/Qwen3.5-4B -tp 2 --kv-cache-dtype fp8"
        """,
    "a script": """command: ["/bin/bash", "-c"]
        args:
        - |
          vllm serve Qwen/Qwen3.5-4B \\
            --tensor-parallel-size 2 --kv-cache-dtype fp8""",
    "arguments": """args:
        - --model
        - Qwen/Qwen3.5-4B
        - -tp
        - "2"
        - --kv-cache-dtype
        - fp8""",
}
TEXTS = {
    **{name: COMPOSE.format(form) for name, form in FORMS.items()},
    **{name: KUBERNETES.format(form) for name, form in IN_A_POD.items()},
}


@pytest.mark.parametrize("name", TEXTS)
def test_every_way_to_write_a_command_has_the_same_fields(name):
    found = read_command(TEXTS[name])
    assert found.fields == {**FIELDS, "batch_invariant": True}
    assert not found.unknown


def test_an_image_of_another_release_is_noted():
    found = read_command(TEXTS["list"].replace("v0.33.0", "v0.11.0"))
    assert "rules" not in found.fields
    assert any("vLLM 0.11 is not among" in note for note in found.notes)


def test_a_tag_that_moves_is_noted():
    found = read_command(TEXTS["list"].replace("v0.33.0", "latest"))
    assert "rules" not in found.fields
    assert any("does not name a release" in note for note in found.notes)


def test_the_front_door_takes_it_for_a_command():
    found = understand(TEXTS["folded"], Scenario(device="H100"))
    assert found.kind == "command"
    assert found.scenario.tensor_parallel == 2
    assert found.scenario.device == "H100"


def test_json_of_a_flag_stays_whole():
    form = """command: [--model, Qwen/Qwen3.5-4B, --speculative-config,
      '{"method": "mtp", "num_speculative_tokens": 3}']"""
    assert read_command(COMPOSE.format(form)).fields["num_speculative_tokens"] == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "command: ls --all",
        "image: vllm/vllm-openai\ncommand: []",
        "image: vllm/vllm-openai\ncommand: [",
        "image: vllm/vllm-openai\nargs:\n- ",
        "vllm serve Qwen/Qwen3.5-4B",
        "image: vllm\ncommand: \"--model 'x",
    ],
)
def test_any_other_text_is_not_a_manifest(text):
    assert manifest_command(text) is None


VALUES = """servingEngineSpec:
  modelSpec:
  - name: "granite"
    repository: "vllm/vllm-openai"
    tag: "v0.33.0"
    modelURL: "Qwen/Qwen3.5-4B"
    requestGPU: 2
    vllmConfig:
      enableChunkedPrefill: false
      tensorParallelSize: 2  # GPUs
      maxModelLen: 65536
      extraArgs: {}
    lmcacheConfig:
      enabled: {}
  - name: other
    modelURL: "Qwen/Qwen3-8B"
    vllmConfig:
      maxNumSeqs: 3
"""
EXTRA_ARGUMENTS = {
    "flow": '["--kv-cache-dtype", "fp8"]',
    "list": """
        - "--kv-cache-dtype"
        - fp8""",
}


@pytest.mark.parametrize("form", EXTRA_ARGUMENTS)
def test_values_of_the_production_stack_are_the_command_that_its_chart_runs(form):
    found = read_command(VALUES.format(EXTRA_ARGUMENTS[form], "false"))
    # the chart turns prefix caching off unless it is enabled
    chart = {"enable_prefix_caching": False, "enable_chunked_prefill": False}
    assert found.fields == {**FIELDS, **chart, "max_model_len": 65_536}
    assert not found.unknown


def test_its_lmcache_is_a_connector():
    found = read_command(VALUES.format("[]", "true")).fields
    assert found["kv_connector"] == "LMCacheConnectorV1"
    assert "kv_cache_dtype" not in found


@pytest.mark.parametrize(
    "text",
    [
        """modelArtifacts:
  uri: "hf://Qwen/Qwen3.5-4B"
decode:
  containers:
  - name: "vllm"
    image: "vllm/vllm-openai:v0.33.0"
    modelCommand: vllmServe
    args:
      - "--tensor-parallel-size=2"
""",
        """kind: Model
spec:
  url: hf://Qwen/Qwen3.5-4B
  args:
    - --tensor-parallel-size=2
""",
        """kind: InferenceService
spec:
  predictor:
    model:
      args:
        - --model_name=qwen
        - --model_id=Qwen/Qwen3.5-4B
        - --tensor-parallel-size=2
""",
        """image:
  repository: "vllm/vllm-openai"
  tag: "v0.33.0"
  command: ["vllm", "serve", "Qwen/Qwen3.5-4B", "-tp", "2"]
""",
    ],
    ids=["llm-d", "KubeAI", "KServe", "vLLM's chart"],
)
def test_a_model_may_be_next_to_its_arguments(text):
    found = read_command(text)
    assert found.fields["model"] == "qwen3.5-4b"
    assert found.fields["tensor_parallel"] == 2
    assert found.fields.get("rules", "0.33") == "0.33"
    assert not found.unknown
