"""Answer one question, function by function, in the order of vLLM's start-up."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from .configuration import build
from .layers import backend_of, model_class, stand_ins, state_layer_class
from .machine import CannotAnswer, Machine

ALIGNMENT = "_align_hybrid_block_size"
"""vLLM's function whose intermediate numbers are read when it returns."""
NO_DEVICE = "Torch not compiled with CUDA enabled"
"""Torch's message if a real device was needed: this is not an answer of vLLM."""
LOCALS = {"attn_page_size_1_token": "attention_bytes_per_token"}
STORES_PACKED = frozenset({"FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"})
"""Backends for which the constructor of vLLM's MLA layer may change the KV-cache dtype."""
DECIDED_BY_LAYER = ("kv_cache_dtype", "attention_page_size_bytes")


def answer(question: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """Return vLLM's answers: "answers" (by field), "functions" (called), "refusal", "unanswered".

    Sizes in tokens or bytes, per rank. A refusal ends the questions that need what was refused.
    """
    record = AnswerRecord()
    try:
        config = record.call("EngineArgs.create_engine_config", build, question, machine)
        _configuration(config, record)
        backend = _backend(config, question, record)
        layer = _layers(config, backend, record)
        _sizes(config, machine, backend, layer, record)
    except Refusal as refusal:
        return {**vars(record), "refusal": refusal.details}
    return vars(record)


class Refusal(Exception):  # noqa: N818  (what vLLM does, not a mistake of ours)
    """vLLM raised: `details` has the called function, the type and the text."""

    def __init__(self, function: str, error: Exception) -> None:
        super().__init__(str(error))
        self.details = {"by": function, "type": type(error).__name__, "message": str(error)}


class AnswerRecord:
    """The functions called, and the answers so far: what is sent."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.functions: list[str] = []
        self.unanswered: dict[str, str] = {}

    def call(self, name: str, function: Callable[..., Any], *given: Any) -> Any:
        """Call `function`; Refusal if it raises what vLLM raises on purpose."""
        self.functions.append(name)
        try:
            return function(*given)
        except (ValueError, AssertionError, NotImplementedError, RuntimeError) as error:
            if NO_DEVICE in str(error):
                raise CannotAnswer(f"{name} needs the device itself: {error}") from error
            raise Refusal(name, error) from error


def _dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _configuration(config: Any, record: AnswerRecord) -> None:
    model, cache = config.model_config, config.cache_config
    record.functions += ["ModelConfig", "CacheConfig", "SchedulerConfig"]
    record.answers.update(
        is_hybrid=model.is_hybrid,
        use_mla=model.use_mla,
        model_dtype=_dtype(model.dtype),
        kv_cache_dtype=cache.cache_dtype,
        max_model_len=model.max_model_len,
        max_num_batched_tokens=config.scheduler_config.max_num_batched_tokens,
        max_num_seqs=config.scheduler_config.max_num_seqs,
        enable_prefix_caching=bool(cache.enable_prefix_caching),
        mamba_cache_mode=cache.mamba_cache_mode,
        mamba_cache_dtype=cache.mamba_cache_dtype,
        mamba_ssm_cache_dtype=cache.mamba_ssm_cache_dtype,
    )


def _backend(config: Any, question: dict[str, Any], record: AnswerRecord) -> Any:
    """Return the backend class of the attention layers; None if there are none."""
    model = config.model_config
    if model.is_attention_free:
        record.answers.update(backend=None, num_kv_heads_per_rank=None, head_size=None)
        return None
    heads = record.call(
        "ModelConfig.get_num_kv_heads", model.get_num_kv_heads, config.parallel_config
    )
    record.answers.update(num_kv_heads_per_rank=heads, head_size=model.get_head_size())
    backend, name, reason = record.call("get_attn_backend", backend_of, config, question)
    if reason is not None and NO_DEVICE in reason:
        raise CannotAnswer(f"get_attn_backend needs the device itself: {reason}")
    record.answers.update(backend=name, backend_refused=reason is not None)
    if reason is not None:
        record.answers["backend_reason"] = reason
    if backend is None:
        raise Refusal("get_attn_backend", ValueError(reason))
    return backend


def _layers(config: Any, backend: Any, record: AnswerRecord) -> Any:
    model = config.model_config
    state_layer = None
    if model.is_hybrid or model.is_attention_free:
        state_layer = state_layer_class(model_class(config))
        if state_layer is None:
            none = "no SSM layer class was found in the model's modules"
            record.unanswered["mamba_backend"] = none
    layer = stand_ins(config, backend, state_layer)
    mamba = config.compilation_config.static_forward_context.get("layers.0.mixer")
    if mamba is not None:
        _states(mamba, record)
    return layer


def _states(mamba: Any, record: AnswerRecord) -> None:
    from vllm.v1.kv_cache_interface import MambaSpec

    shapes = record.call("get_mamba_state_shape_from_config", mamba.get_state_shape)
    dtypes = record.call("get_mamba_state_dtype_from_config", mamba.get_state_dtype)
    spec = MambaSpec(shapes=tuple(shapes), dtypes=tuple(dtypes), block_size=-1)
    record.functions.append("MambaSpec.page_size_bytes")
    backend = record.call("get_mamba_attn_backend", mamba.get_attn_backend)
    record.answers.update(
        mamba_backend=backend.get_name(),
        mamba_state_shapes=[list(shape) for shape in shapes],
        mamba_state_dtypes=[_dtype(dtype) for dtype in dtypes],
        mamba_page_size_bytes=spec.page_size_bytes,
    )


def _sizes(config: Any, machine: Machine, backend: Any, layer: Any, record: AnswerRecord) -> None:
    from vllm.config import set_current_vllm_config

    cache = config.cache_config
    update = machine.platform.update_block_size_for_backend
    with _lines() as lines, _locals_of(ALIGNMENT) as found:
        record.call("Platform.update_block_size_for_backend", update, config)
    record.answers.update(
        block_size=cache.block_size,
        mamba_block_size=cache.mamba_block_size,
        mamba_page_size_padded=cache.mamba_page_size_padded,
        log_lines=lines,
        **{ours: found[theirs] for theirs, ours in LOCALS.items() if theirs in found},
    )
    if layer is not None:
        with set_current_vllm_config(config):
            _kernel_block(config, backend, layer, record)
    record.answers["validate_block_size_error"] = None
    try:
        record.call("VllmConfig.validate_block_size", config.validate_block_size)
    except Refusal as refusal:
        record.answers["validate_block_size_error"] = refusal.details["message"]


def _kernel_block(config: Any, backend: Any, layer: Any, record: AnswerRecord) -> None:
    from vllm.v1.worker.utils import select_common_block_size

    sizes = backend.get_supported_kernel_block_sizes()
    spec = record.call("Attention.get_kv_cache_spec", layer.get_kv_cache_spec, config)
    record.answers.update(
        supported_kernel_block_sizes=[
            size if isinstance(size, int) else f"MultipleOf({size.base})" for size in sizes
        ],
        attention_page_size_bytes=spec.page_size_bytes,
    )
    record.functions += ["AttentionBackend.get_supported_kernel_block_sizes", type(spec).__name__]
    if backend.get_name() in STORES_PACKED:
        why = "the constructor of the MLA layer decides it, and none is built"
        for field in DECIDED_BY_LAYER:
            del record.answers[field]
            record.unanswered[field] = why
    block = config.cache_config.block_size
    record.answers["kernel_block_size"] = None
    with suppress(Refusal):
        kernel = record.call("select_common_block_size", select_common_block_size, block, [backend])
        record.answers["kernel_block_size"] = kernel


@contextmanager
def _lines() -> Iterator[list[str]]:
    """Collect what vLLM logs meanwhile, from `info` upwards."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            with suppress(TypeError):  # as in logging itself, a line that cannot be made is lost
                lines.append(record.getMessage())

    logger, keep = logging.getLogger("vllm"), Keep(logging.INFO)
    logger.addHandler(keep)
    try:
        yield lines
    finally:
        logger.removeHandler(keep)


@contextmanager
def _locals_of(function: str) -> Iterator[dict[str, Any]]:
    """Collect the integers among a function's own variables when it returns."""
    found: dict[str, Any] = {}

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "return" and frame.f_code.co_name == function:
            local = frame.f_locals
            found.update({name: local[name] for name in local if isinstance(local[name], int)})

    sys.setprofile(profile)
    try:
        yield found
    finally:
        sys.setprofile(None)
