"""Measure one configuration of the block-table kernels: correct before and after any time.

On a GPU; in Triton's interpreter everything but the time, which it does not have.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.run.sweeps.measuring import limits, provenance, source_hash

if TYPE_CHECKING:
    from workbench.kernels.bench.checking import Expected
    from workbench.kernels.bench.inputs import StepInput
    from workbench.kernels.bench.peers import OurPeer
    from workbench.kernels.bench.workloads import Workload

SAMPLES = 9


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a row. The time is of one step's launches with a cold L2, replayed as a graph.

    bitwise: results are whole numbers, so a right one is right to the last bit. A wrong result,
    also one after the timing, has no time and says what is wrong.
    """
    from workbench.kernels.bench.checking import stepped_difference
    from workbench.kernels.bench.peers import Manner, OurPeer
    from workbench.kernels.mode import triton_mode
    from workbench.run.sweeps.table_kernels import tiles_of
    from workbench.run.sweeps.table_path import tuned_path

    decided = triton_mode()
    device = decided.torch_device
    workload, given, right = _task(config["bucket"].split()[0], config["reduced"], device)
    with tuned_path(tiles_of(config)) as name:
        peer = OurPeer(Manner(name), workload, given, device)  # type: ignore[arg-type]
    peer.fill()
    told: dict[str, Any] = {"provenance": provenance(kernel_hash())}
    wrong = stepped_difference(peer, right)
    if not wrong and decided.mode == "gpu":
        times, wrong = _timed(peer, right)
        told = {**told, **times, "limits": limits()}
    if wrong:
        only = {"provenance": told["provenance"]}
        return {**only, "status": "wrong", "correct": False, "message": wrong}
    return {**told, "correct": True, "bitwise": True}


@cache
def _task(name: str, reduced: bool, device: str) -> tuple[Workload, StepInput, Expected]:
    """A workload, its input, and the oracle's answer, made once a process."""
    from workbench.kernels.bench.checking import expected
    from workbench.kernels.bench.inputs import step_input
    from workbench.kernels.bench.workloads import WORKLOADS

    workload = WORKLOADS[name].reduced() if reduced else WORKLOADS[name]
    given = step_input(workload, 0)
    return workload, given, expected(workload, given, device)


def _timed(peer: OurPeer, right: Expected) -> tuple[dict[str, Any], str]:
    """Median and quartile distance of samples, and what is wrong with the results afterwards."""
    from workbench.kernels.bench.checking import difference
    from workbench.kernels.bench.gpu_clock import L2Flush, StepGraphs
    from workbench.kernels.bench.peers import poison

    peer.ready()
    graphs = StepGraphs([peer], L2Flush())
    times = _summary([graphs.cold_s() for _ in range(SAMPLES)])
    poison(peer)
    graphs.run_once()
    found = difference(peer, right)
    return times, f"after timing: {found}" if found else ""


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"n": len(seconds), "median_s": median, "spread_s": high - low}


@cache
def kernel_hash() -> str:
    """Of the kernels' own files, of how sweeps cut them, and of the workloads."""
    from workbench.kernels import block_table
    from workbench.kernels.bench import inputs, workloads
    from workbench.run.sweeps import table_path

    more = (Path(str(module.__file__)) for module in (inputs, workloads, table_path))
    return source_hash((*Path(block_table.__file__).parent.glob("*.py"), *more))
