"""Published and hand-computed numbers: preferred blocks, aligned blocks, drafts, kernel blocks.

The geometry of every model is entered by hand, so these cases test the arithmetic.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.groups import in_groups
from tests.models.configs import (
    bamba,
    deepseek_v3,
    jamba,
    kimi_linear,
    lfm2,
    llama,
    minimax_text_01,
    nemotron_h,
    qwen3_5,
    qwen3_next,
)
from workbench.core.block_sizes import common_kernel_block, supports_block_size
from workbench.core.versions import V0_23
from workbench.scenario import FIELDS
from workbench.scenario.resolution import resolve

NANO_30B = nemotron_h()
NANO_9B = nemotron_h(mamba_num_heads=128, mamba_head_dim=80, num_key_value_heads=8)
SUPER_120B = nemotron_h(mamba_num_heads=128)
QWEN_4B = qwen3_5()
QWEN_35B = qwen3_5(kv_heads=2)
QWEN_27B = qwen3_5(value_heads=48)


PREFERRED = [
    ("FLASH_ATTN", "cuda", 16),
    ("FLASH_ATTN", "xpu", 64),
    ("FLASHINFER", "cuda", 16),
    ("TRITON_ATTN", "cuda", 16),
    ("FLEX_ATTENTION", "cuda", 16),
    ("TURBOQUANT", "cuda", 16),
    ("ROCM_ATTN", "rocm", 16),
    ("ROCM_AITER_FA", "rocm", 16),
    ("ROCM_AITER_UNIFIED_ATTN", "rocm", 64),
    ("CPU_ATTN", "cpu", 128),
    ("FLASHMLA", "cuda", 64),
    ("FLASH_ATTN_MLA", "cuda", 16),
    ("CUTLASS_MLA", "cuda", 128),
    ("FLASHINFER_MLA", "cuda", 32),
    ("TOKENSPEED_MLA", "cuda", 32),
    ("TRITON_MLA", "cuda", 16),
    ("ROCM_AITER_MLA", "rocm", 16),
    ("ROCM_AITER_TRITON_MLA", "rocm", 16),
    ("FLASHMLA_SPARSE", "cuda", 64),
    ("FLASHINFER_MLA_SPARSE", "cuda", 32),
]


@pytest.mark.parametrize(
    ("backend", "platform", "block_size"),
    [pytest.param(*row, id=f"{row[0]}-{row[1]}") for row in PREFERRED],
)
def test_preferred_block_size(backend, platform, block_size):
    model = deepseek_v3() if V0_23.backends[backend].is_mla else llama()
    plan = resolve(model, backend=backend, platform=platform)
    assert plan.block_size == block_size
    logged = any(line.startswith("Setting kv cache block size to") for line in plan.log_lines)
    assert logged == (block_size != 16 and platform != "cpu")


@pytest.mark.parametrize(
    ("helper", "platform", "preferred"),
    [
        ("DEEPSEEK_V32_INDEXER", "cuda", 64),
        ("DEEPSEEK_V32_INDEXER", "rocm", 16),
        ("DEEPSEEK_V4_INDEXER", "cuda", 256),
        ("DEEPSEEK_V4_COMPRESSOR", "cuda", 16),
        ("SPARSE_SWA", "cuda", 256),
    ],
)
def test_helpers_are_declared_and_never_chosen(helper, platform, preferred):
    backend = V0_23.backends[helper]
    supported = backend.supported_for(platform=platform)
    assert backend.preferred_block_size(16, platform, supported) == preferred
    assert helper not in FIELDS["backend"].kind.candidates("0.23")


def test_aiter_flash_attention_reports_another_name():
    plan = resolve(llama(), backend="ROCM_AITER_FA", platform="rocm")
    assert plan.backend == "ROCM_AITER_FA"
    assert V0_23.backends["ROCM_AITER_FA"].reported_name == "FLASH_ATTN"


@pytest.mark.parametrize(
    ("kv_cache_dtype", "head_size", "token_bytes"),
    [
        ("auto", 128, 2 * 2 * 128 * 2),
        ("float16", 128, 2 * 2 * 128 * 2),
        ("fp8", 128, 2 * 2 * 128),
        ("fp8_e5m2", 128, 2 * 2 * 128),
        ("fp8_inc", 128, 2 * 2 * 128),
        ("int8_per_token_head", 128, 2 * 2 * 128 + 2 * 2 * 4),
        ("fp8_per_token_head", 128, 2 * 2 * 128 + 2 * 2 * 4),
        ("nvfp4", 128, 2 * 2 * (64 + 8)),
        ("turboquant_k8v4", 256, 2 * 388),
        ("turboquant_4bit_nc", 128, 2 * (64 + 2 + 64 + 4)),
        ("turboquant_k3v4_nc", 128, 2 * (48 + 2 + 64 + 4)),
        ("turboquant_3bit_nc", 128, 2 * (48 + 2 + 48 + 4)),
        ("turboquant_k3v4_nc", 72, 2 * (27 + 2 + 36 + 4 + 1)),
        ("turboquant_3bit_nc", 100, 2 * (38 + 2 + 38 + 4)),
    ],
)
def test_bytes_of_one_token(kv_cache_dtype, head_size, token_bytes):
    model = bamba(num_key_value_heads=2, head_dim=head_size)
    plan = resolve(model, kv_cache_dtype=kv_cache_dtype)
    assert plan.attention_bytes_per_token == token_bytes


@pytest.mark.parametrize(
    ("kv_cache_dtype", "probed", "in_the_page"),
    [
        ("auto", 1152, 1152),
        ("fp8", 576, 576),
        ("fp8_ds_mla", 576, 656),
        ("fp8_per_token_head", 576 + 8, 576),
    ],
)
def test_bytes_of_one_latent_token(kv_cache_dtype, probed, in_the_page):
    """For two dtypes the alignment counts other bytes than the layer's page then has."""
    plan = resolve(kimi_linear(), kv_cache_dtype=kv_cache_dtype)
    assert plan.attention_bytes_per_token == probed
    assert plan.attention_page_size_bytes == plan.block_size * in_the_page
    differs = "pages_not_equal" in {problem.code for problem in plan.errors}
    assert differs == (probed != in_the_page)


class Aligned(NamedTuple):
    """One row: bytes of the mamba page, tokens of the block, bytes of the page, padding in %."""

    id: str
    model: dict[str, Any]
    settings: dict[str, Any]
    mamba_page: int
    block_size: int
    page: int
    padding: float


TQ = {"kv_cache_dtype": "turboquant_k8v4", "backend": "TURBOQUANT"}
FP8 = {"kv_cache_dtype": "fp8"}
FP8_32 = {**FP8, "block_size": 32}
BF16_STATE = {"mamba_ssm_cache_dtype": "bfloat16"}
FP32_STATE = {"mamba_cache_dtype": "float32"}


def tp(size, **settings):
    return {"tensor_parallel": size, **settings}


ALIGNED = [
    Aligned("nemotron-3-nano-tp1", NANO_30B, tp(1), 2_134_016, 2096, 2_146_304, 0.58),
    Aligned("nemotron-3-nano-tp2", NANO_30B, tp(2), 1_067_008, 2096, 1_073_152, 0.58),
    Aligned("nemotron-3-nano-tp4", NANO_30B, tp(4), 533_504, 1056, 540_672, 1.34),
    Aligned("nemotron-3-nano-fp8", NANO_30B, FP8, 2_134_016, 4176, 2_138_112, 0.19),
    Aligned("nemotron-3-nano-fp8-b32", NANO_30B, FP8_32, 2_134_016, 4192, 2_146_304, 0.58),
    Aligned(
        "nemotron-3-nano-fp8-b32-tp2", NANO_30B, tp(2, **FP8_32), 1_067_008, 4192, 1_073_152, 0.58
    ),
    Aligned("nemotron-3-nano-fp8-b32-tp4", NANO_30B, tp(4, **FP8_32), 533_504, 2112, 540_672, 1.34),
    Aligned("qwen3.5-4b", QWEN_4B, {}, 2_146_304, 528, 2_162_688, 0.76),
    Aligned("qwen3.5-4b-xpu", QWEN_4B, {"platform": "xpu"}, 2_146_304, 576, 2_359_296, 9.92),
    Aligned("qwen3.6-35b", QWEN_35B, {}, 2_146_304, 1056, 2_162_688, 0.76),
    Aligned("qwen3.6-35b-turboquant", QWEN_35B, TQ, 2_146_304, 2768, 2_147_968, 0.08),
    Aligned("qwen3.6-27b", QWEN_27B, {}, 3_207_168, 784, 3_211_264, 0.13),
    Aligned("qwen3.6-27b-fp8", QWEN_27B, FP8, 3_207_168, 1568, 3_211_264, 0.13),
    Aligned("qwen3-next", qwen3_next(), tp(1), 1_097_728, 544, 1_114_112, 1.49),
    Aligned("qwen3-next-tp4", qwen3_next(), tp(4), 274_432, 272, 278_528, 1.49),
    Aligned("nemotron-nano-9b-bf16-state", NANO_9B, BF16_STATE, 2_695_168, 672, 2_752_512, 2.13),
    Aligned("nemotron-nano-9b", NANO_9B, {}, 5_316_608, 1312, 5_373_952, 1.08),
    Aligned("nemotron-3-super-fp8", SUPER_120B, FP8, 4_255_744, 8320, 4_259_840, 0.10),
    Aligned(
        "kimi-flashmla", kimi_linear(), {"backend": "FLASHMLA"}, 2_170_880, 1920, 2_211_840, 1.89
    ),
    Aligned(
        "kimi-flash-attn-mla",
        kimi_linear(),
        {"backend": "FLASH_ATTN_MLA"},
        2_170_880,
        1888,
        1888 * 1152,
        0.19,
    ),
    Aligned("bamba-tp1", bamba(), tp(1), 2_147_840, 528, 528 * 4096, 0.69),
    Aligned("bamba-tp2", bamba(), tp(2), 1_074_688, 528, 528 * 2048, 0.62),
    Aligned("bamba-tp4", bamba(), tp(4), 538_112, 528, 528 * 1024, 0.48),
    Aligned("bamba-tp8", bamba(), tp(8), 269_824, 528, 528 * 512, 0.19),
    Aligned("jamba-mini", jamba(), {}, 311_296, 80, 327_680, 5.26),
    Aligned("lfm2", lfm2(), {}, 8_192, 16, 32_768, 300.00),
]
EQUAL = [
    Aligned("qwen3.6-35b-fp8", QWEN_35B, FP8, 2_146_304, 2096, 2_146_304, 0.0),
    Aligned("minimax-tp1", minimax_text_01(), tp(1), 2_097_152, 512, 2_097_152, 0.0),
    Aligned("minimax-tp8", minimax_text_01(), tp(8), 262_144, 512, 262_144, 0.0),
    Aligned(
        "minimax-tp1-fp32", minimax_text_01(), tp(1, **FP32_STATE), 4_194_304, 1024, 4_194_304, 0.0
    ),
    Aligned(
        "minimax-tp8-fp32", minimax_text_01(), tp(8, **FP32_STATE), 524_288, 1024, 524_288, 0.0
    ),
]


@pytest.mark.parametrize("row", [*ALIGNED, *EQUAL], ids=lambda row: row.id)
def test_aligned_block_size(row):
    plan = resolve(row.model, **row.settings)
    assert plan.errors == ()
    assert plan.mamba_page_size_bytes == row.mamba_page
    assert plan.block_size == row.block_size
    assert plan.attention_page_size_bytes == row.page
    assert plan.final_mamba_page_size_bytes == row.page
    assert round(plan.padding_percent, 2) == row.padding


@pytest.mark.parametrize("row", EQUAL, ids=lambda row: row.id)
def test_equal_pages_record_no_padding(row):
    assert resolve(row.model, **row.settings).mamba_page_size_padded is None


@pytest.mark.parametrize(
    ("model", "chunk", "block_size"),
    [
        pytest.param(nemotron_h, 128, 1408, id="nemotron-nano-9b-128"),
        pytest.param(nemotron_h, 256, 1536, id="nemotron-nano-9b-256"),
        pytest.param(nemotron_h, 512, 1536, id="nemotron-nano-9b-512"),
        pytest.param(bamba, 128, 640, id="bamba-128"),
        pytest.param(bamba, 256, 768, id="bamba-256"),
        pytest.param(bamba, 512, 1024, id="bamba-512"),
    ],
)
def test_mode_all_aligns_to_the_chunk(model, chunk, block_size):
    config = {**(NANO_9B if model is nemotron_h else bamba()), "mamba_chunk_size": chunk}
    plan = resolve(config, enable_prefix_caching=True, mamba_cache_mode="all")
    assert (plan.block_size, plan.mamba_block_size) == (block_size, block_size)
    explicit = resolve(
        {**config, "mamba_chunk_size": 64},
        enable_prefix_caching=True,
        mamba_cache_mode="all",
        mamba_block_size=chunk,
    )
    assert explicit.block_size == block_size, "an explicit mamba block size takes the chunk's place"


@pytest.mark.parametrize(
    ("model", "drafts", "block_size"),
    [
        pytest.param(model, drafts, block_size, id=f"{name}-{drafts}")
        for name, model, row in (
            ("qwen3.5-4b", QWEN_4B, (528, 528, 544, 544, 544, 544, 560, 560)),
            ("qwen3.6-27b", QWEN_27B, (784, 800, 800, 800, 816, 816, 816, 832)),
        )
        for drafts, block_size in enumerate(row)
    ],
)
def test_draft_tokens_change_the_block_size(model, drafts, block_size):
    plan = resolve(model, num_speculative_tokens=drafts)
    assert plan.block_size == block_size
    if model is QWEN_4B:
        assert (plan.mamba_page_size_padded is None) == (drafts in {1, 5})


KERNEL_COLUMNS = {
    "flashinfer": ("FLASHINFER", False),
    "multiple-of-16": ("TRITON_ATTN", True),
    "flash-attn-fp32-state": ("FLASH_ATTN", True),
    "aiter-fa": ("ROCM_AITER_FA", False),
    "flashmla": ("FLASHMLA", False),
    "flashinfer-mla": ("FLASHINFER_MLA", False),
    "cutlass-mla": ("CUTLASS_MLA", False),
}
"""Column -> (backend, whether the state is float32)."""

KERNEL_BLOCKS = {
    16: (16, 16, 16, 16, None, None, None),
    48: (16, 48, 16, 16, None, None, None),
    64: (64, 64, 64, 32, 64, 64, None),
    128: (64, 128, 64, 32, 64, 64, 128),
    448: (64, 448, 64, 32, 64, 64, None),
    528: (16, 528, 16, 16, None, None, None),
    544: (32, 544, 32, 32, None, 32, None),
    576: (64, 576, 64, 32, 64, 64, None),
    784: (16, 784, 16, 16, None, None, None),
    1056: (32, 1056, 32, 32, None, 32, None),
    1888: (32, 1888, 32, 32, None, 32, None),
    1920: (64, 1920, 64, 32, 64, 64, 128),
    2096: (16, 2096, 16, 16, None, None, None),
    2112: (64, 2112, 64, 32, 64, 64, None),
    4192: (32, 4192, 32, 32, None, 32, None),
    8320: (64, 8320, 64, 32, 64, 64, 128),
}
"""Manager block -> kernel block of each column; None: no common block size."""


@in_groups
@pytest.mark.parametrize(
    ("block_size", "column", "kernel_block"),
    [
        pytest.param(block_size, column, kernel_block, id=f"{block_size}-{column}")
        for block_size, row in KERNEL_BLOCKS.items()
        for column, kernel_block in zip(KERNEL_COLUMNS, row, strict=True)
    ],
)
def test_kernel_block_of_a_manager_block(block_size, column, kernel_block):
    name, float32_state = KERNEL_COLUMNS[column]
    supported = V0_23.backends[name].supported_for(float32_state=float32_state)
    assert common_kernel_block((supported,), block_size) == kernel_block


def test_exact_sizes_count_by_modulo_for_managers_and_by_equality_for_kernels():
    assert supports_block_size((64,), 1920)
    assert common_kernel_block(((64,),), 1920) == 64
    assert common_kernel_block(((64,), (32,)), 1920) is None


@pytest.mark.parametrize(
    ("tensor_parallel", "block_size", "kernel_block"), [(1, 4192, 32), (4, 2112, 64)]
)
def test_kernel_blocks_that_users_reported(tensor_parallel, block_size, kernel_block):
    plan = resolve(NANO_30B, tensor_parallel=tensor_parallel, **FP8_32)
    assert (plan.block_size, plan.kernel_block_size) == (block_size, kernel_block)


@pytest.mark.parametrize(
    ("model", "settings", "granularity", "block_size", "padding_percent"),
    [
        (kimi_linear(), {"tensor_parallel": 2}, 64, 960, 1.89),  # as vllm#28228 logs it
        (kimi_linear(), {"tensor_parallel": 2, "backend": "FLASH_ATTN_MLA"}, 32, 960, 1.89),
        (kimi_linear(), {"tensor_parallel": 2, "backend": "CUTLASS_MLA"}, 128, 1024, 8.68),
        (NANO_30B, {"tensor_parallel": 4}, 16, 1056, 1.34),
        (NANO_30B, {"tensor_parallel": 4, "block_size": 64}, 16, 1056, 1.34),
        (QWEN_4B, {"compute_capability": "9.0"}, 16, 528, None),
        (QWEN_4B, {"compute_capability": "10.0"}, 32, 544, None),
        (QWEN_4B, {"compute_capability": "10.0", "backend": "TRITON_ATTN"}, 16, 528, None),
    ],
)
def test_before_37467_the_granularity_is_a_constant(
    model, settings, granularity, block_size, padding_percent
):
    plan = resolve(model, rules="before-37467", **settings)
    assert plan.trace.step("alignment_granule").result == granularity
    assert plan.block_size == block_size
    if padding_percent is not None:
        assert round(plan.padding_percent, 2) == padding_percent
