"""Every workload by every clock, on a GPU."""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.checking import Expected, Verdict, checked_peers, difference, expected
from workbench.kernels.bench.compare import compared, scores
from workbench.kernels.bench.gpu_clock import L2Flush, StepGraphs
from workbench.kernels.bench.inputs import SETS, step_input
from workbench.kernels.bench.limits import LAUNCHES, Limits, moved_bytes
from workbench.kernels.bench.peers import FAST, Peer, PeerKind, Piece, poison
from workbench.kernels.bench.plan import Plan
from workbench.kernels.bench.rows import FloorRow, Result, StepRow
from workbench.kernels.bench.workloads import LONG_ROWS, WORKLOADS, Workload


@dataclass(frozen=True, slots=True)
class GpuRun:
    """What all workloads of a run share."""

    plan: Plan
    kinds: Sequence[PeerKind]
    limits: Limits
    flush: L2Flush
    result: Result
    device: str = "cuda"

    def open(self, line: str) -> None:
        """Print and record what could not be measured."""
        self.plan.say(line)
        self.result.open_questions.append(line)


def run_on_gpu(plan: Plan, kinds: Sequence[PeerKind], result: Result) -> None:
    """Fill in limits, verdicts, steps, floors and scores. What fails leaves the rest as it is."""
    limits = gpu_clock.measured_limits()
    result.copy_bytes_per_s = limits.copy_bytes_per_s
    result.launch_us = limits.launch_s * 1e6
    run = GpuRun(plan, kinds, limits, L2Flush(), result)
    work: list[tuple[Workload, tuple[Piece, ...]]] = [
        (workload, ("step", "slots") if workload.name == "W3" else ("step",))
        for workload in plan.workloads
    ]
    if not plan.quick and len(plan.workloads) == len(WORKLOADS):
        work.append((LONG_ROWS, ("gather",)))
    for workload, pieces in work:
        plan.say(f"{workload.name}: {workload.title} ...")
        try:
            time_workload(run, workload, pieces)
        except Exception as error:  # noqa: BLE001 - the other workloads' results are kept
            run.open(f"{workload.name} was not timed: {type(error).__name__}: {str(error)[:300]}")
        gc.collect()
    result.scores = scores(result.steps, FAST)


def time_workload(run: GpuRun, workload: Workload, pieces: Sequence[Piece]) -> None:
    """Check, time, check again; a peer that turns out wrong gets no time."""
    inputs = [step_input(workload, turn) for turn in range(SETS)]
    rights = [expected(workload, given, run.device) for given in inputs]
    peers, verdicts = checked_peers(run.kinds, workload, inputs, rights, run.device)
    run.result.verdicts += verdicts
    if not peers or next(iter(peers)).name != FAST:
        run.open(f"{workload.name} was not timed: the fast path is wrong")
        return
    rows: list[StepRow] = []
    floors: list[FloorRow] = []
    if "step" in pieces:
        # before the graphs: a step overwrites the staged data that they read
        walls = {kind: _wall(made, run.flush) for kind, made in peers.items()}
        rows += compared(workload.name, "step", "wall", walls, run.plan.rounds)
    wrong = set()
    for piece in pieces:
        graphs = _graphs(run, workload, peers, piece)
        if not graphs or next(iter(graphs)).name != FAST:
            continue
        rows += _gpu_rows(run, workload, piece, graphs, floors)
        if piece == "step":
            after = [_after_timing(workload, k, peers[k], graphs[k], rights) for k in graphs]
            run.result.verdicts += [verdict for verdict in after if not verdict.ok]
            wrong |= {verdict.peer for verdict in after if not verdict.ok}
    if FAST in wrong:
        run.open(f"{workload.name}: the fast path was wrong after timing, its times are dropped")
        return
    run.result.floors += floors
    run.result.steps += [row for row in rows if row.peer not in wrong]


def _wall(peers: Sequence[Peer], flush: L2Flush) -> Callable[[], float]:
    return lambda: gpu_clock.wall_s(peers, flush)


def _graphs(
    run: GpuRun, workload: Workload, peers: dict[PeerKind, list[Peer]], piece: Piece
) -> dict[PeerKind, StepGraphs]:
    """Capture the graphs of all peers that support it."""
    graphs = {}
    for kind, made in peers.items():
        try:
            for peer in made:
                peer.ready()
            graphs[kind] = StepGraphs(made, run.flush, piece)
        except Exception as error:  # noqa: BLE001 - a peer that no graph takes is a finding
            run.open(
                f"{workload.name} {kind.name}: no graph of its {piece}, so no GPU time: "
                f"{type(error).__name__}: {str(error)[:300]}"
            )
    return graphs


def _gpu_rows(
    run: GpuRun,
    workload: Workload,
    piece: Piece,
    graphs: dict[PeerKind, StepGraphs],
    floors: list[FloorRow],
) -> list[StepRow]:
    rounds = run.plan.rounds
    hots = {kind: graph.hot_s for kind, graph in graphs.items()}
    colds = {kind: graph.cold_s for kind, graph in graphs.items()}
    rows = compared(workload.name, piece, "gpu hot", hots, rounds)
    try:
        cold = compared(workload.name, piece, "gpu cold", colds, rounds)
    except gpu_clock.TooNoisyError as reason:
        run.open(f"{workload.name}: no cold GPU time of the {piece}: {reason}")
        return rows
    floors.append(_floor(workload, piece, run.limits, cold[0].us.median))
    return rows + cold


def _after_timing(
    workload: Workload,
    kind: PeerKind,
    peers: Sequence[Peer],
    graphs: StepGraphs,
    rights: Sequence[Expected],
) -> Verdict:
    """Check what a replayed graph writes over poisoned outputs."""
    for peer in peers:
        poison(peer)
    graphs.run_once()
    found = [difference(peer, right) for peer, right in zip(peers, rights, strict=True)]
    detail = next((f"after timing: {text}" for text in found if text), "")
    return Verdict(workload.name, kind.name, not detail, detail)


def _floor(workload: Workload, piece: Piece, limits: Limits, fast_us: float) -> FloorRow:
    moved = moved_bytes(workload, piece)
    launches = LAUNCHES if piece == "step" else 1
    return FloorRow(
        workload.name,
        piece,
        moved,
        moved / limits.copy_bytes_per_s * 1e6,
        limits.floor_s(moved, launches) * 1e6,
        fast_us,
    )
