"""Kernel sweeps ready to start: on GPUs here or of a cluster, or small in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from workbench.run.store import ResultStore, Row
from workbench.run.sweeps import flex_kernels, table_kernels
from workbench.run.sweeps.execute import Sweep
from workbench.run.sweeps.fitting import Candidates
from workbench.run.sweeps.place import Place, here
from workbench.run.sweeps.winners import Shape, Winner, keys, winner, winners


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is worth measuring here: configurations, and the batches that they are measured on."""

    candidates: Candidates
    shapes: tuple[Shape, ...]

    @property
    def configs(self) -> tuple[dict[str, Any], ...]:
        """Legal and fit."""
        return self.candidates.configs

    def first(self, count: int) -> Chosen:
        """The same with no more than so many configurations, for a try."""
        few = replace(self.candidates, configs=self.configs[:count])
        return Chosen(few, self.shapes)


EVERY = "all batches together"
"""The winner for who can set one configuration only: by geometric mean over every bucket."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Bucket -> its winner, on one device with one version of a kernel; and that of EVERY."""

    device: str
    kernel_hash: str
    winners: Mapping[str, Winner]


@dataclass(frozen=True, slots=True)
class SweptKernel:
    """A kernel that sweeps know.

    fields: what is chosen for it, in the order of a table. one_for_all: a program picks its
    configuration once, so one has to win over all batches; otherwise only in bitwise mode.
    """

    name: str
    title: str
    fields: tuple[str, ...]
    one_for_all: bool
    measure: str
    choose: Callable[[str | None, bool], Chosen]
    hash_of: Callable[[], str]

    def chosen(self, place: Place | None = None, *, bitwise: bool = False) -> Chosen:
        """What is worth measuring at a place (this machine if none is given).

        For a GPU this compiles for a minute or more; the GPU need not be here.
        """
        return self.choose((place or here()).target, bitwise)

    def sweep(
        self,
        store: ResultStore,
        chosen: Chosen,
        *,
        rounds: int = 1,
        place: Place | None = None,
        on_row: Callable[[Row], None] | None = None,
    ) -> Sweep:
        """The sweep over these, at a place (this machine if none is given)."""
        at = place or here()
        wanted = keys(self.name, chosen.configs, chosen.shapes, at.device, self.hash_of(), rounds)
        return Sweep(store, wanted, self.measure, at.lanes, on_row=on_row)

    def rows(self, store: ResultStore, device: str | None = None) -> tuple[Row, ...]:
        """What a store holds of this kernel, whichever version; needs no GPU."""
        return tuple(
            row for row in store.rows(device) if row.key.config_values.get("kernel") == self.name
        )

    def winners(self, rows: Iterable[Row], *, bitwise: bool = False) -> tuple[Standing, ...]:
        """Who wins on each device with each version of the kernel; nothing without any times."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            mode = row.key.config_values.get("bitwise", bitwise)
            if mode == bitwise:
                groups.setdefault((row.key.device, row.key.kernel_hash), []).append(row)
        found = []
        for (device, version), own in sorted(groups.items()):
            buckets = tuple(dict.fromkeys(row.key.config_values["bucket"] for row in own))
            best = winners(own, buckets, bitwise=bitwise or self.one_for_all)
            if best and not (bitwise or self.one_for_all):
                one = winner(own, buckets)
                best |= {} if one is None else {EVERY: one}
            if best:
                found.append(Standing(device, version, best))
        return tuple(found)


def _choose_flex(target: str | None, bitwise: bool) -> Chosen:
    if target is None:
        found = flex_kernels.candidates(
            flex_kernels.SMALL_AXES, target=None, bitwise=bitwise, model=flex_kernels.SMALL_MODEL
        )
        return Chosen(found, flex_kernels.SMALL_BUCKETS)
    return Chosen(flex_kernels.candidates(target=target, bitwise=bitwise), flex_kernels.BUCKETS)


def _choose_tables(target: str | None, _bitwise: bool) -> Chosen:
    axes = table_kernels.AXES if target else table_kernels.SMALL_AXES
    found = table_kernels.candidates(axes, target=target)
    return Chosen(found, table_kernels.shapes(reduced=target is None))


def _flex_hash() -> str:
    from workbench.run.sweeps.flex_measure import kernel_hash

    return kernel_hash()


def _table_hash() -> str:
    from workbench.run.sweeps.table_measure import kernel_hash

    return kernel_hash()


KERNELS: Mapping[str, SweptKernel] = {
    kernel.name: kernel
    for kernel in (
        SweptKernel(
            "flex",
            "paged flex attention",
            ("block_m", "block_n", "num_warps", "decode_n", "split_tokens"),
            False,
            flex_kernels.MEASURE,
            _choose_flex,
            _flex_hash,
        ),
        SweptKernel(
            "block-table",
            "block tables, fast path",
            tuple(table_kernels.AXES),
            True,
            table_kernels.MEASURE,
            _choose_tables,
            _table_hash,
        ),
    )
}
"""Name -> kernel."""


def kernel_named(name: str) -> SweptKernel:
    """The kernel of this name. Errors: ValueError with the names that there are."""
    if name in KERNELS:
        return KERNELS[name]
    near = get_close_matches(name, KERNELS, 1)
    hint = f" Nearest: {near[0]}." if near else ""
    raise ValueError(f"No kernel {name!r} is swept.{hint} Kernels: {', '.join(KERNELS)}.")
