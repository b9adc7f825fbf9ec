"""Chunk sizes of a connector, for this engine alone or with another one."""

from typing import Any

import ipywidgets as widgets

from workbench.core.chunks.connectors import CONNECTORS
from workbench.core.chunks.request import chunks, labelled
from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.door.session import Session, evaluate
from workbench.models import catalog_names
from workbench.scenario import Field
from workbench.scenario.numbers import Integer
from workbench.ui.panels.offload import SAME, offer
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import Entry, dropdown, grid
from workbench.views.chunks.html import chunks_html
from workbench.views.html import document, refusal_html

ALONE = "no other engine"
INPUTS = (
    ("chunk_tokens", "Chunk", "the connector's default", "The chunk size to check, in tokens"),
    ("prompt_tokens", "Prompt", "32,768 or the longest", "The prompt whose cost is shown"),
)
"""Name of an option of `chunks`, label, hint, tip."""


class ChunksPanel(Panel):
    """Connector, chunk and prompt; the model, ranks and dtype of another engine of the store."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._inputs = {
            name: Entry(
                Field(name=name, default=None, kind=Integer(), label=label, none=hint, tip=tip)
            )
            for name, label, hint, tip in INPUTS
        }
        self.controls: dict[str, widgets.ValueWidget] = {
            "connector": dropdown("Connector", tuple(CONNECTORS)),
            **{name: entry.widget for name, entry in self._inputs.items()},
            "model": dropdown("Other engine", (ALONE, SAME, *catalog_names())),
            "tensor_parallel": dropdown("Its TP", (SAME,)),
            "kv_cache_dtype": dropdown("Its dtype", (SAME,)),
        }
        self._own: str | None = None
        self._refusal, self._html = widgets.HTML(), widgets.HTML()
        self.fill(grid(self.controls.values()), self._refusal, self._html)
        self.watch(*self.controls.values())

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock, self.by_program:
            offer(self.controls["tensor_parallel"], tensor_parallel_sizes(plan.model))
            offer(self.controls["kv_cache_dtype"], plan.rules.kv_cache_dtypes)
            own, self._own = self._own, plan.settings.kv_connector
            if self._own != own and self._own in CONNECTORS:
                self.controls["connector"].value = self._own
            super().show(plan)

    def _draw(self, plan: Plan) -> Shown:
        options = {name: entry.read(entry.widget.value) for name, entry in self._inputs.items()}
        plans = [plan]
        if (changes := self._other()) is not None:
            other = evaluate(plan.scenario.replace(**changes))
            if other.plan is None:
                assert other.error is not None
                yield self._html, document(refusal_html(other.error))
                return
            plans.append(other.plan)
        found = chunks(labelled(plans), connector=self.controls["connector"].value, **options)
        yield self._html, chunks_html(found)

    def _other(self) -> dict[str, Any] | None:
        """Return the fields in which the other engine differs; None without one."""
        picked = {name: self.controls[name].value for name in OTHER}
        if picked["model"] == ALONE:
            return None
        return {name: value for name, value in picked.items() if value != SAME}


OTHER = ("model", "tensor_parallel", "kv_cache_dtype")
"""Fields of the scenario that the other engine may have for itself."""
