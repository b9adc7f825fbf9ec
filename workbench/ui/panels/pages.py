"""Where every byte goes: the page map, an inspector, and "what is byte N?"."""

from dataclasses import replace
from functools import partial
from math import ceil, floor
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.byte_map.of_plan import byte_map
from workbench.core.byte_map.tensors import ByteMap
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.layouts.layer_views import RUNNERS
from workbench.core.plan import Plan
from workbench.door.session import Session, guarded
from workbench.ui import pieces
from workbench.ui.live_figure import ZOOMABLE, LiveFigure, Reading
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.panels.pool import NARROWEST_PX, POOL_SIZE, PoolRaster, entered_blocks
from workbench.views.bytes import rows
from workbench.views.bytes.map import DEFAULT_BLOCKS, map_layout, map_traces
from workbench.views.bytes.places import LEVELS, MapPlace, opened, place_limits, reference_group
from workbench.views.bytes.text import byte_inspector, byte_words
from workbench.views.html import document, note, refusal_html, stacked

NUMBERS = ("tensor", "block", "kernel_block", "token", "head")
HINT = "Point at a byte to read it here, click to go one level down, drag to zoom."
USUAL = ""
"""Value of a dropdown without a choice."""


class PagesPanel(Panel):
    """The page map with an inspector: a click goes one level down, the level row goes back up."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.pool: ByteMap | None = None
        self._picture: rows.MapPicture | None = None
        self._other: rows.Comparison | None = None
        self._window: tuple[int, int] | None = None
        self._clicked_byte: int | None = None
        self._found: MapPlace | None = None
        """Where the entered byte is; while a person looks there, the picture follows it."""
        self._build_controls()
        self.map = LiveFigure(ZOOMABLE, self._clicked, self._dragged, self._moved)
        self.map.widget.layout.flex = "1 1 560px"
        self._message, self._answer, self._cursor = (widgets.HTML() for _ in range(3))
        self._refusal = self._message
        self._cursor.layout.min_height = "130px"
        inspector = widgets.VBox([self.byte, self._answer, self._cursor])
        inspector.layout.flex = "0 1 270px"
        self.raster = PoolRaster(session)
        self.fill(
            pieces.line(self.level, self.reset_zoom),
            self._message,
            pieces.line(self.map.widget, inspector),
            pieces.grid([*self.numbers.values(), self.states, self.part], NARROWEST_PX),
            pieces.grid([self.blocks, self.layout, self.runner, self.compare], NARROWEST_PX),
            widgets.HTML(document("<h4>The whole pool</h4>")),
            self.raster,
        )

    def _build_controls(self) -> None:
        self.level = widgets.ToggleButtons(
            description="Level",
            tooltip="How much of the pool is shown.",
            options=LEVELS,
            value="block",
            style={"button_width": "auto"},
        )
        self.numbers = {
            name: pieces.count_box(name.replace("_", " ").capitalize(), 0) for name in NUMBERS
        }
        self.states = pieces.dropdown("Count", (("attention", False), ("states", True)), False)
        self.part = pieces.dropdown("Part", [("first", USUAL)])
        self.layout = pieces.dropdown("Layout", [("not set", USUAL)])
        self.runner = pieces.dropdown(
            "Model runner", [(name.upper(), name) for name in RUNNERS], "v1"
        )
        rules = [(name, rule) for rule, name in rows.COMPARISONS.items()]
        self.compare = pieces.dropdown("Compare with", [("nothing", USUAL), *rules])
        self.blocks = pieces.text_box(POOL_SIZE, hint="the plan's")
        self.byte = pieces.text_box("Look up byte", hint="offset, Enter")
        self.byte.style.description_width = "auto"
        self.reset_zoom = pieces.button("Reset zoom", "Show the whole level again.")
        self.watch(self.blocks, self.layout, self.runner, self.compare, then=self._rebuild)
        places = (self.level, self.states, self.part, *self.numbers.values())
        self.watch(*places, then=self._redraw_whole)
        self.watch(self.byte, then=self._look_up)
        # Enter goes to the byte also where the number is the one that was there.
        self.byte.on_msg(lambda _box, sent, _: self._changed(partial(self._entered, sent)))
        self.press(self.reset_zoom, self._redraw_whole)

    @property
    def place(self) -> MapPlace:
        """Place that the controls and the zoom of the figure select."""
        numbers = {name: control.value for name, control in self.numbers.items()}
        part, states = self.part.value or None, self.states.value
        window = self._window
        return MapPlace(self.level.value, **numbers, states=states, part=part, window=window)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock:
            self._plan = plan
            follows = self.place == self._found
            self._offer_version(plan)
            self._rebuild()
            if follows and self.pool is not None:
                self._look_up()
                self._found = self.place  # also where this pool has no such byte
        self.raster.show(plan)

    def _rebuild(self) -> None:
        """Lay the tensor out anew, and draw it."""
        self.pool = self._clicked_byte = None
        self._redraw_whole()

    def _redraw_whole(self) -> None:
        with self._lock:
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
    def _clicked(self, trace: Any, point: int, cursor: Reading | None) -> None:
        """Open the clicked byte: the one under the cursor, or the first of a bar."""
        with self._lock:
            if self.pool is None or not 0 <= point < len(trace.y):
                return
            first, row = int(trace.base[point]), int(trace.y[point])
            last = first + int(trace.x[point]) - 1
            byte = first if cursor is None else min(max(first, floor(cursor[0])), last)
            place = opened(self.pool, self._of_row(row), byte)
            with self.by_program:
                self.byte.value = ""
            self._go_to(place, byte)

    @guarded
    def _moved(self, x: float, y: float) -> None:
        """Show the byte under the cursor."""
        with self._lock:
            if self.pool is None or self._picture is None:
                return
            place = self._of_row(min(max(0, round(y)), len(self._picture.rows) - 1))
            if 0 <= x < self.pool.tensor(place.tensor).raw_bytes:
                lines = byte_words(self.pool, place.tensor, floor(x))
                self._cursor.value = document(note("Under the cursor:"), stacked(*lines))

    def _of_row(self, row: int) -> MapPlace:
        """Return the present place, with the tensor or the kind of layer that a row shows."""
        place = self.place
        if self._picture is None or row >= len(self._picture.rows):
            return place
        if place.level == "pool":
            return replace(place, tensor=place.tensor - place.tensor % rows.MAX_TENSORS + row)
        states = self._picture.rows[row].states
        return place if states is None else replace(place, states=states)

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
        self._picture = drawn = rows.map_picture(self.pool, self.place, self._other)
        layout = map_layout(drawn, marked=self._byte())
        yield self.map, go.Figure(map_traces(drawn), layout=layout)
        pieces.display(self.reset_zoom, shown=self._window is not None)
        yield self._answer, self._byte_html()
        yield self._cursor, document(note(HINT))

    def _laid_out(self, plan: Plan) -> ByteMap:
        options: dict[str, Any] = {
            "num_blocks": entered_blocks(self.blocks, plan, DEFAULT_BLOCKS),
            "runner": self.runner.value,
            "layout": self.layout.value or None,
        }
        pool, rule = byte_map(plan, **options), self.compare.value
        self._other = rows.compared(plan, rule, **options) if rule else None
        return pool

    def _byte(self) -> int | None:
        """Return the entered byte, else the clicked one; None without one that is a number."""
        if not self.byte.value.strip():
            return self._clicked_byte
        try:
            return pieces.integer_of(self.byte.value, "byte", 0, low=0)
        except ScenarioError:
            return None

    def _look_up(self) -> None:
        """Go to the entered byte, as far as it exists; an empty box shows nothing."""
        self._clicked_byte = self._found = None
        byte, pool, place = self._byte(), self.pool, self.place
        if pool is None or byte is None or byte >= pool.tensor(place.tensor).raw_bytes:
            self.redraw()
            return
        level = "head" if reference_group(pool, place).is_state else "token"
        self._go_to(opened(pool, place, byte, level))
        self._found = self.place

    def _entered(self, sent: Any) -> None:
        if sent == {"event": "submit"} and self.place != self._found:
            self._look_up()

    def _byte_html(self) -> str:
        """Return what the entered or clicked byte is, or why there is none."""
        if self.pool is None:
            return ""
        tensor = self.numbers["tensor"].value
        try:
            if not self.byte.value.strip():
                byte = self._clicked_byte
            else:
                byte = pieces.integer_of(self.byte.value, "byte", 0, low=0)
            return "" if byte is None else document(byte_inspector(self.pool, tensor, byte))
        except WorkbenchError as error:
            return document(refusal_html(error))

    def _offer(self, pool: ByteMap) -> None:
        """Set bounds and parts of this pool; numbers that are too large become the nearest."""
        with self.by_program:
            tensor = min(self.numbers["tensor"].value, len(pool.tensors) - 1)
            kinds = {group.is_state for group in pool.tensor(tensor).groups}
            self.states.disabled = len(kinds) == 1
            if self.states.disabled:
                self.states.value = True in kinds
            place = MapPlace(tensor=tensor, states=self.states.value)
            names = [part.name for part in reference_group(pool, place).parts]
            options = (("first", USUAL), *((name, name) for name in names))
            if self.part.options != options:
                self.part.options = options
            limits = place_limits(pool, replace(place, part=self.part.value or None))
            for name, control in self.numbers.items():
                control.max = limits[name] - 1
                control.disabled = limits[name] == 1

    def _go_to(self, place: MapPlace, byte: int | None = None) -> None:
        """Set the controls to a place, of which `byte` was clicked, and draw it."""
        self._clicked_byte = byte
        with self.by_program:
            self.states.value = place.states
            self.numbers["tensor"].value = place.tensor
            if self.pool is not None:
                self._offer(self.pool)
            for name in NUMBERS:
                self.numbers[name].value = getattr(place, name)
            self.part.value = place.part if place.part in dict(self.part.options) else USUAL
            self.level.value = place.level
        self._redraw_whole()
