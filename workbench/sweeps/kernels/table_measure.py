"""Measure one configuration of the block-table kernels: correct before and after any time.

On a GPU; in Triton's interpreter everything but the time, which it does not have.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.sweeps.kernels.measuring import limits, provenance, source_hash

if TYPE_CHECKING:
    from workbench.kernels.bench.inputs import ExpectedOutput, StepInput
    from workbench.kernels.bench.peers import OurPeer

SAMPLES = 9


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row, with the time of one step's launches, replayed with a cold L2.

    bitwise: results are integers, so a right one is right to the last bit. A wrong result,
    also one after the timing, has no time and says what is wrong.
    """
    from workbench.kernels.bench.peers import Manner, OurPeer
    from workbench.kernels.mode import triton_mode
    from workbench.sweeps.kernels.table_kernels import tiles_of
    from workbench.sweeps.kernels.table_path import tuned_path

    decided = triton_mode()
    device = decided.torch_device
    given, right = _task(config["bucket"].split()[0], config["reduced"], device)
    with tuned_path(tiles_of(config)) as name:
        peer = OurPeer(Manner(name), given)  # type: ignore[arg-type]
    peer.run()
    result: dict[str, Any] = {"provenance": provenance(kernel_hash())}
    wrong = right.difference(peer)
    if not wrong and decided.mode == "gpu":
        times, wrong = _timed(peer, right)
        result = {**result, **times, "limits": limits()}
    if wrong:
        only = {"provenance": result["provenance"]}
        return {**only, "status": "wrong", "correct": False, "message": wrong}
    return {**result, "correct": True, "bitwise": True}


@cache
def _task(name: str, reduced: bool, device: str) -> tuple[StepInput, ExpectedOutput]:
    """Return a workload's input and the oracle's answer, made once per process."""
    from workbench.kernels.bench.inputs import expected, step_input
    from workbench.kernels.bench.workloads import WORKLOADS

    workload = WORKLOADS[name].reduced() if reduced else WORKLOADS[name]
    given = step_input(workload, 0, device)
    return given, expected(given)


def _timed(peer: OurPeer, right: ExpectedOutput) -> tuple[dict[str, Any], str]:
    """Return median and quartile distance of samples, and what is wrong with the results."""
    from workbench.kernels.bench.gpu_clock import StepGraphs

    peer.ready()
    graphs = StepGraphs([peer])
    times = _summary([graphs.cold_s() for _ in range(SAMPLES)])
    peer.poison()
    graphs.run_once()
    found = right.difference(peer)
    return times, f"after timing: {found}" if found else ""


def _summary(seconds: Sequence[float]) -> dict[str, Any]:
    low, median, high = statistics.quantiles(seconds, n=4)
    return {"n": len(seconds), "median_s": median, "spread_s": high - low}


@cache
def kernel_hash() -> str:
    """Return the hash of the kernels' own files, of how sweeps cut them, and of the workloads."""
    from workbench.kernels import block_table
    from workbench.kernels.bench import inputs, workloads
    from workbench.sweeps.kernels import table_path

    more = (Path(str(module.__file__)) for module in (inputs, workloads, table_path))
    return source_hash((*Path(block_table.__file__).parent.glob("*.py"), *more))
