"""Which classes of the Transformers library a vLLM release builds: for tools/model_registries.py.

Every class that generates is built once, with what its configuration class has by default, on the
simulated machine of the probe. One whose default no model has is not among them.
"""

import ast
import importlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from record_cache_groups import probe_question

TABLES = "_MAPPING_NAMES"
GENERATE = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
MEMORY = 2**44
"""Bytes for the cache, which no model with one request is refused for."""


def generating(library: Path) -> set[str]:
    """Return the classes of the library's tables whose names say that they generate."""
    source = (library / "models" / "auto" / "modeling_auto.py").read_text(encoding="utf-8")
    values = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).endswith(TABLES)
    )
    nodes = (one for value in values for one in ast.walk(value) if isinstance(one, ast.Constant))
    return {one.value for one in nodes if str(one.value).endswith(GENERATE)}


def built(names: Iterable[str], library: Any, machine: Any) -> list[str]:
    """Return those of these classes that vLLM builds, and that then have a cache."""
    return sorted(name for name in names if _is_built(name, getattr(library, name), machine))


def _is_built(name: str, kind: Any, machine: Any) -> bool:
    from vllm_probe.answers import answer

    try:
        text = kind.config_class().to_json_string(use_diff=False)
        config = {**json.loads(text), "architectures": [name], "dtype": "bfloat16"}
        if config.get("head_dim", 0) is None:  # which every file of such a class has
            config["head_dim"] = config["hidden_size"] // config["num_attention_heads"]
        question = {"config": config, "arguments": {}, "device_memory_bytes": 80 * 2**30}
        found = answer({**probe_question(question), "ranks_bytes": [MEMORY]}, machine)
    except Exception as error:  # noqa: BLE001  (whatever a default is refused with)
        print(f"{name}: {error}")
        return False
    return bool(found["answers"].get("groups"))


def without_plans(names: set[str]) -> set[str]:
    """Return the classes of transformers that have no plan for ranks, nor for stages."""
    library, torch = map(importlib.import_module, ("transformers", "torch"))
    found = set()
    for name in sorted(names):
        config = getattr(library, name).config_class
        try:
            with torch.device("meta"):
                model = library.AutoModel.from_config(config())
        except (AttributeError, TypeError, ValueError):  # its defaults are not those of a model
            parts = (config, *config.sub_configs.values())
            has_plan = any(getattr(part, "base_model_tp_plan", None) for part in parts)
        else:
            has_plan = model.tp_plan or model.supports_pp_plan
        if not has_plan:
            found.add(name)
    return found
