"""JSON objects as values of flags."""

from typing import Any

from workbench.access.json_text import parse_json
from workbench.core.errors import ScenarioError


def json_argument(name: str, text: str) -> dict[str, Any]:
    """Return the JSON object that a flag is followed by. Errors: ScenarioError."""
    found = json_object(text)
    if found is None:
        advice = f"Quote it for the shell: {name} '{{\"key\": 1}}'."
        message = f"{name} expects a JSON object; got {text[:60]!r}. {advice}"
        raise ScenarioError("wrong_type", message, field="command")
    return found


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text; None for any other text."""
    try:
        value = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
