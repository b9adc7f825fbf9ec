"""Put the fingerprint of the plan into every figure that is drawn from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

import plotly.graph_objects as go

from workbench.core.plan import Plan

Arguments = ParamSpec("Arguments")
Drawing = Callable[Concatenate[Plan, Arguments], go.Figure]


def of_plan(draw: Drawing[Arguments]) -> Drawing[Arguments]:
    """Put `plan.fingerprint` into the figure's `layout.meta`, which a saved picture keeps."""

    @wraps(draw)
    def drawn(plan: Plan, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> go.Figure:
        figure = draw(plan, *args, **kwargs)
        figure.layout.meta = {"plan": plan.fingerprint}
        return figure

    return drawn
