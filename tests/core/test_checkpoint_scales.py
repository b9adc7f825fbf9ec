"""fp8_e5m2 in a cache whose checkpoint has scales: refused by the layers of both releases."""

from __future__ import annotations

import pytest

from workbench.models import catalog_config
from workbench.scenario.resolution import resolve

CODE = "e5m2_with_checkpoint_scales"
KEYS = {"awq": {"bits": 4, "group_size": 128, "zero_point": True}}
"""Method -> what vLLM asks of its description."""


def codes(rules, method, kv_cache_dtype):
    described = {"quant_method": method, **KEYS.get(method, {})}
    config = {**catalog_config("qwen3-30b-a3b"), "quantization_config": described}
    plan = resolve(model=config, rules=rules, kv_cache_dtype=kv_cache_dtype)
    return [problem.code for problem in plan.errors if problem.code == CODE]


# A whole Qwen3-30B-A3B-FP8 with fp8_e5m2, built by 0.23 on an H100, stops with this error.
@pytest.mark.parametrize(
    ("rules", "method", "kv_cache_dtype", "found"),
    [
        ("0.23", "fp8", "fp8_e5m2", [CODE]),
        ("0.33", "fp8", "fp8_e5m2", [CODE]),
        ("0.23", "compressed-tensors", "fp8_e5m2", [CODE]),
        ("0.33", "compressed-tensors", "fp8_e5m2", []),
        ("0.23", "fp8", "fp8", []),
        ("0.23", "awq", "fp8_e5m2", []),
    ],
)
def test_checkpoints_with_scales_refuse_e5m2(rules, method, kv_cache_dtype, found):
    assert codes(rules, method, kv_cache_dtype) == found
