"""Measure one configuration of the paged flex kernel: correct first, then bits, then the time.

On a GPU; in Triton's interpreter everything but the time, which it does not have.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from workbench.sweeps.kernels.measuring import limits, provenance, source_hash

KV_HEADS = 2


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row. A wrong result has no time and says how wrong it is."""
    import torch

    from workbench.kernels.mode import triton_mode
    from workbench.kernels.paged_flex import masks
    from workbench.kernels.paged_flex.api import prepare
    from workbench.kernels.paged_flex.layout import lay_out, random_request
    from workbench.kernels.paged_flex.reference import agreement
    from workbench.sweeps.kernels.flex_kernels import settings_of

    decided = triton_mode()
    requests = [
        random_request(
            config["tokens"],
            config["queries"],
            heads=KV_HEADS * config["group"],
            kv_heads=KV_HEADS,
            dim=config["head_dim"],
            dtype=getattr(torch, config["dtype"]),
            seed=number,
        )
        for number in range(config["requests"])
    ]
    settings, mask = settings_of(config), masks.causal()
    paged = lay_out(requests, config["block_size"])
    ready = prepare(paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings)
    ready.out.fill_(float("nan"))
    result = ready.run()
    queries = paged.batch.num_tokens
    some = sorted({0, queries // 2, queries - 1})
    found = agreement(result, paged.query, paged.kv_cache, paged.batch, mask, tokens=some)
    fields: dict[str, Any] = {"provenance": provenance(kernel_hash()), "correct": found.ok}
    if not found.ok:
        how = f"error {found.max_error:.3g}, allowed {found.tolerance:.3g}"
        return {**fields, "status": "wrong", "message": how}
    alone = lay_out(requests[:1], config["block_size"], seed=1)
    single = prepare(alone.query, alone.kv_cache, alone.batch, mask=mask, settings=settings).run()
    own = paged.tokens_of(0)
    words = torch.int32 if single.element_size() == 4 else torch.int16
    fields["bitwise"] = bool(
        torch.equal(single[: config["queries"]].view(words), result[own].view(words))
    )
    fields["values"] = {"max_error": found.max_error, "tolerance": found.tolerance}
    if decided.mode != "gpu":
        return fields
    return {**fields, **_timed(ready), "limits": limits()}


def _timed(ready: Any) -> dict[str, Any]:
    """Return median and quartile distance of repeated runs, with a cold L2 before each."""
    from triton.testing import do_bench

    seconds = sorted(1e-3 * time for time in do_bench(ready.run, return_mode="all"))
    low, _, high = statistics.quantiles(seconds, n=4)
    return {"n": len(seconds), "median_s": statistics.median(seconds), "spread_s": high - low}


@cache
def kernel_hash() -> str:
    """Return the hash of the kernel's own files."""
    from workbench.kernels import paged_flex

    return source_hash(Path(paged_flex.__file__).parent.glob("*.py"))
