"""The pool as a raster: number of blocks, prompt lengths, meaning of the colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError
from workbench.core.layouts.error import LayoutError
from workbench.core.plan import Plan
from workbench.ui.live_figure import LiveFigure
from workbench.ui.pieces import count_box, dropdown, text_box
from workbench.views.capacity.pool_fill import MAX_FINISHED, fill_pool
from workbench.views.capacity.pool_raster import VIEWS, raster_parts, usual_prompts

DEFAULT_BLOCKS = 10_000


def optional_integer(field: str, text: str) -> int | None:
    """Return an integer, commas allowed; None for an empty text. Errors: LayoutError."""
    digits = text.strip().replace(",", "")
    if not digits:
        return None
    if not digits.isascii() or not digits.isdigit():
        raise LayoutError(
            "wrong_type",
            f"Invalid {field.lower()} {text[:40]!r}. Expected an integer, or empty.",
            field=field,
        )
    return int(digits[:18])


class PoolRaster:
    """Controls and figure; `changed` is called after every change of a control."""

    def __init__(self, changed: Callable[[Any], None]) -> None:
        self.blocks = text_box(
            "Pool blocks", hint="the plan's", tip="Set the number of blocks of the pool."
        )
        self.prompts = text_box(
            "Prompt lengths", hint="a mix", tip="Prompt lengths in tokens, one per request."
        )
        self.finished = count_box(
            "Free every n-th request",
            MAX_FINISHED,
            "Mark every n-th request as finished; 0 for none.",
        )
        self.by = dropdown("Colour by", VIEWS)
        self.figure = LiveFigure()
        for control in self.controls:
            control.observe(changed, names="value")

    @property
    def controls(self) -> tuple[widgets.ValueWidget, ...]:
        """Controls in the order of the layout."""
        return self.blocks, self.prompts, self.finished, self.by

    def show(self, plan: Plan) -> str:
        """Draw the pool of `plan`; return the error of the input, empty if it is valid."""
        try:
            requested = optional_integer("Pool blocks", self.blocks.value)
            own = plan.cache.num_blocks if plan.cache else None
            filled = fill_pool(
                plan,
                requested if requested is not None else own or DEFAULT_BLOCKS,
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
        words = self.prompts.value.replace(";", " ").split()
        lengths = [optional_integer("Prompt lengths", word.rstrip(",")) for word in words]
        return tuple(length for length in lengths if length is not None) or usual_prompts(plan)
