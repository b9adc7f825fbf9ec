"""ModelOpt's mixed precision: the format of every layer is the one that the file lists."""

from __future__ import annotations

import pytest

from workbench.core.ranks import Split
from workbench.core.versions import RULE_SETS
from workbench.models import catalog_config
from workbench.models.read import read_model

SUPER = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"
EXPERTS = 512
FIRST = "experts.0.up_proj"


def read(change):
    """Return the model whose table of quantized layers is changed."""
    config = catalog_config(SUPER)
    stated = config["quantization_config"]
    table = change(dict(stated["quantized_layers"]))
    return read_model({**config, "quantization_config": {**stated, "quantized_layers": table}}, "x")


def size_of(model):
    return model.weights.size(Split(1), "bfloat16", RULE_SETS["0.33"].weight_copies)


def every_expert(table):
    """Name all experts, as the published file does."""
    stems = [path.removesuffix(FIRST) for path in table if path.endswith(FIRST)]
    names = [f"experts.{one}.{last}" for one in range(EXPERTS) for last in ("up_proj", "down_proj")]
    return table | {f"{stem}{name}": table[stem + FIRST] for stem in stems for name in names}


def test_one_expert_of_a_layer_says_how_all_of_them_are_stored():
    table = catalog_config(SUPER)["quantization_config"]["quantized_layers"]
    assert len(every_expert(table)) == 41_100
    assert size_of(read(every_expert)) == size_of(read(dict))


def test_a_layer_that_is_not_listed_is_plain():
    path = "backbone.layers.0.mixer.out_proj"
    # bfloat16 instead of fp8 and two scales of 32 bits
    larger = size_of(read(lambda table: table.pop(path) and table)) - size_of(read(dict))
    assert larger == 4096 * 8192 - 2 * 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _table: {}, "missing"),
        (lambda table: {path: {"quant_algo": "FP8"} for path in table}, "missing"),
        (lambda table: table | {"lm_head": {"quant_algo": "MXFP8"}}, "'MXFP8' of a layer"),
        (lambda table: table | {"lm_head": "FP8"}, ""),
    ],
)
def test_a_table_that_is_not_whole_leaves_the_weights_unknown(change, why):
    unknown = read(change).weights.unknown
    assert why in unknown if why else not unknown
