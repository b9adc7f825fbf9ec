"""Cache mode and state dtypes: what vLLM makes of them when it verifies the model."""

from __future__ import annotations

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import Refused
from workbench.core.problems import WARNING
from workbench.core.run import Run
from workbench.core.states import KimiDeltaAttention
from workbench.core.trace import Rule

PREFIX_CACHING = Rule(
    "enable_prefix_caching",
    "Prefix caching",
    "the typed choice, else off for hybrid and attention-free models, on for others",
    "",
    "vLLM 0.23, engine argument defaults",
)
PREFIX_CACHING_0_33 = Rule(
    "enable_prefix_caching",
    "Prefix caching",
    "the typed choice, else off for attention-free models, on for others",
    "",
    "vLLM 0.33, ModelConfig.is_prefix_caching_supported",
)
CACHE_MODE_0_33 = Rule(
    "mamba_cache_mode",
    "Mamba cache mode",
    'prefix caching off: none; on and none: "align"',
    "",
    "vLLM 0.33, MambaModelConfig",
)
CPU_MLA_PREFIX_CACHING = Rule(
    "cpu_mla_prefix_caching",
    "Prefix caching of CPU_MLA",
    "off",
    "",
    "vLLM 0.33, CpuPlatform.check_and_update_config",
)
CPU_STATE_DTYPE = Rule(
    "cpu_mamba_ssm_cache_dtype",
    "State dtype on CPU",
    "float32, but a typed 16-bit dtype of a gated delta net stays",
    "",
    "vLLM 0.33, CpuPlatform.check_and_update_config (processors with AVX-512 BF16)",
)
CACHE_MODE = Rule(
    "mamba_cache_mode",
    "Mamba cache mode",
    'prefix caching off: none; on and none: "all" if the model can, else "align"',
    "",
    "vLLM 0.23, verification of mamba-based models",
)
STATE_DTYPE_FIELD = Rule(
    "mamba_ssm_cache_dtype",
    "State dtype written by the model",
    "an auto mamba_ssm_cache_dtype is replaced by what the model ships",
    "",
    "vLLM 0.23, model-specific configuration (Nemotron-H, Qwen3.5)",
)
STATE_PAGE = Rule(
    "mamba_page_size_bytes",
    "Mamba page",
    "sum over states of prod(shape) * bytes(dtype)",
    "bytes",
    "vLLM 0.23, get_mamba_state_shape_from_config and MambaSpec.page_size_bytes",
)
ALIGN_BUDGET = Rule(
    "align_budget",
    "Block fits the token budget",
    "align mode needs block_size <= max_num_batched_tokens",
    "",
    "vLLM 0.23, CacheConfig validate_block_size",
)


def state_dtype_field(run: Run) -> None:
    """Replace an auto `mamba_ssm_cache_dtype`; a typed value always wins."""
    if run.mamba_ssm_cache_dtype == "auto" and run.model.ssm_cache_dtype is not None:
        run.mamba_ssm_cache_dtype = run.model.ssm_cache_dtype
        run.step(
            STATE_DTYPE_FIELD, run.mamba_ssm_cache_dtype, typed="auto", family=run.model.family
        )
    run.float32_state = run.model.is_hybrid and "float32" in (
        run.mamba_cache_dtype,
        run.mamba_ssm_cache_dtype,
    )


def prefix_caching(run: Run) -> None:
    """Resolve whether prefix caching is on."""
    typed = run.settings.enable_prefix_caching
    ordinary = not (run.model.is_hybrid or run.model.is_attention_free)
    default = ordinary or (run.model.is_hybrid and run.rules.hybrid_prefix_caching)
    run.prefix_caching = default if typed is None else typed
    rule = PREFIX_CACHING_0_33 if run.rules.hybrid_prefix_caching else PREFIX_CACHING
    run.step(rule, run.prefix_caching, typed=typed, ordinary_decoder=ordinary)


def cache_mode(run: Run) -> None:
    """Resolve the cache mode and the mamba block size that alignment starts from."""
    typed = run.settings.mamba_cache_mode or "none"
    model = run.model
    if not (model.is_hybrid or model.is_attention_free):
        run.mamba_cache_mode = typed if run.rules.reads_cache_mode else "none"
        if run.mamba_cache_mode != typed:
            run.step(CACHE_MODE_0_33, "none", "the model keeps no states", typed=typed)
        return
    modes = run.rules.cache_modes
    able = model.supports_all_mode and "all" in modes
    note = ""
    if not run.prefix_caching:
        mode = "none"
        if typed != "none":
            note = "a mode was asked for, but prefix caching is off"
            run.log_lines.append(
                "Mamba cache mode is set to 'none' when prefix caching is disabled"
            )
    elif typed == "none":
        mode = "all" if able else "align"
        note = "chosen by the engine"
        run.log_lines.append(
            f"Mamba cache mode is set to '{mode}' for {model.architecture} by default when "
            "prefix caching is enabled"
        )
    elif typed == "all" and not able:
        mode = "align"
        note = "the model cannot keep a state per block"
        run.log_lines.append(
            "Hybrid or mamba-based model detected without support for prefix caching with Mamba "
            "cache 'all' mode: falling back to 'align' mode."
        )
    else:
        mode = typed
    run.mamba_cache_mode = mode
    if run.mamba_block_size is None:
        run.mamba_block_size = run.block_size if run.prefix_caching else run.max_model_len
    operands = {"typed": typed, "enable_prefix_caching": run.prefix_caching}
    if "all" in modes:
        operands["model_supports_all"] = able
    run.step(
        CACHE_MODE if "all" in modes else CACHE_MODE_0_33,
        mode,
        note,
        **operands,
        mamba_block_size=run.mamba_block_size,
    )


def cpu_state_dtype(run: Run) -> None:
    """0.33 on CPU: recurrent states are float32, except where a gated delta net was told else."""
    state, field = run.model.state, run.mamba_ssm_cache_dtype
    if run.platform.name != "cpu" or field == "float32":
        return
    if state is not None and state.kind == "gdn" and field in {"float16", "bfloat16"}:
        return
    run.mamba_ssm_cache_dtype = "float32"
    run.step(
        CPU_STATE_DTYPE,
        run.mamba_ssm_cache_dtype,
        before=field,
        typed=run.settings.mamba_ssm_cache_dtype,
    )


def cpu_mla_prefix_caching(run: Run) -> None:
    """0.33: the plain MLA kernels of a CPU know no prefixes, and states have no block then."""
    attention = run.model.attention
    if run.settings.backend != "CPU_MLA" or run.platform.name != "cpu" or not run.prefix_caching:
        return
    if attention is None or not attention.use_mla:
        return
    run.prefix_caching = False
    run.step(CPU_MLA_PREFIX_CACHING, False, typed=run.settings.enable_prefix_caching)
    if run.mamba_block_size is None or run.mamba_block_size == run.max_model_len:
        return
    raise Refused(
        "cpu_mla_without_prefix_caching",
        "CPU_MLA turns prefix caching off after the cache mode is chosen, and the mamba block of "
        f"{run.mamba_block_size} tokens that came with it is then refused. Switch prefix caching "
        "off, or take AMX_MLA.",
        field="enable_prefix_caching",
        operands={"backend": "CPU_MLA", "mamba_block_size": run.mamba_block_size},
        candidates=[
            {"enable_prefix_caching": False},
            {"backend": "AMX_MLA"},
        ],
        vllm_text="--mamba-block-size can only be set with --enable-prefix-caching",
    )


def states(run: Run) -> None:
    """Shapes, dtypes and bytes of the states of one SSM layer, per rank."""
    model, state = run.model, run.model.state
    if state is None:
        return
    tp = run.settings.tensor_parallel
    drafts = run.settings.num_speculative_tokens
    if not run.rules.counts_drafts(state.kind, model.family):
        drafts = 0
    run.state_shapes = state.shapes(tp, drafts)
    conv = run.model_dtype if run.mamba_cache_dtype == "auto" else run.mamba_cache_dtype
    recurrent = _recurrent_dtype(run, conv)
    run.state_dtypes = (conv, recurrent) if len(run.state_shapes) == 2 else (conv,)
    total = 0
    for shape, dtype in zip(run.state_shapes, run.state_dtypes, strict=True):
        elements = FLOAT_BYTES[dtype]
        for size in shape:
            elements *= size
        total += elements
    run.mamba_page_size_bytes = total
    run.step(
        STATE_PAGE,
        total,
        _ignored(run, drafts),
        kind=state.kind,
        state_shapes=run.state_shapes,
        state_dtypes=run.state_dtypes,
        tensor_parallel=tp,
        draft_tokens=drafts,
    )


def _recurrent_dtype(run: Run, conv: str) -> str:
    typed, allowed = run.mamba_ssm_cache_dtype, run.rules.kda_dtypes
    if not isinstance(run.model.state, KimiDeltaAttention):
        return conv if typed == "auto" else typed
    if typed == "auto" or len(allowed) == 1:
        return allowed[0]
    if typed not in allowed:
        raise Refused(
            "kda_state_dtype",
            f"The recurrent state of Kimi delta attention is kept in {' or '.join(allowed)}; "
            f"mamba_ssm_cache_dtype = {typed} is neither. Nearest valid value: {allowed[-1]}.",
            field="mamba_ssm_cache_dtype",
            operands={"mamba_ssm_cache_dtype": typed, "allowed": list(allowed)},
            candidates=[{"mamba_ssm_cache_dtype": value} for value in ("auto", *allowed)],
            vllm_text=f"KDA recurrent state supports only auto, float32, and bfloat16; got {typed}",
        )
    return typed


def _ignored(run: Run, counted_drafts: int) -> str:
    """What was typed and does not reach this kind of state."""
    notes = []
    typed = run.settings.mamba_ssm_cache_dtype
    if typed not in {"auto", run.state_dtypes[-1]}:
        notes.append(f"mamba_ssm_cache_dtype {typed} does not reach this kind of state")
    if run.settings.num_speculative_tokens != counted_drafts:
        notes.append("draft tokens do not change these shapes")
    return "; ".join(notes)


def group_replication(run: Run) -> None:
    """The Mamba-2 layer itself refuses groups that it can neither split nor replicate whole."""
    state, tp = run.model.state, run.settings.tensor_parallel
    groups = getattr(state, "n_groups", 1)
    if not getattr(state, "checks_groups", False) or groups % tp == 0 or groups == 1:
        return
    run.problem(
        "n_groups_not_divisible",
        "tensor_parallel",
        f"The Mamba-2 layer has n_groups = {groups}, which tensor_parallel = {tp} does not "
        "divide; only a single group is replicated. The sizes shown are what the shape formula "
        "yields, but the layer refuses to be built.",
        operands={"n_groups": groups, "tensor_parallel": tp},
        candidates=tuple({"tensor_parallel": n} for n in range(tp - 1, 0, -1) if groups % n == 0),
    )


def kv_head_split(run: Run) -> None:
    """KV heads are split evenly or replicated evenly, and shared evenly by the query heads."""
    attention, tp = run.model.attention, run.settings.tensor_parallel
    if attention is None or attention.use_mla:
        return
    heads, kv_heads = attention.num_heads, attention.num_kv_heads
    if heads % kv_heads:
        run.problem(
            "query_heads_not_divisible",
            "model",
            f"{heads} attention heads cannot share {kv_heads} KV heads evenly: "
            f"{heads} / {kv_heads} leaves {heads % kv_heads}. The attention layer refuses that.",
            operands={"num_heads": heads, "num_kv_heads": kv_heads},
        )
    larger, smaller = max(kv_heads, tp), min(kv_heads, tp)
    if larger % smaller:
        run.problem(
            "kv_heads_not_divisible",
            "tensor_parallel",
            f"{kv_heads} KV heads can be neither split over nor replicated to "
            f"tensor_parallel = {tp} ranks evenly. The sizes shown are rounded down, as the "
            "formula does, but the attention layer refuses to be built.",
            operands={"num_kv_heads": kv_heads, "tensor_parallel": tp},
            vllm_text=f"{larger} is not divisible by {smaller}",
            candidates=tuple(
                {"tensor_parallel": n}
                for n in range(tp - 1, 0, -1)
                if max(kv_heads, n) % min(kv_heads, n) == 0
            ),
        )


def align_budget(run: Run) -> None:
    """In align mode a prefill step must be able to hold a whole block, else it never runs."""
    if run.mamba_cache_mode != "align":
        return
    block, budget = run.block_size, run.max_num_batched_tokens
    run.step(ALIGN_BUDGET, block <= budget, block_size=block, max_num_batched_tokens=budget)
    if block > budget:
        run.problem(
            "block_exceeds_token_budget",
            "max_num_batched_tokens",
            f"In align mode a step must hold a whole block: block_size = {block} is larger than "
            f"max_num_batched_tokens = {budget}. Nearest valid budget: {block}.",
            operands={"block_size": block, "max_num_batched_tokens": budget},
            vllm_text=f"In Mamba cache align mode, block_size ({block}) must be <= "
            f"max_num_batched_tokens ({budget}).",
            candidates=(
                {"max_num_batched_tokens": block},
                {"mamba_cache_mode": "all"},
                {"mamba_ssm_cache_dtype": "bfloat16"},
                {"enable_prefix_caching": False, "mamba_cache_mode": None},
            ),
        )


def cpu_prefix_caching(run: Run) -> None:
    """AMX tiles: prefix caching goes off for linear attention, after the mode was chosen."""
    state = run.model.state
    linear = state is not None and state.kind in {"gdn", "linear_attention"}
    if run.platform.name == "cpu" and linear and run.prefix_caching:
        run.problem(
            "cpu_prefix_caching_off",
            "enable_prefix_caching",
            "On a CPU with AMX tiles vLLM 0.23 turns prefix caching and chunked prefill off for "
            f"linear-attention layers; the cache mode chosen before that "
            f"({run.mamba_cache_mode}) stays. Switch prefix caching off to see the same sizes.",
            severity=WARNING,
            operands={"layers": state.kind if state else None, "mode": run.mamba_cache_mode},
            candidates=({"enable_prefix_caching": False, "mamba_cache_mode": None},),
        )


def mamba_block_advice(run: Run) -> None:
    """Values that 0.23 documents as wrong but does not check."""
    typed = run.settings.mamba_block_size
    if typed is None or run.model.state is None or typed == run.max_model_len:
        return
    chunk = run.model.chunk_size
    multiple = chunk if run.mamba_cache_mode == "all" else 8
    if typed % multiple:
        nearest = max(multiple, round(typed / multiple) * multiple)
        run.problem(
            "mamba_block_size_not_multiple",
            "mamba_block_size",
            f"mamba_block_size = {typed} is not a multiple of {multiple}, as it should be "
            f"in mode {run.mamba_cache_mode}; vLLM 0.23 accepts it unchecked. "
            f"Nearest valid value: {nearest}.",
            severity=WARNING,
            operands={"mamba_block_size": typed, "multiple": multiple},
            candidates=({"mamba_block_size": nearest}, {"mamba_block_size": None}),
        )
