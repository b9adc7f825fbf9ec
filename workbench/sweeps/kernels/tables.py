"""Sweeps of the block-table kernels: which tiles are legal and fit, and one of them measured.

A batch is a workload of the block-table benchmark. `measure` is what a lane runs: correct before
and after any time. In Triton's interpreter it does everything but the time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.kernels.bench.machine import KERNELS, source_hash
from workbench.sweeps.kernels.fitting import Batch, Candidates, combined, fitting, legal
from workbench.sweeps.kernels.place import provenance, times, wrong

if TYPE_CHECKING:
    from workbench.kernels.bench.inputs import ExpectedOutput, StepInput
    from workbench.kernels.kernel_spec import PublicCall
    from workbench.sweeps.kernels.table_path import Tiles

AXES: Mapping[str, tuple[Any, ...]] = {
    "apply_ids": (256, 512),
    "programs_per_processor": (8,),
    "slot_tokens": (256, 512, 1024),
    "tile_entries": (1024, 2048, 4096),
    "tile_columns": (32, 128),
    "num_warps": (4, 8),
}
"""Values that are tried by default."""
SMALL_AXES: Mapping[str, tuple[Any, ...]] = {
    "apply_ids": (128,),
    "programs_per_processor": (1,),
    "slot_tokens": (32, 48, 64),
    "tile_entries": (64,),
    "tile_columns": (32, 128),
    "num_warps": (4,),
}
"""Without a GPU: a few configurations, some of them illegal, to see the flow."""
SMALL_WORKLOADS = ("W2", "W5")
"""A hybrid decode and a prefill, for the interpreter."""
OF_KERNELS = ("apply_ids", "slot_tokens", "tile_entries", "tile_columns", "num_warps")
"""What the compiler sees of a configuration."""
MAX_REQUESTS = 8192
SAMPLES = 9


def tiles_of(config: Mapping[str, Any]) -> Tiles:
    """Return the tiles of a configuration. Errors: BlockTableError for what is illegal."""
    from workbench.sweeps.kernels.table_path import Tiles

    return Tiles(**{field.name: config[field.name] for field in fields(Tiles)})


def candidates(
    target: str | None,
    _bitwise: bool = False,
    first: int | None = None,
    *,
    axes: Mapping[str, Sequence[Any]] | None = None,
) -> Candidates:
    """Return legal combinations that, compiled for `target`, neither spill nor are too large.

    target: None leaves the compiler out, and is for the interpreter, with few and small ones.
    first: only so many of them. Nothing is launched. Errors: InspectionError where the compiler
    itself fails.
    """
    from workbench.kernels.bench.workloads import WORKLOADS

    values = {**AXES, **((AXES if target else SMALL_AXES) if axes is None else axes)}
    kept, illegal = legal(combined(values), tiles_of)
    fit, unfit = fitting(kept, target, __name__, spec_names, first)
    if target is None:
        batches = [Batch(f"{name} reduced", {"reduced": True}) for name in SMALL_WORKLOADS]
    else:
        batches = [Batch(name, {"reduced": False}) for name in WORKLOADS]
    return Candidates(fit, illegal, unfit, tuple(batches))


def spec_names(config: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of the two kernels that a configuration launches."""
    name = json.dumps({name: config[name] for name in OF_KERNELS}, sort_keys=True)
    return name, f"{name}: gather_and_slots"


def specs_of(config: Mapping[str, Any]) -> list[PublicCall]:
    """Return what is compiled for a configuration; runs in the compiling process.

    A step whose block sizes take divisions, which need more registers than shifts do.
    """
    from workbench.kernels.block_table.calls import step_call
    from workbench.kernels.kernel_spec import PublicCall
    from workbench.sweeps.kernels.table_path import tuned_path

    tiles, (name, _) = tiles_of(config), spec_names(config)

    def run() -> None:
        with tuned_path(tiles) as path:
            step_call(name, path=path, max_requests=MAX_REQUESTS).run()

    return [PublicCall(name, run, limited=False)]


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row, with the time of one step's launches, replayed with a cold L2.

    bitwise: results are integers, so a right one is right to the last bit. A wrong result,
    also one after the timing, has no time and says what is wrong.
    """
    from workbench.kernels.bench.gpu_clock import StepGraphs
    from workbench.kernels.bench.peers import Manner, OurPeer
    from workbench.kernels.mode import triton_mode
    from workbench.sweeps.kernels.table_path import tuned_path

    decided = triton_mode()
    given, right = _task(config["bucket"].split()[0], config["reduced"], decided.torch_device)
    with tuned_path(tiles_of(config)) as name:
        peer = OurPeer(Manner(name), given)  # type: ignore[arg-type]
    peer.run()
    if found := right.difference(peer):
        return wrong(found, kernel_hash())
    row = {"provenance": provenance(kernel_hash()), "correct": True, "bitwise": True}
    if decided.mode != "gpu":
        return row
    peer.ready()
    graphs = StepGraphs([peer])
    timed = times([graphs.cold_s() for _ in range(SAMPLES)])
    peer.poison()
    graphs.run_once()
    if found := right.difference(peer):
        return wrong(f"after timing: {found}", kernel_hash())
    return {**row, **timed}


@cache
def _task(name: str, reduced: bool, device: str) -> tuple[StepInput, ExpectedOutput]:
    """Return a workload's input and the reference's answer, made once per process."""
    from workbench.kernels.bench.inputs import expected, step_input
    from workbench.kernels.bench.workloads import WORKLOADS

    workload = WORKLOADS[name].reduced() if reduced else WORKLOADS[name]
    given = step_input(workload, 0, device)
    return given, expected(given)


@cache
def kernel_hash() -> str:
    """Return the hash of the kernels' own files, of how sweeps cut them, and of the workloads."""
    bench, here = KERNELS / "bench", Path(__file__).parent
    more = (bench / "inputs.py", bench / "workloads.py", here / "table_path.py")
    return source_hash("block_table", *more)
