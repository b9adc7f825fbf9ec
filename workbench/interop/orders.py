"""Read what is to be set, as people say it: "turn on prefix caching", "use 0.33", "try TP 4"."""

from __future__ import annotations

import re

from workbench.core.errors import ScenarioError
from workbench.interop.description import Description, read_description
from workbench.interop.settings import read_settings

ORDER = re.compile(
    r"(?:please )?(?:use|set|take|show(?: me)?|try|with|add|(?:turn|switch) (?:on|to)|enable|"
    r"(?P<no>turn off|switch off|disable|remove))\s+(?P<what>[^?\n]+)",
    re.IGNORECASE,
)


def read_order(text: str) -> Description | None:
    """Return what is to be set; None for anything else.

    A block size is none of it: vLLM may change it, so it is tried and answered as a question.
    """
    found = ORDER.fullmatch(text)
    if found is None or "block" in text:
        return None
    what = f"no {found['what']}" if found["no"] else found["what"]
    try:
        fields = read_settings(what)
        return Description(fields) if fields else read_description(what)
    except ScenarioError:
        return None
