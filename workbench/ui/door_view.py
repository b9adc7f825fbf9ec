"""The widget that draws the front door's regions and reports what was clicked."""

from pathlib import Path

import anywidget
from traitlets import Bool, Dict, Unicode

FOLDER = Path(__file__).parents[1] / "door"


class DoorView(anywidget.AnyWidget):
    """The drawing: regions of HTML that Python made, and the messages of what was clicked."""

    _esm = FOLDER / "front_door.js"
    _css = FOLDER / "front_door.css"
    regions = Dict().tag(sync=True)
    """Name of a region -> its HTML."""
    plan = Unicode().tag(sync=True)
    """Fingerprint of the plan that the regions show."""
    announced = Unicode().tag(sync=True)
    """The answers in a sentence, for screen readers."""
    stale = Bool().tag(sync=True)
    """Whether the answers are those of an older scenario."""
    arrives = Bool(True).tag(sync=True)
    """Whether it was never shown: its first view is scrolled to."""
