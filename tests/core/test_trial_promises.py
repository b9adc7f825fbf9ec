"""When the trials of the lab of bits keep their promise: records alone, no kernel."""

from __future__ import annotations

import pytest

from workbench.core.flex.lab import BitRun, BitTrial


def trial(kind, differing):
    return BitTrial(kind, "", 8, differing, 0.0, (), ())


def run(*trials, promised=()):
    return BitRun("", "", not promised, promised, trials)


@pytest.mark.parametrize(
    ("kind", "differing", "is_broken"),
    [("batch", 1, True), ("batch", 0, False), ("padding", 1, False), ("padding", 0, False)],
)
def test_only_a_promised_trial_with_other_bits_breaks_it(kind, differing, is_broken):
    one = trial(kind, differing)
    assert run(one, promised=("batch",)).broken == ((one,) if is_broken else ())


def test_any_other_bit_counts_once_per_trial():
    assert run(trial("batch", 3), trial("batch", 0), trial("padding", 1)).differing == 2
