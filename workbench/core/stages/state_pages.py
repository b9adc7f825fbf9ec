"""State dtypes and the bytes of the states of one SSM layer."""

from dataclasses import replace
from math import prod

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.states import KimiDeltaAttention, LinearAttention, Shape
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

STATE_DTYPE_FIELD = Rule(
    "mamba_ssm_cache_dtype",
    "State dtype written by the model",
    "an auto mamba_ssm_cache_dtype is replaced by what the model ships",
)
CPU_STATE_DTYPE = Rule(
    "cpu_mamba_ssm_cache_dtype",
    "State dtype on CPU",
    "float32, but an explicit 16-bit dtype stays where layers count as linear attention",
)
CALLED_LINEAR_ATTENTION = frozenset(
    {
        "granitemoehybrid",
        "jamba",
        "mamba",
        "mamba2",
        "nemotron_h",
        "olmo_hybrid",
        "qwen3_5",
        "qwen3_next",
        "zamba2",
    }
)
"""Families whose layers Transformers 5 calls linear attention: what 0.33's CPU check looks for."""
STATE_PAGE = Rule(
    "mamba_page_size_bytes", "Mamba page", "sum over states of prod(shape) * bytes(dtype)", "bytes"
)


def state_dtype_field(run: WorkingPlan) -> None:
    """Replace an auto `mamba_ssm_cache_dtype`; an explicit value always wins."""
    # NemotronH, for one, gets float32 where its config.json names none: vLLM knows of no other
    # dtype without accuracy issues (NemotronHForCausalLMConfig). MODELS_CONFIG_MAP has it for some
    # of the classes around such layers only.
    own, model = run.model.ssm_cache_dtype, run.model
    has_hook = model.architecture in run.rules.model_registry.with_state_dtype
    if run.mamba_ssm_cache_dtype == "auto" and own is not None and has_hook:
        run.mamba_ssm_cache_dtype = own
        run.step(STATE_DTYPE_FIELD, run.mamba_ssm_cache_dtype, explicit="auto", family=model.family)
    run.float32_state = run.model.is_hybrid and "float32" in (
        run.mamba_cache_dtype,
        run.mamba_ssm_cache_dtype,
    )


def cpu_state_dtype(run: WorkingPlan) -> None:
    """Set float32 states on CPU (0.33), unless linear attention is configured otherwise."""
    state, field = run.model.state, run.mamba_ssm_cache_dtype
    if run.platform.name != "cpu" or field == "float32":
        return
    explicit = field in {"float16", "bfloat16"}
    if explicit and state is not None and run.model.family in CALLED_LINEAR_ATTENTION:
        return
    # vLLM asks the CPU for AVX-512 with bfloat16 first, which is taken for granted here.
    run.mamba_ssm_cache_dtype = "float32"
    run.step(
        CPU_STATE_DTYPE,
        run.mamba_ssm_cache_dtype,
        before=field,
        explicit=run.settings.mamba_ssm_cache_dtype,
    )


def states(run: WorkingPlan) -> None:
    """Set shapes, dtypes and bytes of the states of one SSM layer, per rank."""
    model, state = run.model, run.model.state
    if state is None:
        return
    tp = run.settings.tensor_parallel
    counts, keeps = run.rules.drafts_in_states(state.kind, model.family)
    drafts = run.settings.num_speculative_tokens if counts else 0
    if isinstance(state, LinearAttention) and run.rules.linear_state_as_mla:
        state = replace(state, head_dim=state.mla_head_dim or state.head_dim)
    run.mamba_state_shapes = state.shapes(tp, drafts)
    conv = run.model_dtype if run.mamba_cache_dtype == "auto" else run.mamba_cache_dtype
    recurrent, pair = _recurrent_dtype(run, conv), len(run.mamba_state_shapes) == 2
    run.mamba_state_dtypes = (conv, recurrent) if pair else (conv,)
    # The alignment asks the model's class, the layer itself: where only one of them counts drafts
    # or reads the dtype, the two sizes differ (get_mamba_state_shape_from_config, get_state_shape).
    total = run.mamba_page_size_bytes = _state_bytes(run, run.mamba_state_shapes)
    if model.architecture in run.rules.float32_in_layers and pair:
        run.mamba_state_dtypes = (conv, "float32")
    run.layer_state_shapes = run.mamba_state_shapes
    run.layer_state_bytes = _state_bytes(run, run.layer_state_shapes)
    if keeps and not counts and run.settings.num_speculative_tokens:
        run.layer_state_shapes = state.shapes(tp, run.settings.num_speculative_tokens)
        run.layer_state_bytes = _state_bytes(run, run.layer_state_shapes)
    run.step(
        STATE_PAGE,
        total,
        _ignored(run, drafts),
        kind=state.kind,
        state_shapes=run.mamba_state_shapes,
        state_dtypes=run.mamba_state_dtypes,
        tensor_parallel=tp,
        draft_tokens=drafts,
        layer_state_bytes=run.layer_state_bytes,
    )


def _state_bytes(run: WorkingPlan, shapes: tuple[Shape, ...]) -> int:
    sized = zip(shapes, run.mamba_state_dtypes, strict=True)
    return sum([prod(shape) * FLOAT_BYTES[dtype] for shape, dtype in sized])


def _recurrent_dtype(run: WorkingPlan, conv: str) -> str:
    explicit, allowed = run.mamba_ssm_cache_dtype, run.rules.kda_dtypes
    if not isinstance(run.model.state, KimiDeltaAttention):
        return conv if explicit == "auto" else explicit
    if run.model.architecture in run.rules.float32_states:
        return "float32"
    if explicit == "auto" or len(allowed) == 1:
        return allowed[0]
    if explicit not in allowed:
        raise run.refusal(
            "kda_state_dtype",
            operands={"mamba_ssm_cache_dtype": explicit, "allowed": list(allowed)},
            candidates=[{"mamba_ssm_cache_dtype": value} for value in ("auto", *allowed)],
            kept=" or ".join(allowed),
            nearest=allowed[-1],
        )
    return explicit


def _ignored(run: WorkingPlan, counted_drafts: int) -> str:
    """Return notes on explicit values that do not reach this kind of state."""
    notes = []
    explicit = run.settings.mamba_ssm_cache_dtype
    if explicit not in {"auto", run.mamba_state_dtypes[-1]}:
        notes.append(f"mamba_ssm_cache_dtype {explicit} does not reach this kind of state")
    if run.settings.num_speculative_tokens != counted_drafts:
        larger = run.layer_state_shapes != run.mamba_state_shapes
        changed = "are counted by the layers alone" if larger else "do not change these shapes"
        notes.append(f"draft tokens {changed}")
    return "; ".join(notes)
