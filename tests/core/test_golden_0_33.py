"""Worked numbers of 0.33: phase 1, block sizes, kernel blocks, drafts, and its own backends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.core.test_golden import ALIGNED, EQUAL, KERNEL_BLOCKS, KERNEL_COLUMNS, QWEN_4B, QWEN_27B
from tests.models.configs import (
    bailing_hybrid,
    deepseek_v3,
    falcon_h1,
    gemma3,
    gpt_oss,
    granitemoehybrid,
    kimi_linear,
    lfm2,
    llama,
    nemotron_h,
    qwen3_5,
    qwen3_next,
    zamba2,
)
from workbench.core.backends import Backend, MultipleOf
from workbench.core.block_sizes import common_kernel_block
from workbench.core.errors import Refused
from workbench.core.model import INDEX_KEY
from workbench.core.versions import RULE_SETS, V0_23, V0_33
from workbench.scenario import FIELDS
from workbench.scenario.resolution import resolve

M = ["MultipleOf(16)"]
ALIGN = {"enable_prefix_caching": True, "mamba_cache_mode": "align"}


def plan_of(model, **settings):
    return resolve(model=model, rules="0.33", **settings)


PREFERRED = [
    ("FLASH_ATTN", "cuda", 16),
    ("FLASH_ATTN", "xpu", 64),
    ("FLASHINFER", "cuda", 16),
    ("TRITON_ATTN", "cuda", 16),
    ("FLEX_ATTENTION", "cuda", 16),
    ("TURBOQUANT", "cuda", 16),
    ("ULTRAQUANT", "rocm", 64),
    ("ROCM_ATTN", "rocm", 16),
    ("ROCM_AITER_FA", "rocm", 16),
    ("ROCM_AITER_UNIFIED_ATTN", "rocm", 64),
    ("CPU_ATTN", "cpu", 128),
    ("HPC_ATTN", "cuda", 64),
    ("B12X", "cuda", 128),
    ("FLASHMLA", "cuda", 64),
    ("FLASH_ATTN_MLA", "cuda", 16),
    ("FLASH_ATTN_MLA", "xpu", 64),
    ("CUTLASS_MLA", "cuda", 128),
    ("FLASHINFER_MLA", "cuda", 32),
    ("TOKENSPEED_MLA", "cuda", 32),
    ("TRITON_MLA", "cuda", 16),
    ("ROCM_AITER_MLA", "rocm", 16),
    ("ROCM_AITER_TRITON_MLA", "rocm", 16),
    ("AMX_MLA", "cpu", 128),
    ("CPU_MLA", "cpu", 16),
]


@pytest.mark.parametrize(("backend", "platform", "block_size"), PREFERRED)
def test_preferred_block_size(backend, platform, block_size):
    model = deepseek_v3() if V0_33.backends[backend].is_mla else llama()
    plan = plan_of(model, backend=backend, platform=platform)
    assert plan.block_size == block_size
    logged = [line for line in plan.log_lines if line.startswith("Setting kv cache block size")]
    assert bool(logged) == (block_size != 16 and platform != "cpu")
    if logged:
        name = V0_33.backends[backend].log_name
        expected = f"Setting kv cache block size to {block_size} for {name} backend(s)."
        assert logged == [expected]


@pytest.mark.parametrize(
    ("changes", "settings", "sizes", "block_size"),
    [
        ({"head_dim": 256}, {"compute_capability": "10.0"}, [128], 128),
        ({"head_dim": 256}, {"compute_capability": "10.0", "batch_invariant": True}, M, 16),
        ({"head_dim": 256}, {"compute_capability": "9.0"}, M, 16),
        ({"head_dim": 512}, {"kv_cache_dtype": "fp8"}, [64], 64),
        ({"head_dim": 512}, {}, M, 16),
    ],
)
def test_the_four_cases_of_flash_attention(changes, settings, sizes, block_size):
    plan = plan_of(llama(**changes), backend="FLASH_ATTN", **settings)
    assert plan.to_dict()["supported_kernel_block_sizes"] == sizes
    assert plan.block_size == block_size


@pytest.mark.parametrize(
    ("trtllm", "capability", "largest"),
    [(True, "10.0", 1024), (False, "10.0", 64), (True, "9.0", 64)],
)
def test_flashinfer_splits_into_large_pages_with_trtllm_kernels(trtllm, capability, largest):
    plan = plan_of(
        llama(), backend="FLASHINFER", compute_capability=capability, trtllm_kernels=trtllm
    )
    assert max(plan.supported_kernel_block_sizes) == largest


@pytest.mark.parametrize(
    ("model", "settings", "block_size", "kernel_block_size"),
    [
        (nemotron_h(), {}, 2096, 2096),
        (nemotron_h(), {"tensor_parallel": 4}, 1056, 1056),
        (nemotron_h(), {"kv_cache_dtype": "fp8"}, 4176, 4176),
        (nemotron_h(), {"backend": "FLASHINFER"}, 2096, 16),
        (qwen3_5(), {}, 576, 576),
        (qwen3_5(), {"gdn_flashinfer_prefill": False}, 528, 528),
        (qwen3_5(), {"compute_capability": "8.9"}, 528, 528),
        (qwen3_5(), {"platform": "xpu"}, 576, 576),
        (qwen3_5(), {"platform": "xpu", "backend": "TRITON_ATTN"}, 576, 576),
        (qwen3_next(), {**ALIGN, "gdn_flashinfer_prefill": True}, 576, 576),
        (qwen3_next(), {"gdn_flashinfer_prefill": True, "enable_prefix_caching": False}, 544, 544),
        (kimi_linear(), {"backend": "FLASH_ATTN_MLA"}, 1920, 1920),
        (kimi_linear(), {"backend": "FLASHMLA"}, 1920, 64),
        (lfm2(), {}, 16, 16),
    ],
)
def test_block_and_kernel_block(model, settings, block_size, kernel_block_size):
    plan = plan_of(model, **settings)
    assert (plan.block_size, plan.kernel_block_size) == (block_size, kernel_block_size)


@pytest.mark.parametrize(
    ("model", "grows"),
    [
        (nemotron_h(), True),
        (falcon_h1(), True),
        (zamba2(), True),
        (kimi_linear(), True),
        (qwen3_next(), True),
        (lfm2(), False),
    ],
)
def test_drafts_widen_the_conv_state_of_every_kind_but_short_convolutions(model, grows):
    plain, drafting = plan_of(model), plan_of(model, num_speculative_tokens=3)
    widths = [plan.mamba_state_shapes[0][0] for plan in (plain, drafting)]
    assert widths[1] - widths[0] == (3 if grows else 0)


COLUMNS = {
    "FLASHINFER": {528: 16, 544: 32, 1920: 128, 2112: 64, 8320: 128},
    "B12X": {64: 64, 128: 128, 448: 64, 1920: 128, 528: None},
    "FLASHMLA": {544: None, 1920: 64},
    "FLASH_ATTN": {528: 528, 2096: 2096},
}


@pytest.mark.parametrize("backend", COLUMNS)
def test_kernel_block_of_a_manager_block(backend):
    plan = plan_of(llama(), backend="FLASHINFER", compute_capability="10.0", trtllm_kernels=True)
    large = plan.supported_kernel_block_sizes
    supported = large if backend == "FLASHINFER" else V0_33.backends[backend].supported
    for manager, kernel in COLUMNS[backend].items():
        assert common_kernel_block((supported,), manager) == kernel


def test_on_cpu_states_are_float32_unless_linear_attention_is_configured():
    assert plan_of(granitemoehybrid(), platform="cpu").mamba_state_dtypes == ("bfloat16", "float32")
    settings = {"mamba_ssm_cache_dtype": "bfloat16", "platform": "cpu"}
    assert plan_of(granitemoehybrid(), **settings).mamba_state_dtypes == ("bfloat16", "bfloat16")
    assert plan_of(falcon_h1(), **settings).mamba_state_dtypes == ("bfloat16", "float32")
    assert plan_of(qwen3_next(), **settings).mamba_state_dtypes == ("bfloat16", "bfloat16")
    assert plan_of(lfm2(), **settings).mamba_state_dtypes == ("bfloat16",)


IMAGES = gemma3(head_dim=256)


@pytest.mark.parametrize(
    ("settings", "backend", "block_size"),
    [
        ({"compute_capability": "10.0"}, "TRITON_FLASHINFER", 64),
        ({"compute_capability": "10.3", "kv_cache_dtype": "fp8"}, "TRITON_FLASHINFER", 64),
        ({"compute_capability": "9.0"}, "TRITON_FLASH_ATTN", 16),
        ({"compute_capability": "8.0"}, "TRITON_ATTN", 16),
        ({"platform": "xpu"}, "TRITON_FLASH_ATTN", 64),
        ({"platform": "xpu", "batch_invariant": True}, "TRITON_ATTN", 16),
        ({"platform": "rocm"}, "TRITON_ATTN", 16),
    ],
)
def test_models_that_see_images_whole_take_composites(settings, backend, block_size):
    plan = plan_of(IMAGES, **settings)
    assert (plan.backend, plan.block_size) == (backend, block_size)


def test_the_composite_of_hopper_takes_both_new_versions_of_flash_attention():
    """Version 3 reads heads of 256, version 4 larger ones, fp8 in tiles of 64 tokens."""
    heads_of_512 = gemma3(head_dim=512)
    for dtype, block_size in (("auto", 16), ("fp8", 64)):
        plan = plan_of(heads_of_512, compute_capability="9.0", kv_cache_dtype=dtype)
        assert (plan.backend, plan.block_size) == ("TRITON_FLASH_ATTN", block_size)


@pytest.mark.parametrize("requested", ["FLASH_ATTN", "TRITON_ATTN"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("case", ["plain", "images", "invariant"])
def test_what_xpu_makes_of_a_requested_backend(requested, dtype, case):
    """`get_attn_backend_cls` of xpu.py looks at the request first, except in plain float32."""
    config = IMAGES if case == "images" else llama()
    settings = {"batch_invariant": case == "invariant", "dtype": dtype, "backend": requested}
    plan = plan_of(config, platform="xpu", **settings)
    ignored = (case, dtype) == ("plain", "float32")
    assert (plan.backend, plan.errors) == ("TRITON_ATTN" if ignored else requested, ())


def test_small_heads_have_no_composite():
    small = gemma3()
    assert plan_of(small, compute_capability="10.0").backend == "FLASH_ATTN"
    assert plan_of(small, platform="xpu").backend == "TRITON_ATTN"


@pytest.mark.parametrize(
    ("capability", "kv_cache_dtype", "heads", "first"),
    [
        ("9.0", "auto", 128, "FLASH_ATTN_MLA_SPARSE"),
        ("9.0", "fp8", 128, "FLASHMLA_SPARSE"),
        ("10.0", "auto", 128, "FLASHMLA_SPARSE"),
        ("10.0", "auto", 16, "FLASH_ATTN_MLA_SPARSE_FA4"),
        ("10.0", "fp8", 128, "FLASHINFER_MLA_SPARSE"),
    ],
)
def test_sparse_models_choose_by_generation_dtype_and_heads(
    capability, kv_cache_dtype, heads, first
):
    model = deepseek_v3(index_topk=2048, num_attention_heads=heads, num_key_value_heads=heads)
    plan = plan_of(model, compute_capability=capability, kv_cache_dtype=kv_cache_dtype)
    assert (plan.backend, plan.block_size) == (first, 64)


def test_the_mode_that_keeps_every_state_is_gone():
    assert FIELDS["mamba_cache_mode"].kind.candidates("0.33") == ("none", "align")
    plan = plan_of(nemotron_h(), enable_prefix_caching=True)
    assert plan.mamba_cache_mode == "align"
    assert not [p for p in plan.problems if p.code == "block_exceeds_token_budget"]


def test_hybrids_find_prefixes_again_by_default():
    assert plan_of(nemotron_h()).enable_prefix_caching
    assert not resolve(model=nemotron_h()).enable_prefix_caching


def test_the_trace_names_the_version_of_its_rules():
    for step in plan_of(nemotron_h()).trace:
        assert step.source.startswith("vLLM 0.33")


@pytest.fixture
def mixed(monkeypatch):
    """A function that makes every MLA layer keep a second cache of a toy backend."""

    def mix(supported, *, exact=False):
        toy = Backend(
            "TOY", platforms=("cuda",), supported=supported, is_helper=True, exact_block_size=exact
        )
        V0_33.backends.add("TOY", toy)
        rules = replace(V0_33, companions=lambda _attention: {INDEX_KEY: "TOY"})
        monkeypatch.setitem(RULE_SETS, "0.33", rules)

    yield mix
    if "TOY" in V0_33.backends:
        V0_33.backends.remove("TOY")


def test_several_backends_get_a_block_that_suits_all(mixed):
    mixed((MultipleOf(48),))
    plan = plan_of(deepseek_v3(), backend="FLASHMLA")
    assert plan.block_size == 192
    assert "Setting kv cache block size to 192 for TOY/FLASHMLA backend(s)." in plan.log_lines


def test_a_hybrid_block_is_a_multiple_of_every_backends_smallest(mixed):
    mixed((MultipleOf(48),))
    plan = plan_of(kimi_linear(), backend="FLASH_ATTN_MLA")
    assert plan.trace.step("aligned_block_size").operands["every_backend"] == 48
    assert plan.block_size % 48 == 0


def test_backends_with_nothing_in_common_stop_the_start(mixed):
    mixed((48,), exact=True)
    codes = {problem.code: problem for problem in plan_of(deepseek_v3(), backend="FLASHMLA").errors}
    problem = codes["no_shared_block_size"]
    assert problem.operands["supported"] == {"TOY": [48], "FLASHMLA": [64]}
    expected = "The attention backends share no supported KV cache block size ("
    assert problem.vllm_text == expected


def test_an_aligned_block_that_a_backend_refuses_stops_the_start(mixed):
    mixed((64, 128), exact=True)
    codes = {problem.code: problem for problem in plan_of(kimi_linear()).errors}
    refused = codes["aligned_block_size_refused"]
    assert refused.operands["refused_by"] == ["TOY"]
    assert refused.vllm_text.endswith("is not supported by attention backend(s): TOY.")


def test_0_23_is_untouched():
    assert V0_23.backends["FLASH_ATTN"].with_float32_state == (16, 32, 64)
    assert "B12X" not in V0_23.backends
    assert FIELDS["kv_cache_dtype"].kind.candidates("0.23") != FIELDS[
        "kv_cache_dtype"
    ].kind.candidates("0.33")


GONE = ("bamba", "minimax")
CHANGED = {"kimi-flash-attn-mla": (1920, 1920 * 1152, 1.89)}
"""Row of 0.23 -> (block, page, padding) in 0.33, where they differ."""
SERVED = [row for row in (*ALIGNED, *EQUAL) if not row.id.startswith(GONE)]


@pytest.mark.parametrize("row", SERVED, ids=lambda row: row.id)
def test_aligned_block_sizes_of_both_versions(row):
    block, page, padding = CHANGED.get(row.id, (row.block_size, row.page, row.padding))
    plan = plan_of(row.model, enable_prefix_caching=False, **row.settings)
    assert plan.errors == ()
    assert plan.mamba_page_size_bytes == row.mamba_page
    assert (plan.block_size, plan.attention_page_size_bytes) == (block, page)
    assert round(plan.padding_percent, 2) == padding


@pytest.mark.parametrize("drafts", range(8))
def test_draft_tokens_change_gated_delta_nets_as_before(drafts):
    for model in (QWEN_4B, QWEN_27B):
        old = resolve(model=model, num_speculative_tokens=drafts)
        new = plan_of(model, num_speculative_tokens=drafts, gdn_flashinfer_prefill=False)
        assert new.block_size == old.block_size


LARGE_FLASHINFER = (16, 16, 64, 128, 64, 16, 32, 64, 16, 32, 32, 128, 16, 64, 32, 128)
B12X = (None, None, 64, 128, 64, None, None, 64, None, None, None, 128, None, 64, None, 128)
UNCHANGED = ("multiple-of-16", "aiter-fa", "flashmla", "flashinfer-mla", "cutlass-mla")


@pytest.mark.parametrize("manager", KERNEL_BLOCKS)
def test_kernel_blocks_of_every_manager_block(manager):
    place = list(KERNEL_BLOCKS).index(manager)
    (_condition, large), *_ = V0_33.backends["FLASHINFER"].supported_when
    assert common_kernel_block((large,), manager) == LARGE_FLASHINFER[place]
    assert common_kernel_block((V0_33.backends["B12X"].supported,), manager) == B12X[place]
    row = dict(zip(KERNEL_COLUMNS, KERNEL_BLOCKS[manager], strict=True))
    for column in UNCHANGED:
        supported = V0_33.backends[KERNEL_COLUMNS[column][0]].supported
        assert common_kernel_block((supported,), manager) == row[column]


def test_deepseek_v32_stores_bfloat16_as_auto_and_glm_fp8_on_sm10x():
    """Explicit bfloat16 is auto for DeepSeek-V3.2; GLM's default differs on SM10x."""
    sparse = {"index_topk": 2048}
    config = deepseek_v3(
        model_type="deepseek_v32", architectures=["DeepseekV32ForCausalLM"], **sparse
    )
    for rules in ("0.23", "0.33"):
        plan = resolve(model=config, kv_cache_dtype="bfloat16", rules=rules)
        assert plan.kv_cache_dtype == "auto"
    glm = deepseek_v3(model_type="glm_moe_dsa", architectures=["GlmMoeDsaForCausalLM"], **sparse)
    found = [
        resolve(model=glm, compute_capability=capability, rules=rules).kv_cache_dtype
        for rules in ("0.23", "0.33")
        for capability in ("9.0", "10.3")
    ]
    assert found == ["auto", "auto", "auto", "fp8_e4m3"]


def test_bailing_states_have_the_heads_that_mla_rotates():
    """The configuration class that 0.33 needs writes qk_rope_head_dim over head_dim."""
    assert resolve(model=bailing_hybrid()).mamba_state_shapes == ((32, 128, 128),)
    assert plan_of(bailing_hybrid(), tensor_parallel=2).mamba_state_shapes == ((16, 64, 64),)


def test_every_nvfp4_is_refused_with_mla():
    for dtype in ("nvfp4", "nvfp4_4over6"):
        with pytest.raises(Refused, match=f"{dtype} does not work with MLA"):
            plan_of(deepseek_v3(), kv_cache_dtype=dtype)


@pytest.mark.parametrize(
    ("dtype", "token_bytes"),
    [("int4_per_token_head", 296), ("fp8_per_token_head", 584), ("fp8_ds_mla", 656)],
)
def test_a_page_of_mla_holds_the_scales_of_every_token(dtype, token_bytes):
    """XPU tests no KV dtype; 576 elements, half a byte or one each, and two float32 scales."""
    plan = plan_of(deepseek_v3(), platform="xpu", kv_cache_dtype=dtype, block_size=64)
    assert plan.attention_page_size_bytes == 64 * token_bytes


def test_a_cpu_says_that_sparse_attention_is_what_it_lacks():
    plan = plan_of(deepseek_v3(index_topk=2048), platform="cpu")
    assert "Sparse Attention is not supported on CPU." in {p.vllm_text for p in plan.problems}
    imposed = plan_of(deepseek_v3(index_topk=2048), platform="cpu", backend="AMX_MLA")
    assert "no_valid_backend" in {problem.code for problem in imposed.problems}


def test_an_explicit_float_is_as_good_as_auto_for_mla_on_a_cpu():
    plan = plan_of(deepseek_v3(), platform="cpu", backend="CPU_MLA", kv_cache_dtype="bfloat16")
    assert "backend_not_valid" not in {problem.code for problem in plan.problems}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_flashinfer_needs_kernels_of_trtllm_for_sinks(rules):
    """Without them SM10x falls back to FLASH_ATTN for gpt-oss, in both versions."""
    model = gpt_oss()
    found = [
        resolve(model=model, compute_capability="10.0", trtllm_kernels=trtllm, rules=rules).backend
        for trtllm in (False, True)
    ]
    assert found == ["FLASH_ATTN", "FLASHINFER"]


@pytest.mark.parametrize(("tensor_parallel", "largest"), [(1, 1024), (8, 1024), (32, 64)])
def test_large_pages_of_flashinfer_need_a_group_of_queries_on_every_rank(tensor_parallel, largest):
    """32 heads with 8 KV heads: 4 each, on 8 ranks too; on 32 ranks 1 each."""
    plan = plan_of(
        llama(),
        backend="FLASHINFER",
        compute_capability="10.0",
        trtllm_kernels=True,
        tensor_parallel=tensor_parallel,
    )
    assert max(plan.supported_kernel_block_sizes) == largest


FLASH_ATTENTION = [
    ("10.0", 128, "auto", True, 16),
    ("10.0", 128, "fp8", True, 16),
    ("10.0", 160, "auto", True, 16),
    ("10.0", 160, "fp8", False, 16),
    ("10.0", 192, "fp8", False, 16),
    ("10.0", 256, "auto", True, 128),
    ("10.0", 256, "fp8", False, 16),
    ("10.0", 320, "auto", True, 16),
    ("10.0", 320, "fp8", False, 16),
    ("9.0", 256, "auto", True, 16),
    ("9.0", 256, "fp8", True, 16),
    ("9.0", 320, "auto", True, 16),
    ("9.0", 320, "fp8", False, 16),
    ("9.0", 512, "auto", True, 16),
    ("9.0", 512, "fp8", True, 64),
    ("12.0", 128, "auto", True, 16),
    ("12.0", 128, "fp8", False, 16),
]
"""(capability, head size, KV dtype, whether FLASH_ATTN takes it, block) as vLLM 0.33 answers."""


@pytest.mark.parametrize(("capability", "head_size", "dtype", "is_valid", "block"), FLASH_ATTENTION)
def test_which_flash_attention_runs_decides_what_it_reads(
    capability, head_size, dtype, is_valid, block
):
    plan = plan_of(
        llama(head_dim=head_size),
        compute_capability=capability,
        kv_cache_dtype=dtype,
        backend="FLASH_ATTN",
    )
    assert ("backend_not_valid" not in {problem.code for problem in plan.errors}) == is_valid
    assert plan.block_size == block


def test_capped_scores_and_whole_images_leave_the_pages_of_128_tokens():
    """Heads of 256 on SM10x: FlashAttention 4 with pages of 128 does neither."""
    here = {"compute_capability": "10.0", "backend": "FLASH_ATTN"}
    assert plan_of(llama(head_dim=256), **here).block_size == 128
    capped = llama(head_dim=256, model_type="gemma2", architectures=["Gemma2ForCausalLM"])
    assert plan_of(capped, **here).block_size == 16
    assert plan_of(gemma3(text_config={"head_dim": 256}), **here).block_size == 16


@pytest.mark.parametrize(
    ("block_size", "backend"),
    [(None, "FLASH_ATTN_MLA"), (32, "TRITON_MLA"), (64, "FLASH_ATTN_MLA")],
)
def test_xpu_takes_flash_attention_for_mla_where_the_block_suits_it(block_size, backend):
    plan = plan_of(deepseek_v3(), platform="xpu", block_size=block_size)
    assert (plan.backend, plan.block_size) == (backend, block_size or 64)


def test_aiter_reads_no_float32_any_more():
    here = {"platform": "rocm", "backend": "ROCM_AITER_UNIFIED_ATTN", "dtype": "float32"}
    new = plan_of(llama(), **here)
    old = resolve(model=llama(), rules="0.23", **here)
    assert "backend_not_valid" in {problem.code for problem in new.errors}
    assert "backend_not_valid" not in {problem.code for problem in old.errors}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_sinks_leave_flash_attention_where_bits_must_not_differ(rules):
    """SM10x goes back to FlashAttention 2, and TRT-LLM's kernels are not batch-invariant either."""
    here = {"model": gpt_oss(), "compute_capability": "10.3", "trtllm_kernels": True}
    free = resolve(**here, rules=rules)
    assert free.backend in {"FLASH_ATTN", "FLASHINFER"}
    assert resolve(**here, rules=rules, batch_invariant=True).backend == "TRITON_ATTN"


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        ({}, {"kv_cache_dtype": "fp8"}),
        ({"quantization_config": {"quant_method": "fp8"}}, {}),
    ],
)
def test_xpu_is_batch_invariant_with_plain_numbers_only(changes, settings):
    here = {"platform": "xpu", "batch_invariant": True, **settings}
    with pytest.raises(Refused) as caught:
        plan_of(llama(**changes), **here)
    assert caught.value.code == "xpu_batch_invariance"
    assert "VLLM_BATCH_INVARIANT" in caught.value.message
    assert plan_of(llama(**changes), **{**here, "batch_invariant": False}).errors == ()
    plain = plan_of(llama(), platform="xpu", batch_invariant=True)
    assert (plain.backend, plain.errors) == ("TRITON_ATTN", ())


def test_xpu_has_no_default_for_batch_invariant_mla():
    """TRITON_ATTN is taken as if it were explicit, and knows no MLA."""
    here = {"platform": "xpu", "batch_invariant": True}
    plan = plan_of(deepseek_v3(), **here)
    [problem] = [error for error in plan.errors if error.code == "no_valid_backend"]
    assert "TRITON_MLA can be requested" in problem.message
    assert problem.vllm_text == "Invalid attention backend for"
    assert {"backend": "TRITON_MLA"} in [dict(r.changes) for r in plan.remedies(problem)]
    requested = plan_of(deepseek_v3(), **here, backend="TRITON_MLA")
    assert "backend_not_valid" not in {error.code for error in requested.errors}
