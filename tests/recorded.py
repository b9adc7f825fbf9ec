"""What vLLM answered: rows of `tests/data`, which the tools of their files recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("data")


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the rows of `NAME.jsonl.gz`."""
    text = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes())
    return [json.loads(row) for row in text.splitlines()]
