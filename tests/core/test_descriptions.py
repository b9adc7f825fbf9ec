"""What a quantization_config says that a release does not read: what it says, and who reads it."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.models.configs import llama
from workbench.core.errors import Refused

AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}


@pytest.mark.parametrize(
    ("described", "given", "read"),
    [
        ({"quant_method": "awq"}, "without the key 'w_bit' or 'bits'", ()),
        (AWQ | {"bits": 8}, "integers of 8 bits, only in those of 4 bits", ()),
        (GPTQ | {"bits": 3}, "in symmetric integers of 3 bits, only in", ()),
        (GPTQ | {"sym": False}, "in asymmetric integers of 4 bits", ()),
        (GPTQ | {"bits": "4"}, "an unknown number of bits", ()),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}, "in W4A16_AWQ", ()),
        ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4_AWQ"}, "in NVFP4_AWQ", ()),
        (GPTQ | {"desc_act": True}, "follow the activations (desc_act)", ("0.23",)),
        (GPTQ | {"dynamic": {".*mlp.*": {"desc_act": True}}}, "(desc_act)", ("0.23",)),
    ],
)
def test_a_refusal_names_what_the_file_says_and_who_reads_it(described, given, read):
    for rules in {"0.23", "0.33"} - set(read):
        with pytest.raises(Refused) as caught:
            wb.resolve(model=llama(quantization_config=described), rules=rules)
        assert given in caught.value.message
        others = [f"vLLM {name}." for name in read] or ["stored in another format."]
        assert all(caught.value.message.endswith(one) for one in others)
    for rules in read:
        wb.resolve(model=llama(quantization_config=described), rules=rules)


@pytest.mark.parametrize(
    "rule", [{"-:.*mlp.*": {"desc_act": True}}, {".*mlp.*": {"desc_act": True, "group_size": -1}}]
)
def test_a_rule_whose_groups_have_no_order_is_read(rule):
    wb.resolve(model=llama(quantization_config=GPTQ | {"dynamic": rule}), rules="0.33")
