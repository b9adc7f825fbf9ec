"""Gate over compiled kernels, for every target: no spills, wide copies where declared, no division.

Nothing runs: what the compiler writes is read.
"""

from __future__ import annotations

from importlib import import_module

import pytest

from workbench.kernels.inspection import INSPECTED_MODULES, TARGETS, inspect_kernels

MODULES = [module for modules in INSPECTED_MODULES.values() for module in modules]


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_compiled_kernels_keep_what_they_declare(module):
    specs = {spec.name: spec for spec in import_module(module).INSPECTED}
    reports = inspect_kernels(module, tuple(TARGETS))
    assert len(reports) == len(specs) * len(TARGETS)
    for report in reports:
        spec, target = specs[report.kernel], TARGETS[report.target]
        place = f"{report.kernel} for {report.target}"
        assert report.spill_bytes == 0, place
        assert report.shared_bytes <= target.shared_memory_bytes, place
        assert bool(report.wide_divisions) == spec.wide_division, place
        if spec.vector_load_bytes is not None:
            assert report.widest_load_bytes >= spec.vector_load_bytes, place
        if spec.vector_store_bytes is not None:
            assert report.widest_store_bytes >= spec.vector_store_bytes, place


def test_every_kernel_of_the_fast_path_declares_wide_copies_or_says_none():
    fast = import_module("workbench.kernels.block_table.fast_kernel").INSPECTED
    assert all(spec.vector_load_bytes == spec.vector_store_bytes == 16 for spec in fast)
    assert not any(spec.wide_division for spec in fast)
