"""Where every byte goes: the page map with its controls, "what is byte N?", and the pool."""

from __future__ import annotations

import threading
from html import escape
from math import ceil, floor
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.byte_map.of_plan import ByteMap, byte_map
from workbench.core.errors import WorkbenchError
from workbench.core.layouts.layer_views import RUNNERS
from workbench.core.plan import Plan
from workbench.ui.live_figure import ZOOMABLE, LiveFigure
from workbench.ui.panels.pages.pool import PoolRaster, optional_integer
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import ProgramChanges, count_box, dropdown, row, text_box
from workbench.ui.session import Session, guarded
from workbench.views.bytes.map import (
    COMPARISONS,
    DEFAULT_BLOCKS,
    LEVELS,
    Comparison,
    MapPlace,
    compared,
    map_layout,
    map_picture,
    map_traces,
)
from workbench.views.bytes.places import place_limits, reference_group
from workbench.views.bytes.rows import MAX_TENSORS
from workbench.views.bytes.text import byte_words
from workbench.views.html import document

NARROWEST_PX = 230
NUMBERS = ("tensor", "block", "kernel_block", "token", "head")
ZOOM_HINT, ZOOM_BACK = "Drag to zoom, click to open", "Reset zoom"
USUAL = ""
"""Value of a dropdown without a choice."""


class PagesPanel(Panel):
    """The page map: choose a level and a place, drag to zoom, click a bar to go one level down."""

    title = "Bytes of a page"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.pool: ByteMap | None = None
        self._plan: Plan | None = None
        self._other: Comparison | None = None
        self._window: tuple[int, int] | None = None
        self._lock = threading.RLock()
        self.by_program = ProgramChanges()
        self._build_controls()
        self.map = LiveFigure(ZOOMABLE, self._clicked, self._dragged)
        self._message, self._answer = widgets.HTML(), widgets.HTML()
        self.zoomed = widgets.ToggleButton(
            description=ZOOM_HINT,
            disabled=True,
            tooltip="Reset the zoom of the figure.",
            layout=widgets.Layout(width="auto"),
        )
        self.zoomed.observe(self._zoom_toggled, names="value")
        self.raster = PoolRaster(self._pool_changed)
        self._raster_message = widgets.HTML()
        self.fill(
            row([self.level, *self.numbers.values(), self.part], NARROWEST_PX),
            row([self.blocks, self.layout, self.runner, self.compare], NARROWEST_PX),
            self._message,
            self.map.widget,
            row([self.byte, self.zoomed], NARROWEST_PX),
            self._answer,
            widgets.HTML(document("<h4>The whole pool</h4>")),
            row(self.raster.controls, NARROWEST_PX),
            self._raster_message,
            self.raster.figure.widget,
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
        for control in (self.blocks, self.layout, self.runner, self.compare):
            control.observe(self._layout_changed, names="value")
        for control in (self.level, self.part, *self.numbers.values()):
            control.observe(self._place_changed, names="value")
        self.byte.observe(self._byte_entered, names="value")

    @property
    def place(self) -> MapPlace:
        """Place that the controls and the zoom of the figure select."""
        numbers = {name: control.value for name, control in self.numbers.items()}
        return MapPlace(
            self.level.value, **numbers, part=self.part.value or None, window=self._window
        )

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock:
            self._plan = plan
            self._offer_version(plan)
            self._rebuild()
            self._show_raster()

    @guarded
    def _layout_changed(self, _change: Any) -> None:
        with self._lock:
            if not self.by_program:
                self._rebuild()

    @guarded
    def _place_changed(self, _change: Any) -> None:
        with self._lock:
            if not self.by_program:
                self._window = None
                self._draw()

    @guarded
    def _zoom_toggled(self, _change: Any) -> None:
        with self._lock:
            if not self.by_program:
                self._window = None
                self._draw()

    @guarded
    def _dragged(self, left: float, right: float) -> None:
        with self._lock:
            if self.by_program or self.pool is None or self.level.value == "pool":
                return
            whole = self.pool.tensor(self.numbers["tensor"].value).raw_bytes
            low, high = max(0, floor(left)), min(whole, ceil(right))
            self._window = (min(low, whole - 1), max(high, low + 1))
            self._draw()

    @guarded
    def _clicked(self, trace: Any, point: int) -> None:
        with self._lock:
            if self.pool is not None and 0 <= point < len(trace.y):
                self._go_down(int(trace.y[point]), int(trace.base[point]))

    @guarded
    def _byte_entered(self, _change: Any) -> None:
        with self._lock:
            self._answer_byte()

    @guarded
    def _pool_changed(self, _change: Any) -> None:
        with self._lock:
            self._show_raster()

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

    def _rebuild(self) -> None:
        """Lay the tensor out anew, and draw it."""
        if self._plan is None:
            return
        own = self._plan.cache.num_blocks if self._plan.cache else None
        try:
            requested = optional_integer("Blocks", self.blocks.value)
            blocks = requested if requested is not None else own or DEFAULT_BLOCKS
            options: dict[str, Any] = {
                "num_blocks": blocks,
                "runner": self.runner.value,
                "layout": self.layout.value or None,
            }
            self.pool = byte_map(self._plan, **options)
            rule = self.compare.value
            self._other = compared(self._plan, rule, **options) if rule else None
        except WorkbenchError as error:
            self.pool = None
            self._refuse(error)
            return
        self._window = None
        self._draw()

    def _draw(self) -> None:
        if self.pool is None:
            return
        self._offer(self.pool)
        try:
            drawn = map_picture(self.pool, self.place, self._other)
        except WorkbenchError as error:
            self._refuse(error)
            return
        self._message.value = ""
        self.clear_error()
        self.map.show(go.Figure(map_traces(drawn), layout=map_layout(drawn)))
        self._answer_byte()

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

    def _go_down(self, row: int, byte: int) -> None:
        """Open the place of a clicked byte, one level deeper."""
        assert self.pool is not None
        depth = min(LEVELS.index(self.level.value) + 1, len(LEVELS) - 1)
        tensor = self.numbers["tensor"].value
        if self.level.value == "pool":
            tensor += row - tensor % MAX_TENSORS
        meaning = reference_group(self.pool, tensor).meaning(byte)
        with self.by_program:
            self.numbers["tensor"].value = tensor
            self.numbers["block"].value = meaning.page
            found = {
                "kernel_block": meaning.kernel_block,
                "token": meaning.kernel_token,
                "head": meaning.head,
            }
            for name, number in found.items():
                self.numbers[name].value = number or 0
            if not meaning.is_padding and meaning.part in dict(self.part.options):
                self.part.value = meaning.part
            self.level.value = LEVELS[depth]
        self._window = None
        self._draw()

    def _answer_byte(self) -> None:
        text = self.byte.value
        if self.pool is None or not text.strip():
            self._answer.value = ""
            return
        try:
            byte = optional_integer("Byte", text)
            words = byte_words(self.pool, self.numbers["tensor"].value, byte or 0)
        except WorkbenchError as error:
            self._answer.value = _problem(error)
            return
        self._answer.value = document("".join(f"<div>{escape(line)}</div>" for line in words))

    def _show_raster(self) -> None:
        if self._plan is not None:
            wrong = self.raster.show(self._plan)
            message = f'<div class="wb-problem">{escape(wrong)}</div>'
            self._raster_message.value = document(message) if wrong else ""

    def _refuse(self, error: WorkbenchError) -> None:
        """Show why nothing can be drawn, and grey out the older picture."""
        self._message.value = _problem(error)
        self._answer.value = ""
        self.map.mark(stale=True)


def _problem(error: WorkbenchError) -> str:
    quoted = ""
    if error.vllm_text:
        quoted = f'<div class="wb-faint">vLLM says: <code>{escape(error.vllm_text)}</code></div>'
    return document(f'<div class="wb-problem">{escape(error.message)}{quoted}</div>')
