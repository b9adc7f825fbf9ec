"""The packed fp8 format that sparse MLA stores, with the line that vLLM prints about it."""

from __future__ import annotations

import pytest

import workbench as wb

DEEPSEEK = "Using DeepSeek's fp8_ds_mla KV cache format."
SWITCH = (
    f"{DEEPSEEK} To use standard fp8 kv-cache format, please set "
    "`--attention-backend FLASHINFER_MLA_SPARSE`"
)
NAMED = "Using fp8_ds_mla KV cache format for FLASHMLA_SPARSE backend."
"""mla_attention.py of 0.23 and 0.33, deepseek_v4/attention.py of both."""


@pytest.mark.parametrize(
    ("model", "device", "dtype", "lines"),
    [
        ("deepseek-v3.2", "H100", "fp8", {"0.23": SWITCH, "0.33": NAMED}),
        ("glm-5.2", "H100", "fp8", {"0.23": SWITCH, "0.33": NAMED}),
        ("deepseek-v4-flash", "B200", "fp8", {"0.23": DEEPSEEK, "0.33": DEEPSEEK}),
        ("deepseek-v3.2", "H100", "auto", {"0.23": None, "0.33": None}),
        ("deepseek-v3.2", "B200", "fp8", {"0.23": None, "0.33": None}),
    ],
)
def test_the_line_is_printed_where_the_format_is_chosen(model, device, dtype, lines):
    for rules, line in lines.items():
        plan = wb.resolve(model=model, device=device, kv_cache_dtype=dtype, rules=rules)
        found = [one for one in plan.log_lines if "fp8_ds_mla" in one]
        assert found == ([line] if line else [])
        assert plan.kv_cache_dtype == ("fp8_ds_mla" if line else dtype)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_an_explicit_format_needs_no_line(rules):
    fields = {"model": "deepseek-v3.2", "device": "H100", "kv_cache_dtype": "fp8_ds_mla"}
    plan = wb.resolve(**fields, rules=rules)
    assert plan.kv_cache_dtype == "fp8_ds_mla"
    assert not [one for one in plan.log_lines if "KV cache format" in one]
