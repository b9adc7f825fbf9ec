"""Models whose blocks have KV heads of their own."""

from __future__ import annotations

import pytest

from tests.models.configs import nemotron_nas
from workbench.core.errors import ConfigError
from workbench.models.read import read_model

BLOCK = {"attention": {"no_op": False, "n_heads_in_group": 4}}
BAD = {
    "no blocks": None,
    "not a list": {"0": BLOCK},
    "too few": [BLOCK],
    "no attention": [BLOCK, {}, BLOCK, BLOCK],
    "no group": [BLOCK, {"attention": {"no_op": False}}, BLOCK, BLOCK],
    "group above the heads": [
        {"attention": {"no_op": False, "n_heads_in_group": 33}},
        *[BLOCK] * 3,
    ],
}


def test_every_block_says_its_kv_heads_and_a_block_without_attention_has_no_layer():
    model = read_model(nemotron_nas(), "searched")
    assert [layer.number for layer in model.layers] == [0, 2, 3]
    assert [layer.num_kv_heads for layer in model.layers] == [None, 4, 1]
    assert model.attention.num_kv_heads == 8
    assert not model.is_hybrid
    assert "block_configs" in str(model.origins["num_kv_heads"])


@pytest.mark.parametrize("case", BAD)
def test_blocks_that_do_not_say_it_are_refused_with_their_place(case):
    with pytest.raises(ConfigError) as caught:
        read_model(nemotron_nas(block_configs=BAD[case]), "searched")
    assert caught.value.field == "/block_configs"
