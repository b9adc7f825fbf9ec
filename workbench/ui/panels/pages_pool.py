"""The pool as a raster: how many blocks, which requests, what the colours tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError
from workbench.core.layouts.error import LayoutError
from workbench.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.pieces import count_box, dropdown, text_box
from workbench.views.pool_raster import VIEWS, raster_parts, usual_prompts
from workbench.views.pool_raster_fill import MAX_FINISHED, fill_pool

DEFAULT_BLOCKS = 10_000


def whole_number(field: str, typed: str) -> int | None:
    """A typed number, commas allowed; None for nothing. Errors: LayoutError."""
    text = typed.strip().replace(",", "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit():
        raise LayoutError(
            "wrong_type",
            f"{field} must be a whole number, or empty; got {typed[:40]!r}.",
            field=field,
        )
    return int(text[:18])


class PoolRaster:
    """Controls and figure. `changed` is called when a control was changed."""

    def __init__(self, changed: Callable[[Any], None]) -> None:
        self.blocks = text_box(
            "Pool blocks", hint="of the plan", tip="Blocks of the pool, 1 to any number"
        )
        self.prompts = text_box(
            "Prompt lengths", hint="a mix", tip="Tokens of the requests, in turn"
        )
        self.finished = count_box(
            "Finished every",
            MAX_FINISHED,
            "Every n-th request has finished and its blocks are free; 0: none",
        )
        self.by = dropdown("Colour by", VIEWS)
        self.figure = LiveFigure()
        for control in self.controls:
            control.observe(changed, names="value")

    @property
    def controls(self) -> tuple[widgets.ValueWidget, ...]:
        """Every control, in the order in which they are laid out."""
        return self.blocks, self.prompts, self.finished, self.by

    def show(self, plan: Plan) -> str:
        """Draw the pool of `plan`; what is wrong with the input, empty when nothing is."""
        try:
            asked = whole_number("Pool blocks", self.blocks.value)
            own = plan.cache.num_blocks if plan.cache else None
            filled = fill_pool(
                plan,
                asked if asked is not None else own or DEFAULT_BLOCKS,
                self._prompts(plan),
                finished_every=self.finished.value,
            )
        except (WorkbenchError, ValueError) as error:
            self.figure.mark(stale=True)
            return str(error)
        traces, layout = raster_parts(filled, self.by.value)
        self.figure.show(go.Figure(traces, layout=layout))
        return ""

    def _prompts(self, plan: Plan) -> tuple[int, ...]:
        typed = self.prompts.value.replace(";", " ").split()
        lengths = [whole_number("Prompt lengths", word.rstrip(",")) for word in typed]
        return tuple(length for length in lengths if length is not None) or usual_prompts(plan)
