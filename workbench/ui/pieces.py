"""Small controls that every tab uses, for one look."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from workbench.ui.controls import WIDE

LONGEST_TIP = 400


class ProgramChanges(threading.local):
    """Marks the changes of widgets that the program makes: their callbacks have nothing to do.

    `with self.by_program: ...` around the changes; `if self.by_program: return` in a callback. It
    counts for the thread that makes the changes: a person's click comes on another one.
    """

    _depth = 0

    def __enter__(self) -> None:
        self._depth += 1

    def __exit__(self, *_exception: object) -> None:
        self._depth -= 1

    def __bool__(self) -> bool:
        return self._depth > 0


def dropdown(label: str, options: Any, value: Any = None) -> widgets.Dropdown:
    """Return a dropdown as wide as its cell; the first option is selected unless `value` is one."""
    made = widgets.Dropdown(
        description=label, options=tuple(options), style=WIDE, layout=widgets.Layout(width="auto")
    )
    if value is not None:
        made.value = value
    return made


def text_box(label: str, value: str = "", hint: str = "", tip: str = "") -> widgets.Text:
    """Return a text box whose value changes on Enter or when it is left."""
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
    """Return a button as wide as its text."""
    return widgets.Button(description=name, tooltip=tip, layout=widgets.Layout(width="auto"))


def apply_button(
    name: str, tip: str, pressed: Callable[[widgets.Button], None] | None = None
) -> widgets.Button:
    """Return a button that changes the scenario or an input, in the look of a remedy."""
    made = button(name, tip[:LONGEST_TIP])
    made.add_class("wb-apply")
    if pressed is not None:
        made.on_click(pressed)
    return made


def count_box(
    label: str, most: int, tip: str = "", *, least: int = 0, value: int = 0
) -> widgets.BoundedIntText:
    """Return a box for an integer from `least` to `most`."""
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
    """Return controls side by side, as many as fit, none narrower than this."""
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
