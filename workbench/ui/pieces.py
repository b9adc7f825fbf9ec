"""Small controls that every tab uses, for one look."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from workbench.core.errors import ScenarioError
from workbench.core.sizes import integer_value
from workbench.scenario import Field
from workbench.views.html import code_block

LABEL_PX, ARROW_PX, LETTER_PX, WIDEST_PX = 158, 36, 7, 400
"""Of a control: its label, the arrow of a dropdown, a letter; and how wide options may make it."""
LONGEST_TIP = 400
HUGE = 10**18


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


class CopyBox(anywidget.AnyWidget):
    """A block of text under a button; without access to the clipboard, the text gets selected.

    Code that `opens` has a second button in JupyterLab: it runs in a new cell below, and the page
    sends "opened".
    """

    _esm = Path(__file__).with_name("copy_box.js")
    text = traitlets.Unicode("").tag(sync=True)
    label = traitlets.Unicode("").tag(sync=True)
    opens = traitlets.Bool(False).tag(sync=True)

    def static_html(self) -> str:
        """Return the text to select, for pages without a kernel."""
        return code_block(self.text)


class SaveTables(anywidget.AnyWidget):
    """A button that saves the tables of its lab as `name`.csv; hidden where there are none."""

    _esm = Path(__file__).with_name("save_tables.js")
    _css = ".wb-tab:not(:has(table)) .wb-save-tables { display: none; }"
    name = traitlets.Unicode("").tag(sync=True)

    def static_html(self) -> str:
        """Return nothing: a page without a kernel has the tables alone."""
        return ""


def control(kind: Callable[..., Any], label: str, tip: str = "", **given: Any) -> Any:
    """Return a control with its label, as wide as its cell."""
    look = {"style": {"description_width": f"{LABEL_PX}px"}, "layout": {"width": "auto"}}
    return kind(description=label, tooltip=tip, **{**look, **given})


def dropdown(
    label: str, options: Iterable[Any], value: Any = None, tip: str = ""
) -> widgets.Dropdown:
    """Return a dropdown; the first option is selected unless `value` is one."""
    selected = {} if value is None else {"value": value}
    return control(widgets.Dropdown, label, tip, options=tuple(options), **selected)


def text_box(label: str, value: str = "", hint: str = "", tip: str = "") -> widgets.Text:
    """Return a text box whose value changes on Enter or when it is left."""
    given = {"value": value, "placeholder": hint, "continuous_update": False}
    return control(widgets.Text, label, tip, **given)


class Entry:
    """A text control of a declared field, empty for the default; sent on Enter or when left.

    `read` gets the changed value: another thread may have set the control again since.
    """

    def __init__(self, declared: Field) -> None:
        self.declared = declared
        self.field = declared.name
        self.widget = text_box(declared.label, "", declared.none, declared.tip)

    def read(self, shown: str) -> Any:
        """Return the value of what the control shows; ScenarioError if it has none."""
        return self.declared.kind.parse(self.field, shown)


def count_box(
    label: str, most: int, tip: str = "", *, least: int = 0, value: int = 0
) -> widgets.BoundedIntText:
    """Return a box for an integer from `least` to `most`."""
    return control(widgets.BoundedIntText, label, tip, min=least, max=most, value=value)


def integer_of(text: str, name: str, usual: int, low: int = 1, high: int = HUGE) -> int:
    """Return the integer in a text such as "4,096" or "32K"; see `integer_value`.

    Errors: ScenarioError with the nearest valid value, `usual` for what is not an integer.
    """
    value, nearest = integer_value(text.strip().replace(",", "")), usual
    if isinstance(value, int):
        nearest = min(max(value, low), high)
        if value == nearest:
            return value
    most = f" and at most {high:,}" if high < HUGE else ""
    raise ScenarioError(
        "not_an_integer_in_range",
        f"Invalid {name.lower()} {text[:40]!r}. Expected an integer of at least {low:,}{most}. "
        f"Nearest valid value: {nearest}.",
        field=name,
    )


def button(name: str, tip: str = "", **given: Any) -> widgets.Button:
    """Return a button as wide as its text."""
    return widgets.Button(description=name, tooltip=tip, layout={"width": "auto"}, **given)


def apply_button(name: str, tip: str) -> widgets.Button:
    """Return a button that changes the scenario or an input, in the look of a remedy."""
    made = button(name, tip[:LONGEST_TIP])
    made.add_class("wb-apply")
    return made


def grid(controls: Iterable[widgets.Widget], narrowest_px: int = 270) -> widgets.GridBox:
    """Return controls side by side, as many as fit, none narrower than this or the page.

    A dropdown is as wide as its longest option, a text box as its hint, up to a limit.
    """
    shown = list(controls)
    least = max(narrowest_px, min(max(map(_needed_px, shown), default=0), WIDEST_PX))
    columns = f"repeat(auto-fill, minmax(min({least}px, 100%), 1fr))"
    layout = {"grid_template_columns": columns, "grid_gap": "2px 14px"}
    return widgets.GridBox(shown, layout=layout)


def _needed_px(one: widgets.Widget) -> int:
    """Return the width of a control with its label and longest text; 0 for what has neither."""
    options = getattr(one, "options", (getattr(one, "placeholder", ""),))
    names = (option if isinstance(option, str) else option[0] for option in options)
    letters = max((len(str(name)) for name in names), default=0)
    return (LABEL_PX + ARROW_PX + LETTER_PX * letters) if letters else 0


def line(*parts: widgets.Widget) -> widgets.HBox:
    """Return parts as wide as they are, one after the other."""
    return widgets.HBox(parts, layout={"flex_flow": "row wrap"})


def widget_of(part: Any) -> widgets.DOMWidget:
    """Return the widget that shows a part: its own `widget`, or itself."""
    return getattr(part, "widget", part)


def mark_stale(stale: bool, *parts: Any) -> None:
    """Grey parts out: what they show is of an older input. Or show them in full again."""
    for widget in map(widget_of, parts):
        (widget.add_class if stale else widget.remove_class)("wb-stale")


def display(part: widgets.DOMWidget, *, shown: bool) -> None:
    """Show a part, or take it off the screen."""
    part.layout.display = None if shown else "none"


def replace_children(box: widgets.Box, children: Iterable[widgets.Widget]) -> None:
    """Show `children` in `box`, and close what they replace with everything that it holds."""
    before, box.children = box.children, tuple(children)
    for widget in before:
        if widget not in box.children:
            close_tree(widget)


def close_tree(widget: widgets.Widget) -> None:
    """Close a widget, its children, and the models of its layout, style and state.

    ipywidgets keeps all of them, in the kernel and in the browser, until each is closed.
    """
    for child in getattr(widget, "children", ()):
        close_tree(child)
    for name in ("layout", "style", "state"):
        if part := getattr(widget, name, None):
            part.close()
    widget.close()
