"""The command that vLLM's production stack runs for its Helm values (`modelSpec`, `vllmConfig`).

Read in helm/templates/deployment-vllm-multi.yaml of vllm-project/production-stack: which keys
become flags, prefix caching that is off unless it is enabled, and the connector of `lmcacheConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from workbench.interop.commands.manifest import words_of_value

MODEL_URL = "modelURL"
ENTRY = re.compile(r"( *)(?:- +)?(\w+): *(.*)")
ARGUMENTS = {
    MODEL_URL: "model",
    "enableLoRA": "enable_lora",
    "enableChunkedPrefill": "enable_chunked_prefill",
    "maxModelLen": "max_model_len",
    "dtype": "dtype",
    "tensorParallelSize": "tensor_parallel_size",
    "maxNumSeqs": "max_num_seqs",
    "gpuMemoryUtilization": "gpu_memory_utilization",
    "maxLoras": "max_loras",
}
"""Key -> argument of vLLM; the chart passes no other one."""
CONFIG, CACHING, EXTRA = "vllmConfig", "enablePrefixCaching", "extraArgs"
LMCACHE, ENABLED = "lmcacheConfig", "enabled"
CONNECTOR = {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"}


def values_arguments(text: str) -> tuple[str, dict[str, Any], list[str]] | None:
    """Return the image, the arguments and further words of the first model; None for other texts.

    A key of the values is known by its name, wherever it is: their first ones are those of it.
    """
    if not re.search(rf"^ *(?:- +)?{MODEL_URL}: *\S", text, re.MULTILINE):
        return None
    found: dict[str, Any] = {}
    extra: list[str] = []
    for key, value, after in _entries(text.splitlines()):
        if key == EXTRA:
            extra = extra or after
        else:
            found.setdefault(key, value)
    arguments = {ARGUMENTS[key]: value for key, value in found.items() if key in ARGUMENTS}
    if CONFIG in found:
        arguments["enable_prefix_caching"] = found.get(CACHING) is True
    if found.get(f"{LMCACHE}.{ENABLED}") is True:
        arguments["kv_transfer_config"] = CONNECTOR
    repository, tag = (found.get(key, "") for key in ("repository", "tag"))
    return f"{repository}:{tag}" if repository and tag else "", arguments, extra


def _entries(lines: list[str]) -> Iterator[tuple[str, Any, list[str]]]:
    """Yield key, value and the words of a list; `enabled` of LMCache with its parent."""
    parent, models = "", 0
    for at, line in enumerate(lines):
        entry = ENTRY.fullmatch(line.rstrip())
        if entry is None:
            continue
        indent, key, written = entry.groups()
        models += key == MODEL_URL
        if models > 1:
            return
        words = words_of_value(written, len(indent), lines[at + 1 :]) if key == EXTRA else []
        parent = parent if written else key
        name = f"{parent}.{key}" if key == ENABLED else key
        yield name, _value(written), words


def _value(written: str) -> Any:
    plain = re.sub(r" +#.*", "", written).strip("'\"")
    return {"true": True, "false": False}.get(plain.casefold(), plain)
