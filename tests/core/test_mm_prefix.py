"""Models that see images whole: which backends serve them depends on the release."""

from __future__ import annotations

import pytest

from workbench.scenario.resolution import resolve


# What whole models, built by the releases on an H100, have: `workbench verify gemma-3-27b`.
@pytest.mark.parametrize(("rules", "backend"), [("0.23", "FLASH_ATTN"), ("0.33", "TRITON_ATTN")])
def test_the_release_whose_layers_do_not_know_takes_any_backend(rules, backend):
    assert resolve(model="gemma-3-27b", rules=rules).backend == backend
