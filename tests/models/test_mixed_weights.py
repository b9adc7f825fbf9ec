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


def size_of(model, rules="0.33"):
    return model.weights.size(Split(1), "bfloat16", RULE_SETS[rules].weight_copies)


def catalog_table():
    return catalog_config(SUPER)["quantization_config"]["quantized_layers"]


def every_expert(table):
    """Name all experts, as the published file does."""
    stems = [path.removesuffix(FIRST) for path in table if path.endswith(FIRST)]
    names = [f"experts.{one}.{last}" for one in range(EXPERTS) for last in ("up_proj", "down_proj")]
    return table | {f"{stem}{name}": table[stem + FIRST] for stem in stems for name in names}


def test_one_expert_of_a_layer_says_how_all_of_them_are_stored():
    table = catalog_table()
    assert len(every_expert(table)) == 41_100
    assert size_of(read(every_expert)) == size_of(read(dict))


def test_a_layer_that_is_not_listed_is_plain():
    path = "backbone.layers.0.mixer.out_proj"
    # bfloat16 instead of fp8 and two scales of 32 bits
    larger = size_of(read(lambda table: table.pop(path) and table)) - size_of(read(dict))
    assert larger == 4096 * 8192 - 2 * 4


def with_head(algorithm):
    return read(lambda table: table | {"lm_head": {"quant_algo": algorithm}})


ROWS, HIDDEN = 131_072, 4096
HEAD = 2 * ROWS * HIDDEN
SCALES_OF_16 = ROWS * HIDDEN // 16


@pytest.mark.parametrize(
    ("algorithm", "older", "newer"),
    [
        ("NVFP4", *2 * (HEAD // 4 + SCALES_OF_16 + 2 * 4,)),
        # 0.23 and 0.33 empty the place of the scale of inputs, which has 32 and 16 bits
        ("W4A16_NVFP4", HEAD // 4 + SCALES_OF_16 + 4 + 4, HEAD // 4 + SCALES_OF_16 + 4 + 2),
        ("MXFP8", HEAD, HEAD // 2 + ROWS * HIDDEN // 32),  # 0.23 builds it plain
        ("FP8", *2 * (HEAD // 2 + 2 * 4,)),
    ],
)
def test_a_listed_head_is_quantized_as_the_release_does_it(algorithm, older, newer):
    for rules, size in (("0.23", older), ("0.33", newer)):
        found, plain = (size_of(model, rules) for model in (with_head(algorithm), read(dict)))
        assert found - plain == size - HEAD


def test_experts_that_are_not_listed_are_as_what_is_next_to_them():
    experts = [path for path in catalog_table() if path.endswith(FIRST)]
    shared = read(lambda table: {path: one for path, one in table.items() if path not in experts})
    in_fp8 = read(lambda table: table | {key: {"quant_algo": "FP8"} for key in experts})
    assert size_of(shared) == size_of(in_fp8)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _table: {}, "missing"),
        (lambda table: {path: {"quant_algo": "FP8"} for path in table}, "missing"),
        (lambda table: table | {"lm_head": {"quant_algo": "FP8_PB_WO"}}, "'FP8_PB_WO' of a layer"),
        (lambda table: table | {"lm_head": "FP8"}, ""),
    ],
)
def test_a_table_that_is_not_whole_leaves_the_weights_unknown(change, why):
    unknown = read(change).weights.unknown
    assert why in unknown if why else not unknown
