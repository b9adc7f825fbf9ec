"""The paged-attention benchmark: correctness first, then whatever this machine can measure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.flex_cases import CASES, FlexCase
from workbench.kernels.bench.flex_inputs import (
    NOT_FINITE,
    FlexInput,
    flex_input,
    in_larger_pool,
    truth,
)
from workbench.kernels.bench.flex_peers import BITWISE, AttentionPeer, own_kinds
from workbench.kernels.bench.gpu_clock import GRAPH_STEPS
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.ratios import AGAIN
from workbench.kernels.bench.results import (
    BitsRow,
    FlexGateRow,
    FlexResult,
    MetadataRow,
    RateRow,
    Verdict,
)
from workbench.kernels.bench.run import PeerSkipped, Plan, Run, chosen, gate_rows, has_fast, ran
from workbench.kernels.bench.timing import CaseTimes, time_cases
from workbench.kernels.bench.vllm_attention import vllm_attention
from workbench.kernels.inspection import TARGETS
from workbench.kernels.paged_flex.api import default_settings, prepare
from workbench.kernels.paged_flex.bitwise import Kind, compare_bits, promised
from workbench.kernels.paged_flex.settings import Settings
from workbench.kernels.paged_flex.work import paged_batch

READS_MASKED = "bytes that it masks reach its result: it needs a cache that is finite everywhere"
SAMPLE_S = 0.02
"""Attention of one graph, about: enough for the clock, little enough for slow peers."""

SHARE_OF_MEMORY = 0.8
BUILDS = 3
QUICK_TARGETS = ("sm_90",)
_MODULES = (
    ("paged_flex.specs", tuple(TARGETS), "tiles for every device"),
    ("paged_flex.wide_specs", ("sm_90", "sm_100"), "tiles of Hopper and B200"),
    ("paged_flex.hopper_specs", ("sm_90",), "tile of Hopper"),
    ("bench.vllm_attention_specs", tuple(TARGETS), "vLLM"),
)
"""The kernels, and the targets that are given their tiles; vLLM's where VLLM_SRC names one."""


class FlexRun(Run[FlexResult]):
    """One run of this benchmark."""

    def __init__(self, plan: Plan) -> None:
        self.machine = this_machine("paged_flex")
        kinds = own_kinds(self.machine.source_hash)
        super().__init__(
            plan, FlexResult(machine=self.machine, quick=plan.quick, rounds=plan.rounds), kinds
        )

    def check(self, given: FlexInput) -> tuple[dict[PeerKind, list[Any]], Any]:
        """Return the right peers, and the truth. Pages are full of NaN, or finite if that fails."""
        right, name = truth(given), given.case.name
        found = {}
        for kind in self.kinds:
            try:
                found[kind] = ran(kind, [given], [right])
            except PeerSkipped as reason:
                self.open(f"{name}: no {kind.name}: {reason}.")
        given.make_finite()
        peers = {}
        for kind, (made, wrong) in found.items():
            remark = ""
            if NOT_FINITE in wrong:
                made, wrong = ran(kind, [given], [right])  # noqa: PLW2901
                remark = READS_MASKED
            self.result.verdicts.append(Verdict(name, kind.name, not wrong, wrong or remark))
            if not wrong:
                peers[kind] = made
        return peers, right

    def describe(self, given: FlexInput, peers: Mapping[PeerKind, Sequence[Any]]) -> None:
        """Record bytes of metadata and bit comparisons, which need no clock."""
        larger = in_larger_pool(given)
        for kind, (peer,) in peers.items():
            self.result.metadata.append(metadata_row(kind, peer, given, larger))
        del larger
        self.result.bits += bits_rows(given)


def cases(names: Sequence[str]) -> tuple[FlexCase, ...]:
    """Return the named cases, or all if no name is given. ValueError for an unknown name."""
    return chosen("case", CASES, names)


def run(plan: Plan) -> FlexResult:
    """Run the whole benchmark. A peer with wrong results is in `verdicts` and is not timed."""
    run = FlexRun(plan)
    with torch.no_grad():
        vllms = run.in_every_vllm(vllm_attention)
        run.kinds += tuple(vllms)
        if run.machine.mode == "gpu" and not plan.compile_only:
            time_all(run)
        else:
            run.open(
                f"GPU times are open: {run.machine.device}. Run the same command on a GPU, without "
                "--compile-only, to fill them in."
            )
            if not plan.compile_only:
                plan.say("Correctness at reduced size, in the interpreter, which has no times ...")
                check_cases(run)
    targets = QUICK_TARGETS if plan.quick else tuple(TARGETS)
    run.gate(lambda: compiled(targets, _MODULES if vllms else _MODULES[:-1]))
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
    matmul, copy = run.result.matmul_flop_per_s, run.result.copy_bytes_per_s
    assert matmul is not None
    assert copy is not None
    run.result.rates += [
        RateRow(
            case=case.name,
            peer=row.peer,
            us=row.us.median,
            flop=fitted.flop,
            bytes=fitted.bytes,
            matmul_flop_per_s=matmul,
            copy_bytes_per_s=copy,
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


def compiled(
    targets: Sequence[str], modules: Sequence[tuple[str, Sequence[str], str]]
) -> list[FlexGateRow]:
    """Compile every shipped kernel for every target with its tiles."""
    return [
        row
        for module, meant, source in modules
        for row in gate_rows(
            FlexGateRow,
            f"workbench.kernels.{module}",
            [target for target in meant if target in targets],
            source=source,
        )
    ]


def metadata_row(
    kind: PeerKind, peer: AttentionPeer, given: FlexInput, larger: FlexInput
) -> MetadataRow:
    """Return the bytes that a built peer holds, also for the same batch in a larger pool."""
    again = None
    if "dense" not in kind.name:
        other = kind.make(larger)
        other.ready()
        again = other.metadata_bytes
    return MetadataRow(given.case.name, kind.name, peer.metadata_bytes, again)


def bits_rows(given: FlexInput) -> list[BitsRow]:
    """Compare the last request's bits alone, and in a step of its last queries, in both modes."""
    own = given.paged.tokens_of(given.paged.batch.num_requests - 1)
    count = own.stop - own.start
    ways: list[tuple[Kind, str, int]] = []
    if given.paged.batch.num_requests > 1:
        ways.append(("batch", "alone", count))
    if count > 1 and given.case.is_causal:
        ways.append(("chunks", "chunk", count // 2))
    rows = []
    for mode in (FAST, BITWISE):
        settings = default_settings(given.device, bitwise=mode == BITWISE)
        paged = given.paged
        whole = prepare(
            paged.query, paged.kv_cache, paged.batch, mask=given.mask, settings=settings
        ).run()
        for kind, way, queries in ways:
            again = last_queries(given, queries, settings)
            trial = compare_bits(kind, way, whole[own.stop - queries : own.stop], again)
            rows.append(
                BitsRow(
                    case=given.case.name,
                    peer=mode,
                    way=way,
                    elements=trial.elements,
                    differing=trial.differing,
                    promised=kind in promised(settings),
                )
            )
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
    return prepare(query, paged.kv_cache, single, mask=mask, settings=settings).run()
