"""The part of an address that holds a scenario: what differs from the default, as quoted JSON."""

import json
from typing import Any
from urllib.parse import quote, unquote

from workbench.access.json_text import json_or_word
from workbench.core.errors import ScenarioError
from workbench.scenario.fields import FIELDS
from workbench.scenario.scenario import Scenario

LINK = "#scenario="
READABLE = ':,."[]{}'
"""Characters that are not quoted: a browser accepts them in this place."""


def link_of(scenario: Scenario) -> str:
    """Return what follows the address of a page, so that it opens with this scenario."""
    fields = {
        name: value
        for name, value in scenario.to_dict().items()
        if name == "model" or value != FIELDS[name].default
    }
    return LINK + quote(json.dumps(fields, separators=(",", ":")), safe=READABLE)


def read_link(text: str) -> dict[str, Any]:
    """Return the fields in a link, or in its end. Errors: ScenarioError if there are none."""
    _, _, quoted = text.partition(LINK)
    found = json_or_word(unquote(quoted.strip()))
    if not isinstance(found, dict):
        message = (
            f"The link is damaged: what follows {LINK} is not a JSON object. Copy it again as a "
            "whole, for example with *Copy link* of the front door."
        )
        raise ScenarioError("scenario_not_json", message)
    return found
