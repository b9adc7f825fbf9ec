"""The batch-invariance lab: promises are kept, the control differs, places are right."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.labs.exact import outputs_and_error
from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import paged_batch, predicted_orders, stale_batch
from workbench.core.flex.lab import BitRun
from workbench.core.tables.batch_grammar import parse_batch
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.bitwise import KINDS, compare_bits
from workbench.labs.flex import bits as flex_bits
from workbench.labs.flex.bits import BITWISE_MODE, BY_SIZE_MODE, FAST_MODE, MODES, bit_lab
from workbench.labs.flex.order import engine, order_lab
from workbench.labs.jobs import Job, Stopped
from workbench.scenario.resolution import resolve

INTERPRETED = triton_mode().mode == "interpreter"
SMALL = {"backend": "FLEX_ATTENTION", "tensor_parallel": 8}
LLAMA = resolve(model="llama-3.1-8b", **SMALL)
BATCH = parse_batch("q9_q20s70_q1s90")


@pytest.fixture(scope="module")
def lab():
    return bit_lab(LLAMA, BATCH, subject=1, batches=3, seed=5)


def runs(lab) -> dict[str, BitRun]:
    return {run.name: run for run in lab.runs}


@pytest.mark.thorough
def test_every_promise_is_kept_and_the_control_differs(lab):
    assert lab.holds
    assert tuple(runs(lab)) == MODES
    assert {"batch", "padding", "pages", "page size"} <= set(runs(lab)[BITWISE_MODE].promised)
    # where descriptors copy, the quick kernel's order follows the pages
    on_any_device = {"batch", "padding", "pages"} | ({"page size"} if INTERPRETED else set())
    assert on_any_device <= set(runs(lab)[FAST_MODE].promised)
    for name in (BITWISE_MODE, FAST_MODE):
        assert runs(lab)[name].broken == ()
    control = runs(lab)[BY_SIZE_MODE]
    assert control.control
    # it promises nothing, and what else differs depends on the processor's matrix product
    assert {trial.kind for trial in control.trials if not trial.equal} >= {"batch", "padding"}


@pytest.mark.thorough
def test_every_kind_of_surrounding_is_tried_in_the_same_way_under_every_mode(lab):
    tried = [[(t.kind, t.detail) for t in run.trials] for run in lab.runs]
    assert tried[0] == tried[1] == tried[2]
    assert {kind for kind, _detail in tried[0]} == set(KINDS)
    assert sum(kind == "batch" for kind, _detail in tried[0]) == 3
    sizes = [detail for kind, detail in tried[0] if kind == "page size"]
    assert sizes == ["pages of 48 tokens", "pages of 64 tokens", "pages of 528 tokens"]


def test_what_differs_is_counted_and_located(lab):
    for trial in runs(lab)[BY_SIZE_MODE].trials:
        assert trial.elements == 20 * 4 * 128
        assert len(trial.per_token) == 20
        assert sum(trial.per_token) == trial.differing
        assert (trial.first == ()) == trial.equal
        for place in trial.first:
            assert 50 <= place.token < 70
            assert place.head < 4
            assert place.alone != place.other
            assert abs(place.alone - place.other) <= trial.largest


@pytest.mark.thorough
def test_a_planted_bit_is_found_where_it_is(monkeypatch):
    real = flex_bits.paged_attention

    def flipped(query, cache, batch, **options):
        out = real(query, cache, batch, **options)
        if batch.num_requests > 1:
            own = int(batch.query_lens.argmax())
            token = int(batch.query_start_loc[own]) + 3
            bits = out.view(torch.int16 if out.element_size() == 2 else torch.int32)
            bits[token, 2, 77] ^= 1
        return out

    monkeypatch.setattr(flex_bits, "paged_attention", flipped)
    lab = bit_lab(LLAMA, parse_batch("q30"), subject=0, batches=1)
    assert not lab.holds
    broken = runs(lab)[BITWISE_MODE].broken
    assert {trial.kind for trial in broken} == {"batch", "padding"}
    for trial in broken:
        assert trial.differing == 1
        assert [(p.token, p.head, p.element) for p in trial.first] == [(3, 2, 77)]


def test_a_control_that_cannot_differ_proves_nothing():
    lab = bit_lab(LLAMA, parse_batch("q3"), subject=0, batches=1)
    assert all(run.broken == () for run in lab.runs)
    assert not lab.holds


@pytest.mark.thorough
def test_masks_that_look_ahead_are_not_cut_into_chunks():
    found = bit_lab(LLAMA, BATCH, subject=1, mask="document", batches=1)
    assert "chunks" not in {trial.kind for trial in found.runs[0].trials}
    assert all(run.broken == () for run in found.runs)


def test_progress_and_stop():
    said = []

    def report(text):
        said.append(text)
        if len(said) == 3:
            job.stop()

    job = Job(report)
    with pytest.raises(Stopped):
        bit_lab(LLAMA, parse_batch("q4"), subject=0, batches=2, job=job)
    assert said == [f"Trial {number} of 10 ..." for number in (1, 2, 3)]


@pytest.mark.thorough
def test_the_number_of_trials_is_announced_rightly():
    said = []
    found = bit_lab(LLAMA, parse_batch("q4"), subject=0, batches=2, job=Job(said.append))
    assert len(said) == len(found.runs[0].trials)
    assert said[-1] == f"Trial {len(said)} of {len(said)} ..."


def test_a_request_that_is_not_there():
    with pytest.raises(ScenarioError, match=r"from 0 to the last of the batch .2."):
        bit_lab(LLAMA, BATCH, subject=3)


@pytest.mark.skipif(not INTERPRETED, reason="a GPU takes more")
def test_a_batch_that_would_take_minutes():
    with pytest.raises(ScenarioError, match="interpreter"):
        bit_lab(LLAMA, parse_batch("8q1s20000"), subject=0)


def test_bits_follow_the_predicted_orders():
    rows = order_lab(LLAMA).orders
    assert [row.predicted for row in rows[:4]] == [(4, 11), (11, 4), (4, 11), (4, 11)]
    for row in rows:
        if row.differing is not None:
            assert bool(row.differing) == (row.predicted != predicted_orders().alone)
    assert [row.differing is None for row in rows[4:]] == [INTERPRETED, INTERPRETED]


def test_the_compiled_kernel_can_be_skipped_and_the_rows_say_so():
    rows = order_lab(LLAMA, compiled=False).orders
    assert [row.differing for row in rows[4:]] == [None, None]
    assert {row.where for row in rows[4:]} == {"torch flex, compiled: not requested"}


@pytest.mark.thorough
@pytest.mark.skipif(not INTERPRETED, reason="on a GPU the order counts")
@pytest.mark.parametrize("prune", [False, True])
def test_torchs_path_without_tiles_has_no_order(prune):
    attend = engine(prune=prune, compiled=False)
    (alone, batched), _error = outputs_and_error(stale_batch(), 2, attend)
    found = compare_bits("batch", "", alone, batched)
    assert found.elements == 16 * 64
    assert found.largest < 1e-6
    assert found.differing < found.elements
    # the row of the stale batch names a page twice, which torch's path sees once
    grown = paged_batch(parse_batch("q3s60_q2s90"), 16, stale=True)
    assert outputs_and_error(grown, 1, attend)[1] < 1e-5
