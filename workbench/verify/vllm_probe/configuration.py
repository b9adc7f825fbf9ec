"""vLLM's configuration of one question, through its own argument class."""

import json
import tempfile
from pathlib import Path
from typing import Any

from .machine import CannotAnswer, Machine

COPIED = (
    "dtype",
    "kv_cache_dtype",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "enable_prefix_caching",
    "mamba_cache_mode",
    "block_size",
    "mamba_block_size",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
)
"""Fields of a question that are arguments of vLLM under the same name."""
WITHOUT_FUSION = {"pass_config": {"fuse_allreduce_rms": False}}
"""Graph rewriting needs compiled operators at configuration time; no cache depends on it."""


def build(question: dict[str, Any], machine: Machine) -> Any:
    """Build the VllmConfig, not its models and layers. Errors: whatever vLLM raises."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    _inspect_in_this_process()
    folder = _model_folder(question["config"], machine)
    values = {name: question[name] for name in COPIED if question[name] is not None}
    if question["backend"] is not None:
        values["attention_backend"] = AttentionBackendEnum[question["backend"]]
    if (requested := question["gdn_flashinfer_prefill"]) is not None:
        values["gdn_prefill_backend"] = "flashinfer" if requested else "triton"
    if drafts := question["num_speculative_tokens"]:
        values["speculative_config"] = {
            "method": question["speculative_method"],
            "num_speculative_tokens": drafts,
        }
        if question["speculative_method"] == "ngram":
            values["speculative_config"]["prompt_lookup_max"] = 4
    arguments = EngineArgs(
        model=folder,
        tokenizer=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        enforce_eager=True,
        tensor_parallel_size=question["tensor_parallel"],
        distributed_executor_backend="mp",
        compilation_config=WITHOUT_FUSION,
        **values,
    )
    machine.device_memory_bytes = question["device_memory_bytes"]
    machine.device_name = question["device_name"]
    return arguments.create_engine_config(UsageContext[question["usage_context"]])


_FOLDERS: dict[str, tempfile.TemporaryDirectory[str]] = {}


def _model_folder(config: dict[str, Any], machine: Machine) -> str:
    """Write this config.json, without remote code, to a folder that exists until the probe ends."""
    known = {name: value for name, value in config.items() if name not in {"auto_map", "_source"}}
    text = json.dumps(known)
    if text not in _FOLDERS:
        _register_type(str(known.get("model_type")), machine)
        folder = _FOLDERS[text] = tempfile.TemporaryDirectory(prefix="workbench-vllm-")
        (Path(folder.name) / "config.json").write_text(text, encoding="utf-8")
    return _FOLDERS[text].name


def _register_type(model_type: str, machine: Machine) -> None:
    """Register a plain configuration class for a type whose own class is in a hub repository."""
    from vllm.transformers_utils import config as vllm_config

    if model_type in vllm_config._CONFIG_REGISTRY:  # noqa: SLF001  (no public list)
        return
    # 0.23 names it as transformers 4 did, 0.33 as transformers 5 does.
    base = getattr(vllm_config, "PreTrainedConfig", None) or vllm_config.PretrainedConfig
    plain = type("PlainConfig", (base,), {"model_type": model_type})
    try:
        vllm_config.AutoConfig.register(model_type, plain)
    except ValueError:  # the type is known
        return
    machine.stand_ins[f"configuration class of {model_type}"] = "a plain one, without defaults"


def _inspect_in_this_process() -> None:
    """Inspect model classes here: vLLM's own process would not simulate this machine."""
    from vllm.model_executor.models import registry

    def inspect(self: Any) -> Any:
        try:
            return registry._ModelInfo.from_model_cls(self.load_model_cls())  # noqa: SLF001
        except Exception as error:
            raise CannotAnswer(f"{type(error).__name__}: {error}") from error

    registry._LazyRegisteredModel.inspect_model_cls = inspect  # noqa: SLF001
