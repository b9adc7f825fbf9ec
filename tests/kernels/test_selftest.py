import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
RUN = """
import dataclasses, json
from workbench.kernels.selftest import run_selftest
print(json.dumps(dataclasses.asdict(run_selftest())))
"""


def selftest(before: str = "", **variables: str) -> dict:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    result = subprocess.run(
        [sys.executable, "-c", before + RUN],
        env={**environment, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)


def test_the_interpreter_agrees_with_numpy():
    assert selftest(TRITON_INTERPRET="1") == {
        "ok": True,
        "mode": "interpreter",
        "detail": "9 rows of 37 float32 gathered, equal to numpy",
    }


@pytest.mark.slow
def test_this_machines_own_mode_works():
    result = selftest()
    assert result["ok"], result
    assert result["mode"] in {"gpu", "interpreter"}


def test_a_wrong_result_is_found():
    swapped = """
import workbench.kernels.selftest as module
import workbench.kernels.selftest_kernel as kernel
class Wrong:
    def __getitem__(self, grid):
        def launch(source, index, *rest, **options):
            right[grid](source, index.flip(0).contiguous(), *rest, **options)
        return launch
right, kernel.gather_rows_kernel = kernel.gather_rows_kernel, Wrong()
"""
    result = selftest(swapped, TRITON_INTERPRET="1")
    assert not result["ok"]
    # eight of nine rows, and none of the columns after a row
    assert result["detail"].startswith("296 of 410 elements differ from numpy")


def test_a_kernel_that_fails_is_reported_and_not_raised():
    broken = """
import workbench.kernels.selftest as module
def _gather_fault(device): raise ValueError(f"no launch on {device}")
module._gather_fault = _gather_fault
"""
    assert selftest(broken, TRITON_INTERPRET="1") == {
        "ok": False,
        "mode": "interpreter",
        "detail": "ValueError: no launch on cpu",
    }


@pytest.mark.slow
@pytest.mark.thorough
def test_a_gpu_that_is_required_and_missing_is_reported():
    no_gpu = "import torch; torch.cuda.is_available = lambda: False\n"
    result = selftest(no_gpu, TRITON_INTERPRET="0")
    assert (result["ok"], result["mode"]) == (False, "unavailable")
    assert "requires a GPU" in result["detail"]


def test_triton_imported_in_the_other_mode_is_the_answer():
    result = selftest("import triton, os; os.environ['TRITON_INTERPRET'] = '1'\n")
    assert (result["ok"], result["mode"]) == (False, "unavailable")
    assert "already imported" in result["detail"]
