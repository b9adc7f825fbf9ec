"""Write what configuration classes have by default: workbench/models/config_classes.json.

    ~/vllm-0.23/bin/python tools/config_classes.py
    ~/vllm-0.33/bin/python tools/config_classes.py --agree

Run by the Python of every release; with --agree, values that an earlier run found otherwise are
taken out. The classes are those that vLLM loads: its own first, then those of transformers.
"""

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from workbench.models.config_defaults import (  # noqa: E402
    CLASS_FIELDS,
    EXPERT_FIELDS,
    EXPERTS,
    LENGTH,
    PARTS,
    PERIOD,
)

sys.path.remove(str(ROOT))  # where transformers would find our folder `kernels`

TARGET = ROOT / "workbench" / "models" / "config_classes.json"
LENGTH_NAMES = ("n_positions", "max_seq_len")


def main() -> None:
    """Run from the command line."""
    sys.path.append(str(ROOT / "workbench" / "verify"))
    from vllm_probe import machine

    # Some classes import a library of images that may be a build for CUDA, which does not load.
    machine.play({"platform": "cuda", "capability": [9, 0]})
    from transformers import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    every = {kind: defaults_of(CONFIG_MAPPING, kind) for kind in CONFIG_MAPPING}
    for kind in _CONFIG_REGISTRY:
        # vLLM's own class is the one that is loaded; its names of widths are not always these.
        of_vllm = defaults_of(_CONFIG_REGISTRY, kind)
        ordinary = {k: v for k, v in every.get(kind, {}).items() if k not in PARTS}
        every[kind] = ordinary | {k: v for k, v in of_vllm.items() if k in PARTS}
    found = {kind: values for kind, values in every.items() if values}
    if "--agree" in sys.argv:
        earlier = json.loads(TARGET.read_text(encoding="utf-8"))
        for kind, values in earlier.items():
            found[kind] = agreed(found.get(kind, values), values)
    rows = (f"{json.dumps(kind)}: {json.dumps(values)}" for kind, values in sorted(found.items()))
    TARGET.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")


def agreed(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the values that both have, or that one of them has alone."""
    return {key: value for key, value in (one | other).items() if one.get(key, value) == value}


def defaults_of(classes: Any, kind: str) -> dict[str, Any]:
    """Return the defaults of a text model's class; empty for others."""
    try:
        config = classes[kind]()
        is_text = isinstance(config.vocab_size, int) and config.get_text_config() is config
        heads, hidden = config.num_attention_heads, config.hidden_size
        larger = classes[kind](num_attention_heads=2 * heads, hidden_size=4 * hidden)
    except Exception:  # noqa: BLE001  (without heads, or not to be built alone)
        return {}
    if not is_text:
        return {}
    found = {name: value for name in CLASS_FIELDS if (value := _number(config, name)) is not None}
    name = config.attribute_map.get(LENGTH)
    if name in LENGTH_NAMES and LENGTH in found:
        found[name] = found.pop(LENGTH)  # what a file of this class has in its place
    # What follows from the heads is not a default of the class.
    for name in ("num_key_value_heads", "head_dim", *PARTS):
        if name in found and _number(larger, name) != found[name]:
            del found[name]
    period = period_of(getattr(config, "layer_types", None) or [])
    named = next((name for name in EXPERT_FIELDS if hasattr(config, name)), "")
    more = {PERIOD: period, EXPERTS: _number(config, named)}
    return found | {name: value for name, value in more.items() if value}


def _number(config: Any, name: str) -> int | None:
    try:
        value = getattr(config, name, None)
    except Exception:  # noqa: BLE001  (layers that differ have no single value)
        return None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def period_of(kinds: list[str]) -> int:
    """Return n if every n-th layer is full attention and the others slide; else 0."""
    for period in range(2, len(kinds)):
        wanted = ["sliding_attention"] * (period - 1) + ["full_attention"]
        if kinds == (wanted * len(kinds))[: len(kinds)]:
            return period
    return 0


if __name__ == "__main__":
    main()
