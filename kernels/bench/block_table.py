"""The block-table benchmark: correctness first, then whatever this machine can measure."""

import os
from collections.abc import Sequence

from workbench.kernels.bench import dry_side, gpu_clock, results
from workbench.kernels.bench.gpu_clock import Limits
from workbench.kernels.bench.host_side import expansion_rows, host_step_rows
from workbench.kernels.bench.inputs import SETS, expected, step_input
from workbench.kernels.bench.machine import Machine, this_machine
from workbench.kernels.bench.peers import FAST, Manner, PeerKind, TablesPeer, TorchPeer, ours
from workbench.kernels.bench.ratios import scores
from workbench.kernels.bench.run import GateModule, Plan, Run, has_fast
from workbench.kernels.bench.timing import CaseTimes, time_cases
from workbench.kernels.bench.vllm_source import VllmSource
from workbench.kernels.bench.vllm_tables import DRY, Launches, find_vllm, vllm
from workbench.kernels.bench.workloads import LONG_ROWS, WORKLOADS, Workload
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.inspection import INSPECTED_MODULES

TARGETS = ("sm_90", "gfx942")
LAUNCHES = 2
"""The fewest that are known for a step: apply, and everything that reads what it wrote."""
CASES = WORKLOADS
ARRAYS = "fast, arrays"

TablesRun = Run[results.TablesResult]


def run(plan: Plan) -> results.TablesResult:
    """Run the whole benchmark. A peer with wrong results is in `verdicts` and is not timed."""
    machine = this_machine("block_table")
    run = TablesRun(
        plan, results.TablesResult(machine=machine, quick=plan.quick, rounds=plan.rounds)
    )
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        run.open("Other work kept these cores busy: host ratios are noisy.")
    sources = run.in_every_vllm(find_vllm)
    run.kinds = peer_kinds(machine, sources, launches=True)
    if machine["mode"] == "gpu":
        whole = not plan.quick and len(plan.cases) == len(WORKLOADS)
        cases = [*plan.cases, LONG_ROWS] if whole else plan.cases
        # compiler figures and the host's share need no GPU, so that they take no time on one
        time_cases(run, cases, ["step"], lambda case, limits: time_workload(run, case, limits))
        return run.result
    plan.say("No GPU: kernels are not timed, since the interpreter's times are meaningless.")
    plan.say("Correctness and counts at reduced size, in the interpreter ...")
    again = "Run the same command on a GPU to fill them in."
    run.open(f"GPU times are open: {machine['device']}. {again}")
    check_in_interpreter(run)
    modules: list[GateModule] = [(name, TARGETS, {}) for name in INSPECTED_MODULES["block-table"]]
    run.gate(modules, TARGETS[:1] if plan.quick else TARGETS, results.TABLES_GATE)
    host_side(run, peer_kinds(machine, sources, launches=False))
    plan.save(run.result)
    return run.result


def peer_kinds(
    machine: Machine, sources: Sequence[VllmSource], *, launches: Launches
) -> tuple[PeerKind, ...]:
    """Return every implementation available here, the fast path first.

    The fast path also takes arrays instead of lists of ids. launches=False, or "dry": for the
    host's share, also with a checked batch. Launched dry, torch's own kernels would run.
    """
    this = f"this project, files {machine['source_hash']}"
    checked = Manner(FAST, checked=True, launches=bool(launches))
    torch_peer = PeerKind("torch", TorchPeer, f"torch {machine['torch']} indexing")
    return (
        ours(Manner(FAST, launches=bool(launches)), FAST, this),
        ours(Manner("faithful", launches=bool(launches)), "faithful", this),
        *(() if launches == DRY else (torch_peer,)),
        *(vllm(source, launches=launches) for source in sources),
        ours(Manner(FAST, arrays=True, launches=bool(launches)), ARRAYS, this),
        *(() if launches is True else (ours(checked, "fast, host batch", this),)),
    )


def time_workload(run: TablesRun, workload: Workload, limits: Limits) -> None:
    """Check, time, check again; a peer that turns out wrong gets no time."""
    name = workload.name
    inputs = [step_input(workload, turn, run.device) for turn in range(SETS)]
    rights = [expected(given) for given in inputs]
    peers = run.right_ones(name, run.tried(name, inputs, rights))
    if not has_fast(peers):
        run.open(f"{name} was not timed: the fast path is wrong")
        return
    times = CaseTimes(run, name, peers, rights)
    for piece in workload.pieces:
        if piece == "step":
            # before the graphs: a step overwrites the staged data that they read
            times.add_wall(piece, _step_s)
        times.add_graphs(piece, hot=True, check=piece == "step")
    rows = times.kept()
    run.result.steps += rows
    for row in rows:
        if (row.peer, row.clock) == (FAST, "gpu cold"):
            run.result.floors.append(floor(workload, row, limits))


def _step_s(peers: Sequence[TablesPeer]) -> float:
    """Return the seconds of a whole step with a cold L2."""

    def before(peer: TablesPeer) -> None:
        peer.rewind()
        gpu_clock.flush_l2()

    return gpu_clock.wall_s(peers, lambda peer: peer.step(), before)


def floor(workload: Workload, row: results.StepRow, limits: Limits) -> results.FloorRow:
    """Compare the fast path's time of a piece with what no implementation can beat."""
    moved = workload.moved_bytes(row.piece)
    launches = LAUNCHES if row.piece == "step" else 1
    return results.FloorRow(
        workload=workload.name,
        piece=row.piece,
        bytes=moved,
        bytes_us=moved / limits.copy_bytes_per_s * 1e6,
        floor_us=limits.floor_s(moved, launches) * 1e6,
        fast_us=row.us.median,
    )


def check_in_interpreter(run: TablesRun) -> None:
    """Check one reduced input set of every workload, and count the accesses of its step."""
    for full in run.plan.cases:
        given = step_input(full.reduced(), 0)
        found = run.tried(full.name, [given], [expected(given)])
        for kind, peers in run.right_ones(full.name, found).items():
            counts = counted_step(full.name, kind.name, peers[0])
            if counts.launches:
                run.result.counts.append(counts)


def counted_step(workload: str, name: str, peer: TablesPeer) -> results.CountRow:
    """Count the accesses of one whole step of a filled peer; interpreter only."""
    peer.rewind()
    with counted_traffic() as traffic:
        peer.step()
    names = ("launches", "programs", "loads", "stores", "bytes")
    return results.CountRow(
        workload=workload, peer=name, **{name: getattr(traffic, name) for name in names}
    )


def host_side(run: TablesRun, kinds: Sequence[PeerKind]) -> None:
    """Time what the host does of a step, without launches, for peers that were right."""
    plan, result = run.plan, run.result
    wrong = {verdict.peer for verdict in result.wrong}
    right = [kind for kind in kinds if kind.name not in wrong]
    if has_fast(right):
        plan.say("The host's share of a step, without launches ...")
        result.host_steps = host_step_rows(plan, right)
        result.host_scores = scores(result.host_steps)
        plan.say("The same with its launches, launched dry ...")
        try:
            result.dry_steps = dry_side.dry_step_rows(plan)
        except dry_side.DryRunError as error:
            run.open(f"Host times with launches are open: {error}")
        result.dry_scores = scores(result.dry_steps)
    plan.say("Expansion of ids on the host ...")
    result.expansions = expansion_rows(plan)
