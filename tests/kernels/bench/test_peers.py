"""Every peer computes what the reference does; one that does not is found and not timed."""

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import host_side
from workbench.kernels.bench.block_table import peer_kinds
from workbench.kernels.bench.host_side import CASES, expansion_rows, host_step_rows, ways
from workbench.kernels.bench.inputs import expected, step_input
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import POISON, Manner, OurPeer, PeerKind, TorchPeer, ours
from workbench.kernels.bench.results import TablesResult
from workbench.kernels.bench.run import Plan, Run, ran
from workbench.kernels.bench.vllm_source import VARIABLE
from workbench.kernels.bench.vllm_tables import find_vllm
from workbench.kernels.bench.workloads import WORKLOADS
from workbench.kernels.mode import triton_mode

DEVICE = triton_mode().torch_device
SMALL = {name: workload.reduced() for name, workload in WORKLOADS.items()}
SOURCES = [find_vllm(folder) for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
MACHINE = this_machine("block_table")
KINDS = peer_kinds(MACHINE, SOURCES, launches=True)


@pytest.fixture(scope="module")
def cases():
    """Input and answer of each reduced workload."""
    return {
        name: (given := step_input(workload, 0, DEVICE), expected(given))
        for name, workload in SMALL.items()
    }


MANNERS = [
    ours(Manner(path, arrays=arrays, checked=not arrays), f"{path}, {arrays}", "")
    for path in ("fast", "faithful")
    for arrays in (False, True)
]


@pytest.mark.parametrize("manner", MANNERS, ids=lambda kind: kind.name)
def test_ours_agrees_however_it_is_given_its_input(manner, cases):
    given, right = cases["W5"]
    peer = manner.make(given)
    peer.run()
    assert right.difference(peer) == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", WORKLOADS)
def test_a_peer_agrees_with_the_reference(name, kind, cases):
    given, right = cases[name]
    peer = kind.make(given)
    peer.run()
    assert right.difference(peer) == ""
    # and the launches alone, as a graph runs them, as often as one likes
    peer.ready()
    for _ in range(2):
        peer.poison()
        peer.launch("step")
        assert right.difference(peer) == ""


def test_a_step_can_be_taken_back_and_run_again(cases):
    given, right = cases["W6"]
    for kind in KINDS:
        peer = kind.make(given)
        for _ in range(2):
            peer.run()
            assert right.difference(peer) == "", kind.name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_pieces_write_their_own_output_alone(kind, cases):
    given, _right = cases["W5"]
    peer = kind.make(given)
    peer.step()
    peer.ready()
    for piece in ("gather", "slots"):
        peer.launch("step")
        peer.poison()
        peer.launch(piece)
        assert (peer.slots == POISON).all() == (piece == "gather")
        assert (peer.tables[0] == POISON).all() == (piece == "slots")


class OneSlotOff(TorchPeer):
    def launch(self, piece="step"):
        super().launch(piece)
        self.slots[0, 3] += 1


class OneEntryOff(TorchPeer):
    def launch(self, piece="step"):
        super().launch(piece)
        self.tables[-1][0, 0] += 1


class DoesNothing(TorchPeer):
    def launch(self, piece="step"):
        pass


class NoPadding(TorchPeer):
    def launch(self, piece="step"):
        super().launch(piece)
        self.slots[:, -1] = 7


class Fails(TorchPeer):
    def step(self):
        raise RuntimeError("out of luck")


WRONG = {
    OneSlotOff: "1 slots differ, first group 0, token 3",
    OneEntryOff: "1 table entries differ, first row 0, kernel block 0",
    DoesNothing: f"{POISON} instead of",
    NoPadding: "7 instead of -1",
    Fails: "RuntimeError: out of luck",
}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda kind: kind.__name__)
def test_a_wrong_peer_is_caught_and_skipped(wrong, cases):
    given, right = cases["W1"]
    kinds = [
        ours(Manner("fast"), "fast", ""),
        PeerKind("wrong", wrong, ""),
        PeerKind("torch", TorchPeer, ""),
    ]
    run = Run(Plan((), True, print), TablesResult(MACHINE, True, 5), kinds)
    peers = run.right_ones("W1", run.tried("W1", [given], [right]))
    assert [kind.name for kind in peers] == ["fast", "torch"]
    found = {verdict.peer: verdict for verdict in run.result.verdicts}
    assert not found["wrong"].ok
    assert WRONG[wrong] in found["wrong"].detail
    assert found["fast"].ok
    assert found["torch"].ok


def test_a_peer_that_is_wrong_on_a_later_set_is_caught(cases):
    given, right = cases["W4"]
    made = iter([TorchPeer(given), OneSlotOff(given)])
    kind = PeerKind("wrong later", lambda _given: next(made), "")
    _peers, wrong = ran(kind, [given, given], [right, right])
    assert wrong.startswith("set 1: 1 slots differ")


@pytest.mark.parametrize("launches", [True, False])
def test_a_step_begins_with_nothing_staged(launches, cases):
    # else it would be timed with the writes of the rewind
    given, _right = cases["W1"]
    peer = OurPeer(Manner("fast", launches=launches), given)
    assert not peer._ours.staged
    peer.run()
    peer.rewind()
    assert not peer._ours.staged


def test_a_missing_step_shows(cases):
    given, right = cases["W1"]
    peer = OurPeer(Manner("fast"), given)
    peer.poison()
    assert "differ" in right.difference(peer)


@pytest.mark.parametrize(("blocks", "ratio"), CASES[:6])
def test_every_expansion_gives_the_same(blocks, ratio):
    found = ways(blocks, ratio)
    right = found["list"]()
    assert len(right) == blocks * ratio
    for name, way in found.items():
        expanded = [b * ratio + k for b in way() for k in range(ratio)]
        assert list(way()) == right or (name.startswith("device") and expanded == right), name


@pytest.mark.parametrize(
    ("launches", "others"),
    [
        (True, ["torch", "fast, arrays"]),
        (False, ["torch", "fast, arrays", "fast, host batch"]),
        ("dry", ["fast, arrays", "fast, host batch"]),
    ],
)
def test_ways_of_the_host_are_compared_where_it_alone_is_measured(launches, others):
    names = [kind.name for kind in peer_kinds(MACHINE, (), launches=launches)]
    assert names == ["fast", "faithful", *others]


@pytest.mark.thorough
def test_host_tables_have_a_row_for_everyone():
    kinds = peer_kinds(MACHINE, SOURCES, launches=False)
    plan = Plan((SMALL["W5"],), True, print)
    rows = host_step_rows(plan, kinds)
    assert [row.peer for row in rows] == [*(kind.name for kind in kinds), "fast, again"]
    assert all(row.us.low > 0 and row.ratio.n == 5 for row in rows)
    expansions = expansion_rows(plan)
    assert {row.way for row in expansions} == set(ways(1, 2))


def test_a_cold_first_turn_decides_nothing(monkeypatch):
    """It compiles, and fills caches."""
    now, done = [0.0], []

    def work(_peer):
        done.append(now[0])
        now[0] += 50.0 if len(done) == 1 else 0.5

    monkeypatch.setattr(host_side, "clock", lambda: now[0])
    sample = host_side._sample(SimpleNamespace(rewind=lambda: None), work, 5.0)
    before = len(done)
    assert sample() == 0.5
    assert len(done) - before == 10


def test_each_of_our_peers_is_used_in_the_manner_of_its_name(cases):
    given, _right = cases["W1"]
    for launches in (True, False):
        found = {
            kind.name: kind.make(given)._manner
            for kind in peer_kinds(MACHINE, (), launches=launches)
            if kind.name != "torch"
        }
        host_batch = Manner("fast", checked=True, launches=launches)
        assert found == {
            "fast": Manner("fast", launches=launches),
            "faithful": Manner("faithful", launches=launches),
            "fast, arrays": Manner("fast", arrays=True, launches=launches),
            **({} if launches else {"fast, host batch": host_batch}),
        }
