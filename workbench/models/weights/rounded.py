"""The formats of AutoRound: those of GPTQ or AWQ, with layers of their own."""

import re
from collections.abc import Mapping
from typing import Any

from workbench.models.quantization import PLAIN_BITS
from workbench.models.weights.integers import integers
from workbench.models.weights.stored import (
    EXPERTS,
    Excludes,
    Formats,
    Scheme,
    Unknown,
    exact,
    expressions,
    texts,
)

PACKINGS = {"auto_round:auto_gptq": "gptq", "auto_round:auto_awq": "awq"}
"""How AutoRound packs integers -> the method that has the same format."""
SPECIAL = re.compile(r"[*+?^$()\[\]{}|\\]")
"""What makes a name of AutoRound's an expression."""


def auto_round(config: Mapping[str, Any]) -> Scheme:
    """Return the formats of AutoRound: GPTQ or AWQ, but for the layers that the file excepts."""
    # INCConfig.get_layer_config, 0.23 and 0.33
    packing = config.get("packing_format", "auto_round:auto_gptq")
    if packing not in PACKINGS:
        raise Unknown(f"AutoRound's packing_format {str(packing)[:40]!r} is not described")
    extra = config.get("extra_config") or {}
    differ = {
        name: one for name, one in extra.items() if one.get("bits", config["bits"]) < PLAIN_BITS
    }
    if any(EXPERTS in name for name in differ):
        raise Unknown("AutoRound's formats of single experts are not described")
    plain = [f"re:.*{one}" if SPECIAL.search(one) else one for one in extra.keys() - differ.keys()]
    blocks = config.get("block_name_to_quantize") or config.get("to_quant_block_names") or []
    within = tuple(texts(blocks.split(",") if isinstance(blocks, str) else blocks))
    is_plain = expressions(texts(plain))
    experts = exact(texts([one for one in plain if "experts" in one]))
    packed = {**config, "quant_method": PACKINGS[packing]}
    found = integers(packed)
    earlier = dict(found.earlier)
    chosen: dict[Formats, list[str]] = {}
    for name, one in differ.items():
        others = integers({**packed, **one})
        earlier |= others.earlier
        chosen.setdefault((others.linear, others.experts or others.linear), []).append(name)
    return found._replace(
        excludes=lambda path: is_plain(path) or experts(path) or not path.startswith(within or ""),
        chosen=tuple((_of_layers(names), formats) for formats, names in chosen.items()),
        earlier=earlier,
    )


def _of_layers(names: list[str]) -> Excludes:
    """Return a test for layers that AutoRound names, in whole, by an end, or by an expression."""
    known = texts([one for one in names if not SPECIAL.search(one)])
    listed, ends = exact(known), tuple(f".{one}" for one in known)
    found = expressions(texts([f"re:.*{one}" for one in names if SPECIAL.search(one)]))
    return lambda path: listed(path) or found(path) or path.endswith(ends)
