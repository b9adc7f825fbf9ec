"""Groups of models whose layers keep caches of several kinds, as vLLM makes them.

`tests/data/mixed_groups.jsonl.gz` holds what `tools/record_cache_groups.py` recorded.
"""

from __future__ import annotations

import pytest

import workbench as wb
from tests.core.test_drafter_groups import (
    expect_vllms_cache,
    label,
    planned,
    refusals_of,
)
from tests.groups import in_groups
from tests.recorded import recorded

RECORDED = recorded("mixed_groups")
BUILT = [answer for answer in RECORDED if "refused" not in answer]
REFUSED = [answer for answer in RECORDED if "refused" in answer]


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_groups_blocks_and_concurrency_are_vllms(answer):
    expect_vllms_cache(planned(answer), answer)


@in_groups
@pytest.mark.parametrize("answer", REFUSED, ids=label)
def test_what_vllm_refuses_is_refused(answer):
    found = refusals_of(answer)
    assert found
    assert (found[0].vllm_text or "") in answer["refused"]["message"]


def test_newer_compressed_layers_are_built_before_the_cache_of_their_window():
    """As models/deepseek_v41/attention.py of 0.33 registers them."""
    answer = next(one for one in BUILT if one["config"]["model_type"] == "deepseek_v41")
    names = [name for name, _sizes in planned(answer).backends]
    assert names[0].endswith("_DSV41")
    assert names[1] == "SPARSE_SWA"


@pytest.mark.parametrize(
    ("model_type", "dtype", "text"),
    [
        ("deepseek_v41", "nvfp4_ds_mla", "nvfp4_ds_mla needs the V4.1 KV records"),
        ("deepseek_v41", "bfloat16", "DeepseekV4 "),
        ("deepseek_v4", "nvfp4_ds_mla", "DeepseekV4 "),
    ],
)
def test_what_compressed_layers_say_of_a_dtype(model_type, dtype, text):
    """DeepseekV4 and V41 in 0.33, on a device without FP4."""
    config = next(one["config"] for one in BUILT if one["config"]["model_type"] == model_type)
    plan = wb.resolve(model=config, kv_cache_dtype=dtype, device="H100", rules="0.33")
    assert (plan.errors[0].code, plan.errors[0].vllm_text) == ("no_valid_backend", text)
