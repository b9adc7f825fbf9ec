"""Where every byte goes: the page map with its controls, "what is byte N?", and the pool."""

from html import escape
from math import ceil, floor
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.byte_map.of_plan import byte_map
from workbench.core.byte_map.tensors import ByteMap
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.layouts.layer_views import RUNNERS
from workbench.core.plan import Plan
from workbench.ui.live_figure import ZOOMABLE, LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import count_box, dropdown, grid, integer_of, text_box
from workbench.ui.session import Session, guarded
from workbench.views.bytes.map import DEFAULT_BLOCKS, map_layout, map_traces
from workbench.views.bytes.places import LEVELS, MapPlace, place_limits, reference_group
from workbench.views.bytes.rows import COMPARISONS, MAX_TENSORS, Comparison, compared, map_picture
from workbench.views.bytes.text import byte_words
from workbench.views.capacity.pool_fill import MAX_FINISHED, fill_pool
from workbench.views.capacity.pool_raster import VIEWS, raster_parts, usual_prompts
from workbench.views.html import document, refusal_html

NARROWEST_PX = 230
NUMBERS = ("tensor", "block", "kernel_block", "token", "head")
ZOOM_HINT, ZOOM_BACK = "Drag to zoom, click to open", "Reset zoom"
USUAL = ""
"""Value of a dropdown without a choice."""
POOL_BLOCKS = 10_000


def _blocks(box: widgets.Text, plan: Plan, usual: int) -> int:
    """Return the entered number of blocks, else the plan's, else the usual one."""
    own = (plan.cache.num_blocks if plan.cache else None) or usual
    return integer_of(box.value, box.description, own) if box.value.strip() else own


class PoolRaster(Panel):
    """The pool as a raster: number of blocks, prompt lengths, meaning of the colours."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        tip = "Set the number of blocks of the pool."
        self.blocks = text_box("Pool blocks", hint="the plan's", tip=tip)
        tip = "Prompt lengths in tokens, one per request."
        self.prompts = text_box("Prompt lengths", hint="a mix", tip=tip)
        tip = "Mark every n-th request as finished; 0 for none."
        self.finished = count_box("Free every n-th request", MAX_FINISHED, tip)
        self.by = dropdown("Colour by", VIEWS)
        self.figure = LiveFigure()
        controls = (self.blocks, self.prompts, self.finished, self.by)
        self.watch(*controls)
        self.fill(grid(controls, NARROWEST_PX), self.figure)

    def _draw(self, plan: Plan) -> Shown:
        words = self.prompts.value.replace(";", " ").split()
        prompts = [integer_of(word, self.prompts.description, 1) for word in words]
        blocks = _blocks(self.blocks, plan, POOL_BLOCKS)
        every = self.finished.value
        try:
            filled = fill_pool(plan, blocks, prompts or usual_prompts(plan), finished_every=every)
        except ValueError as error:
            raise ScenarioError("out_of_range", str(error)) from None
        traces, layout = raster_parts(filled, self.by.value)
        yield self.figure, go.Figure(traces, layout=layout)


class PagesPanel(Panel):
    """The page map: choose a level and a place, drag to zoom, click a bar to go one level down."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.pool: ByteMap | None = None
        self._other: Comparison | None = None
        self._window: tuple[int, int] | None = None
        self._build_controls()
        self.map = LiveFigure(ZOOMABLE, self._clicked, self._dragged)
        self._message, self._answer = widgets.HTML(), widgets.HTML()
        self._refusal = self._message
        self.raster = PoolRaster(session)
        self.fill(
            grid([self.level, *self.numbers.values(), self.part], NARROWEST_PX),
            grid([self.blocks, self.layout, self.runner, self.compare], NARROWEST_PX),
            self._message,
            self.map,
            grid([self.byte, self.zoomed], NARROWEST_PX),
            self._answer,
            widgets.HTML(document("<h4>The whole pool</h4>")),
            self.raster,
        )

    def _build_controls(self) -> None:
        self.level = dropdown("Level", LEVELS, "block")
        self.numbers = {name: count_box(name.replace("_", " ").capitalize(), 0) for name in NUMBERS}
        self.part = dropdown("Part", [("first", USUAL)])
        self.layout = dropdown("Layout", [("not set", USUAL)])
        self.runner = dropdown("Model runner", [(name.upper(), name) for name in RUNNERS], "v1")
        rules = [(name, rule) for rule, name in COMPARISONS.items()]
        self.compare = dropdown("Compare with", [("nothing", USUAL), *rules])
        self.blocks = text_box("Blocks", hint=f"the plan's, or {DEFAULT_BLOCKS}")
        self.byte = text_box("Look up byte", hint="byte offset, then Enter")
        self.zoomed = widgets.ToggleButton(
            description=ZOOM_HINT,
            disabled=True,
            tooltip="Reset the zoom of the figure.",
            layout={"width": "auto"},
        )
        self.watch(self.blocks, self.layout, self.runner, self.compare, then=self._rebuild)
        places = (self.level, self.part, *self.numbers.values())
        self.watch(*places, self.zoomed, then=self._redraw_whole)
        self.watch(self.byte, then=self._answer_byte)

    @property
    def place(self) -> MapPlace:
        """Place that the controls and the zoom of the figure select."""
        numbers = {name: control.value for name, control in self.numbers.items()}
        part = self.part.value or None
        return MapPlace(self.level.value, **numbers, part=part, window=self._window)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock:
            self._plan = plan
            self._offer_version(plan)
            self._rebuild()
        self.raster.show(plan)

    def _rebuild(self) -> None:
        """Lay the tensor out anew, and draw it."""
        self.pool = None
        self._redraw_whole()

    def _redraw_whole(self) -> None:
        self._window = None
        self.redraw()

    @guarded
    def _dragged(self, left: float, right: float) -> None:
        with self._lock:
            if self.by_program or self.pool is None or self.level.value == "pool":
                return
            whole = self.pool.tensor(self.numbers["tensor"].value).raw_bytes
            low, high = max(0, floor(left)), min(whole, ceil(right))
            self._window = (min(low, whole - 1), max(high, low + 1))
            self.redraw()

    @guarded
    def _clicked(self, trace: Any, point: int) -> None:
        with self._lock:
            if self.pool is not None and 0 <= point < len(trace.y):
                self._go_down(self.pool, int(trace.y[point]), int(trace.base[point]))

    def _offer_version(self, plan: Plan) -> None:
        """Offer the layout names of the plan's version, and the comparison if it has a rewrite."""
        rules = plan.rules.layouts
        options = (("not set", USUAL), *((name, name) for name in rules.names))
        with self.by_program:
            if self.layout.options != options:
                self.layout.options = options
                self.layout.value = USUAL
            self.compare.disabled = not rules.rewrites_strides
            if self.compare.disabled:
                self.compare.value = USUAL

    def _draw(self, plan: Plan) -> Shown:
        if self.pool is None:
            self.pool = self._laid_out(plan)
        self._offer(self.pool)
        drawn = map_picture(self.pool, self.place, self._other)
        yield self.map, go.Figure(map_traces(drawn), layout=map_layout(drawn))
        yield self._answer, self._byte_html()

    def _laid_out(self, plan: Plan) -> ByteMap:
        options: dict[str, Any] = {
            "num_blocks": _blocks(self.blocks, plan, DEFAULT_BLOCKS),
            "runner": self.runner.value,
            "layout": self.layout.value or None,
        }
        pool, rule = byte_map(plan, **options), self.compare.value
        self._other = compared(plan, rule, **options) if rule else None
        return pool

    def _answer_byte(self) -> None:
        self._answer.value = self._byte_html()

    def _byte_html(self) -> str:
        text = self.byte.value
        if self.pool is None or not text.strip():
            return ""
        try:
            byte = integer_of(text, "byte", 0, low=0)
            words = byte_words(self.pool, self.numbers["tensor"].value, byte)
        except WorkbenchError as error:
            return document(refusal_html(error))
        return document("".join(f"<div>{escape(line)}</div>" for line in words))

    def _offer(self, pool: ByteMap) -> None:
        """Set bounds and parts of this pool; numbers that are too large become the nearest."""
        with self.by_program:
            tensor = min(self.numbers["tensor"].value, len(pool.tensors) - 1)
            names = [part.name for part in reference_group(pool, tensor).parts]
            options = (("first", USUAL), *((name, name) for name in names))
            if self.part.options != options:
                self.part.options = options
            limits = place_limits(pool, MapPlace(tensor=tensor, part=self.part.value or None))
            for name, control in self.numbers.items():
                control.max = limits[name] - 1
                control.disabled = limits[name] == 1
            self.zoomed.value = self._window is not None
            self.zoomed.disabled = self._window is None
            self.zoomed.description = ZOOM_HINT if self._window is None else ZOOM_BACK

    def _go_down(self, pool: ByteMap, row: int, byte: int) -> None:
        """Open the place of a clicked byte, one level deeper."""
        depth = min(LEVELS.index(self.level.value) + 1, len(LEVELS) - 1)
        tensor = self.numbers["tensor"].value
        if self.level.value == "pool":
            tensor += row - tensor % MAX_TENSORS
        meaning = reference_group(pool, tensor).meaning(byte)
        found = {
            "tensor": tensor,
            "block": meaning.page,
            "kernel_block": meaning.kernel_block,
            "token": meaning.kernel_token,
            "head": meaning.head,
        }
        with self.by_program:
            for name, number in found.items():
                self.numbers[name].value = number or 0
            if not meaning.is_padding and meaning.part in dict(self.part.options):
                self.part.value = meaning.part
            self.level.value = LEVELS[depth]
        self._redraw_whole()
