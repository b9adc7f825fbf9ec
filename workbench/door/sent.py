"""What a browser sent, checked: what is to be done, a name, an object, a length."""

from collections.abc import Collection, Mapping
from typing import Any

from workbench.access.json_text import json_or_word
from workbench.core.errors import ScenarioError, shown, unknown_name_message
from workbench.core.plan import Plan
from workbench.core.sizes import integer_value
from workbench.scenario import FIELDS

SPOKEN = {
    "undo": "undo",
    "redo": "redo",
    "reset": "reset",
    "go back": "undo",
    "start again": "reset",
    "start over": "reset",
    "pin as a": "pin",
    "unpin a": "unpin",
    "swap with a": "swap",
}
"""What a person enters for a button -> what the button does."""


def action_of(message: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return what a message is to do, its argument and its text; a button's words are the button.

    Anything that is missing is empty.
    """
    do, arg, text = (str(message.get(name, "")) for name in ("do", "arg", "text"))
    action = SPOKEN.get(arg.strip(" \n.!").casefold()) if do == "submit" else None
    return (do, arg, text) if action is None else (action, "", "")


def one_of(name: str, allowed: Collection[str]) -> str:
    """Return a name that the browser sent. Errors: ScenarioError if it is none of these."""
    if name not in allowed:
        raise ScenarioError("unknown_name", unknown_name_message("name", name, allowed))
    return name


def value_of(field: str, text: str) -> Any:
    """Return the value of a control: JSON of one that is listed, else what a person enters."""
    declared = FIELDS[one_of(field, FIELDS)]
    if declared.is_listed:
        return object_of(f'{{"value": {text}}}')["value"]
    return declared.kind.parse(field, text)


def object_of(text: str) -> dict[str, Any]:
    """Return the JSON object that the browser sent. Errors: ScenarioError for anything else."""
    found = json_or_word(text)
    if not isinstance(found, dict):
        message = "The page sent something that is not an object. Nothing was changed."
        raise ScenarioError("wrong_type", message)
    return found


def length_of(text: str, plan: Plan | None) -> int | None:
    """Return the tokens of a request in "32K" or "8,000"; None for an empty text.

    Errors: ScenarioError for anything that no request of the plan can have.
    """
    if not text.strip():
        return None
    tokens, longest = integer_value(text.replace(",", "")), plan.max_model_len if plan else 1
    if isinstance(tokens, int) and 1 <= tokens <= longest:
        return tokens
    near = longest if isinstance(tokens, int) and tokens > 1 else 1
    message = (
        f"Invalid request length {shown(text)}. Expected tokens from 1 to {longest:,} (max model "
        f"length), such as 8,000 or 32K. Nearest valid value: {near:,}."
    )
    raise ScenarioError("out_of_range", message)
