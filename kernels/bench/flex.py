"""The paged-attention benchmark: correctness first, then whatever this machine can measure."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from workbench.kernels.bench import flex_cases, gpu_clock, results
from workbench.kernels.bench.flex_cases import FlexCase
from workbench.kernels.bench.flex_inputs import (
    NOT_FINITE,
    FlexInput,
    flex_input,
    in_larger_pool,
    truth,
)
from workbench.kernels.bench.flex_peers import BITWISE, AttentionPeer, own_kinds
from workbench.kernels.bench.gpu_clock import GRAPH_STEPS
from workbench.kernels.bench.library_peers import library_kinds
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.ratios import AGAIN
from workbench.kernels.bench.run import Plan, Run, has_fast, ran
from workbench.kernels.bench.timing import CaseTimes, time_cases
from workbench.kernels.bench.vllm_attention import vllm_attention
from workbench.kernels.bench.vllm_flash import vllm_flash
from workbench.kernels.inspection import TARGETS
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.bitwise import Kind, compare_bits, promised
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.settings import Settings
from workbench.kernels.paged_flex.work import paged_batch

READS_MASKED = "bytes that it masks reach its result: it needs a cache that is finite everywhere"
CASES = flex_cases.CASES
SAMPLE_S = 0.02
"""Attention of one graph, about: enough for the clock, little enough for slow peers."""

SHARE_OF_MEMORY = 0.8
BUILDS = 3
QUICK_TARGETS = ("sm_90",)
_HERE = "workbench.kernels"
MODULES = (
    (f"{_HERE}.paged_flex.calls", tuple(TARGETS), {"source": "what each device launches"}),
    (f"{_HERE}.bench.vllm_attention_specs", tuple(TARGETS), {"source": "vLLM"}),
)
"""The kernels, and the targets that are given their tiles; vLLM's where VLLM_SRC names one."""


class FlexRun(Run[results.FlexResult]):
    """One run of this benchmark."""

    def __init__(self, plan: Plan) -> None:
        machine = this_machine("paged_flex")
        result = results.FlexResult(machine=machine, quick=plan.quick, rounds=plan.rounds)
        super().__init__(plan, result, own_kinds(str(machine["source_hash"])))

    def check(self, given: FlexInput) -> tuple[dict[PeerKind, list[Any]], Any]:
        """Return the right peers, and the truth. Pages are full of NaN, or finite if that fails."""
        right, name = truth(given), given.case.name
        found = self.tried(name, [given], [right])
        remarks = {kind: READS_MASKED for kind, (_, wrong) in found.items() if NOT_FINITE in wrong}
        given.make_finite()
        for kind in remarks:
            found[kind] = ran(kind, [given], [right])
        return self.right_ones(name, found, remarks), right

    def describe(self, given: FlexInput, peers: Mapping[PeerKind, Sequence[Any]]) -> None:
        """Record bytes of metadata and bit comparisons, which need no clock."""
        larger = in_larger_pool(given)
        for kind, (peer,) in peers.items():
            self.result.metadata.append(metadata_row(kind, peer, given, larger))
        del larger
        self.result.bits += bits_rows(given)


def run(plan: Plan) -> results.FlexResult:
    """Run the whole benchmark. A peer with wrong results is in `verdicts` and is not timed."""
    run = FlexRun(plan)
    machine = run.result.machine
    with torch.no_grad():
        vllms = run.in_every_vllm(vllm_attention)
        invariant = run.in_every_vllm(partial(vllm_attention, invariant=True)) if vllms else []
        flash = run.in_every_vllm(vllm_flash) if vllms else []
        run.kinds += (*vllms, *invariant, *flash, *library_kinds(run.open))
        if machine["mode"] == "gpu" and not plan.compile_only:
            # what the compiler makes of the kernels needs no GPU, so that it takes no time on one
            time_all(run)
            return run.result
        run.open(
            f"GPU times are open: {machine['device']}. Run the same command on a GPU, without "
            "--compile-only, to fill them in."
        )
        if not plan.compile_only:
            plan.say("Correctness at reduced size, in the interpreter, which has no times ...")
            check_cases(run)
    modules = MODULES if vllms else MODULES[:-1]
    run.gate(modules, QUICK_TARGETS if plan.quick else tuple(TARGETS), results.FLEX_GATE)
    plan.save(run.result)
    return run.result


def check_cases(run: FlexRun) -> None:
    """Check every case at reduced size on the CPU."""
    for case in run.plan.cases:
        run.plan.say(f"{case.name}: {case.title} ...")
        given = flex_input(case.reduced(), "cpu")
        peers, _right = run.check(given)
        if has_fast(peers):
            run.describe(given, peers)
        run.plan.save(run.result)


def time_all(run: FlexRun) -> None:
    """Time every case, on a GPU."""
    run.result.matmul_flop_per_s = gpu_clock.matmul_flop_per_s(torch.bfloat16)
    pieces = ("attention", "metadata")
    time_cases(run, run.plan.cases, pieces, lambda case, _limits: time_case(run, case))


def time_case(run: FlexRun, case: FlexCase) -> None:
    """Check, time, check again; a peer that turns out wrong gets no time."""
    # every case has masks and shapes of its own: compiled ones would add up to a limit
    torch.compiler.reset()
    fitted = case.fitted(int(_free_bytes() * SHARE_OF_MEMORY))
    if fitted is not case:
        run.open(f"{case.name} was made to fit this memory: {fitted.title}.")
    given = flex_input(fitted, run.device)
    peers, right = run.check(given)
    if not has_fast(peers):
        run.open(f"{case.name} was not timed: the fast mode is wrong")
        return
    run.describe(given, peers)
    times = CaseTimes(run, case.name, peers, [right])
    times.add_wall(
        "metadata", lambda made: gpu_clock.wall_s(made, lambda peer: peer.ready(), turns=BUILDS)
    )
    times.add_graphs("attention", _steps_of_graph, hot=False)
    rows = times.kept()
    run.result.steps += rows
    run.result.rates += [
        results.RateRow(
            case=case.name,
            peer=row.peer,
            us=row.us.median,
            flop=fitted.flop,
            bytes=fitted.bytes,
            matmul_flop_per_s=run.result.matmul_flop_per_s or 0.0,
            copy_bytes_per_s=run.result.copy_bytes_per_s or 0.0,
        )
        for row in rows
        if row.piece == "attention" and row.peer != AGAIN
    ]


def _free_bytes() -> int:
    return int(torch.cuda.mem_get_info()[0])


def _steps_of_graph(peers: Sequence[AttentionPeer]) -> int:
    """Return how many steps make up one sample."""
    peers[0].launch("attention")
    seconds = gpu_clock.event_seconds(lambda: peers[0].launch("attention"))
    return max(1, min(GRAPH_STEPS, int(SAMPLE_S / seconds)))


def metadata_row(
    kind: PeerKind, peer: AttentionPeer, given: FlexInput, larger: FlexInput
) -> results.MetadataRow:
    """Return the bytes that a built peer holds, also for the same batch in a larger pool."""
    again = None
    # without pages there is no pool that could be larger
    if "dense" not in kind.name:
        other = kind.make(larger)
        other.ready()
        again = other.metadata_bytes
    return results.MetadataRow(given.case.name, kind.name, peer.metadata_bytes, again)


def bits_rows(given: FlexInput) -> list[results.BitsRow]:
    """Compare the last request's bits alone, and in a step of its last queries, in both modes."""
    paged = given.paged
    own = paged.tokens_of(paged.batch.num_requests - 1)
    count = own.stop - own.start
    # alone: without the rest of its batch; chunk: its last queries in a step of their own
    ways: list[tuple[Kind, str, int]] = []
    if paged.batch.num_requests > 1:
        ways.append(("batch", "alone", count))
    if count > 1 and given.case.is_causal:
        ways.append(("chunks", "chunk", count // 2))
    rows = []
    for mode in (FAST, BITWISE):
        fit = default_settings(given.device, bitwise=mode == BITWISE)
        whole = paged_attention(
            paged.query, paged.kv_cache, paged.batch, mask=given.mask, settings=fit
        )
        for kind, way, queries in ways:
            again = last_queries(given, queries, fit)
            trial = compare_bits(kind, way, whole[own.stop - queries : own.stop], again)
            row = results.BitsRow(
                case=given.case.name,
                peer=mode,
                way=way,
                elements=trial.elements,
                differing=trial.differing,
                promised=kind in promised(fit),
            )
            rows.append(row)
    return rows


def last_queries(given: FlexInput, queries: int, settings: Settings) -> torch.Tensor:
    """Compute the last queries of the last request, as a step of their own."""
    paged, batch = given.paged, given.paged.batch
    row = batch.num_requests - 1
    end = paged.tokens_of(row).stop
    single = paged_batch(
        np.array([0, queries]),
        batch.seq_lens[row : row + 1],
        batch.block_table,
        num_blocks=batch.num_blocks,
        entry_tokens=batch.entry_tokens,
        idx_mapping=batch.rows[row : row + 1],
    )
    mask = given.case.mask_of(1).on(given.device)
    query = paged.query[end - queries : end]
    return paged_attention(query, paged.kv_cache, single, mask=mask, settings=settings)
