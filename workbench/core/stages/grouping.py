"""What keeps KV-cache groups from being built, in the words of a plan."""

from collections import Counter

from workbench.core.capacity.blocks import scheduler_block_size
from workbench.core.dtypes import PACKED_DTYPES
from workbench.core.groups.cache_spec import (
    SINK_SPEC,
    SLIDING_KINDS,
    GroupingError,
    NoSingleTypeError,
)
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_specs import layer_specs
from workbench.core.groups.of_plan import (
    OLD_NAMES,
    common_layouts,
    grouping_of,
    layout_refusal_text,
    layouts_read_by,
    packs_whole_drafts,
    possible_layouts,
)
from workbench.core.groups.unification import PagesNotUnifiableError
from workbench.core.kv_connectors import connector_of
from workbench.core.rule_set import RULE_SETS
from workbench.core.stages.built_backends import built_backends
from workbench.core.working_plan import WorkingPlan


def groups(run: WorkingPlan) -> None:
    """Set which layers share a block table, or why no groups can be built."""
    try:
        run.grouping = grouping_of(run)
    except GroupingError as error:
        # Plans are kept: with its traceback the error would keep every frame and what is in it.
        run.grouping_error = error.with_traceback(None)
        return
    if connector_of(run).supports_hybrid or run.settings.disable_hybrid_kv_cache_manager:
        return
    kinds = Counter(spec.kind for spec in layer_specs(run).by_name().values())
    if windows := sum(kinds[kind] for kind in SLIDING_KINDS):
        run.problem(
            "connector_turns_manager_off",
            variant="of_plan",
            operands={"kv_connector": run.settings.kv_connector, "layers": windows},
        )


def cache_managers(run: WorkingPlan) -> None:
    """Refuse groups whose manager the scheduler cannot build (KVCacheCoordinator.__init__)."""
    if run.settings.kv_connector and run.model.is_encoder_decoder:
        operands = {"kv_connector": run.settings.kv_connector}
        run.problem("connector_with_encoder", operands=operands)
    if run.enable_prefix_caching and run.grouping is not None and not run.grouping.groups:
        run.problem("cache_without_groups", operands={"enable_prefix_caching": True})
    if run.grouping and any(group.kind == SINK_SPEC for group in run.grouping.groups):
        run.problem(
            "cache_manager_not_built",
            operands={"kind": SINK_SPEC},
            manager="SinkFullAttentionManager",
            argument=run.rules.groups.manager_argument,
        )
    if run.rules.prefill.keeps_few_states and run.grouping is not None:
        _checkpoints(run, run.grouping)


def _checkpoints(run: WorkingPlan, grouping: Grouping) -> None:
    """Refuse an interval of checkpoints that no group has, or that cuts blocks."""
    # _validate_prefix_cache_retention_interval of v1/core/kv_cache_coordinator.py, 0.33
    interval = run.settings.prefix_cache_retention_interval
    if not interval:
        return
    block = scheduler_block_size(run, grouping)
    operands = {"prefix_cache_retention_interval": interval, "scheduler_block_size": block}
    # of layers of several kinds the scheduler has the spec of the first one
    specs = [group.spec for group in grouping.examples]
    if not any(spec.is_mamba or spec.kind in SLIDING_KINDS for spec in specs):
        run.problem("no_checkpoints_kept", operands=operands)
    elif interval % block:
        near = max(1, round(interval / block)) * block
        run.problem(
            "checkpoints_cut_blocks",
            operands=operands,
            candidates=({"prefix_cache_retention_interval": near},),
            nearest=near,
        )
    else:
        run.problem("more_checkpoints_kept", operands=operands)


def refuse_grouping(run: WorkingPlan, failure: GroupingError | None) -> None:
    """Record what stops vLLM; nothing where the groups can be built."""
    if failure is None:
        return
    specs = layer_specs(run).by_name().values()
    if isinstance(failure, NoSingleTypeError):
        run.problem(
            "not_one_type",
            operands=dict(Counter(spec.kind for spec in specs)),
            vllm_text=str(failure),
            cause="Without the hybrid manager"
            if connector_of(run).supports_hybrid
            else f"{run.settings.kv_connector} supports only one cache group, so vLLM turns the "
            "hybrid manager off;",
        )
        return
    run.problem(
        "pages_not_equal",
        variant="refuse_grouping",
        operands={spec.kind: spec.page_size_bytes for spec in specs},
        candidates=(
            *({"kv_cache_layout": order} for order in possible_layouts(run) if order[0] == "B"),
            {"disable_hybrid_kv_cache_manager": True},
            {"hidden_state_layers": 0},
            {"kv_cache_dtype": "auto"},
            *({"rules": name} for name, rules in RULE_SETS.items() if rules.groups.pads_pages),
        ),
        vllm_text=failure.vllm_text if isinstance(failure, PagesNotUnifiableError) else "",
        failure=failure,
    )


def packed_hidden_states(run: WorkingPlan) -> None:
    """Refuse hidden states alongside a packed cache, which 0.23 would pack as well."""
    # is_quantized_kv_cache of 0.23 does not know TurboQuant, that of 0.33 does; what it knows is
    # kept in the model's dtype (ExtractHiddenStatesModel).
    if not run.settings.hidden_state_layers or run.kv_cache_dtype not in PACKED_DTYPES:
        return
    run.problem("hidden_states_packed", operands={"kv_cache_dtype": run.kv_cache_dtype})


def hidden_states(run: WorkingPlan) -> None:
    """Check that `extract_hidden_states` knows the size of a hidden state. Errors: Refused."""
    layers = run.settings.hidden_state_layers
    if layers and run.model.hidden_size is None:
        raise run.refusal("hidden_size_unknown", operands={"hidden_state_layers": layers})


def cache_layout_choice(run: WorkingPlan) -> None:
    """Refuse an explicit layout that the backend cannot read or that some layer excludes (0.33)."""
    if len(run.attention_backends) > 1 and run.rules.groups.layouts and not common_layouts(run):
        _no_common_layout(run)
    requested = run.settings.kv_cache_layout
    if requested is None and run.settings.decode_context_parallel == 1:
        return
    possible = possible_layouts(run)
    if possible and possible[0][0] != "B" and packs_whole_drafts(layer_specs(run).different):
        run.problem(
            "whole_drafts_not_packed",
            operands={"decode_context_parallel": run.settings.decode_context_parallel},
            allowed=", ".join(possible),
        )
    if requested is None:
        return
    if not possible or OLD_NAMES.get(requested, requested) in possible:
        return
    run.problem(
        "layout_not_supported",
        operands={"kv_cache_layout": requested, "possible": list(possible)},
        candidates=({"kv_cache_layout": None}, {"kv_cache_layout": possible[0]}),
        vllm_text=layout_refusal_text(requested, possible),
        allowed=", ".join(possible),
        nearest=possible[0],
    )


def _no_common_layout(run: WorkingPlan) -> None:
    names = run.attention_backends
    read = {name: list(layouts_read_by(run, name)) for name in names}
    said = "; ".join(f"{name} reads {', '.join(orders)}" for name, orders in read.items())
    built = [list(layouts_read_by(run, name)) for name, _own in built_backends(run)]
    lists = [orders for orders in built if orders != list(run.rules.groups.layouts)]
    run.problem("no_common_layout", operands=read, said=said, lists=lists)
