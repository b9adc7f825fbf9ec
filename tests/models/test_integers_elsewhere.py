"""Weights in integers on ROCm, XPU and CPU: bytes that a rank has, and what no kernel takes.

`tests/data/integers_elsewhere.jsonl.gz` holds what `tools/record_weights.py` recorded.
"""

import pytest

from tests.groups import in_groups
from tests.models.test_weights import recorded
from workbench import resolve
from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.errors import Refused
from workbench.scenario import Scenario

GIB = 2**30
OF_PLATFORM = {
    "rocm": {"device": "MI300X"},
    "xpu": {"platform": "xpu"},
    "cpu": {"platform": "cpu"},
}
CASES = [
    pytest.param(line, answer, id=f"{line['name']}-{number}")
    for line in recorded("integers_elsewhere")
    for number, answer in enumerate(line["answers"])
]


@in_groups
@pytest.mark.parametrize(("line", "answer"), CASES)
def test_what_a_rank_has_is_vllms(line, answer):
    scenario = Scenario(
        model={**line["config"], "quantization_config": answer["quantization_config"]},
        dtype=answer["dtype"],
        tensor_parallel=answer["tensor_parallel"],
        max_model_len=2048,
        max_num_batched_tokens=2048,
        kv_cache_memory_bytes=40 * GIB,
        rules=answer["vllm"],
        **OF_PLATFORM[answer["platform"]],
    )
    if "bytes" in answer:
        plan = resolve(scenario)
        assert not plan.errors
        assert weights_of(plan) == answer["bytes"]
        return
    try:
        texts = [problem.vllm_text for problem in resolve(scenario).errors]
    except Refused as refusal:
        texts = [refusal.vllm_text]
    assert any(text and text in answer["refused"] for text in texts), texts
