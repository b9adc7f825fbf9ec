"""One reader per family: kinds of layers, state shapes, defaults, and where every value is from."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.models.configs import (
    FAMILIES,
    bailing_hybrid,
    bamba,
    deepseek_v3,
    falcon_h1,
    gemma3,
    gpt_oss,
    granitemoehybrid,
    jamba,
    kimi_linear,
    lfm2,
    lfm2_moe,
    llama,
    mamba,
    mamba2,
    minimax_text_01,
    nemotron_h,
    olmo_hybrid,
    plamo2,
    qwen3_5,
    qwen3_next,
    zamba2,
)
from workbench.core.model import FULL, SLIDING, SSM
from workbench.models import read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

LETTERS = {FULL: "A", SLIDING: "S", SSM: "m"}


def kinds(config):
    """One letter per cache-keeping part: A full attention, S sliding attention, m state space."""
    return "".join(LETTERS[layer.kind] for layer in read_model(config, "x").layers)


def shapes(config, tensor_parallel=1, drafts=0):
    scenario = Scenario(
        model=config, tensor_parallel=tensor_parallel, num_speculative_tokens=drafts
    )
    return resolve(scenario).mamba_state_shapes


class Family(NamedTuple):
    """What one config describes: kinds of layers, and shapes for 1 rank, 2 ranks, and 3 drafts."""

    config: dict[str, Any]
    kinds: str
    one_rank: tuple[tuple[int, ...], ...]
    two_ranks: tuple[tuple[int, ...], ...]
    three_drafts: tuple[tuple[int, ...], ...]


DELTA = ((3, 8192), (32, 128, 128))
HALF_DELTA = ((3, 4096), (16, 128, 128))
BAMBA = ((3, 8448), (128, 64, 128))
HALF_BAMBA = ((3, 4352), (64, 64, 128))

STATES = {
    "nemotron_h": Family(
        nemotron_h(),
        "mA",
        ((3, 6144), (64, 64, 128)),
        ((3, 3072), (32, 64, 128)),
        ((6, 6144), (64, 64, 128)),
    ),
    "bamba": Family(bamba(), "mAm", BAMBA, HALF_BAMBA, BAMBA),
    "granitemoehybrid": Family(granitemoehybrid(), "mAm", BAMBA, HALF_BAMBA, BAMBA),
    "falcon_h1": Family(
        falcon_h1(),
        "AmAm",
        ((3, 3584), (24, 128, 256)),
        ((3, 2048), (12, 128, 256)),
        ((3, 3584), (24, 128, 256)),
    ),
    "zamba2": Family(
        zamba2(),
        "mAmm",
        ((3, 5376), (80, 64, 64)),
        ((3, 2688), (40, 64, 64)),
        ((3, 5376), (80, 64, 64)),
    ),
    "plamo2": Family(
        plamo2(),
        "mAmA",
        ((3, 4096), (32, 128, 64)),
        ((3, 2048), (16, 128, 64)),
        ((3, 4096), (32, 128, 64)),
    ),
    "jamba": Family(
        jamba(),
        "mmmmAmmm",
        ((3, 8192), (8192, 16)),
        ((3, 4096), (4096, 16)),
        ((3, 8192), (8192, 16)),
    ),
    "mamba": Family(
        mamba(), "mm", ((3, 5120), (5120, 16)), ((3, 2560), (2560, 16)), ((3, 5120), (5120, 16))
    ),
    "mamba2": Family(
        mamba2(),
        "mm",
        ((3, 10240), (128, 64, 128)),
        ((3, 5120), (64, 64, 128)),
        ((6, 10240), (128, 64, 128)),
    ),
    "lfm2": Family(lfm2(), "mAm", ((2, 2048),), ((2, 1024),), ((2, 2048),)),
    "lfm2_moe": Family(lfm2_moe(), "mAm", ((2, 2048),), ((2, 1024),), ((2, 2048),)),
    "qwen3_next": Family(qwen3_next(), "mmmAmmmA", DELTA, HALF_DELTA, ((6, 8192), (32, 128, 128))),
    "qwen3_5": Family(qwen3_5(), "mmmAmmmA", DELTA, HALF_DELTA, ((6, 8192), (32, 128, 128))),
    "olmo_hybrid": Family(olmo_hybrid(), "mmmA", DELTA, HALF_DELTA, ((6, 8192), (32, 128, 128))),
    "kimi_linear": Family(
        kimi_linear(),
        "mmmA",
        ((3, 12288), (32, 128, 128)),
        ((3, 6144), (16, 128, 128)),
        ((3, 12288), (32, 128, 128)),
    ),
    "minimax_text_01": Family(
        minimax_text_01(), "mmmA", ((64, 128, 128),), ((32, 128, 128),), ((64, 128, 128),)
    ),
    "bailing_hybrid": Family(
        bailing_hybrid(), "mmmA", ((32, 128, 128),), ((16, 128, 128),), ((32, 128, 128),)
    ),
    "llama": Family(llama(), "AA", (), (), ()),
    "gpt_oss": Family(gpt_oss(), "SASA", (), (), ()),
    "gemma3": Family(gemma3(), "SSSSSA", (), (), ()),
    "deepseek_v3": Family(deepseek_v3(), "AA", (), (), ()),
}


def test_every_family_has_a_case():
    assert set(STATES) == set(FAMILIES)


@pytest.mark.parametrize("name", STATES)
def test_layers_and_states(name):
    family = STATES[name]
    assert kinds(family.config) == family.kinds
    assert shapes(family.config) == family.one_rank
    assert shapes(family.config, tensor_parallel=2) == family.two_ranks
    assert shapes(family.config, drafts=3) == family.three_drafts


PURE = {"mamba", "mamba2"}
DECODERS = {"llama", "gpt_oss", "gemma3", "deepseek_v3"}


@pytest.mark.parametrize("name", STATES)
def test_what_kind_of_model_it_is(name):
    model = read_model(STATES[name].config, name)
    assert model.is_attention_free == (name in PURE)
    assert model.is_hybrid == (name not in PURE | DECODERS)
    assert (model.attention is None) == (name in PURE)
    assert (model.state is None) == (name in DECODERS)
    assert model.attention_layers + model.ssm_layers == len(model.layers)


def test_which_families_keep_a_state_per_block():
    able = {name for name in STATES if read_model(STATES[name].config, name).supports_all_mode}
    assert able == {
        "bamba",
        "nemotron_h",
        "jamba",
        "falcon_h1",
        "mamba",
        "mamba2",
        "zamba2",
        "granitemoehybrid",
    }


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        pytest.param(nemotron_h(conv_kernel=None), "conv_kernel", 4, id="nemotron_h-k"),
        pytest.param(nemotron_h(n_groups=None), "n_groups", 8, id="nemotron_h-G"),
        pytest.param(nemotron_h(ssm_state_size=None), "state_size", 128, id="nemotron_h-N"),
        pytest.param(bamba(mamba_d_conv=None), "conv_kernel", 4, id="bamba-k"),
        pytest.param(bamba(mamba_d_state=None), "state_size", 256, id="bamba-N"),
        pytest.param(bamba(mamba_n_groups=None), "n_groups", 1, id="bamba-G"),
        pytest.param(bamba(mamba_n_heads=None), "num_heads", 128, id="bamba-H"),
        pytest.param(bamba(mamba_expand=None), "intermediate_size", 8192, id="bamba-expand"),
        pytest.param(bamba(mamba_d_head="auto"), "head_dim", 64, id="bamba-P-auto"),
        pytest.param(bamba(mamba_d_head=None), "head_dim", 64, id="bamba-P"),
        pytest.param(granitemoehybrid(mamba_d_state=None), "state_size", 256, id="granite-N"),
        pytest.param(falcon_h1(mamba_d_state=None), "state_size", 256, id="falcon_h1-N"),
        pytest.param(
            {**falcon_h1(), "mamba_d_ssm": None}, "intermediate_size", 3072, id="falcon_h1-expand"
        ),
        pytest.param(
            falcon_h1(mamba_d_ssm=None, mamba_n_heads=8), "intermediate_size", 1024, id="falcon_h1"
        ),
        pytest.param(zamba2(mamba_d_state=None), "state_size", 64, id="zamba2-N"),
        pytest.param(zamba2(mamba_ngroups=None), "n_groups", 1, id="zamba2-G"),
        pytest.param(zamba2(n_mamba_heads=None), "num_heads", 8, id="zamba2-H"),
        pytest.param(zamba2(n_mamba_heads=None), "head_dim", 640, id="zamba2-P"),
        pytest.param(jamba(mamba_d_state=None), "state_size", 16, id="jamba-N"),
        pytest.param(jamba(mamba_expand=None), "intermediate_size", 8192, id="jamba-expand"),
        pytest.param(mamba(state_size=None), "state_size", 16, id="mamba-N"),
        pytest.param(mamba2(state_size=None), "state_size", 128, id="mamba2-N"),
        pytest.param(mamba2(n_groups=None), "n_groups", 8, id="mamba2-G"),
        pytest.param(mamba2(num_heads=None), "num_heads", 128, id="mamba2-H"),
        pytest.param(mamba2(expand=None), "intermediate_size", 8192, id="mamba2-expand"),
        pytest.param(lfm2(conv_L_cache=None), "conv_kernel", 3, id="lfm2-k"),
        pytest.param(qwen3_next(linear_key_head_dim=None), "key_head_dim", 128, id="qwen-hk"),
        pytest.param(qwen3_next(linear_value_head_dim=None), "value_head_dim", 128, id="qwen-hv"),
        pytest.param(qwen3_next(linear_conv_kernel_dim=None), "conv_kernel", 4, id="qwen-k"),
    ],
)
def test_an_absent_field_takes_the_default_of_its_family(config, attribute, value):
    model = read_model(config, "x")
    assert getattr(model.state, attribute) == value


def test_a_default_says_that_it_is_one():
    model = read_model(nemotron_h(n_groups=None), "x")
    assert (
        str(model.origins["n_groups"])
        == "n_groups = 8 from the family's default (n_groups is absent)"
    )


# Kinds of layers


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(
            nemotron_h(layers_block_type=["attention", "mamba", "moe", "mlp"]),
            "Am",
            id="nemotron_h-list-before-pattern",
        ),
        pytest.param(bamba(attn_layer_indices=None), "mmm", id="bamba-no-attention"),
        pytest.param(bamba(attn_layer_indices=[0, 2]), "AmA", id="bamba-indices"),
        pytest.param(bamba(attn_layer_indices=[0, 9]), "Amm", id="bamba-index-of-no-layer"),
        pytest.param(granitemoehybrid(layer_types=None), "mmm", id="granite-absent"),
        pytest.param(
            granitemoehybrid(layer_types=None, layers_block_type=["attention", "mamba", "mamba"]),
            "Amm",
            id="granite-older-name",
        ),
        pytest.param(plamo2(num_hidden_layers=8, mamba_step=4), "mmAmmmAm", id="plamo2-step-4"),
        pytest.param(plamo2(num_hidden_layers=2, mamba_step=4), "mA", id="plamo2-few-layers"),
        pytest.param(jamba(attn_layer_period=4, attn_layer_offset=1), "mAmmmAmm", id="jamba"),
        pytest.param(
            jamba(attn_layer_period=None, attn_layer_offset=None), "mmmmAmmm", id="jamba-8-4"
        ),
        pytest.param(lfm2(layer_types=None, full_attn_idxs=[2]), "mmA", id="lfm2-indexes"),
        pytest.param(qwen3_next(full_attention_interval=2), "mAmAmAmA", id="qwen3_next-interval"),
        pytest.param(
            qwen3_next(layer_types=["full_attention", "linear_attention"] * 4),
            "AmAmAmAm",
            id="qwen3_next-list",
        ),
        pytest.param(qwen3_5(full_attention_interval=2), "mAmAmAmA", id="qwen3_5-interval"),
        pytest.param(qwen3_5(full_attention_interval=None), "mmmAmmmA", id="qwen3_5-default"),
        pytest.param(
            minimax_text_01(attn_type_list=None, decoder_attention_types=[1, 0, 0, 0]),
            "Ammm",
            id="minimax-older-name",
        ),
        pytest.param(
            minimax_text_01(
                attn_type_list=None, layer_types=["linear_attention", "full_attention"] * 2
            ),
            "mAmA",
            id="minimax-words",
        ),
        pytest.param(minimax_text_01(attn_type_list=None), "AAAA", id="minimax-absent"),
        pytest.param(bailing_hybrid(layer_group_size=2), "mAmA", id="bailing"),
        pytest.param(bailing_hybrid(layer_group_size=None), "AAAA", id="bailing-absent"),
    ],
)
def test_kinds_of_layers(config, expected):
    assert kinds(config) == expected


def test_zamba2_without_a_list_takes_the_pattern_of_54_layers():
    config = zamba2(layers_block_type=None, num_hidden_layers=None)
    layers = read_model(config, "x").layers
    hybrid = [layer.number for layer in layers if layer.kind == FULL]
    assert hybrid == [6, 12, 18, 24, 30, 36, 42, 47, 51]
    assert sum(layer.kind == SSM for layer in layers) == 54


def test_kimi_counts_its_layers_from_one():
    linear = {
        **kimi_linear()["linear_attn_config"],
        "kda_layers": [2, 3],
        "full_attn_layers": [1, 4],
    }
    assert kinds(kimi_linear(linear_attn_config=linear)) == "AmmA"


def test_a_granite_with_attention_only_is_an_ordinary_decoder():
    config = granitemoehybrid(layer_types=["attention"] * 3)
    model = read_model(config, "granite-4.0-micro")
    assert (model.is_hybrid, model.state, model.attention_layers) == (False, None, 3)
    plan = resolve(Scenario(model=config, mamba_cache_mode="align"))
    assert (plan.block_size, plan.mamba_block_size, plan.mamba_page_size_padded) == (16, None, None)
    assert plan.mamba_cache_mode == "align", "the requested mode stays, without effect"
    assert plan.enable_prefix_caching, "as for every ordinary decoder"


def test_a_hybrid_without_any_attention_layer_is_not_aligned():
    plan = resolve(Scenario(model=bamba(attn_layer_indices=None)))
    assert plan.is_hybrid
    assert (plan.backend, plan.block_size, plan.kernel_block_size) == (None, 16, None)


# Attention geometry


@pytest.mark.parametrize(
    ("config", "head_size"),
    [
        pytest.param(llama(), 128, id="head_dim"),
        pytest.param(llama(head_dim=None), 128, id="hidden-over-heads"),
        pytest.param(llama(head_dim=None, hidden_size=32 * 96), 96, id="hidden-over-heads-96"),
        pytest.param(plamo2(), 128, id="hidden_size_per_head"),
        pytest.param(zamba2(), 160, id="zamba2-two-hidden-states"),
        pytest.param(zamba2(attention_head_dim=80), 80, id="zamba2-as-stated"),
        pytest.param(kimi_linear(), 576, id="kimi-latent"),
        pytest.param(deepseek_v3(), 576, id="deepseek-latent"),
        pytest.param(llama(kv_lora_rank=512), 128, id="rank-in-another-family"),
    ],
)
def test_head_size(config, head_size):
    assert read_model(config, "x").attention.head_size == head_size


@pytest.mark.parametrize(
    "key", ["n_head_kv", "num_kv_heads", "multi_query_group_num", "num_attention_groups"]
)
def test_kv_heads_have_many_names(key):
    model = read_model(llama(num_key_value_heads=None, **{key: 4}), "x")
    assert model.attention.num_kv_heads == 4
    assert str(model.origins["num_kv_heads"]) == f"num_kv_heads = 4 from {key}"


def test_the_first_name_of_the_kv_heads_counts():
    assert read_model(llama(n_head_kv=2, num_kv_heads=4), "x").attention.num_kv_heads == 2
    absent = read_model(llama(num_key_value_heads=None), "x")
    assert absent.attention.num_kv_heads == absent.attention.num_heads == 32


@pytest.mark.parametrize(("tensor_parallel", "kv_heads"), [(1, 3), (2, 1), (8, 1)])
def test_kv_heads_per_rank_round_down_to_at_least_one(tensor_parallel, kv_heads):
    attention = read_model(llama(num_key_value_heads=3), "x").attention
    assert attention.kv_heads_per_rank(tensor_parallel) == kv_heads


def test_mla_keeps_one_latent_head_on_every_rank():
    attention = read_model(deepseek_v3(), "x").attention
    assert attention.use_mla
    assert [attention.kv_heads_per_rank(size) for size in (1, 2, 8)] == [1, 1, 1]


def test_mla_needs_both_the_rank_and_the_type():
    assert read_model(kimi_linear(), "x").attention.use_mla
    assert not read_model(llama(kv_lora_rank=512), "x").attention.use_mla
    null = {**deepseek_v3(), "kv_lora_rank": None}
    assert not read_model(null, "x").attention.use_mla


def test_parts_that_a_file_omits_are_those_of_its_class():
    """0.23's and 0.33's DeepseekV3Config, Qwen3NextConfig and Qwen3_5TextConfig."""
    attention = read_model(deepseek_v3(kv_lora_rank=None, qk_nope_head_dim=None), "x").attention
    assert (attention.head_size, attention.qk_nope_head_dim) == (576, 128)
    for config in (qwen3_next, qwen3_5):
        absent = dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"))
        state = read_model(config(**absent), "x").state
        assert (state.num_key_heads, state.num_value_heads) == (16, 32)


def test_groups_are_replicated_only_where_ranks_do_not_divide_them():
    """Bamba's page does not halve exactly with every doubling of the ranks."""
    pages = [
        resolve(Scenario(model=bamba(), tensor_parallel=size)).mamba_page_size_bytes
        for size in (1, 2, 4, 8)
    ]
    assert pages == [2_147_840, 1_074_688, 538_112, 269_824]


# Dtypes of the state


def dtypes(config, **settings):
    return resolve(Scenario(model=config, **settings)).mamba_state_dtypes


@pytest.mark.parametrize(
    ("config", "settings", "expected"),
    [
        pytest.param(bamba(), {}, ("bfloat16", "bfloat16"), id="model-dtype"),
        pytest.param(bamba(), {"dtype": "float16"}, ("float16", "float16"), id="explicit-dtype"),
        pytest.param(
            bamba(), {"mamba_cache_dtype": "float32"}, ("float32", "float32"), id="conv-rules-both"
        ),
        pytest.param(
            bamba(), {"mamba_ssm_cache_dtype": "float32"}, ("bfloat16", "float32"), id="recurrent"
        ),
        pytest.param(nemotron_h(), {}, ("bfloat16", "float32"), id="nemotron_h-default"),
        pytest.param(
            nemotron_h(mamba_ssm_cache_dtype="bfloat16"),
            {},
            ("bfloat16", "bfloat16"),
            id="nemotron_h-field",
        ),
        pytest.param(
            nemotron_h(),
            {"mamba_ssm_cache_dtype": "float16"},
            ("bfloat16", "float16"),
            id="nemotron_h-explicit",
        ),
        pytest.param(
            nemotron_h(),
            {"mamba_cache_dtype": "float16"},
            ("float16", "float32"),
            id="nemotron_h-conv-explicit",
        ),
        pytest.param(qwen3_5(), {}, ("bfloat16", "float32"), id="qwen3_5-field"),
        pytest.param(
            qwen3_5(mamba_ssm_dtype=None), {}, ("bfloat16", "bfloat16"), id="qwen3_5-no-field"
        ),
        pytest.param(qwen3_next(), {}, ("bfloat16", "bfloat16"), id="qwen3_next"),
        pytest.param(
            kimi_linear(),
            {"mamba_ssm_cache_dtype": "bfloat16"},
            ("bfloat16", "float32"),
            id="kda-always-float32",
        ),
        pytest.param(
            minimax_text_01(),
            {"mamba_ssm_cache_dtype": "float32"},
            ("bfloat16",),
            id="linear-attention-has-one",
        ),
        pytest.param(
            lfm2(), {"mamba_cache_dtype": "float32"}, ("float32",), id="short-conv-has-one"
        ),
    ],
)
def test_state_dtypes(config, settings, expected):
    assert dtypes(config, **settings) == expected


@pytest.mark.parametrize(
    ("config", "settings", "restricted"),
    [
        pytest.param(nemotron_h(), {}, True, id="written-by-the-model"),
        pytest.param(bamba(), {"mamba_cache_dtype": "float32"}, True, id="conv-explicit"),
        pytest.param(
            lfm2(), {"mamba_ssm_cache_dtype": "float32"}, True, id="explicit-without-effect"
        ),
        pytest.param(kimi_linear(), {}, False, id="float32-by-default"),
        pytest.param(bamba(), {"dtype": "float32"}, False, id="model-dtype"),
        pytest.param(llama(), {"mamba_cache_dtype": "float32"}, False, id="no-hybrid"),
    ],
)
def test_flash_attention_is_restricted_by_a_float32_that_is_written_down(
    config, settings, restricted
):
    plan = resolve(Scenario(model=config, backend="FLASH_ATTN", **settings))
    assert (plan.supported_kernel_block_sizes == (16, 32, 64)) == restricted


# Where values come from


def test_origins_name_the_nested_field():
    model = read_model(qwen3_5(kv_heads=2), "x")
    assert (
        str(model.origins["num_kv_heads"])
        == "num_kv_heads = 2 from text_config.num_key_value_heads"
    )
    assert str(model.origins["head_size"]) == "head_size = 256 from text_config.head_dim"
    assert str(model.origins["mamba_ssm_cache_dtype"]).endswith("from text_config.mamba_ssm_dtype")
    assert model.model_type == "qwen3_5"


def test_the_fields_of_a_state_are_those_that_its_shapes_follow_from():
    named = resolve(model="qwen3-next-80b-a3b").model.state_fields
    assert {"linear_num_value_heads", "linear_conv_kernel_dim"} <= set(named)
    assert all(name.startswith("linear_") for name in named)
    assert resolve(model="llama-3.1-8b").model.state_fields == ()


def test_origins_of_a_flat_file():
    model = read_model(nemotron_h(), "x")
    assert str(model.origins["num_kv_heads"]) == "num_kv_heads = 2 from num_key_value_heads"
    assert str(model.origins["model_dtype"]) == "model_dtype = bfloat16 from dtype"
    assert str(model.origins["derived_max_model_len"]).endswith("from max_position_embeddings")
    assert str(model.origins["layers"]).endswith("from hybrid_override_pattern")


def test_origins_of_derived_values_say_how():
    kimi = read_model(kimi_linear(), "x")
    assert str(kimi.origins["head_size"]).endswith("kv_lora_rank + qk_rope_head_dim (MLA)")
    assert str(kimi.origins["kda_num_heads"]).endswith("from linear_attn_config.num_heads")
    assert str(read_model(bamba(), "x").origins["intermediate_size"]).endswith(
        "mamba_expand * hidden_size"
    )


@pytest.mark.parametrize("name", FAMILIES)
def test_every_number_of_a_model_has_an_origin(name):
    model = read_model(FAMILIES[name](), name)
    named = " ".join(model.origins)
    assert "model_dtype" in named
    assert "derived_max_model_len" in named
    if model.attention is not None:
        assert {"num_heads", "num_kv_heads", "head_size"} <= set(model.origins)
    assert all(key == origin.name and origin.source for key, origin in model.origins.items())


@pytest.mark.parametrize("wrapper", ["text_config", "llm_config"])
def test_a_wrapper_without_its_own_type_takes_the_nested_one(wrapper):
    model = read_model({"architectures": ["NemotronH_Nano_VL_V2"], wrapper: nemotron_h()}, "x")
    assert (model.family, model.attention_layers, model.ssm_layers) == ("nemotron_h", 1, 1)


@pytest.mark.parametrize("make", [plamo2, nemotron_h, minimax_text_01])
def test_a_window_of_the_whole_model_reaches_every_attention_layer(make):
    # vLLM 0.23 gives all of these SlidingWindowSpec, and none without the field.
    for window, kind in ((512, "SlidingWindowSpec"), (None, "FullAttentionSpec")):
        scenario = Scenario(model=make(sliding_window=window), rules="0.23", max_model_len=1024)
        groups = resolve(scenario).cache.groups
        assert {one.kind for one in groups} == {kind, "MambaSpec"}


@pytest.mark.parametrize("make", [bamba, zamba2, jamba, lfm2, qwen3_next])
def test_a_list_of_several_kinds_undoes_the_window_of_the_whole_model(make):
    # is_interleaved of 0.23: the layers of these get FullAttentionSpec.
    scenario = Scenario(model=make(sliding_window=512), rules="0.23", max_model_len=1024)
    found = {one.kind for one in resolve(scenario).cache.groups}
    assert found == {"FullAttentionSpec", "MambaSpec"}
