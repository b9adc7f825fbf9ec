"""Small controls that every tab uses, so that they look alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from workbench.ui.controls import WIDE

LONGEST_TIP = 400


def dropdown(label: str, options: Any) -> widgets.Dropdown:
    """A picker as wide as its cell."""
    return widgets.Dropdown(
        description=label, options=options, style=WIDE, layout=widgets.Layout(width="auto")
    )


def text_box(label: str, value: str, hint: str = "") -> widgets.Text:
    """A text that counts when it is left."""
    return widgets.Text(
        value=value,
        description=label,
        placeholder=hint,
        continuous_update=False,
        style=WIDE,
        layout=widgets.Layout(width="auto"),
    )


def button(name: str, tip: str) -> widgets.Button:
    """A button as wide as its text."""
    return widgets.Button(description=name, tooltip=tip, layout=widgets.Layout(width="auto"))


def apply_button(
    name: str, tip: str, pressed: Callable[[widgets.Button], None] | None = None
) -> widgets.Button:
    """A button that changes the scenario or an input, in the look of a remedy."""
    made = button(name, tip[:LONGEST_TIP])
    made.add_class("wb-apply")
    if pressed is not None:
        made.on_click(pressed)
    return made


def row(controls: Iterable[widgets.Widget]) -> widgets.GridBox:
    """Controls side by side, as many as fit."""
    return widgets.GridBox(
        list(controls),
        layout=widgets.Layout(
            grid_template_columns="repeat(auto-fill, minmax(270px, 1fr))", grid_gap="2px 14px"
        ),
    )
