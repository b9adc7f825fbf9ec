"""What `paged_attention` launches on every target, compiled on its real way there, with no GPU."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.loop_faults import judged_loops, loop_faults
from workbench.kernels.inspection import TARGETS, inspect_kernels

MODULE = "workbench.kernels.paged_flex.calls"
CUDA = [name for name, target in TARGETS.items() if target.backend == "cuda"]
QUICK = (
    "prefill, page 256",
    "prefill, page 64",
    "prefill, page 528, bfloat16",
    "prefill, page 16",
    "decode, page 64",
    "bitwise, page 64",
    "bitwise decode, page 64",
    "bitwise, page 16 in 528",
)
BUDGETS = {
    "prefill, page 256": ((0.19,), 1),
    "prefill, page 528": ((0.19, 0.47), 1),
    "prefill, page 64": ((0.22,), 1),
    "prefill, window": ((0.22,), 1),
    "prefill, documents": ((0.66,), 1),
    "prefill, head 256": ((0.735,), 1),
    "prefill, head 512": ((1.96,), 1),
    "prefill, int8": ((0.53,), 2),
    "prefill": ((0.49,), 2),
    "bitwise, page 16": ((0.51,), 2),
    "bitwise, head 256": ((0.73,), 2),
    "bitwise, head 512": ((4.90,), 2),
    # two programs of a multiprocessor have a tile on its way each
    "bitwise decode": ((0.33,), 1),
    "bitwise": ((0.335,), 2),
    "decode, page 16": ((1.98,), 2),
    "decode, int8": ((2.78,), 2),
    "decode, head 512": ((3.80,), 2),
    "decode, keys 192": ((0.92,), 2),
    "decode": ((0.77,), 2),
    "keys 192": ((0.39,), 1),
    "MLA, page 16": ((5.60,), 1),
    "MLA decode, bitwise": ((6.0,), 2),
    "MLA": ((3.60,), 1),
}
"""Beginning of a call's name -> instructions of a warp per score in each loop, and tiles in flight,
on sm_90. The second loop has what is left of pages that no tile divides."""
LARGEST_PER_SCORE = 0.22
"""Of a whole page of a prefill, in tiles without a mask whose scores raise no reference."""
WITHOUT_MATRIX = "prefill, float32"
"""Its products are exact: no matrix instruction computes them."""
KNOWN = {
    "decode, int8 cache": "copies by LDGSTS.E.64",
    "prefill, head 256": "wgmma of [32] columns",
    "bitwise, head 256": "wgmma of [32] columns",
}
"""Call -> the one fault of its loop that is open: tiles of 32 keys are all that fits wide heads."""
HARMLESS_SPILL_BYTES = 128
"""Kept from before the loops until after them; no loop on the way touches them."""


def budget_of(report):
    return next(budget for name, budget in BUDGETS.items() if report.kernel.startswith(name))


@pytest.fixture(scope="module")
def quick():
    found = inspect_kernels(MODULE, ["sm_90"], QUICK)
    return {report.kernel: report for report in found}


@pytest.mark.parametrize("name", QUICK)
def test_the_loops_of_a_hopper_work_while_they_copy(quick, name):
    report = quick[name]
    assert loop_faults(report, *budget_of(report)) == []
    assert report.spill_bytes <= HARMLESS_SPILL_BYTES


@pytest.mark.thorough
@pytest.mark.slow
def test_every_shipped_loop_of_a_hopper_keeps_its_budget():
    # bitwise with wide heads: the sum of the splits so far has no registers next to the split at
    # work, and is kept outside of the loops
    reports = {report.kernel: report for report in inspect_kernels(MODULE, ["sm_90"])}
    assert reports.pop(WITHOUT_MATRIX).loops == ()
    judged = [name for name in reports if not name.endswith(": combine")]
    assert len(judged) > len(QUICK)
    found = {name: loop_faults(reports[name], *budget_of(reports[name])) for name in judged}
    faulty = {name: faults for name, faults in found.items() if faults}
    assert faulty.keys() == KNOWN.keys(), faulty
    for name, [fault] in faulty.items():
        assert KNOWN[name] in fault


def test_decodes_have_two_tiles_on_their_way_on_a_hopper(quick):
    assert [loop.tiles_in_flight for loop in judged_loops(quick["decode, page 64"])] == [2]


def test_pages_of_a_prefill_take_as_few_instructions_per_score_as_was_aimed_at(quick):
    for name in ("prefill, page 256", "prefill, page 64"):
        [loop] = judged_loops(quick[name])
        assert quick[name].per_score(loop) <= LARGEST_PER_SCORE
    hybrid = quick["prefill, page 528, bfloat16"]
    body, rest = map(hybrid.per_score, judged_loops(hybrid))
    assert (512 * body + 16 * rest) / 528 <= LARGEST_PER_SCORE


def test_pages_of_whole_tiles_are_copied_by_descriptors(quick):
    for name in QUICK:
        first, *rest = judged_loops(quick[name])
        assert first.by_descriptors == ("page 16" not in name), name
        # 528 is 4 x 128 and 16
        assert [loop.by_descriptors for loop in rest] == [False] * ("page 528" in name), name
        if name.startswith("prefill") and first.by_descriptors:
            assert quick[name].tile == (128, 128)


def test_bitwise_prefill_and_decode_run_the_same_arithmetic_on_both_paths(quick):
    first, *others = (quick[name] for name in QUICK if name.startswith("bitwise"))
    [own] = judged_loops(first)
    for report in others:
        [other] = judged_loops(report)
        assert own.arithmetic == other.arithmetic, report.kernel
        assert own.matrix == other.matrix, report.kernel
        # the same keys in their order
        assert first.tile[1] == report.tile[1]


def test_the_loops_that_omit_values_compute_as_the_others(quick):
    """So that values that nothing may see change no bit."""
    for name, report in quick.items():
        plain = judged_loops(report)
        for own, careful in zip(plain, report.loops[len(plain) :], strict=True):
            assert own.arithmetic == careful.arithmetic, name
            assert own.matrix == careful.matrix, name


@pytest.mark.thorough
def test_a_loop_that_waits_for_its_own_copies_is_found():
    three, two, waiting = inspect_kernels("tests.kernels.paged_flex.planted_loops", ["sm_90"])
    per_score, in_flight = BUDGETS["prefill"]
    assert loop_faults(three, per_score) == []
    # the shipped loop has four stages
    [fault] = loop_faults(three, per_score, in_flight)
    assert "1 tiles in flight; at least 2 expected" in fault
    for report in (two, waiting):
        assert any("0 tiles in flight" in fault for fault in loop_faults(report, (9.0,)))
