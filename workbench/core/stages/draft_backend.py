"""The backend of the drafter's layers, which are built after those of the target.

Source: `_create_draft_vllm_config` of the proposers in `v1/spec_decode`, and the loaders of
`v1/worker/gpu/spec_decode`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from dataclasses import replace

from workbench.core.backends import LayerQuery
from workbench.core.drafter import Drafter
from workbench.core.groups.built_layers import unquantized_layers
from workbench.core.groups.layer_classes import AS_THE_MODEL
from workbench.core.model import SLIDING
from workbench.core.runner import keeps_drafts_whole, model_runner
from workbench.core.speculation import MTP, ON_V2, OWN, TARGETS
from workbench.core.stages.backend_choice import first_valid, not_valid_text, said
from workbench.core.stages.backend_requests import (
    imposed_backend,
    noticed_backend,
    reasons_against,
    sizes_of_model,
    supported_sizes,
)
from workbench.core.stages.drafter_checks import check_listed_kinds, check_ranks_of_runner
from workbench.core.stages.float_caches import mismatched_float
from workbench.core.stages.layer_backends import refuse_unbuilt
from workbench.core.stages.mtp_checks import check_built_mtp
from workbench.core.stages.refusals import state_block_of_draft
from workbench.core.stages.speculation import followed_length
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

DRAFT_BACKEND = Rule(
    "draft_backend",
    "Backend of the drafter's layers",
    "the requested one that reaches the drafter, else the platform's first for its heads",
)


def _own_dtype(run: WorkingPlan) -> str | None:
    """Return the KV-cache dtype that a drafter does not take from its target, None where it does.

    What the target's class sets on SM10x was never tested with other drafters.
    """
    # verify_and_update_config of GlmMoeDsaForCausalLM and Glm5NextModelConfig, 0.33.
    explicit = run.settings.draft_kv_cache_dtype
    set_by_class = run.rules.sm10x_kv_cache_dtypes.get(run.model.architecture)
    is_set = run.settings.kv_cache_dtype == run.model.kv_cache_dtype == "auto" != run.kv_cache_dtype
    keeps_own = set_by_class and is_set and run.speculative_method != MTP
    return "auto" if keeps_own and explicit is None else explicit


def _query(run: WorkingPlan, drafter: Drafter) -> LayerQuery:
    """Return what the drafter's layers ask of a backend; refuses a float of another dtype."""
    attention, sizes = drafter.attention, {layer.head_size for layer in drafter.layers}
    if len(sizes) == 1 and (size := sizes.pop()) is not None:
        attention = replace(attention, head_size=size)
    query = LayerQuery.of(run, attention)._replace(
        non_causal=not drafter.is_causal,
        slides=any(layer.kind == SLIDING for layer in drafter.layers) and not attention.use_mla,
    )
    numbers = {layer.number for layer in drafter.layers}
    if numbers and numbers <= unquantized_layers(run):
        return query._replace(kv_cache_dtype=AS_THE_MODEL)
    mtp = (run.model.drafter or run.model).mtp if run.speculative_method == MTP else None
    if mtp is not None and mtp.model_type in run.rules.speculation.mtp_without_cache_settings:
        return query._replace(kv_cache_dtype="auto")
    if (own := _own_dtype(run)) is None:
        return query
    _other_float(run, own)
    # A copy of CacheConfig takes the block size of the original for an explicit one.
    size = None if attention.is_compressed else run.block_size
    return query._replace(kv_cache_dtype=own, block_size=size)


def draft_backend(run: WorkingPlan) -> None:
    """Set `run.draft_backend`, and add it to the backends of all layers, as the last one."""
    check_built_mtp(run)
    drafter = run.drafter
    if drafter is None:
        return
    check_ranks_of_runner(run)
    check_listed_kinds(run)
    if (longest := followed_length(run)) is not None:  # V2 has shortened the target's
        state_block_of_draft(run, longest)
    attention, query = drafter.attention, _query(run, drafter)
    run.draft_kv_cache_dtype = dtype = query.kv_cache_dtype
    # Blocks of a layer with a spec are read with the engine's configuration.
    built = query._replace(kv_cache_dtype=run.kv_cache_dtype)
    if keeps_drafts_whole(run):
        query = query._replace(context_ranks=1, tests_context=False)
    requested = _requested(run, query)
    if requested is None:
        chosen, reasons = first_valid(run, query)
    else:
        against = reasons_against(run, query, run.rules.backends[requested])
        chosen, reasons = requested, {requested: against} if against else {}
    if chosen is not None and attention.is_compressed:
        reasons = {**reasons, **_other_format(run, chosen)}
    run.step(
        DRAFT_BACKEND,
        chosen,
        "" if requested is None else "requested",
        head_size=attention.head_size,
        num_kv_heads=attention.num_kv_heads,
        layers=len(drafter.layers),
        kv_cache_dtype=dtype,
        refused={name: "; ".join(why) for name, why in reasons.items()},
    )
    if chosen is None or chosen in reasons:
        _refused(run, query, requested, reasons)
    if chosen is None:
        return
    run.draft_backend = chosen
    record = run.rules.backends[chosen]
    if record.stored_where(query):
        run.draft_kv_cache_dtype = record.stored_kv_cache_dtypes.get(dtype, dtype)
    if run.settings.draft_kv_cache_dtype is not None:
        _not_exact(run)
    refuse_unbuilt(run, run.rules.backends[chosen], query)
    names = (*run.rules.companions(attention).values(), chosen)
    found = [(one, sizes_of_model(run, built, run.rules.backends[one])) for one in names]
    run.draft_supported = supported_sizes(run, built, record)
    run.backends = tuple({**dict(run.backends), **dict(found), **dict(run.backends)}.items())


def _other_float(run: WorkingPlan, dtype: str) -> None:
    """Refuse a float for the drafter's cache other than the model's dtype."""
    # The drafter's VllmConfig is a copy of the target's, and checks what was changed in it.
    if (text := mismatched_float(run, dtype)) is not None:
        run.problem(
            "draft_float_kv_cache_dtype",
            operands={"draft_kv_cache_dtype": dtype, "dtype": run.model_dtype},
            vllm_text=text,
        )


def _requested(run: WorkingPlan, query: LayerQuery) -> str | None:
    """Return the requested backend that reaches the drafter's layers, if they take notice of it."""
    method = run.speculation
    assert method is not None
    own, how = run.settings.draft_attention_backend, method.backend
    targets = run.settings.backend or imposed_backend(run)
    if how == ON_V2:
        # The second runner builds the drafter with the configuration of its target.
        how = TARGETS if model_runner(run) == "v2" else OWN
    return noticed_backend(run, query, {OWN: own, TARGETS: targets}.get(how, own or targets))


def _not_exact(run: WorkingPlan) -> None:
    """Warn of MTP layers whose blocks do not follow the engine's where they have another dtype."""
    # They keep the copy of CacheConfig that they were built with.
    drafter = run.drafter
    assert drafter is not None
    apart = any(layer.kind == SLIDING or layer.cache for layer in drafter.layers)
    if run.speculative_method != MTP or not apart or drafter.attention.is_compressed:
        return
    run.problem(
        "draft_cache_not_exact",
        operands={"draft_kv_cache_dtype": run.settings.draft_kv_cache_dtype},
    )


def _other_format(run: WorkingPlan, chosen: str) -> dict[str, list[str]]:
    """Return why a backend of compressed attention does not suit the target's layers."""
    # It would write its packed format into the configuration that both share, and the pages of
    # one cache would differ.
    assert run.draft_kv_cache_dtype is not None
    stored = run.rules.backends[chosen].stored_kv_cache_dtypes.get(run.draft_kv_cache_dtype)
    if stored in {None, run.kv_cache_dtype} or chosen == run.backend:
        return {}
    return {chosen: [f"it keeps {stored}, the layers of the target {run.kv_cache_dtype}"]}


def _refused(
    run: WorkingPlan, query: LayerQuery, requested: str | None, reasons: Mapping[str, list[str]]
) -> None:
    table = "; ".join(f"{name}: {', '.join(why)}" for name, why in reasons.items())
    what = "No attention backend takes" if requested is None else f"{requested} does not take"
    run.problem(
        "draft_backend_not_valid",
        operands={"requested": requested, "reasons": dict(reasons)},
        field="draft_attention_backend" if run.settings.draft_attention_backend else "draft_model",
        vllm_text=(
            None
            if query.attention.is_compressed and run.settings.draft_kv_cache_dtype is None
            else said(run, query)
            if requested is None
            else not_valid_text(run, query, requested)
        ),
        what=what,
        why=table or "none is tried",
    )
