"""Refusals with the JSON pointer, lengths, checkpoint dtypes, the catalog, paths and hub ids."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from tests.models.configs import (
    FAMILIES,
    bailing_hybrid,
    bamba,
    deepseek_v3,
    falcon_h1,
    gemma3,
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
    plamo2,
    qwen3_5,
    zamba2,
)
from workbench.core.errors import ConfigError, Refused
from workbench.core.model import FULL, SLIDING
from workbench.models import catalog_config, catalog_names, load_model, read_model
from workbench.models.catalog import catalog_entries, whole_config
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve


def error_of(config):
    with pytest.raises(ConfigError) as caught:
        read_model(config, "config.json")
    return caught.value


MISSING = [
    (llama, "num_attention_heads"),
    (llama, "num_hidden_layers"),
    (llama, "model_type"),
    (nemotron_h, "hybrid_override_pattern"),
    (nemotron_h, "mamba_num_heads"),
    (nemotron_h, "mamba_head_dim"),
    (bamba, "num_hidden_layers"),
    (bamba, "hidden_size"),
    (zamba2, "hidden_size"),
    (plamo2, "mamba_num_heads"),
    (plamo2, "hidden_size_per_head"),
    (plamo2, "mamba_d_state"),
    (jamba, "hidden_size"),
    (lfm2, "conv_dim"),
    (lfm2_moe, "layer_types"),
    (kimi_linear, "linear_attn_config"),
    (kimi_linear, "qk_rope_head_dim"),
    (minimax_text_01, "num_attention_heads"),
    (minimax_text_01, "head_dim"),
    (bailing_hybrid, "num_hidden_layers"),
]


@pytest.mark.parametrize(
    ("family", "key"), [pytest.param(*row, id=f"{row[0].__name__}-{row[1]}") for row in MISSING]
)
def test_a_missing_field_is_named_and_never_guessed(family, key):
    error = error_of(family(**{key: None}))
    assert (error.code, error.field) == ("config_missing_field", f"/{key}")
    assert key in error.message


def test_the_pointer_leads_into_nested_objects():
    assert error_of(qwen3_5(hidden_size="wide")).field == "/text_config/hidden_size"
    linear = kimi_linear()["linear_attn_config"]
    for key in ("num_heads", "head_dim", "kda_layers"):
        config = kimi_linear(linear_attn_config={k: v for k, v in linear.items() if k != key})
        assert error_of(config).field == f"/linear_attn_config/{key}"
    assert error_of(qwen3_5(layer_types=["linear_attention", "flash"])).field == (
        "/text_config/layer_types/1"
    )


@pytest.mark.parametrize(
    ("config", "layers", "remark"),
    [
        (nemotron_h(num_hidden_layers=5), 4, "num_hidden_layers = 5 is ignored"),
        (nemotron_h(num_hidden_layers=4), 4, None),
        (kimi_linear(num_hidden_layers=6), 6, "goes by kda_layers alone"),
        (kimi_linear(), 4, None),
    ],
)
def test_the_list_that_vllm_reads_decides(config, layers, remark):
    model = read_model(config, "test")
    assert model.num_hidden_layers == layers
    assert [remark in note for note in model.notes] == ([] if remark is None else [True])


def test_the_list_of_a_nested_nemotron_decides():
    wrapper = {"architectures": ["NemotronH_Nano_VL_V2"], "llm_config": nemotron_h()}
    wrapper["llm_config"]["hybrid_override_pattern"] = "ME*-M"  # its class has 4 layers by default
    assert read_model(wrapper, "test").num_hidden_layers == 5


def test_a_missing_field_names_similar_ones():
    config = llama(num_attention_heads=None, num_attention_head=32)
    assert "Similar fields here: num_attention_head," in error_of(config).message


LINEAR = kimi_linear()["linear_attn_config"]
CONTRADICTIONS = [
    pytest.param(nemotron_h(hybrid_override_pattern="EE-"), "/num_hidden_layers", id="no-cache"),
    pytest.param(nemotron_h(hybrid_override_pattern=""), "/num_hidden_layers", id="no-layers"),
    pytest.param(llama(head_dim=None, hidden_size=16), "/hidden_size", id="heads-without-elements"),
    pytest.param(
        zamba2(hidden_size=8, n_mamba_heads=4), "/num_attention_heads", id="zamba2-no-elements"
    ),
    pytest.param(bamba(mamba_d_head=65), "/mamba_d_head", id="bamba-heads-do-not-fill"),
    pytest.param(falcon_h1(mamba_d_ssm=3000), "/mamba_d_head", id="falcon-heads-do-not-fill"),
    pytest.param(mamba2(num_heads=100), "/num_heads", id="mamba2-heads-do-not-fill"),
    pytest.param(granitemoehybrid(layer_types=["mamba"]), "/layer_types", id="list-length"),
    pytest.param(minimax_text_01(attn_type_list=[1]), "/attn_type_list", id="minimax-length"),
    pytest.param(jamba(attn_layer_offset=8), "/attn_layer_offset", id="jamba-offset"),
    pytest.param(zamba2(layers_block_type=None), "/layers_block_type", id="zamba2-not-54-layers"),
]


@pytest.mark.parametrize(("config", "pointer"), CONTRADICTIONS)
def test_contradictory_fields_are_refused(config, pointer):
    error = error_of(config)
    assert (error.code, error.field) == ("config_contradiction", pointer)
    assert error.message.startswith(f"{pointer}: ")


WRONG = [
    pytest.param(llama(num_attention_heads="32"), "/num_attention_heads", id="string"),
    pytest.param(llama(num_attention_heads=32.0), "/num_attention_heads", id="float"),
    pytest.param(llama(num_attention_heads=True), "/num_attention_heads", id="bool"),
    pytest.param(llama(num_attention_heads=0), "/num_attention_heads", id="zero"),
    pytest.param(llama(num_key_value_heads=0), "/num_key_value_heads", id="no-kv-heads"),
    pytest.param(llama(num_hidden_layers=-2), "/num_hidden_layers", id="negative"),
    pytest.param(llama(num_hidden_layers=10**6), "/num_hidden_layers", id="too-many-layers"),
    pytest.param(llama(head_dim=2**63), "/head_dim", id="beyond-int64"),
    pytest.param(llama(model_type=7), "/model_type", id="type-of-the-type"),
    pytest.param(llama(dtype="float8"), "/dtype", id="dtype"),
    pytest.param(llama(dtype=16), "/dtype", id="dtype-number"),
    pytest.param(llama(text_config=[1]), "/text_config", id="wrapper-list"),
    pytest.param(llama(rope_scaling=8), "/rope_scaling", id="rope-number"),
    pytest.param(
        llama(rope_scaling={"rope_type": 1}), "/rope_scaling/rope_type", id="rope-type-number"
    ),
    pytest.param(
        llama(rope_parameters={"rope_type": "linear", "factor": "2"}),
        "/rope_parameters/factor",
        id="rope-factor-string",
    ),
    pytest.param(
        llama(rope_parameters={"full_attention": {"rope_type": "linear", "factor": 0}}),
        "/rope_parameters/full_attention/factor",
        id="rope-factor-of-a-kind",
    ),
    pytest.param(bamba(mamba_expand=float("nan")), "/mamba_expand", id="nan"),
    pytest.param(bamba(mamba_expand=float("inf")), "/mamba_expand", id="infinity"),
    pytest.param(bamba(attn_layer_indices=[-1]), "/attn_layer_indices/0", id="index-out-of-range"),
    pytest.param(bamba(attn_layer_indices=[1.0]), "/attn_layer_indices/0", id="index-float"),
    pytest.param(nemotron_h(hybrid_override_pattern="MX*"), "/hybrid_override_pattern/1", id="X"),
    pytest.param(nemotron_h(mamba_ssm_cache_dtype="int8"), "/mamba_ssm_cache_dtype", id="state"),
    pytest.param(minimax_text_01(attn_type_list=[0, 2, 1, 1]), "/attn_type_list/1", id="kind-2"),
    pytest.param(
        minimax_text_01(attn_type_list=[0, True, 1, 1]), "/attn_type_list/1", id="kind-true"
    ),
    pytest.param(
        kimi_linear(linear_attn_config={**LINEAR, "kda_layers": [0]}),
        "/linear_attn_config/kda_layers/0",
        id="kimi-counts-from-one",
    ),
]


@pytest.mark.parametrize(("config", "pointer"), WRONG)
def test_a_wrong_value_is_refused_with_its_place(config, pointer):
    error = error_of(config)
    assert (error.code, error.field) == ("config_wrong_value", pointer)
    assert error.message.startswith(f"Invalid {pointer} ")
    assert len(error.message) < 400


def test_an_unknown_type_lists_the_nearest():
    error = error_of(llama(model_type="nemotron_i"))
    assert (error.code, error.field) == ("unknown_model_type", "/model_type")
    assert "Nearest: nemotron_h, nemotron" in error.message
    assert "With architectures in the file" in error.message


# Lengths


PER_PAIR = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64}
"""What longrope has for each pair of a head of 128."""


def yarn(**changes):
    return {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "length"),
    [
        pytest.param({"max_position_embeddings": 4096}, 4096, id="positions"),
        pytest.param({"max_position_embeddings": None, "n_positions": 2048}, 2048, id="gpt2"),
        pytest.param({"max_position_embeddings": 4096, "seq_length": 1024}, 1024, id="smallest"),
        pytest.param({"max_position_embeddings": None}, 2048, id="of-the-class"),
        pytest.param(
            {"max_position_embeddings": 4096, "model_max_length": 8192}, 8192, id="model_max_length"
        ),
        pytest.param(
            {"max_position_embeddings": 4096, "rope_scaling": {"type": "linear", "factor": 2}},
            8192,
            id="linear",
        ),
        pytest.param(
            {"model_max_length": 4096, "rope_scaling": {"rope_type": "dynamic", "factor": 2.5}},
            10240,
            id="dynamic-on-model_max_length",
        ),
        pytest.param(
            {"max_position_embeddings": 131072, "rope_scaling": yarn()}, 131072, id="yarn"
        ),
        pytest.param(
            {"max_position_embeddings": 40960, "rope_parameters": yarn(factor=2)},
            65536,
            id="yarn-2",
        ),
        pytest.param(
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                },
            },
            131072,
            id="llama3",
        ),
        pytest.param(
            {
                "max_position_embeddings": 131072,
                "rope_scaling": {"type": "su", "factor": 32, **PER_PAIR},
            },
            131072,
            id="su",
        ),
        pytest.param(
            {"max_position_embeddings": 131072, "rope_scaling": {"rope_type": "default"}},
            131072,
            id="default",
        ),
        pytest.param(
            {
                "max_position_embeddings": 8192,
                "rope_parameters": {
                    "full_attention": {"rope_type": "linear", "factor": 4},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            32768,
            id="per-kind-of-layer",
        ),
    ],
)
def test_derived_max_model_len(changes, length):
    model = read_model(llama(**changes), "x")
    assert model.derived_max_model_len == length
    assert resolve(Scenario(model=llama(**changes))).max_model_len == length


LONGROPE = {"rope_type": "longrope", "factor": 32, **PER_PAIR}
ORIGINAL = "original_max_position_embeddings"
WITHOUT_LENGTH = kimi_linear(max_position_embeddings=None)
STEP = llama(
    architectures=["Step3p5ForCausalLM"],
    model_type="step3p5",
    num_attention_groups=8,
    layer_types=["full_attention", "sliding_attention"],
    sliding_window=512,
    max_position_embeddings=9000,
)


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        pytest.param({ORIGINAL: 4096, "rope_scaling": LONGROPE}, 4096, id="next-to-the-length"),
        pytest.param({"rope_scaling": {**LONGROPE, ORIGINAL: 4096}}, 131072, id="inside"),
        pytest.param({"rope_scaling": LONGROPE}, 131072, id="nowhere"),
        pytest.param({"rope_scaling": LONGROPE, "model_type": "phi3"}, 4096, id="phi3"),
    ],
)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_longrope_allows_more_than_it_takes_by_default(changes, taken, rules):
    """As both versions answered for these very files."""
    config = llama(max_position_embeddings=131072, **changes)
    assert read_model(config, "x").derived_max_model_len == 131072
    assert resolve(Scenario(model=config, max_model_len=131072, rules=rules)).max_model_len == (
        131072
    )
    assert resolve(Scenario(model=config, rules=rules)).max_model_len == taken


@pytest.mark.parametrize(
    ("changes", "lengths"),
    [
        pytest.param(
            {"rope_scaling": {"rope_type": "yarn", "factor": 4}}, (32768, 8192), id="bare"
        ),
        pytest.param(
            {ORIGINAL: 2048, "rope_scaling": {"type": "yarn", "factor": 4, ORIGINAL: 1024}},
            (8192, 8192),
            id="next-to-it",
        ),
        pytest.param(
            {"rope_scaling": {"type": "yarn", "factor": 4, ORIGINAL: 1024}},
            (4096, 8192),
            id="inside",
        ),
        pytest.param({"model_type": "gpt_oss"}, (131072, 8192), id="gpt_oss"),
        pytest.param(
            {"rope_parameters": yarn(), "rope_scaling": {"type": "linear", "factor": 2.0}},
            (16384, 16384),
            id="rope_scaling-first",
        ),
    ],
)
def test_yarn_stretches_its_original_length_in_one_version_only(changes, lengths):
    config = llama(max_position_embeddings=8192, **changes)
    found = [resolve(Scenario(model=config, rules=r)).max_model_len for r in ("0.23", "0.33")]
    assert tuple(found) == lengths


@pytest.mark.parametrize(
    ("config", "lengths"),
    [
        pytest.param(WITHOUT_LENGTH, (2048, 4096), id="kimi"),
        pytest.param(kimi_linear(max_position_embeddings=9000), (9000, 9000), id="kimi-named"),
        pytest.param(
            WITHOUT_LENGTH | {"model_max_length": 9000}, (9000, 9000), id="kimi-of-tokenizer"
        ),
        pytest.param(STEP, (4096, 9000), id="step"),
        pytest.param(STEP | {"max_seq_len": 8000}, (8000, 8000), id="step-named"),
    ],
)
def test_a_class_of_one_release_completes_the_length(config, lengths):
    """As both versions answered."""
    found = [resolve(Scenario(model=config, rules=r)).max_model_len for r in ("0.23", "0.33")]
    assert tuple(found) == lengths


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize(("kind", "taken"), [("linear", 6144), ("dynamic", 6144)])
def test_rope_stretches_the_length_that_is_assumed_too(kind, taken, rules):
    """As both versions answered; a requested length is used."""
    config = mamba(rope_scaling={"rope_type": kind, "factor": 3.0})
    assert "max_position_embeddings" not in config
    assert resolve(Scenario(model=config, rules=rules)).max_model_len == taken
    requested = Scenario(model=config, max_model_len=99_999, rules=rules)
    assert resolve(requested).max_model_len == 99_999


def test_head_dim_is_another_name_of_the_rope_dimension_in_one_class():
    """As vLLM 0.23 and 0.33 answered: 512 + 160."""
    changes = {"head_dim": 160, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert read_model(deepseek_v3(**changes), "x").attention.head_size == 576
    lite = deepseek_v3(**changes, model_type="glm4_moe_lite")
    assert read_model(lite, "x").attention.head_size == 672


@pytest.mark.parametrize(
    ("model", "chunk"),
    [
        (bamba(mamba_chunk_size=None), 256),
        (granitemoehybrid(mamba_chunk_size=None), 256),
        (falcon_h1(mamba_chunk_size=None), 256),
        (zamba2(chunk_size=None), 256),
        (mamba2(chunk_size=None), 256),
        (nemotron_h(chunk_size=None), 128),
        (jamba(), 2048),
    ],
)
def test_a_missing_chunk_is_as_in_the_configuration_class(model, chunk):
    """What mode "all" rounds to; 2048 is vLLM's own, for classes without the field."""
    assert read_model(model, "x").chunk_size == chunk


@pytest.mark.parametrize(
    ("model", "field", "value"),
    [
        (qwen3_5(head_dim=None), "head_size", 256),
        (qwen3_5(num_key_value_heads=None), "num_kv_heads", 4),
        (nemotron_h(num_key_value_heads=None), "num_kv_heads", 8),
        (gemma3(num_attention_heads=None, num_key_value_heads=None), "num_heads", 8),
        (gemma3(sliding_window=None), "window_tokens", 4096),
        (llama(num_key_value_heads=None), "num_kv_heads", 32),
    ],
)
def test_a_missing_field_is_as_in_the_configuration_class(model, field, value):
    """Published files do leave these out; vLLM sees what transformers fills in."""
    read = read_model(model, "x")
    assert getattr(read.attention, field) == value
    resolve(Scenario(model=model))


def test_the_length_of_gemma3_is_scaled_already():
    config = gemma3(rope_scaling={"rope_type": "linear", "factor": 8.0})
    assert read_model(config, "x").derived_max_model_len == 262144


def test_a_model_without_a_length_accepts_every_length():
    assert read_model(mamba(), "x").derived_max_model_len is None
    assert resolve(Scenario(model=mamba(), max_model_len=10**9)).max_model_len == 10**9


# Dtypes of the checkpoint


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({"dtype": None, "torch_dtype": "float16"}, "float16"),
        ({"dtype": "torch.bfloat16"}, "bfloat16"),
        ({"dtype": "half"}, "float16"),
        ({"dtype": "float32"}, "bfloat16"),
        ({"dtype": None, "torch_dtype": "float8_e4m3fn"}, "bfloat16"),
        ({"dtype": None}, "bfloat16"),
    ],
)
def test_model_dtype(changes, dtype):
    assert resolve(Scenario(model=llama(**changes))).model_dtype == dtype
    assert resolve(Scenario(model=llama(**changes), dtype="float32")).model_dtype == "float32"


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "glm4"])
def test_a_checkpoint_in_float16_of_a_model_unstable_in_it(family):
    """Only an explicit float16 is refused; as both versions answered."""
    model = llama(model_type=family, dtype="float16")
    assert resolve(Scenario(model=model)).model_dtype == "bfloat16"
    with pytest.raises(Refused, match="float16"):
        resolve(Scenario(model=model, dtype="float16"))


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt_fp4"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "MXFP8"}}, "modelopt_mxfp8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}, "modelopt_mixed"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "modelopt"),
        ({"quant_method": "fp8", "quant_algo": "NVFP4"}, "fp8"),
    ],
)
def test_the_algorithm_of_modelopt_names_the_method(config, method):
    assert read_model(llama(quantization_config=config), "m").quantization == method


def test_quantized_weights_of_modelopt_refuse_float32():
    model = llama(quantization_config={"producer": {"name": "modelopt"}, "quantization": MODELOPT})
    with pytest.raises(Refused, match="modelopt_fp4, whose kernels run in bfloat16 or float16"):
        resolve(Scenario(model=model, dtype="float32"))


MODELOPT = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}
FP8_SCHEME = {"dynamic": False, "num_bits": 8, "type": "float"}


@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [
        pytest.param(
            {"quant_method": "modelopt", "kv_cache_scheme": FP8_SCHEME}, "fp8_e4m3", id="scheme"
        ),
        pytest.param(
            {"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}},
            "fp8_e4m3",
            id="nested-algorithm",
        ),
        pytest.param(
            {"quant_method": "modelopt_fp4", "kv_cache_quant_algo": "NVFP4"}, "nvfp4", id="nvfp4"
        ),
        pytest.param(
            {"quant_method": "modelopt", "kv_cache_scheme": {**FP8_SCHEME, "dynamic": True}},
            "auto",
            id="dynamic",
        ),
        pytest.param(
            {"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float"}},
            "nvfp4",
            id="scheme-of-4-bits",
        ),
        pytest.param(
            {"producer": {"name": "modelopt"}, "quantization": MODELOPT}, "fp8_e4m3", id="producer"
        ),
        pytest.param(
            {"producer": {"name": "llmc"}, "quantization": MODELOPT}, "auto", id="other-producer"
        ),
        pytest.param({"quant_method": "modelopt"}, "auto", id="weights-only"),
        pytest.param(
            {"quant_method": "compressed-tensors", "kv_cache_scheme": FP8_SCHEME},
            "fp8",
            id="compressed-tensors",
        ),
        pytest.param(
            {"quant_method": "compressed-tensors", "kv_cache_scheme": None},
            "auto",
            id="compressed-tensors-without",
        ),
        pytest.param(
            {"quant_method": "fp8", "kv_cache_scheme": FP8_SCHEME}, "auto", id="other-method"
        ),
        pytest.param({"quant_method": ["modelopt"]}, "auto", id="method-is-a-list"),
        pytest.param("modelopt", "auto", id="no-object"),
    ],
)
def test_the_kv_dtype_of_a_quantized_checkpoint(quantization, dtype):
    config = llama(quantization_config=quantization)
    assert read_model(config, "x").kv_cache_dtype == dtype
    assert resolve(Scenario(model=config, kv_cache_dtype="fp8_e5m2")).kv_cache_dtype == "fp8_e5m2"


# Other people's code


def test_auto_map_is_data(tmp_path):
    """Executing the repository's module would create a file; reading its config does not."""
    witness = tmp_path / "executed"
    (tmp_path / "configuration_evil.py").write_text(
        f"open({str(witness)!r}, 'w').close()\nclass EvilConfig: pass\n", encoding="utf-8"
    )
    auto_map = {"AutoConfig": "configuration_evil.EvilConfig", "AutoModel": "modeling_evil.Evil"}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**nemotron_h(), "auto_map": auto_map}), encoding="utf-8")
    code = (
        "import sys, workbench as wb\n"
        f"plan = wb.resolve(wb.Scenario(model={str(config)!r}))\n"
        "print(*plan.model.notes)\n"
        "assert 'transformers' not in sys.modules and 'configuration_evil' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{tmp_path}"},
    )
    assert "ships custom code" in done.stdout
    assert not witness.exists()


# The catalog, paths, and hub ids


def test_the_catalog_covers_the_families():
    covered = {load_model(name).family for name in catalog_names()}
    of_builders = {read_model(builder(), "x").family for builder in FAMILIES.values()}
    assert of_builders - covered <= {"bailing_hybrid", "mamba2"}


def test_a_name_is_found_in_any_case_and_a_wrong_one_lists_the_nearest():
    assert load_model("Nemotron-3-Nano-30B-A3B") is load_model("nemotron-3-nano-30b-a3b")
    with pytest.raises(ConfigError, match="Nearest: nemotron-3-nano-30b-a3b") as caught:
        load_model("nemotron-3-nano")
    assert (caught.value.code, caught.value.field) == ("unknown_model", "model")


def test_a_path_of_a_file_or_a_folder(tmp_path):
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(llama()), encoding="utf-8")
    for reference in (str(folder), str(folder / "config.json"), folder, folder / "config.json"):
        assert load_model(reference).attention.num_heads == 32
    assert load_model(folder / "config.json").name == "my-model"


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(b"", "config_not_json", id="empty"),
        pytest.param(b"{", "config_not_json", id="cut"),
        pytest.param(b"[]", "config_not_object", id="list"),
        pytest.param(b'{"a": 1, "a": 2}', "config_duplicate_key", id="twice"),
        pytest.param(b'{"a": ' + b"9" * 5000 + b"}", "config_not_json", id="digits"),
        pytest.param(b"[" * 10_000 + b"]" * 10_000, "config_too_deep", id="deep-lists"),
        pytest.param(
            b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "config_too_deep", id="deep-objects"
        ),
        pytest.param(b'{"a":' * 40 + b"1" + b"}" * 40, "config_too_deep", id="depth-40"),
        pytest.param(json.dumps(llama()).encode("utf-16"), "config_not_utf8", id="utf-16"),
        pytest.param(b'{"a": "\xff"}', "config_not_utf8", id="latin-1"),
        pytest.param(b'{"a": 1}', "config_missing_field", id="no-type"),
    ],
)
def test_an_invalid_config_file_is_a_typed_error(tmp_path, content, code):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_model(path)
    assert caught.value.code == code
    assert caught.value.field is not None


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(llama()).encode())
    assert load_model(path).attention_layers == 2


def test_numbers_beyond_json_pass_in_fields_that_are_not_read(tmp_path):
    """Published files hold Infinity: the largest time step of a state space."""
    path = tmp_path / "config.json"
    path.write_text('{"time_step_limit": [0.0, Infinity], ' + json.dumps(llama())[1:])
    assert load_model(path).attention_layers == 2
    path.write_text(json.dumps({**bamba(), "mamba_expand": float("nan")}))
    with pytest.raises(ConfigError) as caught:
        load_model(path)
    assert caught.value.field == "/mamba_expand"


@pytest.mark.parametrize("reference", ["./missing.json", "/missing/config.json", "/a\0b.json", "/"])
def test_a_path_that_cannot_be_read_is_a_typed_error(reference):
    with pytest.raises(ConfigError) as caught:
        load_model(reference)
    assert caught.value.field == "model"


@pytest.mark.parametrize("reference", [None, 5, b"llama", ["llama"]])
def test_an_unknown_model_is_a_typed_error(reference):
    with pytest.raises(ConfigError) as caught:
        load_model(reference)
    assert (caught.value.code, caught.value.field) == ("unknown_model", "model")


@pytest.fixture(autouse=True)
def hub_not_read_yet(monkeypatch):
    monkeypatch.setattr("workbench.models.hub._failures", {})
    monkeypatch.setattr("workbench.models.hub._configs", {})


@pytest.fixture
def hub_is_there(monkeypatch):
    monkeypatch.setattr("workbench.models.hub.hub_answers", lambda: True)


def test_an_unreachable_hub_is_not_waited_for(monkeypatch):
    def hf_hub_download(*args, **kwargs):
        raise AssertionError("the client would retry for a minute")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "https://hub.invalid")
    monkeypatch.setattr("workbench.models.hub_address.getproxies", dict)
    with pytest.raises(ConfigError) as caught:
        load_model("some-user/some-model")
    assert caught.value.code == "hub_not_reachable"


def test_a_hub_id_downloads_one_file_only(tmp_path, monkeypatch, hub_is_there):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(nemotron_h()), encoding="utf-8")
    calls = []

    def hf_hub_download(*args, **kwargs):
        calls.append((args, kwargs))
        return str(path)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    model = load_model("some-user/some-model")
    assert (model.name, model.family) == ("some-user/some-model", "nemotron_h")
    load_model("some-user/some-model")  # read once per process
    assert calls == [(("some-user/some-model", "config.json"), {})]


@pytest.mark.parametrize(
    "failure", [LocalEntryNotFoundError("offline"), OSError("no route"), ValueError("bad id")]
)
def test_a_hub_that_cannot_be_reached_is_a_typed_error(monkeypatch, failure, hub_is_there):
    def hf_hub_download(*args, **kwargs):
        raise failure

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    with pytest.raises(ConfigError) as caught:
        load_model("some-user/some-model")
    assert (caught.value.code, caught.value.field) == ("hub_not_reachable", "model")
    assert "some-user/some-model" in caught.value.message
    with pytest.raises(ConfigError, match="or use qwen3-8b, which by its name has the same layers"):
        load_model("some-user/Qwen3-8B-AWQ")


def test_a_published_model_of_the_catalog_needs_no_download(monkeypatch):
    def hf_hub_download(*args, **kwargs):
        raise AssertionError("nothing is downloaded")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", hf_hub_download)
    repository = catalog_config("nemotron-3-nano-30b-a3b")["_source"]["repo"]
    assert load_model(repository) is load_model("nemotron-3-nano-30b-a3b")


def test_a_config_object_is_named_by_its_own_label():
    assert load_model(llama(_name_or_path="someone/llama")).name == "someone/llama"
    assert load_model(llama()).name == "llama"
    assert load_model(llama(_name_or_path=["../.."])).name == "llama"
    assert len(load_model(llama(_name_or_path="x" * 10**6)).name) <= 120


def test_a_file_that_lists_the_quantization_of_every_expert_is_read(tmp_path):
    """As ModelOpt writes it for MiniMax-M3: 22,400 layers, 2.8 MB."""
    names = [f"language_model.model.layers.{at % 60}.mlp.experts.{at}.w1" for at in range(22_400)]
    layers = {f"{name}.{'weight' * 10}": {"quant_algo": "NVFP4"} for name in names}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(llama(quantization_config={"quantized_layers": layers})))
    assert path.stat().st_size > 2_500_000
    assert load_model(path).attention.num_heads == 32


@pytest.mark.parametrize(("entry", "is_read"), [(1, True), (0, False)])
def test_a_list_of_attention_types_without_states_is_ordinary(entry, is_read):
    """MiniMax-M2 kept the list of MiniMax-Text-01, whose 0 is lightning attention."""
    config = llama(architectures=["MiniMaxM2ForCausalLM"], attn_type_list=[entry, 1])
    if is_read:
        assert {layer.kind for layer in read_model(config, "x").layers} == {FULL}
        return
    with pytest.raises(ConfigError, match="attn_type_list/0"):
        read_model(config, "x")


@pytest.mark.parametrize(
    "words",
    [
        *({"swa_rope_parameters": {"a": 1}}, {"linear_num_key_heads": 4}, {"compress_ratios": [4]}),
        {"architectures": ["HunYuanMoEV1ForCausalLM"], "use_cla": True},
    ],
    ids=str,
)
def test_a_field_that_may_change_the_cache_is_refused_by_the_default_reader(words):
    with pytest.raises(ConfigError) as caught:
        read_model(llama(**words), "x")
    assert (caught.value.code, caught.value.field) == ("unread_field", f"/{[*words][-1]}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Gemma2ForCausalLM", {"sliding_window_size": 4096}),
        ("MiniCPMForCausalLM", {"sparse_config": {"block_size": 64, "window_size": 2048}}),
        ("LlamaForCausalLM", {"mamba_d_state": 8, "cla_share_factor": 2, "use_cla": True}),
    ],
)
def test_a_word_of_caches_that_no_source_of_the_class_reads_changes_nothing(name, words):
    kind = {"Gemma2ForCausalLM": "gemma2", "MiniCPMForCausalLM": "minicpm"}.get(name, "llama")
    config = llama(architectures=[name], model_type=kind)
    assert read_model({**config, **words}, "x") == read_model(config, "x")


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [
        ({"multi_query": True}, 1),
        ({"multi_query": True, "new_decoder_architecture": True}, 8),
        ({"multi_query_attention": False}, 32),
        ({"attn_config": {"kv_n_heads": 4}}, 4),
    ],
)
def test_older_names_of_kv_heads(changes, kv_heads):
    assert read_model(llama(**changes), "x").attention.num_kv_heads == kv_heads


def test_a_window_of_zero_is_none():
    model = read_model(llama(sliding_window=0), "x")
    assert model.attention.window_tokens is None
    assert {layer.kind for layer in model.layers} == {FULL}


def test_layers_with_a_latent_take_no_notice_of_a_window():
    # As 0.23 and 0.33 built DeepSeek-V2-Lite: MLAAttentionSpec in every layer.
    model = read_model({**catalog_config("deepseek-v2-lite"), "sliding_window": 1024}, "x")
    assert {layer.kind for layer in model.layers} == {FULL}


def test_a_class_that_expands_the_latent_caches_every_head():
    latent = {"kv_lora_rank": 256, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32}
    config = llama(architectures=["MiniCPM3ForCausalLM"], model_type="minicpm3", **latent)
    attention = read_model(config, "x").attention
    assert (attention.num_kv_heads, attention.head_size, attention.use_mla) == (32, 96, False)


@pytest.mark.parametrize(("loops", "is_read"), [(1, True), (2, False)])
def test_layers_that_run_several_times_are_refused(loops, is_read):
    config = llama(
        architectures=["DoryForCausalLM"],
        n_recurrent_loops=loops,
        layer_types=["full_attention", "mlp"],
    )
    if is_read:
        assert [layer.number for layer in read_model(config, "x").layers] == [0]
        return
    with pytest.raises(ConfigError, match="n_recurrent_loops"):
        read_model(config, "x")


@pytest.mark.parametrize(("rules", "kind"), [("0.23", SLIDING), ("0.33", FULL)])
def test_a_window_next_to_a_list_of_full_layers_counts_in_0_23(rules, kind):
    both = {"layer_types": ["full_attention"] * 2, "sliding_window": 64}
    plan = resolve(Scenario(model=llama(**both), rules=rules))
    assert {layer.kind for layer in plan.model.layers} == {kind}


def test_a_list_of_windows_names_the_layers():
    model = read_model(llama(sliding_window=[64, None], num_hidden_layers=4), "x")
    assert [layer.kind for layer in model.layers] == [SLIDING, FULL] * 2
    assert model.attention.window_tokens == 64
    for windows in ([64, 128], [[None], None], [True]):
        with pytest.raises(ConfigError, match="windows of one size"):
            read_model(llama(sliding_window=windows), "x")


def test_layers_that_are_run_again_keep_a_cache_each_time():
    model = read_model(llama(architectures=["OuroForCausalLM"], total_ut_steps=4), "x")
    assert len(model.layers) == 8


def test_a_part_of_a_multimodal_file_has_the_widths_of_its_class():
    """LLaVA-1.5 writes little more than the model_type of its language model."""
    config = {
        "model_type": "llava",
        "architectures": ["LlavaForConditionalGeneration"],
        "text_config": {"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
    }
    model = read_model(config, "x")
    assert (len(model.layers), model.attention.num_kv_heads, model.attention.head_size) == (
        *(32, 32),
        128,
    )
    # What follows from the heads is not taken from the class.
    config["text_config"] |= {"num_attention_heads": 64}
    assert read_model(config, "x").attention.num_kv_heads == 64


@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "qwen3_moe"])
def test_attention_in_two_kinds_of_chunks_is_refused_as_every_backend_refuses_it(model_type):
    chunks = {"dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192}}
    with pytest.raises(ConfigError) as caught:
        read_model(llama(model_type=model_type, **chunks), "x")
    assert caught.value.field == "/dual_chunk_attention_config"
    assert caught.value.vllm_text == "got an unexpected keyword argument 'layer_idx'"
    read_model(llama(model_type=model_type, dual_chunk_attention_config=None), "x")


@pytest.mark.parametrize(
    ("rope", "code", "text"),
    [
        (
            {"rope_type": "linear", "type": "dynamic", "factor": 2.0},
            "config_contradiction",
            "Found conflicts between 'rope_type=linear' (modern field)",
        ),
        (
            {"rope_type": "mrope", "type": "default", "mrope_section": [16, 24, 24]},
            "config_contradiction",
            "Found conflicts between 'rope_type=mrope' (modern field)",
        ),
        (
            {"type": "mrope"},
            "config_missing_field",
            "Legacy rope_type 'mrope' requires 'mrope_section' in rope_parameters",
        ),
        (
            {"rope_type": "llama3", "factor": 8.0},
            "config_missing_field",
            "Missing required keys in `rope_parameters` for 'rope_type'='llama3'",
        ),
        (
            {"rope_type": "longrope", "type": "su"},
            "config_missing_field",
            "Missing required keys in `rope_parameters` for 'rope_type'='longrope'",
        ),
    ],
)
def test_rope_settings_that_no_release_loads(rope, code, text):
    """`patch_legacy_rope_type` of vLLM and `validate_rope` of Transformers, both releases."""
    with pytest.raises(ConfigError) as caught:
        load_model(llama(rope_scaling=rope))
    error = caught.value
    assert (error.code, error.field, error.vllm_text) == (code, "/rope_scaling", text)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default", "type": "mrope", "mrope_section": [16, 24, 24]},
        {"rope_type": "yarn", "type": "yarn", "factor": 4.0},
        {"type": "mrope", "mrope_section": [16, 24, 24]},
    ],
)
def test_an_older_name_of_the_same_rope_may_stand_next_to_it(rope):
    assert load_model(llama(rope_scaling=rope)).build_errors == {}


def test_a_head_with_the_rope_of_images_reaches_every_position():
    """It counts as ordinary RoPE, so 0.33 does not limit requests to the length of the head."""
    head = llama(
        architectures=["LlamaForCausalLMEagle3"],
        num_hidden_layers=1,
        max_position_embeddings=2048,
        rope_scaling={"type": "mrope", "mrope_section": [16, 24, 24]},
        draft_vocab_size=32_000,
    )
    drafted = {"model": llama(), "draft_model": head, "num_speculative_tokens": 2}
    plan = resolve(**drafted, speculative_method="eagle3", rules="0.33", max_model_len=8192)
    assert plan.max_model_len == 8192


def test_a_flat_file_of_glm4v_has_the_length_of_its_class():
    """Transformers 5.20 reads no field of the text there; 5.12, which 0.23 has, reads them all."""
    nested = whole_config(catalog_entries(), "zai-org/GLM-4.1V-9B-Thinking")
    flat = {**nested["text_config"], **nested, "max_position_embeddings": 65_536}
    flat.pop("text_config")
    plans = [resolve(model=flat, rules=rules) for rules in ("0.23", "0.33")]
    assert [plan.max_model_len for plan in plans] == [65_536, 32_768]


@pytest.mark.parametrize(
    "name", ["LlamaForCausalLMEagle3", "DFlashDraftModel", "K3DSparkModel", "MedusaModel"]
)
def test_the_file_of_a_drafter_is_said_to_be_one(name):
    with pytest.raises(ConfigError, match=r"drafter of vLLM 0\.\d+.* this file as draft_model"):
        load_model(llama(architectures=[name]))
