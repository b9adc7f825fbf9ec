"""A text control of a declared field, for the labs that have fields of their own."""

from typing import Any

import ipywidgets as widgets

from workbench.scenario import Field
from workbench.ui.pieces import text_box


class Entry:
    """A text, empty for the default; sent on Enter or when left.

    `read` gets the changed value: another thread may have set the control again since.
    """

    def __init__(self, declared: Field) -> None:
        self.declared = declared
        self.field = declared.name
        self.widget: widgets.Text = text_box(declared.label, "", declared.none, declared.tip)

    def read(self, shown: str) -> Any:
        """Return the value of what the control shows; ScenarioError if it has none."""
        return self.declared.kind.parse(self.field, shown)
