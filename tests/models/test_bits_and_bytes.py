"""Weights of bitsandbytes as 0.23 builds them, and the scales that its loader keeps next to them.

`tests/data/bits_and_bytes.jsonl.gz` holds the bytes of real models' parameters and tables, of six
layers each, as `tools/record_weights.py` recorded them, or what the class raised.
"""

from itertools import product

import pytest

from tests.recorded import recorded
from workbench import resolve
from workbench.core.capacity.memory_estimate import weights_of
from workbench.models import catalog_config
from workbench.models.read import read_model
from workbench.models.weights import bits_and_bytes
from workbench.scenario import Scenario

ROWS = recorded("bits_and_bytes")
IN_FOUR = {"quant_method": "bitsandbytes", "load_in_4bit": True}


def plan_of(row):
    return resolve(
        Scenario(
            model=row["config"],
            device="H100",
            tensor_parallel=row["tensor_parallel"],
            max_model_len=2048,
            max_num_batched_tokens=2048,
            rules="0.23",
        )
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_parameters_are_vllms(row, monkeypatch):
    for name in ("BITS_AND_BYTES", "EIGHT_BITS"):  # scales are not parameters
        stored = getattr(bits_and_bytes, name)
        bare = stored._replace(block=None, scale_bytes=0, row_bytes=0)
        monkeypatch.setattr(bits_and_bytes, name, bare)
    plan = plan_of(row)
    if "refused" in row:
        assert row["refused"] == "NotImplementedError"
        assert [one for one in plan.errors if one.code == "no_weight_kernel"]
    else:
        assert weights_of(plan) == row["bytes"]


@pytest.mark.parametrize(("bits", "each"), [("load_in_4bit", 0.5 + 4 / 64), ("load_in_8bit", 1)])
def test_scales_are_kept_next_to_a_weight(bits, each):
    scheme = {"quant_method": "bitsandbytes", "load_in_4bit": False, bits: True}
    config = {**catalog_config("qwen3-8b"), "quantization_config": scheme}
    parts = [part for part, _ in read_model(config, "x").weights.parts if part.stored]
    assert len(parts) == 4
    for part in parts:
        outputs = sum(count * size for count, size in part.outputs)
        rows = 4 * outputs * (bits == "load_in_8bit")
        assert part.stored.size([outputs], part.inputs, part.inputs) == (
            outputs * part.inputs * each + rows
        )


@pytest.mark.parametrize(
    ("listed", "plain"),
    [
        ("mlp", {"mlp.gate_up_proj", "mlp.down_proj"}),
        ("model.layers.0.self_attn", {"self_attn.qkv_proj", "self_attn.o_proj"}),
        ("gate_proj", set()),  # a merged layer has its own name alone
        ("gate_up_proj", {"mlp.gate_up_proj"}),
        ("layers.0", set()),
    ],
)
def test_a_listed_name_or_beginning_of_a_path_is_plain(listed, plain):
    scheme = {**IN_FOUR, "llm_int8_skip_modules": [listed]}
    config = {**catalog_config("qwen3-8b"), "quantization_config": scheme, "num_hidden_layers": 1}
    weights = read_model(config, "x").weights
    ends = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
    found = {part.name for part, name in product(weights.known_parts, ends) if part.name == name}
    assert found == set(ends)
    assert {one.name for one in weights.known_parts if one.name in ends and not one.stored} == plain
