"""Words of questions about chunks and host memory: the connector, the chunk, the size."""

import re

from workbench.core.chunks.connectors import LMCACHE, MOONCAKE, OFFLOADING, SIMPLE
from workbench.core.sizes import integer_value, parse_bytes

NAMES = {
    r"lmcache\w*": LMCACHE,
    r"mooncake\w*": MOONCAKE,
    r"offloading ?connector": OFFLOADING,
    r"simple ?cpu ?offload\w*": SIMPLE,
}
"""Words for what keeps blocks -> the connector."""
STORED = rf"{'|'.join(NAMES)}|chunks?"
COUNT = r"(\d[\d,]*k?)"
CHUNK = re.compile(
    rf"\bchunks?(?:[ _-]?(?:size|tokens))?(?: (?:of|is|=))? {COUNT}\b|"
    rf"\b{COUNT}[ -](?:tokens? )?chunks?\b",
    re.IGNORECASE,
)
"""A chunk of so many tokens."""
SIZE = re.compile(r"(?<![\w.])\d[\d.,]* ?[gt]i?b\b", re.IGNORECASE)


def connector_in(text: str) -> str:
    """Return the connector that a text names; "" for none."""
    found = (name for words, name in NAMES.items() if re.search(rf"\b{words}", text, re.IGNORECASE))
    return next(found, "")


def chunk_in(text: str) -> int | None:
    """Return the tokens of the chunk that a text names."""
    found = CHUNK.search(text)
    tokens = integer_value((found[1] or found[2]).replace(",", "")) if found else None
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def size_in(text: str) -> int | None:
    """Return the first size in bytes that a text names."""
    found = SIZE.search(text)
    return parse_bytes(found[0]) if found else None
