"""The whole model and its drafter, built by vLLM without weights, and the layers that they have."""

import copy
import importlib
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from . import device

PROPOSERS = {
    "uses_draft_model": ("draft_model", "DraftModelProposer"),
    "use_gemma4_mtp": ("gemma4", "Gemma4Proposer"),
    "use_step3p5_mtp": ("step3p5", "Step3p5MTPProposer"),
    "use_dflash": ("dflash", "DFlashProposer"),
    "use_eagle": ("eagle", "EagleProposer"),
    "uses_extract_hidden_states": ("extract_hidden_states", "ExtractHiddenStatesProposer"),
}
"""Questions of the V1 runner to its speculative configuration, in order -> who builds a model."""


@dataclass
class Rank:
    """The first rank of a pipeline stage: its configuration and model, and what drafts on it."""

    config: Any
    model: Any
    drafted: set[str]
    """The layers of the drafter."""
    drafter: Any
    """As the model runner makes it; None where it has no model."""
    specs: dict[str, Any] = field(default_factory=dict)
    """Of its layers, once they are collected."""

    @property
    def first_layers(self) -> tuple[str | None, str | None]:
        """Return the target's first attention layer and its first SSM layer on this rank."""
        return first_layers(self.config, self.drafted)


def ranks(config: Any) -> list[Rank]:
    """Build the model of every pipeline stage, each in a process of its own in vLLM."""
    # The engine's configuration is another object than those of its ranks.
    stages = config.parallel_config.pipeline_parallel_size
    configs = [config] if stages == 1 else [copy.deepcopy(config) for _ in range(stages)]
    return [build(one, stage) for stage, one in enumerate(configs)]


def build(config: Any, stage: int = 0) -> Rank:
    """Build one stage's model and its drafter."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import get_pp_group
    from vllm.model_executor.model_loader import get_model
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():  # Worker.init_device of the others
        current_platform.check_if_supports_dtype(config.model_config.dtype)
    parallel, layers = config.parallel_config, config.compilation_config.static_forward_context
    parallel.rank = stage * parallel.tensor_parallel_size
    _forget_backends()
    device.play_weights()
    with set_current_vllm_config(config):
        device.play_ranks(parallel, stage)
        device.play_workspace()
        model = get_model(vllm_config=config)
        target = set(layers)
        # Both runners build the whole drafter on the last stage.
        drafter = _drafter(config) if get_pp_group().is_last_rank else None
        if drafter is not None:
            drafter.load_model(model)
        _check_aux_hidden_states(config, model)
        _check_adapters(config, model)
    return Rank(config, model, set(layers) - target, drafter)


def _forget_backends() -> None:
    """Let layers choose their backends anew, as in the process that a stage has of its own."""
    # The key lacks what backends read of the configuration, such as the target's head size.
    from vllm.v1.attention import selector

    for name in ("_cached_get_attn_backend", "_cached_get_mamba_attn_backend"):
        getattr(selector, name).cache_clear()


def _check_aux_hidden_states(config: Any, model: Any) -> None:
    """Let the runners refuse models that do not give, or hand on, what heads read."""
    name = "vllm.v1.worker.gpu.spec_decode.eagle.eagle3_utils"
    utils, speculative = importlib.import_module(name), config.speculative_config
    if _reads_aux_hidden_states(config, utils) and not utils.supports_eagle3(model):
        utils.set_eagle3_aux_hidden_state_layers(model, speculative)  # raises as both runners do
    check = getattr(utils, "verify_supports_aux_hidden_states_over_pp", None)
    if check is None or speculative is None or not config.use_v2_model_runner:
        return
    stages = config.parallel_config.pipeline_parallel_size
    if stages > 1 and utils.requires_aux_hidden_states(speculative):
        check(model, speculative.method)


def _check_adapters(config: Any, model: Any) -> None:
    """Let the runner refuse a model that has no interface for adapters."""
    from vllm.model_executor.models import supports_lora
    from vllm.v1.worker.lora_model_runner_mixin import LoRAModelRunnerMixin

    if config.lora_config is not None and not supports_lora(model):
        LoRAModelRunnerMixin.load_lora_model(None, model, config, None)  # raises


def _reads_aux_hidden_states(config: Any, utils: Any) -> bool:
    speculative = config.speculative_config
    if speculative is None:
        return False
    asks = hasattr(utils, "requires_aux_hidden_states") or not config.use_v2_model_runner
    if speculative.method == "eagle3" and asks:
        own = getattr(speculative.draft_model_config.hf_config, "eagle_config", None) or {}
        return bool(own.get("use_aux_hidden_state", True))
    return speculative.method in {"eagle3", "dflash", "dspark", "extract_hidden_states"}


def _drafter(config: Any) -> Any:
    """Return the drafter as the model runner makes it; None where it has no model."""
    import torch

    speculative, place = config.speculative_config, torch.device("meta")
    if speculative is None:
        return None
    if config.use_v2_model_runner:
        from vllm.v1.worker.gpu.spec_decode import init_speculator

        states = () if init_speculator.__code__.co_argcount == 2 else (None,)
        drafter = init_speculator(config, place, *states)
        return drafter if hasattr(drafter, "load_model") else None
    for question, (module, name) in PROPOSERS.items():
        if getattr(speculative, question, bool)():
            proposer = getattr(importlib.import_module(f"vllm.v1.spec_decode.{module}"), name)
            given = config, place, SimpleNamespace(pin_memory=False)
            # the one of hidden states takes no runner
            return proposer(*given[: proposer.__init__.__code__.co_argcount - 1])
    return None


def specs_of(rank: Rank) -> dict[str, Any]:
    """Return the cache spec of every layer that has one, as the model runner collects them."""
    config = rank.config
    runner = SimpleNamespace(vllm_config=config, shared_kv_cache_layers={})
    if not config.use_v2_model_runner:
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        return GPUModelRunner.get_kv_cache_spec(runner)
    from vllm.v1.worker.gpu.model_runner import GPUModelRunner as SecondRunner

    runner.speculator = rank.drafter
    runner.dcp_size = config.parallel_config.decode_context_parallel_size
    return SecondRunner.get_kv_cache_spec(runner)


def first_layers(config: Any, drafted: set[str]) -> tuple[str | None, str | None]:
    """Return the target's first attention layer and its first SSM layer, by name; None without one.

    Where layers differ, the first one counts that has the head size of the whole model, no window
    and the dtype of the cache: a plan's attention is that of such layers.
    """
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    layers = config.compilation_config.static_forward_context
    target = [name for name in layers if name not in drafted]
    states = {name for name in target if isinstance(layers[name], MambaBase)}
    # Indexers and other caches alongside an attention layer are named otherwise.
    attention = [
        name
        for name in target
        if name not in states and type(layers[name]).__name__.endswith("Attention")
    ]
    dtype, size = config.cache_config.cache_dtype, config.model_config.get_head_size()
    largest = [name for name in attention if getattr(layers[name], "head_size", size) == size]
    whole = [name for name in largest if not _slides(layers[name])]
    candidates = whole or largest or attention
    as_stored = [name for name in candidates if layers[name].kv_cache_dtype == dtype]
    return (
        next(iter(as_stored or candidates), None),
        next((name for name in target if name in states), None),
    )


def _slides(layer: Any) -> bool:
    # Inkling's layers name their window otherwise.
    return any(getattr(layer, key, None) is not None for key in ("sliding_window", "local_extent"))


def registered_name(backend: Any) -> str:
    """Return the name of a class in vLLM's registry, or its own name if not registered."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    path = f"{backend.__module__}.{backend.__qualname__}"
    for entry in AttentionBackendEnum:
        with suppress(ValueError):  # a placeholder for a backend that a plugin registers
            if str(entry.get_path()) == path:
                return str(entry.name)
    return str(backend.get_name())
