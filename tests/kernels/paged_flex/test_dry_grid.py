"""The public call launches, or is refused in our words, for every device, layer, mask and mode.

A few calls for a target, about four seconds of an idle core, and for another in `make thorough`.
All pairs of values for every target:
WORKBENCH_DRY_GRID=pairs pytest tests/kernels/paged_flex/test_dry_grid.py
"""

import itertools
import os

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.compiling import printed_there
from tests.kernels.paged_flex.dry_grid import AXES, FAILED, REFUSED, every_two, pairs_of
from workbench.kernels.inspection import TARGETS

VARIABLE = "WORKBENCH_DRY_GRID"
CUDA = [name for name, target in TARGETS.items() if target.backend == "cuda"]
QUICK = 3


def launched(target, part):
    return printed_there("-m", "tests.kernels.paged_flex.dry_grid", target, part)[target]


def check(target, found):
    """Nothing fails, and only what the device cannot do is refused."""
    assert [text for text in found.items() if text[1].startswith(FAILED)] == []
    for call, text in found.items():
        if text.startswith(REFUSED):
            allowed = "float8_e4m3fn" in call and TARGETS[target].capability < (8, 9)
            assert allowed or "shared memory" in text, (call, text)
        else:
            assert text.startswith("attend_kernel"), (call, text)
            assert ("combine_kernel" in text) <= ("decode" in call), (call, text)


def test_every_two_values_meet_in_a_call():
    met = set().union(*map(pairs_of, every_two()))
    for (a, left), (b, right) in itertools.combinations(enumerate(AXES.values()), 2):
        assert {((a, x), (b, y)) for x in left for y in right} <= met
    # not many more than the two longest axes have pairs
    assert len(every_two()) <= 2 * 5 * 5


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", pytest.param("sm_86", marks=pytest.mark.thorough)])
def test_some_calls_launch(target):
    check(target, launched(target, str(QUICK)))


@pytest.mark.skipif(VARIABLE not in os.environ, reason=f"takes minutes: set {VARIABLE}=pairs")
@pytest.mark.parametrize("target", CUDA)
def test_the_grid_launches_or_is_refused_in_our_words(target):
    check(target, launched(target, os.environ[VARIABLE]))
