"""What a notebook keeps of a widget: a picture in an output of its own, above the widget's.

A widget lives as long as its kernel. JupyterLab prefers it to any picture in the same output, and
shows an error in its place once the kernel is gone, so the picture needs an output that stays.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import ipywidgets as widgets
from IPython.display import display, update_display

from workbench.views.html import Html, join, tag

OUTPUT = ":is(.jp-OutputArea-child, .output_container)"
"""One output, in JupyterLab, Notebook, Voila and nbconvert, and in VS Code."""
LIVE, SAVED = ".wb-panel", ".wb-saved"
STYLE = (
    f"<style>{OUTPUT}:has({SAVED}):has(+ {OUTPUT} {LIVE}), "
    f"{OUTPUT}:has({SAVED}) + {OUTPUT}:not(:has({LIVE})) {{ display: none; }}</style>"
)
"""Of both outputs the widget's is shown while it lives, else the picture."""
HOW_TO_CHANGE = (
    "A picture of what this cell showed. Run the cell again to work with it; changes made by hand "
    "are not in its code."
)


class SavedPicture:
    """Something with a `widget`, of which a notebook keeps text and HTML."""

    widget: widgets.DOMWidget

    @abstractmethod
    def _kept(self) -> tuple[str, str]:
        """Return the text and the HTML that are kept."""

    def _repr_mimebundle_(self, **_kwargs: Any) -> dict[str, Any]:
        """Return what is kept, for hosts without widgets."""
        text, html = self._kept()
        return {"text/plain": text, "text/html": str(html)}

    def _ipython_display_(self) -> None:
        """Show what is kept, and the widget in its place wherever that lives."""
        display(self._picture(), raw=True, display_id=self.widget.model_id)
        display({**(self.widget._repr_mimebundle_() or {}), "text/plain": ""}, raw=True)

    def keep(self) -> None:
        """Replace the picture that notebooks keep by one of what is shown now."""
        update_display(self._picture(), raw=True, display_id=self.widget.model_id)

    def _picture(self) -> dict[str, str]:
        text, html = self._kept()
        note = tag("div", tag("p", HOW_TO_CHANGE, class_="wb-faint"), class_="wb")
        kept = join(Html(STYLE), tag("div", Html(html), note, class_="wb-saved"))
        return {"text/plain": text, "text/html": str(kept)}
