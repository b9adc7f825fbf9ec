"""Pipeline parallelism: which layers the ranks of each stage have, and what they decide alone.

Source: `get_pp_indices`, and `update_block_size_for_backend`, which every worker process calls for
the layers that it has; 0.23 and 0.33.
"""

from typing import Any

from workbench.core.groups.built_layers import cache_layers, unquantized_layers
from workbench.core.groups.decision import mixed_pages_text
from workbench.core.groups.layer_classes import layer_classes
from workbench.core.groups.of_plan import cache_layout, common_layouts
from workbench.core.groups.pipeline import ALL, Stage, cuts_of
from workbench.core.model import SSM, Layer
from workbench.core.plan import Plan
from workbench.core.stages.gdn_prefill import flashinfer_prefill
from workbench.core.stages.hybrid_alignment import prefill_checkpoint_tokens
from workbench.core.trace import Rule
from workbench.core.watch import kept_settings
from workbench.core.working_plan import UntracedPlan, WorkingPlan

STAGES = Rule(
    "pipeline_stages",
    "Layers of the pipeline stages",
    "layers // stages each; the rest goes to the stages before the last one, the first one last",
    "layers",
)


def pipeline_stages(run: WorkingPlan) -> None:
    """Set the stages, and what their ranks decide where their layers need other backends.

    Every worker sizes its blocks by its own layers, so a stage without attention layers aligns
    nothing: its states keep their own pages and blocks.
    """
    stages = run.settings.pipeline_parallel
    if stages == 1 or run.stage_layers is not None:
        return
    parts = cuts_of(run)
    given = (
        {"pipeline_layers": [*run.settings.pipeline_layers]} if run.settings.pipeline_layers else {}
    )
    run.step(STAGES, [len(part) for part in parts], layers=run.model.num_hidden_layers, **given)
    layers, keeps = cache_layers(run), flashinfer_prefill(run)
    whole = (*_kinds(run, layers), bool(prefill_checkpoint_tokens(run)))
    known: dict[tuple[Any, ...], Plan | None] = {whole: None}
    found, empty = [], []
    for part in (*parts[:-1], range(parts[-1].start, ALL)):
        own = tuple(layer for layer in layers if layer.number in part)
        kinds = (*_kinds(run, own), keeps and any(layer.kind == SSM for layer in own))
        if own and kinds not in known:
            known[kinds] = _decided(run, part)
        found.append(Stage(part, known.get(kinds)))
        if layers and not own:
            empty.append(len(found) - 1)
    run.stages = tuple(found)
    if empty:
        _without_cache(run, empty)
    elif run.rules.groups.layouts:
        _layouts(run, found)


def _kinds(run: WorkingPlan, layers: tuple[Layer, ...]) -> tuple[Any, ...]:
    """Return what the backends of some layers follow from, in the order of the layers."""
    attention = [layer for layer in layers if layer.kind != SSM]
    if len(run.backends) < 2:  # all attention layers have one
        return (bool(attention),)
    return layer_classes(tuple(attention), unquantized_layers(run)).kinds


def _decided(run: WorkingPlan, part: range) -> Plan:
    """Return what ranks with these layers decide, up to the specs of their layers."""
    own = UntracedPlan(run.model, kept_settings(run.settings), run.rules)
    own.stage_layers = part
    for stage in run.rules.stages[: run.rules.stages.index(pipeline_stages)]:
        stage(own)
    return own


def _layouts(run: WorkingPlan, stages: list[Stage]) -> None:
    """Check that all stages read the same orders: a layer without attention reads any."""
    # resolve_kv_cache_layout, 0.33: each worker reports those that its own layers read.
    lists = [list(common_layouts(stage.own or run)) for stage in stages]
    different = next((at for at, orders in enumerate(lists) if orders != lists[0]), None)
    if different is None:
        return
    count = len(stages)
    run.problem(
        "stages_differ_in_layouts",
        operands={"pipeline_parallel": count, "layouts": lists},
        candidates=[{"pipeline_parallel": n} for n in range(count - 1, 0, -1)],
        first=", ".join(lists[0]),
        other=", ".join(lists[different]),
        different=different,
        lists=lists,
    )


def _without_cache(run: WorkingPlan, empty: list[int]) -> None:
    stages, layers = run.settings.pipeline_parallel, run.model.num_hidden_layers
    others = f" and of {len(empty) - 1} more" if len(empty) > 1 else ""
    run.problem(
        "stage_without_cache",
        operands={"pipeline_parallel": stages, "layers": layers},
        candidates=[{"pipeline_parallel": n} for n in range(min(stages - 1, layers), 0, -1)],
        vllm_text=_text_without_cache(run),
        empty=empty,
        others=others,
    )


def _text_without_cache(run: WorkingPlan) -> str:
    if (layout := cache_layout(run)) and set(layout[:2]) != {"L", "B"}:
        return mixed_pages_text(layout)  # validate_kv_cache_layout comes first, and sees no page
    if run.rules.groups.one_allocation or run.settings.num_gpu_blocks_override:
        return "integer division or modulo by zero"
    return "group_size must be greater than 0"
