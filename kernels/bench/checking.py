"""Check a peer's results before and after it is timed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from workbench.kernels.bench.inputs import StepInput
from workbench.kernels.bench.peers import Peer, PeerKind, poison
from workbench.kernels.bench.workloads import Workload
from workbench.kernels.block_table.reference import ReferenceTables


@dataclass(frozen=True, slots=True)
class Expected:
    """The oracle's answer to one input set.

    tables: per group [batch row, kernel_block] int32, 0 after the last live block; live: per
    group the same shape, bool; slots: [group, token] int64.
    """

    tables: tuple[torch.Tensor, ...]
    live: tuple[torch.Tensor, ...]
    slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a peer's results of a workload are the oracle's; `detail` says what is wrong."""

    workload: str
    peer: str
    ok: bool
    detail: str = ""


def expected(workload: Workload, given: StepInput, device: str) -> Expected:
    """Compute the oracle's result: fill, append, gather and map in plain Python."""
    model = ReferenceTables(workload.groups, max_requests=workload.max_requests)
    for row, ids in zip(given.rows, given.held, strict=True):
        model.overwrite(row, ids)
    for row, ids in zip(given.written_rows, given.new_ids, strict=True):
        model.append(row, ids)
    model.apply()
    tables, live = [], []
    gathered = model.gather(given.rows, len(given.rows))
    for group, found in zip(workload.groups, gathered, strict=True):
        values = np.zeros((len(found), group.max_kernel_blocks), dtype=np.int32)
        for i, entries in enumerate(found):
            values[i, : len(entries)] = entries
        lengths = np.array([len(entries) for entries in found])
        tables.append(torch.from_numpy(values).to(device))
        mask = np.arange(group.max_kernel_blocks) < lengths[:, None]
        live.append(torch.from_numpy(mask).to(device))
    slots = model.slot_mappings(
        given.rows, given.query_start_loc.tolist(), given.positions.tolist(), workload.max_tokens
    )
    return Expected(tuple(tables), tuple(live), torch.tensor(slots, device=device))


def difference(peer: Peer, right: Expected) -> str:
    """Describe what is wrong with a peer's current outputs; empty if nothing is."""
    for g, (table, values, live) in enumerate(
        zip(peer.tables(), right.tables, right.live, strict=True)
    ):
        rows = table[: len(values)]
        if rows.shape != values.shape or rows.dtype != values.dtype:
            return f"group {g}: table {rows.dtype} {tuple(rows.shape)}, not {tuple(values.shape)}"
        if not torch.equal(torch.where(live, rows, 0), values):
            wrong = (torch.where(live, rows, 0) != values).nonzero()
            row, column = wrong[0].tolist()
            return (
                f"group {g}: {len(wrong)} table entries differ, first row {row}, kernel block "
                f"{column}: {int(rows[row, column])} instead of {int(values[row, column])}"
            )
    slots = peer.slots()
    if not torch.equal(slots, right.slots):
        if slots.shape != right.slots.shape:
            return f"slots {tuple(slots.shape)}, not {tuple(right.slots.shape)}"
        wrong = (slots != right.slots).nonzero()
        g, token = wrong[0].tolist()
        return (
            f"{len(wrong)} slots differ, first group {g}, token {token}: {int(slots[g, token])} "
            f"instead of {int(right.slots[g, token])}"
        )
    return ""


def stepped_difference(peer: Peer, right: Expected) -> str:
    """Poison, run one whole step, compare."""
    peer.rewind()
    poison(peer)
    peer.step()
    return difference(peer, right)


def first_difference(peers: Sequence[Peer], rights: Sequence[Expected]) -> str:
    """Return the first non-empty `stepped_difference` over all input sets."""
    for turn, (peer, right) in enumerate(zip(peers, rights, strict=True)):
        if found := stepped_difference(peer, right):
            return f"set {turn}: {found}"
    return ""


def checked_peers(
    kinds: Sequence[PeerKind],
    workload: Workload,
    inputs: Sequence[StepInput],
    rights: Sequence[Expected],
    device: str,
) -> tuple[dict[PeerKind, list[Peer]], list[Verdict]]:
    """Return one filled peer per input set for every correct kind, and verdicts on all kinds.

    A peer that is wrong, or that fails, is not among those peers, and so is not timed.
    """
    right: dict[PeerKind, list[Peer]] = {}
    verdicts = []
    for kind in kinds:
        try:
            peers = [kind.make(workload, given, device) for given in inputs]
            for peer in peers:
                peer.fill()
            found = first_difference(peers, rights)
        except Exception as error:  # noqa: BLE001 - a peer that fails is a finding about it
            peers, found = [], f"{type(error).__name__}: {str(error)[:300]}"
        verdicts.append(Verdict(workload.name, kind.name, not found, found))
        if not found:
            right[kind] = peers
    return right, verdicts
