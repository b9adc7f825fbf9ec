"""Zamba 2: the lists of layers that vLLM reads, and heads that it reads in two ways."""

import pytest

from tests.models.configs import zamba2
from workbench.core.errors import ConfigError
from workbench.core.model import FULL, SSM
from workbench.models.overrides import load_changed
from workbench.models.read import read_model

ONE_HYBRID = ["mamba", "hybrid", "mamba"]


def read(**changes):
    return read_model(zamba2(layers_block_type=ONE_HYBRID, **changes), "zamba")


def test_attention_is_built_for_every_layer_that_is_listed_as_hybrid():
    model = read(hybrid_layer_ids=[1, 7, 9])
    assert model.num_hidden_layers == 3
    assert [one.number for one in model.layers if one.kind == FULL] == [7, 9, 1]
    assert [one.number for one in model.layers if one.kind == SSM] == [0, 1, 2]
    assert read(hybrid_layer_ids=[1]) == read()


@pytest.mark.parametrize("listed", [[], [0], [0, 1], [7]])
def test_a_list_that_vllm_cannot_follow_is_refused(listed):
    with pytest.raises(ConfigError, match="hybrid layers are") as refused:
        read(hybrid_layer_ids=listed)
    assert refused.value.field == "/hybrid_layer_ids"


def test_heads_of_a_state_that_do_not_fill_its_channels_are_refused():
    with pytest.raises(ConfigError, match="80 heads of 128 do not fill 5120 channels"):
        read(mamba_headdim=128)


def test_as_many_layers_are_built_as_are_listed():
    model = read(num_hidden_layers=2)
    assert model.num_hidden_layers == len(ONE_HYBRID)
    assert "num_hidden_layers = 2 is ignored" in model.notes[0]
    changes = {"num_hidden_layers": 4}
    assert load_changed("zamba2-2.7b", changes).num_hidden_layers == 54
    assert load_changed("nemotron-3.5-lightning-30b-a3b", changes).num_hidden_layers == 52
