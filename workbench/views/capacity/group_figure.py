"""Groups as rows, tensors as columns: which layers share what, and which slots are empty."""

import plotly.graph_objects as go

from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.grouping import Group, Grouping
from workbench.core.groups.layer_classes import layer_number
from workbench.core.plan import Plan
from workbench.views.frame import NAMED_ROWS, Cell, cells, figure
from workbench.views.palette import ATTENTION, PADDING, RECURRENT

EMPTY = "∅"
COLOURS = {EMPTY: PADDING, "state": RECURRENT, "attention": ATTENTION}


def groups(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw one row per group, one column per tensor, in each cell the layer in this slot.

    A column is one allocation, shared by the layers in it; from 0.33 on a place in the one
    allocation. Errors: ValueError when the plan has no cache (see plan.no_cache_text).
    """
    cache = plan.built_cache()
    slots = cache.grouping.group_size
    rows = [f"{number}: {_kind(group)}" for number, group in enumerate(cache.groups)]
    place = "tensor" if cache.grouping.layout is None else "place"
    drawn = cells(
        [_cells(group, cache.grouping) for group in cache.groups],
        COLOURS,
        x=[f"{place} {slot}" for slot in range(slots)],
        y=rows,
        textfont={"color": "#ffffff"},
        hovertemplate="group %{y}<br>%{x}<br>%{customdata}<extra></extra>",
        xgap=3,
        ygap=3,
    )
    return figure(
        drawn,
        _title(plan, rows),
        theme,
        plan=plan,
        height=150 + 38 * max(len(rows), 1),
        margin={"t": 60, "b": 50, "l": 150},
        x={"showgrid": False, "type": "category"},
        y=NAMED_ROWS,
    )


def _title(plan: Plan, rows: list[str]) -> str:
    grouping = plan.built_cache().grouping
    empty = grouping.padding_layers
    padding = f", {empty} empty slot{'s' * (empty > 1)} ({EMPTY})" if empty else ""
    many = f"{len(rows)} group{'s' * (len(rows) != 1)}"
    where = f"in {grouping.group_size} tensors"
    if grouping.layout is not None:
        where = f"overlapping in one allocation ({grouping.layout})"
    return f"<b>{many} {where}</b>{padding}; numbers are layers"


def _kind(group: Group) -> str:
    return "state" if group.spec.is_mamba else group.spec.kind.removesuffix("Spec")


def _cells(group: Group, grouping: Grouping) -> list[Cell]:
    """Return what the group has in every place: by tensor, or one layer after the other."""
    layers = dict(zip(group.layers, group.layer_specs, strict=True))
    names: list[str | None] = list(group.layers)
    if grouping.layout is None:
        names = [
            next((name for name in slot.shared_by if name in layers), None)
            for slot in grouping.slots
        ]
    names += [None] * (grouping.group_size - len(names))
    return [
        (EMPTY, EMPTY, "no layer: reserved and never used")
        if name is None
        else _cell(name, layers[name])
        for name in names
    ]


def _cell(name: str, spec: CacheSpec) -> Cell:
    kind = "state" if spec.is_mamba else "attention"
    padding = f", {spec.padding_bytes:,} of them padding" if spec.padding_bytes else ""
    words = f"{name}, blocks of {spec.block_size:,} tokens, {spec.page_size_bytes:,} bytes{padding}"
    return kind, str(layer_number(name)), words
