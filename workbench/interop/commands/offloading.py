"""`--kv-offloading-size`: a KV connector that vLLM chooses itself."""

from collections.abc import Mapping
from typing import Any

from workbench.core.chunks.connectors import LMCACHE, OFFLOADING, SIMPLE

SIZE = "kv_offloading_size"
BACKEND = "kv_offloading_backend"
TAKE_SIMPLE = "VLLM_USE_SIMPLE_KV_OFFLOAD"
NATIVE = "native"
OF_BACKENDS = {NATIVE: OFFLOADING, "lmcache": LMCACHE}


def offloading_connector(values: Mapping[str, Any]) -> str | None:
    """Return the connector of these arguments and variables; None without a size.

    Source: `VllmConfig._post_init_kv_transfer_config`, 0.23 and 0.33.
    """
    if values.get(SIZE) is None:
        return None
    backend = str(values.get(BACKEND) or NATIVE)
    if backend == NATIVE and str(values.get(TAKE_SIMPLE, "")).casefold() in {"1", "true"}:
        return SIMPLE
    return OF_BACKENDS.get(backend)
