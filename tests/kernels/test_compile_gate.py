"""Gate over block-table kernels, for every target: no spills, wide copies, no division.

Nothing runs: the steps are launched dry, and what the compiler writes is read. Attention has a
gate of its own: `test_loops.py`.
"""

from __future__ import annotations

import pytest

from tests.kernels.compiling import OF_EACH_MAKER, OTHERS
from workbench.kernels.inspection import INSPECTED_MODULES, TARGETS, inspect_kernels

GATHER = ": gather_and_slots"
FAITHFUL_SLOTS = "faithful, context parallel: slot_mapping"
"""It divides in 64 bits, as vLLM does."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "targets",
    [
        pytest.param(OF_EACH_MAKER, id="of each maker"),
        pytest.param(OTHERS, id="others", marks=pytest.mark.thorough),
    ],
)
def test_compiled_kernels_keep_what_they_promise(targets):
    (module,) = INSPECTED_MODULES["block-table"]
    reports = inspect_kernels(module, targets)
    assert {report.target for report in reports} == set(targets)
    # two launches of a fast step, three of a faithful one with two groups and one write in each
    assert {report.kernel for report in reports} == {
        *(f"fast, {kind}" for kind in ("powers of two", "any size", "context parallel")),
        *(f"fast, {kind}{GATHER}" for kind in ("powers of two", "any size", "context parallel")),
        "faithful, context parallel",
        "faithful, context parallel: gather",
        FAITHFUL_SLOTS,
    }
    for report in reports:
        place = f"{report.kernel} for {report.target}"
        assert report.spill_bytes == 0, place
        assert report.shared_bytes <= TARGETS[report.target].shared_memory_bytes, place
        assert bool(report.wide_divisions) == (report.kernel == FAITHFUL_SLOTS), place
        if report.kernel.endswith(GATHER):
            assert report.widest_load_bytes >= 16, place
            assert report.widest_store_bytes >= 16, place
