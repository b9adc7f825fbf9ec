"""A figure that changes often: one widget for its whole life, drawn by plotly in the browser."""

import gzip
import threading
from collections.abc import Callable, Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from traitlets import Bool, Bytes, Dict, Instance, Int, Unicode

from workbench.ui.pieces import display, mark_stale
from workbench.views.frame import CONFIG
from workbench.views.static.show import static_bundle

Reading = tuple[float, float]
"""What the x axis and the y axis read at one place."""
ZOOMABLE = {**CONFIG, "doubleClick": False}
"""For figures that are drawn again when zoomed: plotly's own reset leads back to the first one."""


class FigureState(widgets.Widget):
    """Content of a view: plotly's JSON as a whole, and how often it has changed."""

    figure = Unicode().tag(sync=True)
    config = Dict().tag(sync=True)
    reads_cursor = Bool().tag(sync=True)
    revision = Int(0).tag(sync=True)


class PlotlyScript(widgets.Widget):
    """plotly's JavaScript, gzipped: one for all figures of a kernel."""

    packed = Bytes().tag(sync=True)
    version = Unicode().tag(sync=True)


class FigureView(anywidget.AnyWidget):
    """The drawing. It has no state of its own, so it can be shown, hidden and shown again."""

    _esm = Path(__file__).with_suffix(".js")
    state = Instance(FigureState).tag(sync=True, **widgets.widget_serialization)
    script = Instance(PlotlyScript).tag(sync=True, **widgets.widget_serialization)
    shown: go.Figure | None = None

    def static_html(self) -> str:
        """Return the figure as an image with alternative text, for pages without a kernel."""
        return "" if self.shown is None else static_bundle(self.shown)["text/html"]


class LiveFigure:
    """A widget that shows one figure after another.

    on_click: called with the trace, the index of the clicked point, and what the axes read under
    the cursor, if it was over them. on_zoom: called with both ends of the x axis after the user has
    dragged it. on_move: called with what the axes read under the cursor.
    """

    def __init__(
        self,
        config: Mapping[str, Any] = CONFIG,
        on_click: Callable[[Any, int, Reading | None], None] | None = None,
        on_zoom: Callable[[float, float], None] | None = None,
        on_move: Callable[[float, float], None] | None = None,
    ) -> None:
        self.figure: go.Figure | None = None
        self._on_click, self._on_zoom, self._on_move = on_click, on_zoom, on_move
        self._state = FigureState(config=dict(config), reads_cursor=on_move is not None)
        self.view = FigureView(state=self._state, script=_script())
        self.view.on_msg(self._receive)
        # Classes and layout are set here: the view may have stopped listening, see the script.
        self.widget = widgets.VBox([self.view])
        self.widget.add_class("wb-figure")

    def show(self, new: go.Figure) -> None:
        """Show `new`, at the panel's width; zoom and hidden traces are reset."""
        new.layout.autosize = True
        self.figure = self.view.shown = new
        with self._state.hold_sync():
            self._state.figure = new.to_json()
            self._state.revision += 1
        mark_stale(False, self)
        display(self.widget, shown=True)

    def hide(self) -> None:
        """Take the figure off the screen until the next one is shown."""
        display(self.widget, shown=False)

    def _receive(self, _view: FigureView, content: Mapping[str, Any], _buffers: Any) -> None:
        if self.figure is None:
            return
        match content:
            case {"event": "click", "trace": int(trace), "point": int(point)} if self._on_click:
                if 0 <= trace < len(self.figure.data):
                    self._on_click(self.figure.data[trace], point, _reading(content.get("at")))
            case {"event": "move", "at": at} if self._on_move:
                if (reading := _reading(at)) is not None:
                    self._on_move(*reading)
            case {"event": "zoom", "range": [float() | int() as low, float() | int() as high]}:
                if self._on_zoom:
                    self._on_zoom(low, high)


def _reading(sent: object) -> Reading | None:
    match sent:
        case [float() | int() as x, float() | int() as y] if isfinite(x) and isfinite(y):
            return x, y
    return None


_LOCK = threading.Lock()
_SCRIPTS: list[PlotlyScript] = []


def _script() -> PlotlyScript:
    """Return the kernel's script, made again if every widget was closed."""
    with _LOCK:
        if not _SCRIPTS or _SCRIPTS[-1].comm is None:
            _SCRIPTS[:] = [PlotlyScript(packed=_packed(), version=get_plotlyjs_version())]
        return _SCRIPTS[-1]


@cache
def _packed() -> bytes:
    return gzip.compress(get_plotlyjs().encode(), compresslevel=5, mtime=0)
