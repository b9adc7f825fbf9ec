"""`--kv-offloading-size`: a KV connector that vLLM chooses itself."""

from collections.abc import Mapping
from typing import Any

SIZE, BACKEND, SIMPLE = (
    "kv_offloading_size",
    "kv_offloading_backend",
    "VLLM_USE_SIMPLE_KV_OFFLOAD",
)
OF_BACKENDS = {"native": "OffloadingConnector", "lmcache": "LMCacheMPConnector"}


def offloading_connector(values: Mapping[str, Any]) -> str | None:
    """Return the connector of these arguments and variables; None without a size.

    Source: `VllmConfig._post_init_kv_transfer_config`, 0.23 and 0.33.
    """
    if values.get(SIZE) is None:
        return None
    backend = str(values.get(BACKEND) or "native")
    if backend == "native" and str(values.get(SIMPLE, "")).casefold() in {"1", "true"}:
        return "SimpleCPUOffloadConnector"
    return OF_BACKENDS.get(backend)
