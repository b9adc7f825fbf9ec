"""Which configurations of a kernel are worth a launch: legal ones that fit when compiled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from workbench.sweeps.store.row import canonical

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that a kernel is measured on."""

    name: str
    """What rows and people call it; its `bucket`."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else a measurement needs, by name."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """Configurations to measure, how many were omitted for which reason, and the batches."""

    configs: tuple[Config, ...]
    illegal: Mapping[str, int]
    unfit: Mapping[str, int]
    batches: tuple[Batch, ...] = ()

    @property
    def skipped_text(self) -> str:
        """Return "14 illegal (block_m) and 3 unfit (shared memory) configurations omitted"."""
        illegal, unfit = _counts_text("illegal", self.illegal), _counts_text("unfit", self.unfit)
        return f"{illegal} and {unfit} configurations omitted"


def _counts_text(what: str, found: Mapping[str, int]) -> str:
    names = f" ({', '.join(sorted(found))})" if found else ""
    return f"{sum(found.values())} {what}{names}"


def combined(axes: Mapping[str, Sequence[Any]]) -> list[Config]:
    """Return every combination of the values, by name."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def legal(
    configs: Iterable[Config], settings_of: Callable[[Config], object]
) -> tuple[tuple[Config, ...], dict[str, int]]:
    """Return the distinct legal ones, and how many are illegal because of which field.

    settings_of: builds the kernel's settings, which refuse what is illegal.
    """
    from workbench.kernels.errors import BlockTableError, PagedFlexError

    illegal: Counter[str] = Counter()
    kept: dict[str, Config] = {}
    for config in configs:
        try:
            settings_of(config)
        except (BlockTableError, PagedFlexError) as error:
            illegal[error.field] += 1
        else:
            kept[canonical(config)] = config
    return tuple(kept.values()), dict(illegal)


def fitting(
    configs: Sequence[Config],
    target: str | None,
    module: str,
    spec_names: Callable[[Config], Sequence[str]],
    first: int | None = None,
) -> tuple[tuple[Config, ...], dict[str, int]]:
    """Return those that neither spill nor are too large for `target`, each with its `shared_bytes`.

    target: None leaves the compiler out. module: has `specs_of`, see `inspect_kernels`. spec_names:
    the specialisations of a configuration. first: no more than so many are returned, and few more
    are compiled. Nothing is launched. Errors: InspectionError where the compiler itself fails.
    """
    if target is None:
        return tuple(configs[:first]), {}
    unfit: Counter[str] = Counter()
    kept: list[Config] = []
    wanted, step = len(configs) if first is None else first, first or len(configs)
    while configs and len(kept) < wanted:
        _sort_out(configs[:step], target, module, spec_names, kept, unfit)
        configs, step = configs[step:], 2 * step
    return tuple(kept[:wanted]), dict(unfit)


def _sort_out(
    configs: Sequence[Config],
    target: str,
    module: str,
    spec_names: Callable[[Config], Sequence[str]],
    kept: list[Config],
    unfit: Counter[str],
) -> None:
    """Compile these in one process; add each to `kept`, or its reason to `unfit`."""
    from workbench.kernels.inspection.api import inspect_kernels
    from workbench.kernels.inspection.targets import TARGETS

    reports = inspect_kernels(module, (target,), configs=configs)
    by_name = {report.kernel: report for report in reports}
    for config in configs:
        own = [by_name[name] for name in spec_names(config)]
        shared_bytes = max(report.shared_bytes for report in own)
        if shared_bytes > TARGETS[target].shared_memory_bytes:
            unfit["shared memory"] += 1
        elif any(report.spill_bytes for report in own):
            unfit["spills registers"] += 1
        else:
            kept.append({**config, "shared_bytes": shared_bytes})
