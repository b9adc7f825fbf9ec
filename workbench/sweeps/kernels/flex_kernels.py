"""Sweeps of the paged flex kernel: which tiles are legal, and which fit a device.

A bucket is a shape of batch. `measure` in `flex_measure` is what a lane runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.sweeps.kernels.fitting import Candidates, combined, fitting, legal

if TYPE_CHECKING:
    from workbench.kernels.paged_flex.settings import Settings

MEASURE = "workbench.sweeps.kernels.flex_measure:measure"
SPECS_MODULE = "workbench.sweeps.kernels.flex_specs"

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
SMALL_MODEL: Mapping[str, Any] = {
    "head_dim": 16,
    "group": 2,
    "dtype": "float32",
    "block_size": 16,
}


@dataclass(frozen=True, slots=True)
class Bucket:
    """A batch: so many requests of `tokens` tokens, the last `queries` of which are queries."""

    name: str
    requests: int
    tokens: int
    queries: int

    @property
    def fields(self) -> dict[str, int]:
        """See `winners.Shape`."""
        return {"requests": self.requests, "tokens": self.tokens, "queries": self.queries}


BUCKETS = (
    Bucket("prefill 2k", 4, 2048, 2048),
    Bucket("chunk 512 of 8k", 4, 8192, 512),
    Bucket("decode 64 x 4k", 64, 4096, 1),
    Bucket("decode 4 x 32k", 4, 32768, 1),
)
SMALL_BUCKETS = (Bucket("prefill 40", 1, 40, 40), Bucket("decode 3 x 70", 3, 70, 1))
"""Used to test the flow in the interpreter, which gives no times."""


def settings_of(config: Mapping[str, Any]) -> Settings:
    """Return the kernel's settings. Errors: PagedFlexError for what its legality rules refuse."""
    from workbench.kernels.paged_flex.settings import Settings, Tile

    prefill = Tile(config["block_m"], config["block_n"], config["num_warps"])
    if config["bitwise"]:
        split = config["split_tokens"]
        return Settings(
            prefill=prefill, decode=prefill, split_tokens=split, one_path=True, as_given=True
        )
    decode = Tile(16, config["decode_n"])
    return Settings(
        prefill=prefill, decode=decode, split_tokens=config["split_tokens"], as_given=True
    )


def candidates(
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    target: str | None = "sm_90",
    bitwise: bool = False,
    model: Mapping[str, Any] | None = None,
) -> Candidates:
    """Return legal combinations that, compiled for `target`, neither spill nor are too large.

    target: None leaves the compiler out. model: head_dim, group, dtype, block_size. Nothing is
    launched. Errors: InspectionError where the compiler itself fails.
    """
    shape = {**MODEL, **(model or {})}
    configs = [
        {**config, **shape, "bitwise": bitwise} for config in combined({**AXES, **(axes or {})})
    ]
    if bitwise:
        configs = [{**config, "decode_n": config["block_n"]} for config in configs]  # one tile
    kept, illegal = legal(configs, _refused)
    if target is None:
        return Candidates(kept, illegal, {})
    fit, unfit = fitting(kept, target, SPECS_MODULE, spec_names)
    return Candidates(fit, illegal, unfit)


def _refused(config: Mapping[str, Any]) -> str:
    from workbench.kernels.paged_flex.errors import PagedFlexError

    try:
        settings_of(config)
    except PagedFlexError as error:
        return error.field or "settings"
    return ""


def spec_names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the specialisations that a configuration launches: of prefills, and of decodes."""
    return spec_name(config, decode=False), spec_name(config, decode=True)


def spec_name(config: Mapping[str, Any], *, decode: bool) -> str:
    """Return one name for equal specialisations: what the other path is set to does not matter."""
    relevant = {name: value for name, value in config.items() if name != "decode_n" or decode}
    if decode and not config["bitwise"]:
        relevant = {name: value for name, value in relevant.items() if name not in _PREFILL_ONLY}
    if not decode and not config["bitwise"]:
        relevant.pop("split_tokens")
    return f"{'decode' if decode else 'prefill'} {json.dumps(relevant, sort_keys=True)}"


_PREFILL_ONLY = ("block_m", "block_n", "num_warps")
