"""The paged-attention benchmark: correctness first, then whatever this machine can measure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from workbench.kernels.bench.checking import Verdict
from workbench.kernels.bench.flex_cases import FlexCase
from workbench.kernels.bench.flex_inputs import (
    NOT_FINITE,
    FlexInput,
    Truth,
    flex_input,
    in_larger_pool,
    truth,
)
from workbench.kernels.bench.flex_peers import FAST, FlexKind, FlexPeer, PeerSkipped, own_kinds
from workbench.kernels.bench.flex_rows import FlexResult
from workbench.kernels.bench.flex_static import (
    QUICK_TARGETS,
    bits_rows,
    flex_gate_rows,
    metadata_row,
)
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.ratios import QUICK_ROUNDS, ROUNDS
from workbench.kernels.bench.vllm_attention import find_vllm_attention
from workbench.kernels.bench.vllm_attention_peer import vllm_attention
from workbench.kernels.bench.vllm_source import VllmSkipped, named_folders
from workbench.kernels.inspection import TARGETS, InspectionError

READS_MASKED = "bytes that it masks reach its result: it needs a cache that is finite everywhere"


@dataclass(frozen=True, slots=True)
class FlexPlan:
    """What to run. say gets a line whenever something is begun or omitted; save gets the result
    after every case, since a run on a borrowed GPU may be cut off.
    """  # noqa: D205 - two fields of one sentence each

    cases: tuple[FlexCase, ...]
    quick: bool
    say: Callable[[str], None]
    save: Callable[[FlexResult], None] = lambda _result: None
    compile_only: bool = False

    @property
    def rounds(self) -> int:
        """Return the number of A B B A rounds."""
        return QUICK_ROUNDS if self.quick else ROUNDS


@dataclass(frozen=True, slots=True)
class Checked:
    """A case with its peers that are right, built and launched once, the fast mode first."""

    given: FlexInput
    right: Truth
    peers: dict[FlexKind, FlexPeer]


class FlexRun:
    """One run: its plan, its peers and the result that it fills."""

    def __init__(self, plan: FlexPlan) -> None:
        self.plan = plan
        self.machine = this_machine("paged_flex")
        self.result = FlexResult(self.machine, plan.quick, plan.rounds)
        self.kinds: tuple[FlexKind, ...] = ()
        self.has_vllm = False

    def open(self, line: str) -> None:
        """Print and record what could not be measured."""
        self.plan.say(line)
        self.result.open_questions.append(line)

    def find_peers(self) -> None:
        """Find our peers, torch's, and every readable vLLM that VLLM_SRC names."""
        kinds: list[FlexKind] = [*own_kinds(self.machine.source_hash)]
        try:
            for folder in named_folders():
                try:
                    kinds.append(vllm_attention(find_vllm_attention(folder)))
                except VllmSkipped as reason:
                    self.open(f"No vLLM to compare with. {reason}")
        except VllmSkipped as reason:
            self.open(f"No vLLM to compare with. {reason}")
        self.kinds = tuple(kinds)
        self.has_vllm = any(kind.name.startswith("vllm") for kind in kinds)

    def check(self, case: FlexCase, device: str) -> Checked:
        """Check every peer of a case: over pages full of NaN, then over finite ones if that fails.

        A peer that is wrong, or that fails, is excluded from further measurements.
        """
        given = flex_input(case, device)
        right = truth(given)
        found: dict[FlexKind, tuple[FlexPeer | None, str]] = {}
        for kind in self.kinds:
            try:
                found[kind] = _tried(kind, given, right)
            except PeerSkipped as reason:
                self.open(f"{case.name}: no {kind.name}: {reason}.")
        given.make_finite()
        peers = {}
        for kind, (peer, difference) in found.items():
            used, wrong, remark = peer, difference, ""
            if NOT_FINITE in difference:
                used, wrong = _tried(kind, given, right)
                remark = READS_MASKED
            self.result.verdicts.append(Verdict(case.name, kind.name, not wrong, wrong or remark))
            if used is not None and not wrong:
                peers[kind] = used
        return Checked(given, right, peers)

    def describe(self, checked: Checked) -> None:
        """Record bytes of metadata and bit comparisons, which need no clock."""
        larger = in_larger_pool(checked.given)
        for kind, peer in checked.peers.items():
            self.result.metadata.append(metadata_row(kind, peer, checked.given, larger))
        del larger
        self.result.bits += bits_rows(checked.given)

    def gate(self) -> None:
        """Record what the compiler makes of the kernels."""
        self.plan.say("What the compiler makes of the kernels ...")
        targets = QUICK_TARGETS if self.plan.quick else tuple(TARGETS)
        try:
            self.result.gate = flex_gate_rows(targets, vllm=self.has_vllm)
        except InspectionError as error:
            self.open(f"Compiler figures are open: {str(error)[-300:]}")


def _tried(kind: FlexKind, given: FlexInput, right: Truth) -> tuple[FlexPeer | None, str]:
    """Return a peer that ran once and what is wrong with it; None and the reason if it failed."""
    try:
        peer = kind.make(given)
        peer.build()
        peer.launch()
        peer.output().fill_(float("nan"))
        peer.launch()
        return peer, right.difference(peer.result())
    except PeerSkipped:
        raise
    except Exception as error:  # noqa: BLE001 - a peer that fails is a finding about it
        return None, f"{type(error).__name__}: {str(error)[:300]}"


def run_flex(plan: FlexPlan) -> FlexResult:
    """Run the whole benchmark. A peer with wrong results is in `verdicts` and is not timed."""
    run = FlexRun(plan)
    with torch.no_grad():
        run.find_peers()
        if run.machine.mode == "gpu" and not plan.compile_only:
            from workbench.kernels.bench.flex_gpu import time_cases

            time_cases(run)
        else:
            run.open(
                f"GPU times are open: {run.machine.device}. Run the same command on a GPU, without "
                "--compile-only, to fill them in."
            )
            if not plan.compile_only:
                plan.say("Correctness at reduced size, in the interpreter, which has no times ...")
                check_cases(run)
    run.gate()
    plan.save(run.result)
    return run.result


def check_cases(run: FlexRun) -> None:
    """Check every case at reduced size on the CPU."""
    for case in run.plan.cases:
        run.plan.say(f"{case.name}: {case.title} ...")
        checked = run.check(case.reduced(), "cpu")
        if checked.peers and next(iter(checked.peers)).name == FAST:
            run.describe(checked)
        run.plan.save(run.result)


def wrong_verdicts(result: FlexResult) -> list[Any]:
    """Return the verdicts that fail a run."""
    return [verdict for verdict in result.verdicts if not verdict.ok]
