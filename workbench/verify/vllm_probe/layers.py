"""The layers that vLLM's hooks look for, without weights: each names vLLM's own backend class."""

import inspect
import sys
from contextlib import suppress
from types import SimpleNamespace
from typing import Any


def accepted(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that `function` has a parameter for: signatures grow with the versions."""
    return {name: values[name] for name in inspect.signature(function).parameters if name in values}


def backend_of(config: Any, question: dict[str, Any]) -> tuple[Any, str | None, str | None]:
    """Return (class, name in vLLM's registry, refusal) of the attention layers' backend.

    An explicit backend is used even if vLLM refuses it; the reason is then returned as well.
    (None, None, reason) if vLLM finds no backend.
    """
    from vllm.config import set_current_vllm_config
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.attention.selector import get_attn_backend

    model = config.model_config
    selection = {
        "head_size": model.get_head_size(),
        "dtype": model.dtype,
        "kv_cache_dtype": config.cache_config.cache_dtype,
        "use_mla": model.use_mla,
        "has_sink": question["has_sinks"],
        "use_sparse": hasattr(model.hf_text_config, "index_topk"),
        "use_mm_prefix": bool(getattr(model, "is_mm_prefix_lm", False)),
        "num_heads": model.get_num_attention_heads(config.parallel_config),
    }
    chosen: Any = None
    reason = None
    try:
        with set_current_vllm_config(config):
            chosen = get_attn_backend(**accepted(get_attn_backend, selection))
    except (ValueError, NotImplementedError, AssertionError) as error:
        reason = str(error)
    explicit = question["backend"]
    if explicit is None:
        return chosen, None if chosen is None else _registered(chosen), reason
    imposed = AttentionBackendEnum[explicit].get_class()
    if chosen is None or chosen.get_name() != imposed.get_name():
        return imposed, explicit, reason or f"vLLM takes {chosen.get_name()} instead"
    return chosen, explicit, None


def _registered(backend: Any) -> str:
    """Return the name of a class in vLLM's registry, or its own name if not registered."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    path = f"{backend.__module__}.{backend.__qualname__}"
    for entry in AttentionBackendEnum:
        with suppress(ValueError):  # a placeholder for a backend that a plugin registers
            if str(entry.get_path()) == path:
                return str(entry.name)
    return str(backend.get_name())


def model_class(config: Any) -> Any:
    """Return vLLM's class for the model."""
    from vllm.model_executor.models import ModelRegistry

    model = config.model_config
    return ModelRegistry.resolve_model_cls(model.architecture, model_config=model)[0]


def state_layer_class(model: Any) -> Any:
    """Return the SSM layer class in the modules of a model class; None without one."""
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    modules = [sys.modules[base.__module__] for base in model.__mro__]
    # A wrapper takes its layers from the module of the model that it wraps.
    wrapped = {value.__module__ for module in modules for value in _classes_in(module)}
    modules += [sys.modules[name] for name in sorted(wrapped) if name.startswith("vllm.model")]
    for value in (value for module in modules for value in _classes_in(module)):
        kind: Any = getattr(value, "mamba_type", None)
        if issubclass(value, MambaBase) and not getattr(kind, "__isabstractmethod__", False):
            return value
    return None


def _classes_in(module: Any) -> list[type]:
    return [value for value in vars(module).values() if isinstance(value, type)]


def stand_ins(config: Any, backend: Any, state_layer: Any) -> Any:
    """Register one SSM and one attention layer of `config`; return the attention layer or None.

    Only those that the model has: vLLM's hooks go over the layers of the configuration.
    """
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.layers.mamba.abstract import MambaBase

    places = config.compilation_config.static_forward_context
    if state_layer is not None:
        places["layers.0.mixer"] = _state_stand_in(MambaBase, state_layer, config)
    if backend is None:
        return None

    class AttentionStandIn(AttentionLayerBase):
        def get_attn_backend(self) -> Any:
            return backend

        def get_kv_cache_spec(self, vllm_config: Any) -> Any:
            return _attention_spec(backend, vllm_config)

    layer = places["layers.1.self_attn.attn"] = AttentionStandIn()
    return layer


def _state_stand_in(base: Any, real: Any, config: Any) -> Any:
    model = model_class(config)

    class StateStandIn(base):
        @property
        def mamba_type(self) -> Any:
            return real.mamba_type.fget(self)

        def get_state_shape(self) -> Any:
            return model.get_mamba_state_shape_from_config(config)

        def get_state_dtype(self) -> Any:
            return model.get_mamba_state_dtype_from_config(config)

        def get_prefill_checkpoint_alignment(self) -> int | None:
            return _checkpoint_alignment(real, config)

    return StateStandIn()


def _checkpoint_alignment(real: Any, config: Any) -> int | None:
    """Return the real layer's value for the prefill kernel that vLLM chooses."""
    alignment_of = getattr(real, "get_prefill_checkpoint_alignment", None)
    choose = getattr(sys.modules[real.__module__], "_resolve_gdn_prefill_backend", None)
    if alignment_of is None or choose is None or config.cache_config.mamba_cache_mode != "align":
        return None
    from vllm.v1.attention.backends.gdn_attn import FLASHINFER_GDN_CHECKPOINT_ALIGNMENT

    granted = FLASHINFER_GDN_CHECKPOINT_ALIGNMENT if choose(config)[1] == "flashinfer" else None
    return alignment_of(SimpleNamespace(_checkpoint_alignment=granted))


def _attention_spec(backend: Any, config: Any) -> Any:
    """Return the specification from vLLM's attention layer, called with these numbers."""
    from vllm.model_executor.layers.attention.attention import Attention
    from vllm.model_executor.layers.attention.mla_attention import MLAAttention
    from vllm.utils.torch_utils import kv_cache_dtype_str_to_dtype
    from vllm.v1.attention.backend import AttentionType

    model, cache_dtype = config.model_config, config.cache_config.cache_dtype
    layer = SimpleNamespace(
        attn_type=AttentionType.DECODER,
        attn_backend=backend,
        kv_cache_dtype=cache_dtype,
        kv_cache_torch_dtype=kv_cache_dtype_str_to_dtype(cache_dtype, model),
        num_kv_heads=model.get_num_kv_heads(config.parallel_config),
        head_size=model.get_head_size(),
        head_size_v=model.get_head_size(),
        sliding_window=None,
        topk_buffer_width=None,
        indexer=None,
        non_causal_multi_token_decode=False,
    )
    spec = (MLAAttention if model.use_mla else Attention).get_kv_cache_spec(layer, config)
    # 0.33: the backend owns its packing.
    customize = getattr(backend, "customize_spec", None)
    return spec if customize is None else customize(spec)
