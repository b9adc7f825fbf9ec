"""A text box that completes words: the browser sends text and cursor, Python what may come."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anywidget
from traitlets import Dict, Unicode

from workbench.sweeps.language import Completion


class CompletionBox(anywidget.AnyWidget):
    """A text with a list below the cursor. complete: returns what may be at a cursor."""

    _esm = Path(__file__).with_suffix(".js")
    value = Unicode().tag(sync=True)
    label = Unicode().tag(sync=True)
    offers = Dict().tag(sync=True)
    """text, at: what it is for; start: of the word; words: [word, meaning] that may replace it."""

    def __init__(self, complete: Callable[[str, int], Completion], **given: Any) -> None:
        super().__init__(**given)
        self._complete = complete
        self.on_msg(self._requested)

    def _requested(self, _widget: Any, content: Mapping[str, Any], _buffers: Any) -> None:
        match content:
            case {"text": str(text), "at": int(at)}:
                found = self._complete(text, at)
                words = [list(offer) for offer in found.offers]
                self.offers = {"text": text, "at": at, "start": found.start, "words": words}
