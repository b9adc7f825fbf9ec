"""What layers, scheduler and platform say once the sizes are known: refusals and advice."""

from workbench.core.batch_defaults import depends_on_device
from workbench.core.built import TRANSFORMERS, module_of_layers
from workbench.core.groups.cache_spec import SINK_SPEC
from workbench.core.media import sees_whole
from workbench.core.model import Attention
from workbench.core.online import scale_methods
from workbench.core.problems import ERROR, WARNING
from workbench.core.rule_set import RULE_SETS
from workbench.core.stages.refusals import BLOCK_WITHOUT_CACHING
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

ALIGN_BUDGET = Rule(
    "align_budget",
    "Block fits into the batched tokens",
    "align mode needs block_size <= max_num_batched_tokens",
)
NVFP4_MAJOR = 10
MIXED, COMPRESSED = "modelopt_mixed", "compressed-tensors"
SQUARE_ROOTS = frozenset({"Step1ForCausalLM"})
"""Architectures with `use_alibi_sqrt`."""
NEVER_REPLICATED = {
    "GptOssForCausalLM": "integer modulo by zero",
    "Param2MoEForCausalLM": "must be divisible by tensor-parallel world size (",
    SINK_SPEC: "KV heads replication is not support yet.",
}
"""Architectures, or caches, whose attention has no KV head left where there are more ranks than
heads -> what vLLM says then."""
BY_LINEAR = "{larger} is not divisible by {smaller}"
BY_QUERIES = "is not divisible by num_kv_heads ("
DIVISION_TEXTS = {
    **dict.fromkeys(("bailing_moe", "gpt_oss"), (BY_LINEAR, BY_LINEAR)),
    "openpangu": (
        "total_num_kv_heads {larger} is not divisible by tp_size {smaller}.",
        "tp_size {larger} is not divisible by total_num_kv_heads {smaller}.",
    ),
}
"""Module -> what it says to KV heads that ranks can neither have evenly nor copy evenly; the
first ones leave that to the layer of queries, keys and values. Others assert it without a word."""


def group_replication(run: WorkingPlan) -> None:
    """Refuse groups that the Mamba-2 layer can neither split nor replicate whole."""
    state, tp = run.model.state, run.settings.tensor_parallel
    groups = getattr(state, "n_groups", 1)
    # one group is copied to every rank; several are split evenly or not at all (MambaMixer2)
    if not getattr(state, "checks_groups", False) or groups % tp == 0 or groups == 1:
        return
    run.problem(
        "n_groups_not_divisible",
        operands={"n_groups": groups, "tensor_parallel": tp},
        candidates=tuple({"tensor_parallel": n} for n in range(tp - 1, 0, -1) if groups % n == 0),
    )


def drafted_states(run: WorkingPlan) -> None:
    """Refuse states that draft tokens or their dtype enlarge beyond the page made for them."""
    page, needed = run.mamba_page_size_padded, run.layer_state_bytes
    if run.draft_states is not None and needed is not None:
        _states_of_draft_model(run, run.draft_states.size_bytes)
    # The layer counts the drafts in its convolution, or keeps float32, and MambaSpec asserts that
    # it fits; the alignment asks the model's class, which forgets them for some families.
    if page is None or needed is None or needed <= page:
        return
    drafts, dtype = run.settings.num_speculative_tokens, run.settings.mamba_ssm_cache_dtype
    is_drafted = bool(drafts) and run.layer_state_shapes != run.mamba_state_shapes
    pads = (name for name, rules in RULE_SETS.items() if rules.groups.pads_pages)
    run.problem(
        "drafted_states_outgrow_page" if is_drafted else "states_outgrow_page",
        operands={"needed_bytes": needed, "mamba_page_size_padded": page},
        candidates=({"num_speculative_tokens": 0}, *({"rules": name} for name in pads))
        if is_drafted
        else ({"mamba_ssm_cache_dtype": "auto"},) * (dtype != "auto"),
    )


def _states_of_draft_model(run: WorkingPlan, needed: int) -> None:
    """Refuse a draft model whose states need more than the page made for the target's."""
    page = run.mamba_page_size_padded
    if page is not None and needed > page:
        run.problem(
            "draft_states_outgrow_page",
            operands={"needed_bytes": needed, "mamba_page_size_padded": page},
        )


def nvfp4_generation(run: WorkingPlan) -> None:
    """Refuse nvfp4 with FlashInfer outside SM10x: it is chosen there, but its builder fails."""
    # validate_configuration accepts it on any device; FlashInferMetadataBuilder does not
    if run.backend != "FLASHINFER" or run.kv_cache_dtype != "nvfp4" or run.capability is None:
        return
    if run.capability[0] != NVFP4_MAJOR:
        capability = ".".join(map(str, run.capability))
        run.problem(
            "nvfp4_needs_sm100",
            operands={"kv_cache_dtype": "nvfp4", "compute_capability": capability},
            nvfp4_major=NVFP4_MAJOR,
        )


def e5m2_with_scales(run: WorkingPlan) -> None:
    """Refuse fp8_e5m2 where the checkpoint's quantization keeps scales for the cache."""
    attention, method = run.model.attention, run.model.quantization
    served = run.rules.model_registry.served
    if served.get(run.model.layer_class) in run.rules.quantization.layers_without_scales:
        return
    # ModelOptMixedPrecisionConfig.get_quant_method, and _init_kv_cache_quant of 0.33 for
    # compressed-tensors: only where the file names a KV-cache dtype.
    named = method in {MIXED, COMPRESSED} and run.model.kv_cache_dtype != "auto"
    if run.kv_cache_dtype != "fp8_e5m2" or not (named or method in scale_methods(run)):
        return
    if attention is None or attention.use_mla:  # MLA layers get no scales of a checkpoint
        return
    run.problem(
        "e5m2_with_checkpoint_scales",
        operands={"kv_cache_dtype": run.kv_cache_dtype, "quantization": method},
    )


def kv_head_split(run: WorkingPlan) -> None:
    """Check that KV heads are split or replicated evenly, and shared evenly by the query heads."""
    own, drafter, file = run.model.attention, run.drafter, run.model.drafter
    if own is not None:
        few = NEVER_REPLICATED.get(own.full_spec or run.model.architecture)
        _check_heads(run, own, {}, few, _division_texts(run, own))
    if drafter is not None and drafter.attention != own:
        _check_heads(run, drafter.attention, {"field": "draft_model"})
    if file is not None and file.attention is not None and file.mtp and file.mtp.reads_target:
        _check_heads(run, file.attention, {"field": "draft_model"})


def _check_heads(
    run: WorkingPlan,
    attention: Attention,
    more: dict[str, str],
    few: str | None = None,
    uneven: tuple[str, str] | None = ("", ""),
) -> None:
    """Check how ranks have heads.

    few: what vLLM says to fewer KV heads than ranks, if it does. uneven: what it says to those that
    ranks cannot have evenly, and to those that they cannot copy evenly; None if it takes them.
    """
    tp = run.settings.tensor_parallel
    if attention.use_mla:
        return
    heads, kv_heads = attention.num_heads, attention.num_kv_heads
    if heads % kv_heads:
        run.problem(
            "query_heads_not_divisible",
            operands={"num_heads": heads, "num_kv_heads": kv_heads},
            left=heads % kv_heads,
            **more,
        )
    if kv_heads < tp and few is not None:
        run.problem(
            "kv_heads_not_replicated",
            operands={"num_kv_heads": kv_heads, "tensor_parallel": tp},
            vllm_text=few,
            candidates=tuple(
                {"tensor_parallel": n} for n in range(kv_heads, 0, -1) if heads % n == 0
            ),
        )
        return
    # split where there are more heads than ranks, replicated where fewer: evenly either way
    larger, smaller = max(kv_heads, tp), min(kv_heads, tp)
    if larger % smaller and uneven is not None:
        run.problem(
            "kv_heads_not_divisible",
            operands={"num_kv_heads": kv_heads, "tensor_parallel": tp},
            candidates=tuple(
                {"tensor_parallel": n}
                for n in range(tp - 1, 0, -1)
                if max(kv_heads, n) % min(kv_heads, n) == 0
            ),
            vllm_text=uneven[smaller != tp].format(larger=larger, smaller=smaller),
            **more,
        )


def _division_texts(run: WorkingPlan, own: Attention) -> tuple[str, str] | None:
    """Return what the model's module says to KV heads that ranks cannot have, or copy, evenly.

    None where their number is rounded down instead.
    """
    module, tp = module_of_layers(run.model, run.rules), run.settings.tensor_parallel
    if module != TRANSFORMERS:
        return DIVISION_TEXTS.get(module, ("", ""))
    if run.rules.library_fuses_heads:
        return BY_LINEAR, BY_LINEAR
    # create_attention_instances of transformers/base.py, 0.23
    left = own.num_heads // tp % own.kv_heads_per_rank(tp)
    return (BY_QUERIES, BY_QUERIES) if left else None


def rope_sections(run: WorkingPlan) -> None:
    """Check that the sections of a rotary embedding cover what it rotates."""
    attention = run.model.attention
    covered, rotated = (attention and attention.rope_sections) or (0, 0)
    if covered == rotated:
        return
    run.problem(
        "rope_sections_do_not_add_up", operands={"mrope_section": covered, "rotated_pairs": rotated}
    )


def alibi_square_roots(run: WorkingPlan) -> None:
    """Check that the backend has the square roots of ALiBi that a class requests."""
    # The choice of a backend knows nothing of them (Attention.__init__, 0.23 and 0.33).
    name = run.backend
    if run.model.architecture not in SQUARE_ROOTS or name in {None, "TRITON_ATTN"}:
        return
    run.problem("alibi_sqrt_not_supported", operands={"backend": name})


def mla_prefill(run: WorkingPlan) -> None:
    """Check that a kernel for the prefill of dense latent attention has the model's sizes."""
    # Sparse layers may go without (MLAAttention.__init__, 0.33).
    attention, known = run.model.attention, run.rules.mla_prefill_sizes
    if attention is None or not attention.use_mla or attention.is_sparse or not known:
        return
    own = attention.qk_nope_head_dim, attention.qk_rope_head_dim, attention.v_head_dim
    if own in known or run.platform.name not in {"cuda", "rocm"}:
        return
    run.problem(
        "mla_prefill_not_supported",
        operands=dict(
            zip(("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), own, strict=True)
        ),
        sizes=", ".join(map(str, own)),
        supported="; ".join(", ".join(map(str, sizes)) for sizes in known),
    )


def align_budget(run: WorkingPlan) -> None:
    """Check that a prefill step can hold a whole block in align mode; otherwise it never runs."""
    if run.mamba_cache_mode != "align":
        return
    block, budget = run.block_size, run.max_num_batched_tokens
    run.step(ALIGN_BUDGET, block <= budget, block_size=block, max_num_batched_tokens=budget)
    # align mode cuts steps at ends of blocks: a state is kept there only
    if block <= budget:
        _whole_items(run)
    else:
        unknown = depends_on_device(run, "max_num_batched_tokens")
        run.problem(
            "block_exceeds_token_budget",
            operands={"block_size": block, "max_num_batched_tokens": budget},
            candidates=({"max_num_batched_tokens": block},),
            severity=WARNING if unknown else ERROR,
            unknown=unknown,
        )


def _whole_items(run: WorkingPlan) -> None:
    """Refuse align mode where an image, or what an encoder reads, may not be cut."""
    # disable_chunked_mm_input: SchedulerConfig, and CudaPlatform.check_and_update_config.
    model = run.model
    is_whole = run.platform.name == "cuda" and sees_whole(run, model.attention)
    if model.is_encoder_decoder or is_whole:
        run.problem(
            "items_not_cut",
            operands={"mamba_cache_mode": "align", "architecture": model.architecture},
            model=model,
        )


def cpu_prefix_caching(run: WorkingPlan) -> None:
    """Warn that AMX tiles turn prefix caching off after the state block was chosen."""
    # CpuPlatform.check_and_update_config counts "linear attention": in a model without attention
    # all layers, and those of Zamba2.
    model, state = run.model, run.model.state
    linear = state is not None and state.kind in {"gdn", "linear_attention"}
    counted = linear or model.attention is None or model.family == "zamba2"
    if run.platform.name == "cpu" and counted and run.enable_prefix_caching:
        run.problem(
            "cpu_prefix_caching_off",
            operands={"layers": state.kind if state else None, "mode": run.mamba_cache_mode},
            vllm_text=BLOCK_WITHOUT_CACHING,
        )


def mamba_block_advice(run: WorkingPlan) -> None:
    """Warn about values that 0.23 documents as wrong but does not check."""
    explicit = run.settings.mamba_block_size
    if explicit is None or run.model.state is None or explicit == run.max_model_len:
        return
    chunk = run.model.chunk_size
    # CacheConfig documents both and tests neither
    multiple = chunk if run.mamba_cache_mode == "all" else 8
    if explicit % multiple:
        nearest = max(multiple, round(explicit / multiple) * multiple)
        run.problem(
            "mamba_block_size_not_multiple",
            operands={"mamba_block_size": explicit, "multiple": multiple},
            candidates=({"mamba_block_size": nearest},),
            nearest=nearest,
        )
