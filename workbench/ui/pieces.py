"""Small controls that every tab uses, so that they look alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from workbench.ui.controls import WIDE

LONGEST_TIP = 400


def dropdown(label: str, options: Any, value: Any = None) -> widgets.Dropdown:
    """A picker as wide as its cell; the first option is picked unless `value` is one."""
    made = widgets.Dropdown(
        description=label, options=tuple(options), style=WIDE, layout=widgets.Layout(width="auto")
    )
    if value is not None:
        made.value = value
    return made


def text_box(label: str, value: str = "", hint: str = "", tip: str = "") -> widgets.Text:
    """A text that counts when it is left."""
    return widgets.Text(
        value=value,
        description=label,
        placeholder=hint,
        tooltip=tip,
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


def count_box(
    label: str, most: int, tip: str = "", *, least: int = 0, value: int = 0
) -> widgets.BoundedIntText:
    """A whole number from `least` to `most`."""
    return widgets.BoundedIntText(
        value=value,
        description=label,
        min=least,
        max=most,
        tooltip=tip,
        style=WIDE,
        layout=widgets.Layout(width="auto"),
    )


def row(controls: Iterable[widgets.Widget], narrowest_px: int = 270) -> widgets.GridBox:
    """Controls side by side, as many as fit, none narrower than this."""
    columns = f"repeat(auto-fill, minmax({narrowest_px}px, 1fr))"
    return widgets.GridBox(
        list(controls),
        layout=widgets.Layout(grid_template_columns=columns, grid_gap="2px 14px"),
    )


def replace_children(box: widgets.Box, children: Iterable[widgets.Widget]) -> None:
    """Show `children` in `box`, and close what they replace with everything that it holds."""
    before, box.children = box.children, tuple(children)
    for widget in before:
        if widget not in box.children:
            close_tree(widget)


def close_tree(widget: widgets.Widget) -> None:
    """Close a widget, its children, and the models of its layout and style.

    ipywidgets keeps all of them, in the kernel and in the browser, until each is closed.
    """
    for child in getattr(widget, "children", ()):
        close_tree(child)
    for name in ("layout", "style"):
        if part := getattr(widget, name, None):
            part.close()
    widget.close()
