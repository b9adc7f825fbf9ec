"""Buttons of the front door: what they send, and what they open."""

import json
from collections.abc import Mapping
from typing import Any

from workbench.scenario import FIELDS
from workbench.views.html import Html, tag


def button(label: Any, do: str, arg: Any = "", *, key: str = "", **attributes: Any) -> Html:
    """Return a button that sends `do` and `arg`. key: finds it again after a new drawing."""
    sent = {"data_do": do, "data_arg": arg, "data_key": key or f"{do}-{arg or label}"}
    return tag("button", label, type="button", **sent, **attributes)


def toolbar(label: str, *content: Any, class_: str) -> Html:
    """Return a row of buttons, which the Tab key enters once; arrow keys move inside it."""
    return tag("div", *content, role="toolbar", aria_label=label, class_=class_)


def data_button(label: str, do: str, fields: Mapping[str, Any]) -> Html:
    """Return a button that sends an object."""
    return button(label, do, json.dumps(dict(fields)), key=label)


def change_button(field: str | None) -> Html:
    """Return a button that opens the control of a scenario field; nothing for another input."""
    if field is None or field not in FIELDS:
        return Html()
    return button(f"Change {FIELDS[field].label} \u25b8", "open", field, class_="wb-link")


def opening(name: str, text: str, label: str, pop: Html, *, is_set: bool = False) -> Html:
    """Return a button, and below it what it has opened; nothing while it is closed."""
    opener = button(
        text,
        "open",
        "" if pop else name,
        key=f"open-{name}",
        aria_label=label,
        aria_expanded=bool(pop),
        class_="wb-set" if is_set else None,
    )
    return tag("div", opener, pop, class_="wb-chip", data_chip=name)
