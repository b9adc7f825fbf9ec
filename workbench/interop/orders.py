"""Read what is to be set, as people say it: "turn on prefix caching", "use 0.33", "and TP 4?"."""

from __future__ import annotations

import re
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.interop.description import Description, read_description
from workbench.interop.settings import read_settings

ORDER = re.compile(
    r"(?:please )?(?:use|set|take|show(?: me)?|try|with|on|in|at|add|"
    r"(?:turn|switch) (?:on|to)|enable|"
    r"(?:and|now|same|what about|how about|but|then|also)(?: (?:with|on|for|at|in|using))*|"
    r"(?P<no>turn off|switch off|disable|remove))\s+(?P<what>[^?\n]+)(?P<asks>\?)?",
    re.IGNORECASE,
)


TO = re.compile(r"\s+(?:to|=)\s+(?=\S+$)")
"""Before the value: "set gpu memory utilization to 0.95"."""
FOLLOWS = re.compile(r"and|what about|how about|but|then", re.IGNORECASE)
"""Beginnings after which a question mark may follow: "and with TP 8?"."""


def read_order(text: str) -> Description | None:
    """Return what is to be set; None for anything else.

    A block size is none of it: vLLM may change it, so it is tried and answered as a question.
    """
    if whole := _order(text):
        return whole
    parts = [_order(part) for part in re.split(r",? and |, ", text)]
    fields: dict[str, Any] = {}
    for part in parts:
        if part is None or part.fields.keys() & fields.keys():
            return None
        fields |= part.fields
    return Description(fields)


def _order(text: str) -> Description | None:
    found = ORDER.fullmatch(text)
    if found is None or "block" in text or (found["asks"] and not FOLLOWS.match(text)):
        return None
    what = TO.sub(" ", found["what"].removeprefix("the "))
    try:
        if found["no"]:
            fields = _switched(f"disable {what} on") or _switched(f"{what} off")
            what = f"no {what}"
        else:
            fields = read_settings(what) or _switched(f"{what} on")
        return Description(fields) if fields else read_description(what)
    except ScenarioError:
        return None


def _switched(text: str) -> dict[str, Any]:
    """Return the switch that is set; nothing for a field that takes another value."""
    found = read_settings(text)
    return found if all(isinstance(value, bool) for value in found.values()) else {}
