"""Save every catalog model again with the installed transformers: tests/data/resaved/VERSION.json.

    ~/vllm-0.33/bin/python tools/resaved_configs.py

Run it with a Python that has the transformers of that version (tools/vllm_environment.py makes
some). The file holds what saving changed, per model: JSON pointers with their new values, and those
removed. Models of types that this version does not know, or that need packages that are not there,
are not in it.
"""

import copy
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
from workbench.models.catalog import catalog_config, catalog_names  # noqa: E402  (needs the path)

# transformers would take the folder kernels/ for a package of that name.
sys.path.remove(str(ROOT))
TARGET = ROOT / "tests" / "data" / "resaved"
OWN_CLASS_OF_VLLM = frozenset({"minimax_m3_vl"})
"""vLLM reads these with a class of its own, which knows the names of the published file only."""


def main() -> None:
    """Run from the command line."""
    # Images are not read here, and its library may be a build for CUDA that does not load.
    sys.modules["torchvision"] = None  # type: ignore[assignment]
    models = {}
    for name in catalog_names():
        config = catalog_config(name)
        config.pop("_source")
        known = config.get("model_type") not in OWN_CLASS_OF_VLLM
        saved = saved_again(config) if known else None
        if saved is not None:
            models[name] = changes(config, saved)
    release = version("transformers")
    TARGET.mkdir(exist_ok=True)
    entry = {"origin": f"transformers {release}, save_pretrained", "models": models}
    (TARGET / f"{release}.json").write_text(one_line_per_model(entry), encoding="utf-8")


def saved_again(config: dict[str, Any]) -> dict[str, Any] | None:
    """Return what transformers saves after it loaded `config`.

    None for a type that it does not know, or whose class needs a package that is missing.
    """
    from transformers import CONFIG_MAPPING

    try:  # a part may be of such a type, too
        loaded = CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(config))
    except (KeyError, ModuleNotFoundError):
        return None
    with tempfile.TemporaryDirectory() as folder:
        loaded.save_pretrained(folder)
        saved: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
    return saved


def changes(before: dict[str, Any], after: dict[str, Any], place: str = "") -> dict[str, Any]:
    """Return {"set": {pointer: value}, "removed": [pointer]}, objects compared field by field."""
    removed = [f"{place}/{key}" for key in before if key not in after]
    found: dict[str, Any] = {"set": {}, "removed": removed}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            inner = changes(old, value, f"{place}/{key}")
            found["set"] |= inner["set"]
            found["removed"] += inner["removed"]
        elif key not in before or old != value:
            found["set"][f"{place}/{key}"] = value
    return found


def one_line_per_model(entry: dict[str, Any]) -> str:
    """Return `entry` as JSON that shows a changed model as one changed line."""
    pairs = entry["models"].items()
    models = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in pairs)
    return f'{{"origin": {json.dumps(entry["origin"])}, "models": {{\n{models}\n}}}}\n'


if __name__ == "__main__":
    main()
