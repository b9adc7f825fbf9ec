"""The formats of bitsandbytes, which 0.23 alone loads, and which layers a file excludes.

Source: `bitsandbytes.py` and `bitsandbytes_loader.py` of vLLM, 0.23.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.formats import Format
from workbench.core.online import BITS_AND_BYTES
from workbench.models.weights.stored import EXPERTS, WHOLE, Excludes, Scheme, texts

EIGHT_BITS = Format(8, row_bytes=4, is_integer=True)


def bits_and_bytes(config: Mapping[str, Any]) -> Scheme:
    """Return integers of 8 bits, or floats of 4, in all linear layers that are not listed."""
    stored = EIGHT_BITS if config.get("load_in_8bit") else BITS_AND_BYTES
    listed = texts(config.get("llm_int8_skip_modules"))
    return Scheme(
        linear=stored,
        excludes=_excluded(listed),
        gates_experts=True,
        biases_experts=False,
        merged=WHOLE,
    )


def _excluded(listed: list[str]) -> Excludes:
    """Return whether an entry is a name in a path, or the beginning of one; experts never are."""
    # is_layer_skipped_bnb
    known = frozenset(listed)

    def excluded(path: str) -> bool:
        names = path.split(".")
        begins = {".".join(names[: end + 1]) for end in range(len(names))}
        return not path.endswith(EXPERTS.rstrip(".")) and bool(known & {*names, *begins})

    return excluded
