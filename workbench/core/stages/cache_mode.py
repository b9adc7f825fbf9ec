"""Prefix caching and the cache mode: what vLLM makes of them when it verifies the model."""

from workbench.core.batch_defaults import chunks_prompts
from workbench.core.groups.cache_spec import GAP_SPEC
from workbench.core.model import Model
from workbench.core.pooling import pools
from workbench.core.stages.refusals import BLOCK_WITHOUT_CACHING
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

PREFIX_CACHING = Rule(
    "enable_prefix_caching",
    "Prefix caching",
    "the explicit choice, else off for hybrid, attention-free and encoder-decoder models, on for "
    "others",
)
PREFIX_CACHING_OF_MODEL = PREFIX_CACHING._replace(
    formula="the explicit choice, else off for attention-free and encoder-decoder models, on for "
    "others"
)
ALIGN_MODE_ONLY = Rule(
    "mamba_cache_mode", "Mamba cache mode", 'prefix caching off: none; on and none: "align"'
)
CPU_MLA_PREFIX_CACHING = Rule("cpu_mla_prefix_caching", "Prefix caching of CPU_MLA", "off")
CACHE_MODE = ALIGN_MODE_ONLY._replace(
    formula='prefix caching off: none; on and none: "all" if the model can, else "align"'
)


def enable_prefix_caching(run: WorkingPlan) -> None:
    """Resolve whether prefix caching is on."""
    explicit = run.settings.enable_prefix_caching
    model = run.model
    ordinary = not (model.is_hybrid or model.is_attention_free or model.is_encoder_decoder)
    # 0.23 calls it experimental for hybrids and leaves it off unless it is requested
    # (ModelConfig.is_prefix_caching_supported).
    default = ordinary or (model.is_hybrid and run.rules.hybrid_prefix_caching)
    if model.pooling is not None and pools(model.pooling):
        # As a decoder, whatever its layers are (ModelConfig.attn_type, 0.23 and 0.33).
        default = model.pooling.takes_steps
    # UnlimitedOCRForCausalLMConfig, 0.33, whatever is set
    keeps = model.attention is None or model.attention.full_spec != GAP_SPEC
    run.enable_prefix_caching = keeps and (default if explicit is None else explicit)
    rule = PREFIX_CACHING_OF_MODEL if run.rules.hybrid_prefix_caching else PREFIX_CACHING
    run.step(rule, run.enable_prefix_caching, explicit=explicit, ordinary_decoder=ordinary)


def cache_mode(run: WorkingPlan) -> None:
    """Resolve the cache mode and the mamba block size that alignment starts from."""
    explicit, model = run.settings.mamba_cache_mode or "none", run.model
    if model.is_hybrid or model.is_attention_free:
        resolve_cache_mode(run, model)
        return
    # 0.23 leaves the field as it is for models without states, where nothing reads it
    run.mamba_cache_mode = explicit if run.rules.reads_cache_mode else "none"
    if run.mamba_cache_mode != explicit:
        run.step(ALIGN_MODE_ONLY, "none", "the model keeps no states", explicit=explicit)


def resolve_cache_mode(run: WorkingPlan, model: Model) -> None:
    """Resolve the mode and the block of a cache that has states of this model."""
    explicit = run.settings.mamba_cache_mode or "none"
    modes = run.rules.cache_modes
    # SupportsMambaPrefixCaching of the model class; 0.33 has align mode alone
    able = model.supports_all_mode and "all" in modes
    note = ""
    if not run.enable_prefix_caching:
        mode = "none"
        if explicit != "none":
            note = "a mode was requested, but prefix caching is off"
            run.log("Mamba cache mode is set to 'none' when prefix caching is disabled")
    # Prefix caching with mode none would find nothing, so that vLLM picks a mode.
    elif explicit == "none":
        mode = "all" if able else "align"
        note = "chosen by the engine"
        run.log(
            f"Mamba cache mode is set to '{mode}' for {model.architecture} by default when "
            "prefix caching is enabled"
        )
    elif explicit == "all" and not able:
        mode = "align"
        note = "the model cannot keep a state per block"
        run.log(
            "Hybrid or mamba-based model detected without support for prefix caching with Mamba "
            "cache 'all' mode: falling back to 'align' mode."
        )
    else:
        mode = explicit
    run.mamba_cache_mode = mode
    # MambaModelConfig.verify_and_update_config, 0.23 and 0.33
    if mode == "align" and not chunks_prompts(run):
        _whole_prompts(run)
    # Without prefix caching nothing is kept at block ends, so that one block of the longest
    # request's length is enough (MambaModelConfig.verify_and_update_config).
    # An explicit block stays here and is tested later (validate_mamba_block_size).
    if run.mamba_block_size is None:
        run.mamba_block_size = run.block_size if run.enable_prefix_caching else run.max_model_len
    operands = {"explicit": explicit, "enable_prefix_caching": run.enable_prefix_caching}
    if "all" in modes:
        operands["model_supports_all"] = able
    run.step(
        CACHE_MODE if "all" in modes else ALIGN_MODE_ONLY,
        mode,
        note,
        **operands,
        mamba_block_size=run.mamba_block_size,
    )


def _whole_prompts(run: WorkingPlan) -> None:
    in_all = "all" in run.rules.cache_modes
    required = "mamba cache mode 'align'" if in_all else "Mamba prefix caching"
    run.problem(
        "chunked_prefill_required",
        operands={"mamba_cache_mode": "align", "enable_chunked_prefill": False},
        required=required,
    )


def cpu_mla_prefix_caching(run: WorkingPlan) -> None:
    """Turn prefix caching off for the plain MLA kernels of a CPU, which read no prefixes (0.33)."""
    attention = run.model.attention
    if (
        run.settings.backend != "CPU_MLA"
        or run.platform.name != "cpu"
        or not run.enable_prefix_caching
    ):
        return
    if attention is None or not attention.use_mla:
        return
    run.enable_prefix_caching = False
    run.step(CPU_MLA_PREFIX_CACHING, False, explicit=run.settings.enable_prefix_caching)
    # the block of align mode was set before caching went off, and is then refused as if explicit
    if run.mamba_block_size is None or run.mamba_block_size == run.max_model_len:
        return
    raise run.refusal(
        "cpu_mla_without_prefix_caching",
        operands={"backend": "CPU_MLA", "mamba_block_size": run.mamba_block_size},
        vllm_text=BLOCK_WITHOUT_CACHING,
    )
