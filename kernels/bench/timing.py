"""Every case by every clock, on a GPU: right before and after, or there is no time."""

import gc
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from workbench.kernels.bench import gpu_clock
from workbench.kernels.bench.gpu_clock import GRAPH_STEPS, Limits, StepGraphs, TooNoisyError
from workbench.kernels.bench.peers import FAST, PeerKind
from workbench.kernels.bench.ratios import Sample, compared, scores
from workbench.kernels.bench.results import Piece, StepRow
from workbench.kernels.bench.run import Expected, Run, brief, has_fast


def time_cases(
    run: Run[Any],
    cases: Sequence[Any],
    scored: Sequence[str],
    time_case: Callable[[Any, Limits], None],
) -> None:
    """Measure the limits, then case by case. A failing case does not stop the others.

    cases have a name and a title. scored: the pieces that have a score.
    """
    limits = gpu_clock.measured_limits()
    run.result.copy_bytes_per_s = limits.copy_bytes_per_s
    run.result.launch_us = limits.launch_s * 1e6
    for case in cases:
        run.plan.say(f"{case.name}: {case.title} ...")
        try:
            time_case(case, limits)
        except Exception as error:  # noqa: BLE001 - the other cases' results are kept
            run.open(f"{case.name} was not timed: {brief(error)}")
        # A failed case may leave tensors in a cycle of frames; the next one needs their memory.
        gc.collect()
        torch.cuda.empty_cache()
        run.result.scores = scores(run.result.steps, scored)
        run.plan.save(run.result)


class CaseTimes:
    """The times of one case; `kept` drops those of peers that are wrong afterwards."""

    def __init__(
        self,
        run: Run[Any],
        name: str,
        peers: Mapping[PeerKind, Sequence[Any]],
        rights: Sequence[Expected],
    ) -> None:
        self._run, self._name, self._peers, self._rights = run, name, peers, rights
        self._rows: list[StepRow] = []
        self._wrong: dict[PeerKind, str] = {}

    def add_wall(self, piece: str, seconds: Callable[[Sequence[Any]], float]) -> None:
        """Time what a peer does, from the Python call until the device is done."""
        samples = {kind: partial(seconds, peers) for kind, peers in self._peers.items()}
        self._compare(piece, "wall", samples)

    def add_graphs(
        self,
        piece: Piece,
        steps: Callable[[Sequence[Any]], int] = lambda _peers: GRAPH_STEPS,
        *,
        hot: bool,
        check: bool = True,
    ) -> None:
        """Time a piece with a cold L2; with a hot one also, or where the flush hides it.

        steps: how many a graph has; check: compare results afterwards, of what is a whole step.
        """
        graphs = self._graphs(piece, steps)
        if has_fast(graphs):
            if hot:
                self._hot(piece, graphs)
            try:
                cold = {kind: graph.cold_s for kind, graph in graphs.items()}
                self._compare(piece, "gpu cold", cold)
            except TooNoisyError as reason:
                self._run.open(f"{self._name}: no cold GPU time of the {piece}: {reason}")
                if not hot:
                    self._hot(piece, graphs)
        if check:
            self._check(graphs)

    def kept(self) -> list[StepRow]:
        """Return the rows of peers that were right to the end, and record the others."""
        self._run.right_ones(self._name, {kind: ([], text) for kind, text in self._wrong.items()})
        wrong = {kind.name for kind in self._wrong}
        if FAST in wrong:
            self._run.open(f"{self._name}: {FAST} was wrong after timing, its times are dropped")
            return []
        return [row for row in self._rows if row.peer not in wrong]

    def _compare(self, piece: str, clock: str, samples: Mapping[PeerKind, Sample]) -> None:
        self._rows += compared(self._name, piece, clock, samples, self._run.plan.rounds)

    def _hot(self, piece: str, graphs: Mapping[PeerKind, StepGraphs]) -> None:
        self._compare(piece, "gpu hot", {kind: graph.hot_s for kind, graph in graphs.items()})

    def _graphs(
        self, piece: Piece, steps: Callable[[Sequence[Any]], int]
    ) -> dict[PeerKind, StepGraphs]:
        """Capture the graphs of all peers that support it."""
        graphs = {}
        for kind, peers in self._peers.items():
            try:
                for peer in peers:
                    peer.ready()
                graphs[kind] = StepGraphs(peers, piece, steps(peers))
            except Exception as error:  # noqa: BLE001 - a peer that no graph takes is a finding
                self._run.open(
                    f"{self._name} {kind.name}: no graph of its {piece}, so no GPU time: "
                    f"{brief(error)}"
                )
        return graphs

    def _check(self, graphs: Mapping[PeerKind, StepGraphs]) -> None:
        """Check what a replayed graph writes over poisoned outputs."""
        for kind, graph in graphs.items():
            for peer in self._peers[kind]:
                peer.poison()
            graph.run_once()
            pairs = zip(self._peers[kind], self._rights, strict=True)
            found = [text for peer, right in pairs if (text := right.difference(peer))]
            if found:
                self._wrong[kind] = f"after timing: {found[0]}"
