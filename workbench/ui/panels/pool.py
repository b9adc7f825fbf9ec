"""The whole pool of blocks as a raster, filled by requests."""

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.door.session import Session
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import dropdown, grid, integer_of, text_box
from workbench.views.capacity.pool_fill import MAX_FINISHED, fill_pool
from workbench.views.capacity.pool_raster import VIEWS, raster_parts, usual_prompts

NARROWEST_PX = 230
POOL_BLOCKS, NEVER = 10_000, 0
POOL_SIZE = "Pool blocks"
"""What a number of blocks is called, also where a map of their bytes needs one."""


def entered_blocks(box: widgets.Text, plan: Plan, usual: int) -> int:
    """Return the entered number of blocks, else the plan's, else the usual one."""
    own = (plan.cache.num_blocks if plan.cache else None) or usual
    return integer_of(box.value, box.description, own) if box.value.strip() else own


class PoolRaster(Panel):
    """The pool as a raster: number of blocks, prompt lengths, meaning of the colours."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        tip = "Set the number of blocks of the pool."
        self.blocks = text_box(POOL_SIZE, hint="the plan's", tip=tip)
        tip = "Prompt lengths in tokens, one per request."
        self.prompts = text_box("Prompt lengths", hint="a mix", tip=tip)
        tip = "Mark every n-th request as finished."
        self.finished = text_box("Free every n-th request", hint="never", tip=tip)
        self.by = dropdown("Colour by", VIEWS)
        self.figure = LiveFigure()
        controls = (self.blocks, self.prompts, self.finished, self.by)
        self.watch(*controls)
        self.fill(grid(controls, NARROWEST_PX), self.figure)

    def _draw(self, plan: Plan) -> Shown:
        words = self.prompts.value.replace(";", " ").split()
        prompts = [integer_of(word, self.prompts.description, 1) for word in words]
        blocks = entered_blocks(self.blocks, plan, POOL_BLOCKS)
        name, every = self.finished.description, self.finished.value.strip()
        nth = integer_of(every, name, 1, high=MAX_FINISHED) if every else NEVER
        try:
            filled = fill_pool(plan, blocks, prompts or usual_prompts(plan), finished_every=nth)
        except ValueError as error:
            raise ScenarioError("out_of_range", str(error)) from None
        traces, layout = raster_parts(filled, self.by.value)
        yield self.figure, go.Figure(traces, layout=layout)
