"""Models whose SSM layers have a backend of their own."""

from __future__ import annotations

import pytest

from workbench.core.errors import Refused
from workbench.core.states import divide
from workbench.scenario.resolution import resolve


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"device": "H100"}, "KIMI_K3_KDA"),
        ({"device": "MI300X"}, "KIMI_K3_KDA_ROCM"),
        ({"device": "H100", "model": "kimi-linear-48b-a3b"}, "GDN_ATTN"),
    ],
)
def test_kimi_k3_has_its_own_in_0_33(values, name):
    assert resolve(**{"model": "kimi-k3", "rules": "0.33", **values}).mamba_backend == name


def test_a_dimension_that_cannot_be_split_names_all_smaller_numbers_of_ranks():
    with pytest.raises(Refused) as caught:
        divide(12, 5, "heads")
    assert [*caught.value.candidates] == [{"tensor_parallel": ranks} for ranks in (4, 3, 2, 1)]
