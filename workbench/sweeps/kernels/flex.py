"""Sweeps of the paged flex kernel: which tiles are legal and fit, and one of them measured.

`measure` is what a lane runs: correct first, then bits, then the time. In Triton's interpreter it
does everything but the time, which the interpreter does not have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from workbench.kernels.bench.machine import source_hash
from workbench.sweeps.kernels.fitting import Batch, Candidates, combined, fitting, legal
from workbench.sweeps.kernels.place import provenance, times, wrong

if TYPE_CHECKING:
    from workbench.kernels.kernel_spec import PublicCall
    from workbench.kernels.paged_flex.settings import Settings

AXES: Mapping[str, tuple[Any, ...]] = {
    "block_m": (16, 32, 64, 128),
    "block_n": (16, 32, 64, 128),
    "num_warps": (4, 8),
    "decode_n": (32, 64),
    "split_tokens": (0, 256, 512),
}
"""Values that are tried by default."""
MODEL: Mapping[str, Any] = {"head_dim": 128, "group": 4, "dtype": "float16", "block_size": 64}
"""The attention layer that is measured by default."""
SMALL_AXES: Mapping[str, tuple[Any, ...]] = {
    "block_m": (16, 24, 32),
    "block_n": (16, 32),
    "num_warps": (4,),
    "decode_n": (16,),
    "split_tokens": (0, 32),
}
"""Without a GPU: a few configurations, some of them illegal, to see the flow."""
SMALL_MODEL: Mapping[str, Any] = {"head_dim": 16, "group": 2, "dtype": "float32", "block_size": 16}
KV_HEADS = 2


def batch(name: str, requests: int, tokens: int, queries: int) -> Batch:
    """Return requests of `tokens` tokens each, the last `queries` of which are queries."""
    return Batch(name, {"requests": requests, "tokens": tokens, "queries": queries})


BATCHES = (
    batch("prefill 2k", 4, 2048, 2048),
    batch("chunk 512 of 8k", 4, 8192, 512),
    batch("decode 64 x 4k", 64, 4096, 1),
    batch("decode 4 x 32k", 4, 32768, 1),
)
SMALL_BATCHES = (batch("prefill 40", 1, 40, 40), batch("decode 3 x 70", 3, 70, 1))
"""Used to test the flow in the interpreter, which gives no times."""


def settings_of(config: Mapping[str, Any]) -> Settings:
    """Return the kernel's settings. Errors: PagedFlexError for what its legality rules refuse."""
    from workbench.kernels.paged_flex.settings import Settings, Tile

    prefill = Tile(config["block_m"], config["block_n"], config["num_warps"])
    bitwise = config["bitwise"]
    return Settings(
        prefill=prefill,
        decode=prefill if bitwise else Tile(16, config["decode_n"]),
        split_tokens=config["split_tokens"],
        one_path=bitwise,
        as_given=True,
    )


def candidates(
    target: str | None,
    bitwise: bool = False,
    first: int | None = None,
    *,
    axes: Mapping[str, Sequence[Any]] | None = None,
    model: Mapping[str, Any] | None = None,
) -> Candidates:
    """Return legal combinations that, compiled for `target`, neither spill nor are too large.

    target: None leaves the compiler out, and is for the interpreter, with few and small ones.
    first: only so many of them. model: head_dim, group, dtype, block_size. Nothing is launched.
    Errors: InspectionError where the compiler itself fails.
    """
    shape = {**(MODEL if target else SMALL_MODEL), **(model or {}), "bitwise": bitwise}
    values = {**AXES, **((AXES if target else SMALL_AXES) if axes is None else axes)}
    configs = [{**config, **shape} for config in combined(values)]
    if bitwise:
        configs = [{**config, "decode_n": config["block_n"]} for config in configs]  # one tile
    kept, illegal = legal(configs, settings_of)
    fit, unfit = fitting(kept, target, __name__, spec_names, first)
    return Candidates(fit, illegal, unfit, BATCHES if target else SMALL_BATCHES)


def spec_names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the specialisations that a configuration launches: of prefills, and of decodes.

    Equal ones have one name: what only the other path is set to is not in it.
    """
    names = {"prefill": {"decode_n"}, "decode": set()}
    if not config["bitwise"]:
        names = {
            "prefill": {"decode_n", "split_tokens"},
            "decode": {"block_m", "block_n", "num_warps"},
        }
    prefill, decode = (
        f"{path} {json.dumps({k: config[k] for k in config if k not in other}, sort_keys=True)}"
        for path, other in names.items()
    )
    return prefill, decode


def specs_of(config: Mapping[str, Any]) -> list[PublicCall]:
    """Return what is compiled for a configuration; runs in the compiling process."""
    from workbench.kernels.paged_flex.calls import attention_call

    layer = {name: config[name] for name in MODEL}
    return [
        attention_call(name, settings_of(config), decode=decode, limited=False, **layer)
        for name, decode in zip(spec_names(config), (False, True), strict=True)
    ]


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row. A wrong result has no time and says how wrong it is."""
    import torch

    from workbench.kernels.bench.gpu_clock import cold_samples
    from workbench.kernels.mode import triton_mode
    from workbench.kernels.paged_flex import masks
    from workbench.kernels.paged_flex.api import paged_attention, plan_attention
    from workbench.kernels.paged_flex.layout import lay_out, random_request
    from workbench.kernels.paged_flex.reference import agreement

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
    layer = (paged.query, paged.kv_cache)
    planned = plan_attention(paged.batch, *layer, mask=mask, settings=settings)
    result = torch.full_like(paged.query, float("nan"))
    run = partial(planned.run, *layer, result)
    run()
    queries = paged.batch.num_tokens
    some = sorted({0, queries // 2, queries - 1})
    found = agreement(result, paged.query, paged.kv_cache, paged.batch, mask, tokens=some)
    if not found.ok:
        how = f"error {found.max_error:.3g}, allowed {found.tolerance:.3g}"
        return wrong(how, kernel_hash())
    alone = lay_out(requests[:1], config["block_size"], seed=1)
    given = (alone.query, alone.kv_cache, alone.batch)
    single = paged_attention(*given, mask=mask, settings=settings)
    own = paged.tokens_of(0)
    words = torch.int32 if single.element_size() == 4 else torch.int16
    return {
        "provenance": provenance(kernel_hash()),
        "correct": True,
        "bitwise": torch.equal(single[: config["queries"]].view(words), result[own].view(words)),
        "values": {"max_error": found.max_error, "tolerance": found.tolerance},
        **(times(cold_samples(run)) if triton_mode().mode == "gpu" else {}),
    }


@cache
def kernel_hash() -> str:
    """Return the hash of the kernel's own files."""
    return source_hash("paged_flex")
