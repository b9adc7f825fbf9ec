"""The part of an address that holds a scenario: what differs from the default, as quoted JSON.

A long one, with a config.json in it, is compressed: base64 of what zlib makes of the JSON.
"""

import json
import os
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, unquote

from workbench.access.json_text import json_or_word
from workbench.core.errors import ScenarioError
from workbench.scenario.scenario import Scenario

LINK = "#scenario="
COMPRESSED = "~"
"""What begins a compressed scenario; no JSON begins with it."""
VARIABLE = "WORKBENCH_LINK"
"""Where `workbench lab --link` puts the link for the notebooks that it opens."""
READABLE = ':,."[]{}'
"""Characters that are not quoted: a browser accepts them in this place."""
LONGEST_READABLE = 600
MOST_BYTES = 2**22
"""In a link: as much as a config.json may have."""


def link_of(scenario: Scenario) -> str:
    """Return what follows the address of a page, so that it opens with this scenario."""
    text = json.dumps(scenario.stated(), separators=(",", ":"))
    quoted = quote(text, safe=READABLE)
    if len(quoted) <= LONGEST_READABLE:
        return LINK + quoted
    return LINK + COMPRESSED + packed(text)


def read_link(text: str) -> dict[str, Any]:
    """Return the fields in a link, or in its end. Errors: ScenarioError if there are none."""
    _, _, quoted = text.partition(LINK)
    quoted = unquote(quoted.strip())
    try:
        is_packed = quoted.startswith(COMPRESSED)
        found = json_or_word(unpacked(quoted.removeprefix(COMPRESSED)) if is_packed else quoted)
    except ValueError:  # zlib's and base64's, too
        found = None
    if not isinstance(found, dict):
        message = (
            f"The link is damaged: what follows {LINK} is not a JSON object. Copy it again as a "
            "whole, for example with *Copy link* of the front door."
        )
        raise ScenarioError("scenario_not_json", message)
    return found


def linked_scenario() -> Scenario | None:
    """Return the scenario of `workbench lab --link LINK`; None where the lab has none.

    Errors: ScenarioError for a damaged link.

    >>> wb.linked_scenario() is None
    True
    """
    link = os.environ.get(VARIABLE)
    return Scenario.from_dict(read_link(link)) if link else None


def packed(text: str) -> str:
    """Return a text compressed, in characters that an address may have."""
    return urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """Return what `packed` was given. Errors: ValueError if it is damaged or long."""
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(urlsafe_b64decode(text), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacking.eof:
        raise ValueError(f"it is cut off, or longer than {MOST_BYTES:,} bytes")
    return found.decode()
