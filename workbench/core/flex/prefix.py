"""Prefix-LM ranges as a person types them, request by request: `0-63; 0-9,20-29` is two requests.

Both ends are included, as in vLLM's flex attention (0.23): images within a prompt, for example.
"""

from __future__ import annotations

import re

from workbench.core.errors import ScenarioError
from workbench.core.flex.mask import Range

RANGE = re.compile(r"(\d{1,9})\s*-\s*(\d{1,9})", re.ASCII)
EXAMPLE = "0-63; 0-9,20-29"


def parse_prefixes(text: str, requests: int) -> tuple[tuple[Range, ...], ...]:
    """Return [request] -> ranges [start, end]; requests that are not listed have none. "" gives ().

    Errors: ScenarioError for what is not a range, a range that ends before its start, and more
    requests than the batch has.
    """
    if not text.strip():
        return ()
    lists = [part.strip() for part in text.split(";")]
    if len(lists) > requests:
        raise _error(f"ranges are given for {len(lists)} requests, and the batch has {requests}")
    found = tuple(tuple(_range(word) for word in part.split(",") if word.strip()) for part in lists)
    return (*found, *((),) * (requests - len(found)))


def _range(word: str) -> Range:
    match = RANGE.fullmatch(word.strip())
    if match is None:
        raise _error(f"Invalid range {word.strip()[:40]!r}")
    start, end = int(match[1]), int(match[2])
    if end < start:
        raise _error(
            f"Range {start}-{end} ends before it starts. Nearest valid value: {end}-{start}"
        )
    return start, end


def _error(what: str) -> ScenarioError:
    return ScenarioError(
        "prefix_not_readable",
        f"{what}. Expected start-end, joined by commas, requests joined by semicolons, for example "
        f"{EXAMPLE}.",
        field="prefix",
    )
