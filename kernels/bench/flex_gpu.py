"""Every case by every clock, on a GPU."""

import gc
import time
from collections.abc import Callable

import torch

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.checking import Verdict
from workbench.kernels.bench.compare import AGAIN, compared, scores
from workbench.kernels.bench.flex import Checked, FlexRun
from workbench.kernels.bench.flex_cases import FlexCase
from workbench.kernels.bench.flex_peers import FAST, FlexKind, FlexPeer
from workbench.kernels.bench.flex_rows import RateRow
from workbench.kernels.bench.gpu_clock import GRAPH_STEPS, L2Flush, StepGraphs
from workbench.kernels.bench.rows import StepRow

ATTENTION, METADATA = "attention", "metadata"
SAMPLE_S = 0.02
"""Attention of one graph, about: enough for the clock, little enough for slow peers."""

SHARE_OF_MEMORY = 0.8
BUILDS = 3


def time_cases(run: FlexRun) -> None:
    """Measure the limits, then time case by case. A failing case does not stop the others."""
    limits = gpu_clock.measured_limits()
    run.result.copy_bytes_per_s = limits.copy_bytes_per_s
    run.result.launch_us = limits.launch_s * 1e6
    run.result.matmul_flop_per_s = gpu_clock.matmul_flop_per_s(torch.bfloat16)
    flush = L2Flush()
    for case in run.plan.cases:
        run.plan.say(f"{case.name}: {case.title} ...")
        try:
            # every case has masks and shapes of its own: compiled ones would add up to a limit
            torch.compiler.reset()
            time_case(run, case, flush)
        except Exception as error:  # noqa: BLE001 - the other cases' results are kept
            run.open(f"{case.name} was not timed: {type(error).__name__}: {str(error)[:300]}")
        gc.collect()
        torch.cuda.empty_cache()
        run.result.scores = [
            score
            for piece in (ATTENTION, METADATA)
            for score in scores(
                [row for row in run.result.steps if row.piece == piece], FAST, piece
            )
        ]
        run.plan.save(run.result)


def time_case(run: FlexRun, case: FlexCase, flush: L2Flush, device: str = "cuda") -> None:
    """Check, time, check again; a peer that turns out wrong gets no time."""
    fitted = case.fitted(int(_free_bytes() * SHARE_OF_MEMORY))
    if fitted is not case:
        run.open(f"{case.name} was made to fit this memory: {fitted.title}.")
    checked = run.check(fitted, device)
    if not checked.peers or next(iter(checked.peers)).name != FAST:
        run.open(f"{case.name} was not timed: the fast mode is wrong")
        return
    run.describe(checked)
    builds = {kind: _build_s(peer) for kind, peer in checked.peers.items()}
    rows = compared(case.name, METADATA, "wall", builds, run.plan.rounds)
    graphs = _graphs(run, case, checked, flush)
    if graphs and next(iter(graphs)).name == FAST:
        rows += _attention_rows(run, case, graphs)
    after = [_after_timing(case, kind, checked, graph) for kind, graph in graphs.items()]
    run.result.verdicts += [verdict for verdict in after if not verdict.ok]
    wrong = {verdict.peer for verdict in after if not verdict.ok}
    if FAST in wrong:
        run.open(f"{case.name}: the fast mode was wrong after timing, its times are dropped")
        return
    kept = [row for row in rows if row.peer not in wrong]
    run.result.steps += kept
    run.result.rates += _rates(run, fitted, kept)


def _free_bytes() -> int:
    return int(torch.cuda.mem_get_info()[0])


def _build_s(peer: FlexPeer) -> Callable[[], float]:
    """Return the seconds of one build, from the Python call until the device is done."""

    def sample() -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(BUILDS):
            peer.build()
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / BUILDS

    return sample


def _graphs(
    run: FlexRun, case: FlexCase, checked: Checked, flush: L2Flush
) -> dict[FlexKind, StepGraphs]:
    """Capture the graphs of all peers that support it, each with the steps of one sample."""
    graphs = {}
    for kind, peer in checked.peers.items():
        try:
            peer.build()
            seconds = gpu_clock.once_s(peer.launch)
            steps = max(1, min(GRAPH_STEPS, int(SAMPLE_S / seconds)))
            graphs[kind] = StepGraphs([peer], flush, steps_wanted=steps)
        except Exception as error:  # noqa: BLE001 - a peer that no graph takes is a finding
            run.open(
                f"{case.name} {kind.name}: no graph, so no GPU time: {type(error).__name__}: "
                f"{str(error)[:300]}"
            )
    return graphs


def _attention_rows(
    run: FlexRun, case: FlexCase, graphs: dict[FlexKind, StepGraphs]
) -> list[StepRow]:
    """Time attention with a cold L2, as in an engine; with a hot one if the flush hides it."""
    rounds = run.plan.rounds
    colds = {kind: graph.cold_s for kind, graph in graphs.items()}
    try:
        return compared(case.name, ATTENTION, "gpu cold", colds, rounds)
    except gpu_clock.TooNoisyError as reason:
        run.open(f"{case.name}: no cold GPU time: {reason}")
    hots = {kind: graph.hot_s for kind, graph in graphs.items()}
    return compared(case.name, ATTENTION, "gpu hot", hots, rounds)


def _after_timing(case: FlexCase, kind: FlexKind, checked: Checked, graph: StepGraphs) -> Verdict:
    """Check what a replayed graph writes over NaN."""
    peer = checked.peers[kind]
    peer.output().fill_(float("nan"))
    graph.run_once()
    found = checked.right.difference(peer.result())
    return Verdict(case.name, kind.name, not found, f"after timing: {found}" if found else "")


def _rates(run: FlexRun, case: FlexCase, rows: list[StepRow]) -> list[RateRow]:
    matmul, copy = run.result.matmul_flop_per_s, run.result.copy_bytes_per_s
    assert matmul is not None
    assert copy is not None
    return [
        RateRow(case.name, row.peer, row.us.median, case.flop, case.bytes, matmul, copy)
        for row in rows
        if row.piece == ATTENTION and row.peer != AGAIN
    ]
