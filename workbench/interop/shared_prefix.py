"""How much of a prompt is that of an earlier one: "10k of 12k tokens are shared"."""

import re

from workbench.core.sizes import integer_value

TOKENS = r"(\d[\d,.]*[km]?)(?: tokens)?"
PART_OF_PROMPT = rf"\b{TOKENS} (?:out )?of (?:the |every |each )?{TOKENS}"
SHARED_PREFIX = re.compile(
    rf"{PART_OF_PROMPT}.* (?:shared?|same|common|equal|cached)\b|"
    rf"\b(?:shared?|same|common) .*{PART_OF_PROMPT}",
    re.IGNORECASE,
)
"""How much of a prompt is that of an earlier one: "10k of 12k tokens are shared"."""


def shared_prefix(text: str) -> tuple[int | None, int | None]:
    """Return the tokens that a prompt shares with an earlier one, and those of the whole prompt."""
    found = SHARED_PREFIX.search(text)
    words = [one.replace(",", "") for one in found.groups() if one] if found else []
    shared, whole = [integer_value(one) for one in words] or (None, None)
    if isinstance(shared, int) and isinstance(whole, int) and shared <= whole:
        return shared, whole
    return None, None
