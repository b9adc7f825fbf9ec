"""The backend of the drafter's layers, which are built after those of the target.

Source: `_create_draft_vllm_config` of the proposers in `v1/spec_decode`, and the loaders of
`v1/worker/gpu/spec_decode`, 0.23 and 0.33.
"""

from collections.abc import Mapping

from workbench.core.backends import LayerQuery
from workbench.core.runner import model_runner
from workbench.core.speculation import ON_V2, OWN, TARGETS
from workbench.core.stages.backend_choice import (
    first_valid,
    not_valid_text,
    reasons_against,
    said,
    supported_sizes,
)
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

DRAFT_BACKEND = Rule(
    "draft_backend",
    "Backend of the drafter's layers",
    "the requested one that reaches the drafter, else the platform's first for its heads",
)


def draft_backend(run: WorkingPlan) -> None:
    """Set `run.draft_backend`, and add it to the backends of all layers, as the last one."""
    drafter = run.drafter
    if drafter is None:
        return
    attention = drafter.attention
    query = LayerQuery.of(run, attention)._replace(non_causal=not drafter.is_causal)
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
        refused={name: "; ".join(why) for name, why in reasons.items()},
    )
    if chosen is None or chosen in reasons:
        _refused(run, query, requested, reasons)
    if chosen is None:
        return
    run.draft_backend = chosen
    names = (*run.rules.companions(attention).values(), chosen)
    found = [(one, supported_sizes(run, query, run.rules.backends[one])) for one in names]
    run.draft_supported = found[-1][1]
    run.backends = tuple({**dict(run.backends), **dict(found), **dict(run.backends)}.items())


def _requested(run: WorkingPlan, query: LayerQuery) -> str | None:
    """Return the requested backend that reaches the drafter's layers, if they take notice of it."""
    method = run.speculation
    assert method is not None
    own, targets, how = run.settings.draft_attention_backend, run.settings.backend, method.backend
    if how == ON_V2:
        # The second runner builds the drafter with the configuration of its target.
        how = TARGETS if model_runner(run) == "v2" else OWN
    found = {OWN: own, TARGETS: targets}.get(how, own or targets)
    ignored = found is not None and run.rules.ignores_backend(query, found)
    return None if ignored else found


def _other_format(run: WorkingPlan, chosen: str) -> dict[str, list[str]]:
    """Return why a backend of compressed attention does not suit the target's layers."""
    # It would write its packed format into the configuration that both share, and the pages of
    # one cache would differ.
    stored = run.rules.backends[chosen].stored_kv_cache_dtypes.get(run.kv_cache_dtype)
    if stored in {None, run.kv_cache_dtype} or chosen == run.backend:
        return {}
    return {chosen: [f"it keeps {stored}, the layers of the target {run.kv_cache_dtype}"]}


def _refused(
    run: WorkingPlan,
    query: LayerQuery,
    requested: str | None,
    reasons: Mapping[str, list[str]],
) -> None:
    table = "; ".join(f"{name}: {', '.join(why)}" for name, why in reasons.items())
    what = "No attention backend takes" if requested is None else f"{requested} does not take"
    run.problem(
        "draft_backend_not_valid",
        "draft_attention_backend" if run.settings.draft_attention_backend else "draft_model",
        f"{what} the layers of the drafter: {table or 'none is tried'}.",
        operands={"requested": requested, "reasons": dict(reasons)},
        candidates=(
            {"draft_attention_backend": None},
            {"backend": None},
            {"kv_cache_dtype": "auto"},
            {"speculative_method": "ngram", "draft_model": None},
        ),
        vllm_text=None
        if query.attention.is_compressed
        else said(run, query)
        if requested is None
        else not_valid_text(run, query, requested),
    )
