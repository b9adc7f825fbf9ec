"""Which configurations of a kernel are worth a launch: legal ones that fit when compiled."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

SPECS_VARIABLE = "WORKBENCH_SWEPT_SPECS"
Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configurations to measure, and how many were omitted for which reason."""

    configs: tuple[Config, ...]
    illegal: Mapping[str, int]
    unfit: Mapping[str, int]

    @property
    def skipped_text(self) -> str:
        """Return "14 illegal (block_m) and 3 unfit (shared memory) configurations omitted"."""
        illegal, unfit = _counts_text("illegal", self.illegal), _counts_text("unfit", self.unfit)
        return f"{illegal} and {unfit} configurations omitted"


def _counts_text(what: str, found: Mapping[str, int]) -> str:
    names = f" ({', '.join(sorted(found))})" if found else ""
    return f"{sum(found.values())} {what}{names}"


def combined(axes: Mapping[str, Sequence[Any]]) -> tuple[Config, ...]:
    """Return every combination of the values, by name."""
    return tuple(dict(zip(axes, values, strict=True)) for values in product(*axes.values()))


def legal(
    configs: Iterable[Config], refused: Callable[[Config], str]
) -> tuple[tuple[Config, ...], dict[str, int]]:
    """Return the distinct legal ones, and how many are illegal because of which field.

    refused: the field that makes a configuration illegal; empty for a legal one.
    """
    illegal: Counter[str] = Counter()
    kept: dict[str, Config] = {}
    for config in configs:
        if field := refused(config):
            illegal[field] += 1
        else:
            kept[json.dumps(config, sort_keys=True)] = config
    return tuple(kept.values()), dict(illegal)


_compiling = threading.Lock()


def fitting(
    configs: Sequence[Config],
    target: str,
    module: str,
    spec_names: Callable[[Config], Sequence[str]],
) -> tuple[tuple[Config, ...], dict[str, int]]:
    """Return those that neither spill nor are too large for `target`, each with its `shared_bytes`.

    module: its INSPECTED are the specialisations that SPECS_VARIABLE asks for. spec_names: those of
    a configuration. Nothing is launched. Errors: InspectionError where the compiler itself fails.
    """
    from workbench.kernels.inspection.api import inspect_kernels
    from workbench.kernels.inspection.targets import TARGETS

    with _compiling:  # the compiling process reads what to compile from the environment
        os.environ[SPECS_VARIABLE] = json.dumps(list(configs))
        try:
            reports = inspect_kernels(module, (target,))
        finally:
            del os.environ[SPECS_VARIABLE]
    by_name = {report.kernel: report for report in reports}
    limit = TARGETS[target].shared_memory_bytes
    unfit: Counter[str] = Counter()
    kept = []
    for config in configs:
        own = [by_name[name] for name in spec_names(config)]
        shared_bytes = max(report.shared_bytes for report in own)
        if shared_bytes > limit:
            unfit["shared memory"] += 1
        elif any(report.spill_bytes for report in own):
            unfit["spills registers"] += 1
        else:
            kept.append({**config, "shared_bytes": shared_bytes})
    return tuple(kept), dict(unfit)


def requested_configs() -> list[Config]:
    """Return the configurations that `fitting` tests; runs in the compiling process."""
    found: list[Config] = json.loads(os.environ.get(SPECS_VARIABLE, "[]"))
    return found
