"""Compiled kernels in words: what register spills mean, and what helps."""

from __future__ import annotations

import pytest

from workbench.kernels.inspection.loops import Loop
from workbench.kernels.inspection.report import KernelReport
from workbench.views.inspection import inspection_html, inspection_text


def report(**fields):
    values = {
        "kernel": "attend",
        "target": "sm_90",
        "registers": 255,
        "spill_bytes": 24,
        "shared_bytes": 0,
        "loads": {},
        "stores": {},
        "wide_divisions": 0,
        "instructions": 9,
        "assembly": "",
        "num_warps": 4,
        "num_stages": 2,
    }
    return KernelReport(**{**values, **fields})


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({}, "use a smaller tile, or more warps than 4, among which the tile is divided."),
        ({"num_warps": 16}, "or fewer warps (with 16, a thread has at most 128 registers)."),
        ({"target": "gfx942", "num_warps": 8}, "or more warps than 8,"),
        ({"loops": (Loop(instructions=9, local_accesses=3),)}, "use 3 times per iteration. That"),
        ({"loops": (Loop(instructions=9),)}, "No inner loop uses them, so they cost little time."),
    ],
)
def test_spills_are_explained_with_what_helps(fields, advice):
    for text in (inspection_text([report(**fields)]), inspection_html([report(**fields)])):
        assert "spills: 24 bytes of each thread do not fit into its registers" in text
        assert advice in text


def test_without_spills_nothing_is_said_of_them():
    assert "fit into its registers" not in inspection_text([report(spill_bytes=0)])
    assert "fit into its registers" not in inspection_html([report(spill_bytes=0)])
