"""The backends of a model in the order in which vLLM 0.33 builds the layers, as its log has them.

The lines were printed by vLLM 0.33 itself, with the whole models on a simulated device.
"""

import pytest

from workbench.scenario.resolution import resolve

M3 = {
    "architectures": ["MiniMaxM3SparseForCausalLM"],
    "model_type": "minimax_m3_text",
    "num_hidden_layers": 8,
    "hidden_size": 6144,
    "vocab_size": 200064,
    "head_dim": 128,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "torch_dtype": "bfloat16",
    "max_position_embeddings": 4096,
    "sparse_attention_config": {"sparse_attention_freq": [0, 0, 0, 1, 1, 1, 1, 1]},
}
"""Its first layers read all tokens."""
LINE = "Setting kv cache block size to {} for {} backend(s)."
LINES = [
    pytest.param(
        {"model": "deepseek-v4-flash", "device": "H100"},
        (256, "DEEPSEEK_SPARSE_SWA/FLASHMLA_SPARSE_DSV4/DEEPSEEK_V4_INDEXER/CompressorBackend"),
        id="first-layers-compress-nothing",
    ),
    pytest.param(
        {"model": "deepseek-v4-pro", "device": "H100"},
        (256, "DEEPSEEK_SPARSE_SWA/FLASHMLA_SPARSE_DSV4/CompressorBackend/DEEPSEEK_V4_INDEXER"),
        id="first-layers-have-no-indexer",
    ),
    pytest.param(
        {"model": "llama-4-scout", "platform": "xpu", "tensor_parallel": 4},
        (64, "FLASH_ATTN/FLASH_ATTN"),
        id="chunked-layers-derive-a-class",
    ),
    pytest.param(
        {
            "model": "glm-5.2",
            "platform": "xpu",
            "backend": "XPU_MLA_SPARSE",
            "num_speculative_tokens": 1,
            "hidden_state_layers": 1,
        },
        (64, "DEEPSEEK_V32_INDEXER/XPU_MLA_SPARSE/CACHE_ONLY_ATTN"),
        id="hidden-states-are-built-last",
    ),
    pytest.param(
        {"model": M3, "device": "H100"},
        (128, "FLASH_ATTN/MINIMAX_M3_SPARSE_INDEXER/MINIMAX_M3_SPARSE"),
        id="first-layers-read-all-tokens",
    ),
    pytest.param(
        {
            "model": "minimax-m3",
            "device": "H100",
            "tensor_parallel": 8,
            "kv_cache_dtype": "turboquant_4bit_nc",
        },
        (128, "FLASH_ATTN/TURBOQUANT/MINIMAX_M3_SPARSE_INDEXER/MINIMAX_M3_SPARSE"),
        id="first-layers-are-left-unquantized",
    ),
]


@pytest.mark.parametrize(("fields", "line"), LINES)
def test_the_log_names_backends_as_the_layers_are_built(fields, line):
    plan = resolve(rules="0.33", **fields)
    assert LINE.format(*line) in plan.log_lines


def test_a_stage_has_the_backends_of_its_own_layers_alone():
    """The layers of MiniMax-M3 that read all tokens are on the first two stages."""
    plan = resolve(rules="0.33", model=M3, device="H100", pipeline_parallel=4)
    last = plan.stages[-1].own
    assert last is not None
    assert [name for name, _sizes in last.backends] == [
        "MINIMAX_M3_SPARSE_INDEXER",
        "MINIMAX_M3_SPARSE",
    ]


RECORDED = [
    pytest.param(
        {
            "rules": "0.23",
            "model": "deepseek-v4-flash",
            "platform": "rocm",
            "tensor_parallel": 2,
            "kv_cache_dtype": "fp8_e5m2",
            "kv_cache_memory_bytes": 4 * 2**30,
            "max_model_len": -1,
        },
        "ROCM_FLASHMLA_SPARSE_DSV4",
        ((4, 967_680), (8, 748_800), (64, 786_240), (64, 823_680), (256, 1_002_240)),
        4131,
        id="rocm",
    ),
    pytest.param(
        {
            "rules": "0.33",
            "model": "deepseek-v4-flash",
            "platform": "xpu",
            "block_size": 128,
            "kv_cache_memory_bytes": 20 * 2**30,
        },
        "XPU_V4_MLA_SPARSE",
        ((4, 870_912), (8, 656_640), (64, 786_240), (64, 823_680), (128, 518_976)),
        24_657,
        id="xpu",
    ),
]


@pytest.mark.parametrize(("fields", "backend", "groups", "num_blocks"), RECORDED)
def test_other_platforms_pack_compressed_attention_as_cuda_does(
    fields, backend, groups, num_blocks
):
    """Each has one class of layers, which takes no notice of a request."""
    for requested in (None, "FLASHINFER_MLA_SPARSE_DSV4"):
        plan = resolve(**fields, backend=requested)
        assert (plan.backend, plan.kv_cache_dtype) == (backend, "fp8_ds_mla")
        found = sorted((one.spec.block_size, one.page_size_bytes) for one in plan.grouping.groups)
        assert found == sorted(groups)
        assert plan.cache is not None
        assert plan.cache.num_blocks == num_blocks


@pytest.mark.parametrize("platform", ["rocm", "xpu"])
def test_other_platforms_pack_nothing_but_fp8(platform):
    plan = resolve(model="deepseek-v4-flash", platform=platform, kv_cache_dtype="bfloat16")
    (error,) = (one for one in plan.errors if one.code == "no_valid_backend")
    assert error.vllm_text == "DeepseekV4 "
