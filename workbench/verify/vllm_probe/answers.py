"""Answer one question, function by function, in the order of vLLM's start-up."""

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from . import models, planning
from .configuration import build
from .machine import CannotAnswer, Machine

ALIGNMENT = "_align_hybrid_block_size"
"""vLLM's function whose intermediate numbers are read when it returns."""
NO_DEVICE = ("Torch not compiled with CUDA enabled", "requires a CUDA device.")
"""Messages if a real device was needed: these are not answers of vLLM."""
MISSING_PARTS = ("'PPMissingLayer' object has no attribute", "Target model does not have '")
"""Of what a pipeline stage lacks, or a target whose embedding a head is to have, on every machine.
"""
LOCALS = {
    "attn_page_size_1_token": "attention_bytes_per_token",
    "mamba_page_size": "mamba_page_size_bytes",
}
REFUSALS = (
    *(ValueError, AssertionError, NotImplementedError, RuntimeError),
    *(ZeroDivisionError, IndexError),
)
"""What vLLM raises on purpose, or where a size is impossible or a list too short."""
STRICT = "StrictDataclassClassValidationError"
"""What a configuration class of transformers raises when values do not go together."""
NOT_VLLM = ("/torch/", "/triton/", "/vllm_probe/", "<frozen importlib")
"""Places whose errors say that this machine lacks something, not that vLLM refuses."""


def answer(question: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """Return vLLM's answers: "answers" (by field), "functions" (called), "refusal", "unanswered".

    Sizes in tokens or bytes, per rank. A refusal ends the questions that need what was refused.
    """
    record = AnswerRecord()
    try:
        config = record.call("EngineArgs.create_engine_config", build, question, machine)
        _configuration(config, record)
        ranks = _built(config, record)
        if ranks is not None:
            _planned(config, ranks, machine, question["ranks_bytes"], record)
    except Refusal as refusal:
        return {**vars(record), "refusal": refusal.details}
    return vars(record)


class Refusal(Exception):  # noqa: N818  (what vLLM does, not a mistake of ours)
    """vLLM raised: `details` has the called function, the type, the text and the place."""

    def __init__(self, function: str, error: Exception) -> None:
        super().__init__(str(error))
        self.details = {
            "by": function,
            "type": type(error).__name__,
            "message": str(error),
            "place": _where(error),
        }


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
        except Exception as error:
            if not isinstance(error, REFUSALS) and type(error).__name__ != STRICT:
                raise
            if str(error).endswith(NO_DEVICE) or _raised_outside(error):
                raise CannotAnswer(f"{name} needs the device itself: {_place(error)}") from error
            raise Refusal(name, error) from error


def _raised_outside(error: Exception) -> bool:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return any(part in last.filename for part in NOT_VLLM)


def _place(error: BaseException) -> str:
    """Return the error and where in vLLM it came up."""
    where = _where(error)
    return f"{type(error).__name__}: {error}" + (f" ({where})" if where else "")


def _where(error: BaseException) -> str:
    """Return the last place inside vLLM; empty if the error did not pass through it."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "/vllm/" in frame.filename
    ]
    if not frames:
        return ""
    return f"{frames[-1].filename.rpartition('/vllm/')[2]}, line {frames[-1].lineno}"


def _dtype(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _configuration(config: Any, record: AnswerRecord) -> None:
    model, cache, speculative = config.model_config, config.cache_config, config.speculative_config
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
        async_scheduling=bool(config.scheduler_config.async_scheduling),
        model_runner="v2" if config.use_v2_model_runner else "v1",
        speculative_method=speculative and speculative.method,
        drops_a_block=bool(speculative and speculative.use_eagle()),
        hash_lookahead_tokens=getattr(config, "num_hash_lookahead_tokens", None),
        num_kv_heads_per_rank=None,
        head_size=None,
    )
    if not model.is_attention_free:
        record.answers["num_kv_heads_per_rank"] = record.call(
            "ModelConfig.get_num_kv_heads", model.get_num_kv_heads, config.parallel_config
        )
        record.answers["head_size"] = model.get_head_size()


def _built(config: Any, record: AnswerRecord) -> list[models.Rank] | None:
    """Return the first rank of every stage; None, and why, where no model can be built here."""
    try:
        built: list[models.Rank] = record.call("get_model", models.ranks, config)
    except (CannotAnswer, ImportError, AttributeError, TypeError, KeyError) as error:
        if isinstance(error, AttributeError) and str(error).startswith(MISSING_PARTS):
            raise Refusal("get_model", error) from error
        why = str(error) if isinstance(error, CannotAnswer) else _place(error)
        record.unanswered["model"] = f"the model cannot be built here: {why}"
        return None
    return built


def _planned(
    config: Any,
    ranks: list[models.Rank],
    machine: Machine,
    ranks_bytes: list[int] | None,
    record: AnswerRecord,
) -> None:
    """Answer about the cache: sizes of the first rank with attention layers, then all ranks."""
    from vllm.config import set_current_vllm_config

    first = next((rank for rank in ranks if rank.first_layers[0] is not None), ranks[0])
    attention, state = first.first_layers
    layers = first.config.compilation_config.static_forward_context
    with set_current_vllm_config(first.config):
        _layers(first.config, layers.get(attention), layers.get(state), record)
    _sizes(first.config, machine, layers.get(attention), record)
    for rank in ranks:
        if rank is not first:
            function = machine.platform.update_block_size_for_backend
            record.call("Platform.update_block_size_for_backend", function, rank.config)
    _cache(config, ranks, ranks_bytes, record)
    specs = first.specs
    if attention in specs:
        record.answers["attention_page_size_bytes"] = max(
            specs[name].page_size_bytes for name in _of_same_attention(layers, attention, specs)
        )


def _of_same_attention(layers: Any, attention: str, specs: Any) -> list[str]:
    """Return the layers that differ from this one only in how many tokens a vector is of."""
    # Layers of DeepSeek-V4 have pages of several sizes: a plan has the largest.
    own = layers[attention]
    if not hasattr(own, "compress_ratio"):
        return [attention]
    return [name for name, spec in specs.items() if type(layers[name]) is type(own)]


def _layers(config: Any, attention: Any, state: Any, record: AnswerRecord) -> None:
    record.answers.update(
        kv_cache_dtype=config.cache_config.cache_dtype,  # an MLA layer may change it
        backend=attention and models.registered_name(attention.get_attn_backend()),
    )
    if state is None:
        return
    from vllm.v1.kv_cache_interface import MambaSpec

    record.functions += ["MambaBase.get_state_shape", "MambaBase.get_state_dtype"]
    shapes, dtypes = tuple(state.get_state_shape()), tuple(state.get_state_dtype())
    record.answers.update(
        layer_state_shapes=[list(shape) for shape in shapes],
        mamba_state_dtypes=[_dtype(dtype) for dtype in dtypes],
        layer_state_bytes=MambaSpec(shapes=shapes, dtypes=dtypes, block_size=-1).page_size_bytes,
    )
    backend = record.call("MambaBase.get_attn_backend", state.get_attn_backend)
    record.answers["mamba_backend"] = backend.get_name()


def _sizes(config: Any, machine: Machine, attention: Any, record: AnswerRecord) -> None:
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
    if attention is not None:
        with set_current_vllm_config(config):
            _kernel_block(config, attention.get_attn_backend(), record)
    record.answers["validate_block_size_error"] = None
    try:
        record.call("VllmConfig.validate_block_size", config.validate_block_size)
    except Refusal as refusal:
        record.answers["validate_block_size_error"] = refusal.details["message"]


def _kernel_block(config: Any, backend: Any, record: AnswerRecord) -> None:
    from vllm.v1.worker.utils import select_common_block_size

    sizes = backend.get_supported_kernel_block_sizes()
    record.functions.append("AttentionBackend.get_supported_kernel_block_sizes")
    record.answers["supported_kernel_block_sizes"] = [
        size if isinstance(size, int) else f"MultipleOf({size.base})" for size in sizes
    ]
    block = config.cache_config.block_size
    record.answers["kernel_block_size"] = None
    with suppress(Refusal):
        kernel = record.call("select_common_block_size", select_common_block_size, block, [backend])
        record.answers["kernel_block_size"] = kernel


def _cache(
    config: Any, ranks: list[models.Rank], ranks_bytes: list[int] | None, record: AnswerRecord
) -> None:
    from vllm.config import set_current_vllm_config

    initialize = "EngineCore._initialize_kv_caches"
    for rank in ranks:
        with set_current_vllm_config(rank.config):
            collect = "GPUModelRunner.get_kv_cache_spec"
            rank.specs = record.call(collect, models.specs_of, rank)
    with set_current_vllm_config(config):
        found = record.call(initialize, planning.plan, config, ranks, ranks_bytes)
    record.answers.update(found)


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
