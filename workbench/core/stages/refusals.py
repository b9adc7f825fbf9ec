"""What refuses a configuration before any size exists; nothing after the first one is computed.

Source: argument parsing, ModelConfig and VllmConfig checks of vLLM 0.23, in their order.
"""

from workbench.core.architectures import MODEL_REGISTRIES, versions_running, versions_with
from workbench.core.arithmetic import cdiv
from workbench.core.backends import UNQUANTIZED
from workbench.core.built import has_plain_kinds
from workbench.core.dtypes import NVFP4_DTYPES, PACKED_DTYPES
from workbench.core.model import DEFAULT_MAX_MODEL_LEN, SSM
from workbench.core.platforms import is_sm10x
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

MAX_MODEL_LEN = Rule(
    "max_model_len",
    "Max model length L",
    "the explicit length, else the length derived from config.json, else 2048",
    "tokens",
)
KV_CACHE_DTYPE = Rule(
    "kv_cache_dtype",
    "KV-cache dtype",
    "the explicit dtype, else what a ModelOpt checkpoint requests; some models write over it",
)
STORED_IN_BFLOAT16 = frozenset({"DeepseekV32ForCausalLM"})
"""Architectures for which bfloat16 is only another name for auto, whatever the model's dtype."""
TRANSFORMERS_HINT = " vLLM may run it through Transformers, as a model without states."
# Raised by VllmConfig.validate_mamba_block_size
BLOCK_WITHOUT_CACHING = "--mamba-block-size can only be set with --enable-prefix-caching"
VOCABULARY_PADDING = 64
"""Tokens: rows of the embedding are a multiple of it."""


def xpu_batch_invariance(run: WorkingPlan) -> None:
    """Refuse batch invariance on XPU with quantized weights or KV cache (0.33)."""
    # Source: XPUPlatform.check_and_update_config.
    if not run.settings.batch_invariant or run.platform.name != "xpu":
        return
    method, dtype = run.model.quantization, run.kv_cache_dtype
    if method is None and dtype in UNQUANTIZED:
        return
    what = f"weights quantized with {method}" if method else f"kv_cache_dtype = {dtype}"
    kind = "supports only unquantized models" if method else "does not support quantized KV caches"
    raise run.refusal(
        "xpu_batch_invariance",
        operands={"quantization": method, "kv_cache_dtype": dtype},
        candidates=[{"batch_invariant": False}, *({"kv_cache_dtype": "auto"},) * (not method)],
        what=what,
        kind=kind,
    )


def max_model_len(run: WorkingPlan) -> None:
    """Resolve L and refuse one that is longer than the model."""
    explicit, derived = run.settings.max_model_len, _derived_length(run)
    if explicit == -1 and derived is None:
        raise run.refusal(
            "max_model_len_not_limited",
            operands={"max_model_len": explicit},
            default_max_model_len=DEFAULT_MAX_MODEL_LEN,
        )
    run.max_model_len = _own_length(run)
    if explicit is not None and derived is not None and explicit > derived:
        raise run.refusal(
            "max_model_len_too_long",
            operands={"max_model_len": explicit, "derived_max_model_len": derived},
            candidates=[{"max_model_len": derived}],
        )
    run.step(MAX_MODEL_LEN, run.max_model_len, explicit=explicit, derived=derived)


def _derived_length(run: WorkingPlan) -> int | None:
    """Return the longest request that the model's config.json allows."""
    model, stretched = run.model, run.rules.yarn_stretches
    derived = model.derived_max_model_len if stretched else model.yarn_as_written
    if (model.whole_model_type or model.model_type) in run.rules.completes_lengths:
        derived = model.class_max_model_len or derived
    return derived


def _own_length(run: WorkingPlan) -> int:
    """Return the longest request, before a draft model limits it."""
    explicit = run.settings.max_model_len
    if explicit is not None and explicit != -1:
        return explicit
    return run.model.default_max_model_len or _derived_length(run) or DEFAULT_MAX_MODEL_LEN


def kv_cache_dtype(run: WorkingPlan) -> None:
    """Resolve the KV dtype; TurboQuant on a hybrid needs layers it can name."""
    if run.settings.kv_cache_dtype == "auto":
        run.kv_cache_dtype = run.model.kv_cache_dtype
    # DeepseekV32ForCausalLM.verify_and_update_config
    if run.kv_cache_dtype == "bfloat16" and run.model.architecture in STORED_IN_BFLOAT16:
        run.kv_cache_dtype = "auto"
    if run.kv_cache_dtype == "auto" and is_sm10x(run):
        run.kv_cache_dtype = run.rules.sm10x_kv_cache_dtypes.get(run.model.architecture, "auto")
    run.step(
        KV_CACHE_DTYPE,
        run.kv_cache_dtype,
        explicit=run.settings.kv_cache_dtype,
        checkpoint=run.model.kv_cache_dtype,
    )
    # the first and the last attention layers stay unquantized, so it must know which they are
    is_packed = run.kv_cache_dtype in PACKED_DTYPES
    if is_packed and run.model.is_hybrid and not run.model.names_attention_layers:
        raise run.refusal(
            "turboquant_layers_not_identifiable",
            operands={"kv_cache_dtype": run.kv_cache_dtype, "family": run.model.family},
        )


def tensor_parallel(run: WorkingPlan) -> None:
    """Refuse attention heads that do not split evenly; KV heads are not tested."""
    heads, tp = run.model.total_num_attention_heads, run.settings.tensor_parallel
    if heads % tp:
        # Heads of queries only: too few heads of keys and values are copied to several ranks.
        valid = [n for n in range(1, min(heads, 1024) + 1) if heads % n == 0]
        nearest, *others = sorted(valid, key=lambda n: (abs(n - tp), -n))
        raise run.refusal(
            "heads_not_divisible",
            operands={"num_attention_heads": heads, "tensor_parallel": tp},
            candidates=[{"tensor_parallel": n} for n in (nearest, *others)],
            vllm_text=heads_text(heads, tp),
            nearest=nearest,
            valid=", ".join(map(str, valid[:12])),
        )


def heads_text(heads: int, ranks: int) -> str:
    """Return what ModelConfig.verify_with_parallel_config raises."""
    return (
        f"Total number of attention heads ({heads}) must be divisible by tensor parallel size "
        f"({ranks})."
    )


def vocabulary_split(run: WorkingPlan) -> None:
    """Refuse a vocabulary whose padded size does not split evenly: the first layer that is built.

    Source: `VocabParallelEmbedding.__init__`, 0.23 and 0.33.
    """
    tokens, tp = run.model.vocab_size, run.settings.tensor_parallel
    if tokens is None:
        return
    # Ranks divide the padded rows, so that an odd number of tokens is not refused.
    padded = cdiv(tokens, VOCABULARY_PADDING) * VOCABULARY_PADDING
    if padded % tp == 0:
        return
    valid = [n for n in range(tp - 1, 0, -1) if padded % n == 0]
    raise run.refusal(
        "vocabulary_not_divisible",
        operands={"vocab_size": tokens, "padded": padded, "tensor_parallel": tp},
        candidates=[{"tensor_parallel": n} for n in valid],
        valid=valid,
    )


def nvfp4_with_mla(run: WorkingPlan) -> None:
    """Refuse nvfp4 with MLA, as far as the configuration says that there is any."""
    attention = run.model.counted
    if run.kv_cache_dtype in NVFP4_DTYPES and attention is not None and attention.use_mla:
        raise run.refusal("nvfp4_with_mla", operands={"kv_cache_dtype": run.kv_cache_dtype})


def served_architecture(run: WorkingPlan) -> None:
    """Refuse architectures that this version has no code for, or none for the model_type."""
    model, known = run.model, run.rules.model_registry.base_classes
    kind = model.whole_model_type or model.model_type
    if model.pooling is not None and model.pooling.is_assumed and kind not in known:
        raise run.refusal(
            "architecture_not_named",
            operands={"model_type": kind},
            candidates=[
                {"rules": version}
                for version, other in MODEL_REGISTRIES.items()
                if kind in other.base_classes
            ],
        )
    if not _run_by_transformers(run):
        _require_served(run)


def native_architecture(run: WorkingPlan) -> None:
    """Refuse unserved architectures that Transformers runs, unless all layers are plain ones."""
    if _run_by_transformers(run) and not has_plain_kinds(run.model):
        _require_served(run)


def _run_by_transformers(run: WorkingPlan) -> bool:
    return run.model.architecture in run.rules.model_registry.run_by_transformers


def _require_served(run: WorkingPlan) -> None:
    """Refuse what this version's registry lacks and another one is known to have."""
    # What no registry knows comes from a reader that the user registered.
    name, registry = run.model.architecture, run.rules.model_registry
    if run.model.pooling is not None and versions_with(run.model.pooling.name):
        name = run.model.pooling.name  # a class that a release serves by its own name
    elsewhere = versions_with(name)
    if not (elsewhere or _run_by_transformers(run)):
        elsewhere = versions_running(name)
    last = registry.last_versions.get(name)
    if registry.has(name) or not elsewhere:
        return
    has = (
        f"vLLM {' and '.join(elsewhere)} has it"
        if last is None
        else (f"vLLM {last.removesuffix('.0')} was the last with one")
    )
    hint = TRANSFORMERS_HINT if _run_by_transformers(run) else ""
    raise run.refusal(
        "architecture_not_served",
        operands={"architecture": name, "versions": list(elsewhere), "last_version": last},
        candidates=[{"rules": version} for version in reversed(elsewhere)],
        vllm_text=_transformers_text(run) if hint else _registry_text(name, last),
        has=has,
        hint=hint,
        newest=elsewhere[-1],
    )


def _transformers_text(run: WorkingPlan) -> str | None:
    """Return what the models that Transformers runs say of layers with a state."""
    if all(layer.kind != SSM for layer in run.model.layers):
        return None
    return ") does not dispatch through the Transformers attention interface"


def _registry_text(name: str, last: str | None) -> str:
    """Return how vLLM's own message begins, from `_raise_for_unsupported` of 0.23 and 0.33."""
    if last is None:
        return f"Model architectures ['{name}'] are not supported for now."
    return f"Model architecture {name} was supported in vLLM until v{last}"


def mamba_block_size(run: WorkingPlan) -> None:
    """Refuse a mamba block size without prefix caching, unless it is the longest request."""
    explicit = run.settings.mamba_block_size
    if explicit in (None, run.max_model_len) or run.enable_prefix_caching:
        state_block_of_draft(run, run.max_model_len)
        return
    raise run.refusal(
        "mamba_block_size_without_prefix_caching",
        operands={"mamba_block_size": explicit, "max_model_len": run.max_model_len},
        vllm_text=BLOCK_WITHOUT_CACHING,
    )


def state_block_of_draft(run: WorkingPlan, draft_length: int) -> None:
    """Stop at a state block of the target's longest request where a draft model follows less.

    draft_length: the longest request of the configuration that vLLM checks, in tokens.
    """
    # MambaModelConfig sets the block before `_limit_max_model_len_to_draft` (0.33), and
    # DraftModelProposer of the V1 runner puts the draft model into a copy of the configuration.
    model, block = run.model, run.settings.mamba_block_size or _own_length(run)
    has_block = model.is_hybrid or model.is_attention_free
    if not has_block or run.enable_prefix_caching or draft_length == block:
        return
    run.problem(
        "state_block_exceeds_draft",
        operands={"mamba_block_size": block, "draft_max_model_len": draft_length},
        candidates=({"enable_prefix_caching": True}, {"max_model_len": draft_length}),
        vllm_text=BLOCK_WITHOUT_CACHING,
    )
