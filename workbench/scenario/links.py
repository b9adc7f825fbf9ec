"""The part of an address that holds a scenario: what differs from the default, as quoted JSON.

After it, where a page shows them: `&length=`, the tokens of the requests that are counted, and
`&pinned=`, the scenario that it is compared with. A long scenario, with a config.json in it, is
compressed: base64 of what zlib makes of the JSON.
"""

import json
import os
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, NamedTuple
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


TOKENS = re.compile(r"[1-9]\d{0,9}")
PARTS = re.compile(r"&(length|pinned)=")


class Linked(NamedTuple):
    """What a link holds."""

    fields: dict[str, Any]
    """Of the scenario."""
    length: int | None = None
    """Tokens of the requests that are counted, where a person chose them."""
    pinned: dict[str, Any] | None = None
    """Fields of the scenario that it is compared with."""


def link_of(
    scenario: Scenario, *, length: int | None = None, pinned: Scenario | None = None
) -> str:
    """Return what follows the address of a page, so that it opens with this scenario.

    length, pinned: see `Linked`.
    """
    counted = "" if length is None else f"&length={length}"
    compared = "" if pinned is None else f"&pinned={_written(pinned)}"
    return f"{LINK}{_written(scenario)}{counted}{compared}"


def _written(scenario: Scenario) -> str:
    text = json.dumps(scenario.stated(), separators=(",", ":"))
    quoted = quote(text, safe=READABLE)
    if len(quoted) <= LONGEST_READABLE:
        return quoted
    return COMPRESSED + packed(text)


def read_link(text: str) -> dict[str, Any]:
    """Return the fields in a link, or in its end. Errors: ScenarioError if there are none."""
    return read_whole_link(text).fields


def read_whole_link(text: str) -> Linked:
    """Return all that a link holds. Errors: ScenarioError if it is damaged."""
    _, _, held = text.partition(LINK)
    scenario, *more = PARTS.split(held.strip())
    parts = dict(zip(more[::2], more[1::2], strict=True))
    length, pinned = parts.get("length"), parts.get("pinned")
    if length is not None and not TOKENS.fullmatch(length):
        raise _damaged("&length=", "a number of tokens")
    return Linked(
        _fields(scenario),
        None if length is None else int(length),
        None if pinned is None else _fields(pinned),
    )


def _fields(quoted: str) -> dict[str, Any]:
    quoted = unquote(quoted)
    try:
        is_packed = quoted.startswith(COMPRESSED)
        found = json_or_word(unpacked(quoted.removeprefix(COMPRESSED)) if is_packed else quoted)
    except ValueError:  # zlib's and base64's, too
        found = None
    if not isinstance(found, dict):
        raise _damaged(LINK, "a JSON object")
    return found


def _damaged(before: str, expected: str) -> ScenarioError:
    message = (
        f"The link is damaged: what follows {before} is not {expected}. Copy it again as a "
        "whole, for example with *Copy link* of the front door."
    )
    return ScenarioError("scenario_not_json", message)


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
