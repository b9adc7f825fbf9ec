"""State dtypes and the bytes of the states of one SSM layer."""

from dataclasses import replace

from workbench.core.model import Model
from workbench.core.speculation import DRAFT_MODEL
from workbench.core.stages.cache_mode import resolve_cache_mode
from workbench.core.states import (
    DRAFTED_STATES,
    KimiDeltaAttention,
    LayerStates,
    LinearAttention,
    ShortConv,
    State,
)
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
DRAFT_STATES = Rule(
    "draft_state_bytes",
    "States of a draft model's layer",
    "sum over states of prod(shape) * bytes(dtype), drafts included",
    "bytes",
)


def state_dtype_field(run: WorkingPlan) -> None:
    """Replace an auto `mamba_ssm_cache_dtype`; an explicit value always wins."""
    # NemotronH, for one, gets float32 where its config.json names none: vLLM knows of no other
    # dtype without accuracy issues (NemotronHForCausalLMConfig). MODELS_CONFIG_MAP has it for some
    # of the classes around such layers only.
    write_state_dtype(run, run.model)
    run.float32_state = run.model.is_hybrid and "float32" in (
        run.mamba_cache_dtype,
        run.mamba_ssm_cache_dtype,
    )


def write_state_dtype(run: WorkingPlan, model: Model) -> None:
    """Replace an auto `mamba_ssm_cache_dtype` by what the model's class writes."""
    # MODELS_CONFIG_MAP is read for the class that pools (0.23), or for its base (0.33).
    pooling = model.pooling if run.rules.hooks_by_name else None
    name = model.architecture if pooling is None else pooling.name
    has_hook = name in run.rules.model_registry.with_state_dtype
    own = model.ssm_cache_dtype if has_hook else None
    if run.mamba_ssm_cache_dtype == "auto" and own is not None:
        run.mamba_ssm_cache_dtype = own
        run.step(STATE_DTYPE_FIELD, run.mamba_ssm_cache_dtype, explicit="auto", family=model.family)


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
    counts, _keeps = run.rules.drafts_in_states(state.kind, model.family)
    drafts = run.settings.num_speculative_tokens if counts else 0
    # The alignment asks the model's class, the layer itself: where only one of them counts drafts
    # or reads the dtype, the two sizes differ (get_mamba_state_shape_from_config, get_state_shape).
    run.mamba_state_shapes = _as_built(run, state).shapes(tp, drafts)
    dtypes = _dtypes(run, model, len(run.mamba_state_shapes))
    total = LayerStates(state.kind, run.mamba_state_shapes, dtypes).size_bytes
    run.mamba_page_size_bytes = total
    kept = _of_layer(run, model, state)
    run.layer_state_shapes, run.mamba_state_dtypes = kept.shapes, kept.dtypes
    run.layer_state_bytes = kept.size_bytes
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


def draft_states(run: WorkingPlan) -> None:
    """Set what an SSM layer of a draft model keeps, and how the cache of both models has states."""
    draft = run.model.drafter
    if run.speculative_method != DRAFT_MODEL or draft is None or not draft.is_hybrid:
        return
    # Building it verifies its configuration, which has the target's cache; that of a hybrid target
    # is verified already (MambaModelConfig.verify_and_update_config, 0.23 and 0.33).
    loses_all = run.mamba_cache_mode == "all" and not draft.supports_all_mode
    if not run.model.is_hybrid or loses_all:
        resolve_cache_mode(run, draft)
        write_state_dtype(run, draft)
    if draft.state is None:
        return
    found = _of_layer(run, draft, draft.state)
    own = run.model.state and run.model.state.kind
    same = found == (own, run.layer_state_shapes, run.mamba_state_dtypes, "")
    run.draft_states = found if same else found._replace(stored=DRAFTED_STATES)
    run.step(
        DRAFT_STATES,
        found.size_bytes,
        kind=found.kind,
        state_shapes=found.shapes,
        state_dtypes=found.dtypes,
        tensor_parallel=run.settings.tensor_parallel,
    )


def _as_built(run: WorkingPlan, state: State) -> State:
    if isinstance(state, LinearAttention) and run.rules.linear_state_as_mla:
        return replace(state, head_dim=state.mla_head_dim or state.head_dim)
    return state


def _of_layer(run: WorkingPlan, model: Model, state: State) -> LayerStates:
    """Return what an SSM layer of the model keeps, drafts included."""
    of_drafts = any(run.rules.drafts_in_states(state.kind, model.family))
    drafts = run.settings.num_speculative_tokens if of_drafts else 0
    built = _as_built(run, state)
    if isinstance(built, ShortConv):
        built = replace(built, conv_dim=built.layer_dim or built.conv_dim)
    shapes = built.shapes(run.settings.tensor_parallel, drafts)
    dtypes = _dtypes(run, model, len(shapes))
    if model.architecture in run.rules.float32_in_layers:
        dtypes = (*dtypes[:1], *("float32" for _ in dtypes[1:]))
    return LayerStates(state.kind, shapes, dtypes)


def _dtypes(run: WorkingPlan, model: Model, parts: int) -> tuple[str, ...]:
    """Return the dtype of each state of a layer, of which there are so many parts."""
    conv = run.model_dtype if run.mamba_cache_dtype == "auto" else run.mamba_cache_dtype
    return (conv, _recurrent_dtype(run, model, conv))[:parts]


def _recurrent_dtype(run: WorkingPlan, model: Model, conv: str) -> str:
    explicit, allowed = run.mamba_ssm_cache_dtype, run.rules.kda_dtypes
    if not isinstance(model.state, KimiDeltaAttention):
        return conv if explicit == "auto" else explicit
    if model.architecture in run.rules.float32_states:
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
