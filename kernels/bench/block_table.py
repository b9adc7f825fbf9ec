"""The block-table benchmark: correctness first, then whatever this machine can measure."""

import os
from collections.abc import Sequence

from workbench.kernels.bench.checking import checked_peers, expected
from workbench.kernels.bench.compare import scores
from workbench.kernels.bench.host_side import expansion_rows, host_step_rows
from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.machine import Machine, this_machine
from workbench.kernels.bench.peers import FAST, Manner, PeerKind, ours
from workbench.kernels.bench.plan import Plan
from workbench.kernels.bench.rows import Result
from workbench.kernels.bench.static import TARGETS, counted_step, gate_rows
from workbench.kernels.bench.torch_peer import TorchPeer
from workbench.kernels.bench.vllm_peer import vllm
from workbench.kernels.bench.vllm_source import (
    VllmSkipped,
    VllmSource,
    find_vllm,
    named_folders,
)
from workbench.kernels.inspection import InspectionError


def run(plan: Plan) -> Result:
    """Run the whole benchmark. A peer with wrong results is in `verdicts` and is not timed."""
    machine = this_machine()
    result = Result(machine, plan.quick, plan.rounds)
    if os.getloadavg()[0] > (os.cpu_count() or 1):
        result.open_questions.append("Other work kept these cores busy: host ratios are noisy.")
    sources = _vllm_sources(plan, result)
    kinds = peer_kinds(machine, sources, launches=True)
    if machine.mode == "gpu":
        from workbench.kernels.bench.gpu_run import run_on_gpu

        run_on_gpu(plan, kinds, result)
    else:
        plan.say("No GPU: kernels are not timed, since the interpreter's times are meaningless.")
        plan.say("Correctness and counts at reduced size, in the interpreter ...")
        result.open_questions.append(
            f"GPU times are open: {machine.device}. Run the same command on a GPU to fill them in."
        )
        check_in_interpreter(plan, kinds, result)
    wrong = {verdict.peer for verdict in result.verdicts if not verdict.ok}
    _gate(plan, result)
    hosts = (*peer_kinds(machine, sources, launches=False), *_other_manners(machine))
    _host_side(plan, hosts, wrong, result)
    return result


def peer_kinds(
    machine: Machine, sources: Sequence[VllmSource], *, launches: bool
) -> tuple[PeerKind, ...]:
    """Return every implementation available here, the fast path first."""
    return (
        ours(Manner(FAST, launches=launches), FAST, _this(machine)),
        ours(Manner("faithful", launches=launches), "faithful", _this(machine)),
        PeerKind("torch", TorchPeer, f"torch {machine.torch} indexing"),
        *(vllm(source, launches=launches) for source in sources),
    )


def _other_manners(machine: Machine) -> tuple[PeerKind, ...]:
    """Return the fast path's host share with arrays instead of lists, and with a checked batch."""
    this = _this(machine)
    return (
        ours(Manner(FAST, arrays=True, launches=False), "fast, arrays", this),
        ours(Manner(FAST, checked=True, launches=False), "fast, host batch", this),
    )


def _this(machine: Machine) -> str:
    return f"this project, files {machine.source_hash}"


def _vllm_sources(plan: Plan, result: Result) -> list[VllmSource]:
    """Return every readable vLLM that VLLM_SRC names. The reasons for the others are printed."""
    found = []

    def skipped(reason: VllmSkipped) -> None:
        plan.say(f"vLLM's own kernels are skipped. {reason}")
        result.open_questions.append(f"No vLLM to compare with. {reason}")

    try:
        folders = named_folders()
    except VllmSkipped as reason:
        skipped(reason)
        return []
    for folder in folders:
        try:
            found.append(find_vllm(folder))
        except VllmSkipped as reason:
            skipped(reason)
    return found


def check_in_interpreter(plan: Plan, kinds: Sequence[PeerKind], result: Result) -> None:
    """Check one reduced input set of every workload, and count the accesses of its step."""
    for full in plan.workloads:
        workload = full.reduced()
        inputs = [step_input(workload, 0)]
        rights = [expected(workload, given, "cpu") for given in inputs]
        right, verdicts = checked_peers(kinds, workload, inputs, rights, "cpu")
        result.verdicts += verdicts
        for kind, peers in right.items():
            counts = counted_step(workload.name, kind.name, peers[0])
            if counts.launches:
                result.counts.append(counts)


def _gate(plan: Plan, result: Result) -> None:
    plan.say("What the compiler makes of the kernels ...")
    try:
        result.gate = gate_rows(TARGETS[:1] if plan.quick else TARGETS)
    except InspectionError as error:
        result.open_questions.append(f"Compiler figures are open: {str(error)[-300:]}")


def _host_side(plan: Plan, kinds: Sequence[PeerKind], wrong: set[str], result: Result) -> None:
    right = [kind for kind in kinds if kind.name not in wrong]
    if right and right[0].name == FAST:
        plan.say("The host's share of a step, without launches ...")
        result.host_steps = host_step_rows(
            plan.workloads, right, rounds=plan.rounds, quick=plan.quick
        )
        result.host_scores = scores(result.host_steps, FAST)
    plan.say("Expansion of ids on the host ...")
    result.expansions = expansion_rows(rounds=plan.rounds, quick=plan.quick)
