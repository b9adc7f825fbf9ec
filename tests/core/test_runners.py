"""Attention groups, the weakest graph support over them, and what each model runner refuses."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.core.graph_modes import LEVELS
from workbench.core.groups.graph_support import attention_groups, graph_support
from workbench.core.layouts.layer_views import RUNNERS
from workbench.core.layouts.runners import runner_verdicts
from workbench.core.versions import RULE_SETS
from workbench.core.versions.v0_23 import V0_23
from workbench.models import catalog_names

HYBRID = "nemotron-3-nano-30b-a3b"
ALL_LAYERS = 29


def plan_of(**values):
    return wb.resolve(**{"model": HYBRID, **values})


def test_every_layer_is_in_one_attention_group_with_its_kernel_block():
    plan = plan_of(backend="FLASHINFER", kv_cache_dtype="fp8")
    groups = attention_groups(plan, plan.cache)
    assert sum(len(group.layers) for group in groups) == ALL_LAYERS
    assert {group.backend for group in groups} == {"FLASHINFER", "MAMBA2_ATTN"}
    for group in groups:
        assert group.kernel_block_size == plan.cache.kernel_block_sizes[group.group]
        assert group.spec == plan.cache.groups[group.group].spec


@pytest.mark.parametrize(
    ("values", "level", "weakest", "mode"),
    [
        # FlashAttention 3 takes every batch, so the mamba layers are the weakest.
        ({"backend": "FLASH_ATTN"}, "UNIFORM_BATCH", "MAMBA2_ATTN", "FULL_AND_PIECEWISE"),
        (
            {"backend": "FLASHINFER"},
            "UNIFORM_SINGLE_TOKEN_DECODE",
            "FLASHINFER",
            "FULL_AND_PIECEWISE",
        ),
        (
            {"backend": "FLASHINFER", "num_speculative_tokens": 2},
            "UNIFORM_SINGLE_TOKEN_DECODE",
            "FLASHINFER",
            "PIECEWISE",
        ),
        (
            {
                "backend": "FLASHINFER",
                "compute_capability": "10.0",
                "trtllm_kernels": True,
                "num_speculative_tokens": 2,
            },
            "UNIFORM_BATCH",
            "MAMBA2_ATTN",  # as weak as FlashInfer there, and its group comes first
            "FULL_AND_PIECEWISE",
        ),
        ({"platform": "cpu"}, "NEVER", "CPU_ATTN", "NONE"),
        ({"platform": "xpu"}, "UNIFORM_BATCH", "MAMBA2_ATTN", "NONE"),
        ({"model": "llama-3.1-8b"}, "ALWAYS", None, "FULL_AND_PIECEWISE"),
        (
            {"model": "llama-3.1-8b", "compute_capability": "8.0"},
            "UNIFORM_BATCH",
            "FLASH_ATTN",
            "FULL_AND_PIECEWISE",
        ),
        ({"model": "llama-3.1-8b", "enforce_eager": True}, "ALWAYS", None, "NONE"),
        ({"model": "llama-3.1-8b", "cudagraph_mode": "FULL"}, "ALWAYS", None, "FULL"),
        (
            {"model": "llama-3.1-8b", "compute_capability": "8.0", "cudagraph_mode": "FULL"},
            "UNIFORM_BATCH",
            "FLASH_ATTN",
            "FULL_AND_PIECEWISE",
        ),
        (
            {
                "model": "minimax-text-01",
                "cudagraph_mode": "FULL_DECODE_ONLY",
                "num_speculative_tokens": 2,
            },
            "UNIFORM_SINGLE_TOKEN_DECODE",
            "LINEAR_ATTN",
            "PIECEWISE",
        ),
        (
            {"model": "minimax-text-01"},
            "UNIFORM_SINGLE_TOKEN_DECODE",
            "LINEAR_ATTN",
            "FULL_AND_PIECEWISE",
        ),
    ],
)
def test_the_weakest_group_decides_what_is_captured(values, level, weakest, mode):
    plan = plan_of(**values)
    support = graph_support(plan, plan.cache)
    assert (support.level, support.backend, support.mode) == (level, weakest, mode)


TURBOQUANT = {"model": "llama-3.1-8b", "kv_cache_dtype": "turboquant_4bit_nc"}
HIDDEN = {"hidden_state_layers": 2, "num_speculative_tokens": 1}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_layers_of_one_group_may_have_two_backends(rules):
    """The first and the last two layers stay in bfloat16 and get a backend of their own."""
    plan = plan_of(**TURBOQUANT, rules=rules)
    assert [group.kind for group in plan.cache.groups] == ["UniformTypeKVCacheSpecs"]
    found = {group.backend: group.layers for group in attention_groups(plan, plan.cache)}
    assert found["FLASH_ATTN"] == tuple(f"model.layers.{n}.attn" for n in (0, 1, 30, 31))
    assert len(found["TURBOQUANT"]) == 28
    assert graph_support(plan, plan.cache).backend == "TURBOQUANT"
    step = next(step for step in plan.steps if step.rule.name == "plain_backend")
    assert (step.result, step.operands["layers"]) == ("FLASH_ATTN", [0, 1, 30, 31])


def test_a_kernel_block_suits_all_backends_of_a_group():
    """TURBOQUANT takes 16 to 128, FLASH_ATTN multiples of 16: 192 is cut into 64s for both."""
    plan = plan_of(**TURBOQUANT, block_size=192)
    ((_variant, _name, plain_sizes),) = [
        entry for entry in plan.layer_backends if entry[1] == plan.plain_backend
    ]
    assert plan.supported_kernel_block_sizes != plain_sizes
    assert plan.cache.kernel_block_sizes == (64,)


@pytest.mark.parametrize(
    ("values", "plain"),
    [
        ({"platform": "rocm"}, {"0.23": "ROCM_ATTN", "0.33": "TRITON_ATTN"}),
        ({"platform": "rocm", "backend": "TURBOQUANT"}, {"0.33": "TRITON_ATTN"}),
        ({"platform": "xpu"}, {"0.23": "FLASH_ATTN", "0.33": "FLASH_ATTN"}),
    ],
)
def test_plain_layers_share_the_layout_of_the_packed_ones_on_rocm(values, plain):
    """0.33 on ROCm: ROCM_ATTN reads no layout that TURBOQUANT reads, whatever is explicit."""
    for rules, backend in plain.items():
        plan = plan_of(**TURBOQUANT, **values, rules=rules)
        assert (plan.plain_backend, plan.errors) == (backend, ())


def test_explicit_skip_layers_reach_mla_only_since_0_33():
    kimi, deepseek = (
        {"model": name, "kv_cache_dtype": "fp8"}
        for name in ("kimi-linear-48b-a3b", "deepseek-v2-lite")
    )
    skips = {"kv_cache_dtype_skip_layers": ("3",)}
    assert plan_of(**deepseek, **skips).cache.grouping == plan_of(**deepseek).cache.grouping
    assert plan_of(**deepseek, **skips, rules="0.33").plain_backend == "FLASH_ATTN_MLA"
    # kimi_k3/nvidia has layers of its own
    assert plan_of(**kimi, **skips, rules="0.33").plain_backend is None


def test_hidden_states_are_never_captured_whole():
    plan = plan_of(**HIDDEN)
    support = graph_support(plan, plan.cache)
    assert (support.level, support.backend, support.mode) == (
        "NEVER",
        "CACHE_ONLY_ATTN",
        "PIECEWISE",
    )


def test_every_backend_declares_a_level():
    for backend in V0_23.backends.values():
        levels = {backend.cuda_graphs}
        if backend.cuda_graphs_where is not None:
            levels.add(backend.cuda_graphs_where[0])
        assert levels <= set(LEVELS), backend.name


def verdicts(**values):
    return {
        runner: [problem.code for problem in problems]
        for runner, problems in runner_verdicts(plan_of(**values)).items()
    }


def test_only_the_v2_runner_refuses_align_mode():
    aligned = {"enable_prefix_caching": True, "mamba_cache_mode": "align"}
    budget = {"max_num_batched_tokens": 8192}
    assert verdicts(**aligned, **budget) == {"v1": [], "v2": ["runner_without_feature"]}
    assert verdicts(enable_prefix_caching=True, **budget) == {"v1": [], "v2": []}
    assert verdicts() == {"v1": [], "v2": []}


def test_the_v2_runner_still_guesses_from_the_shape_of_two_blocks():
    two = {"platform": "rocm", "backend": "ROCM_ATTN", "num_gpu_blocks_override": 2}
    three = {**two, "num_gpu_blocks_override": 3}
    short = {"max_model_len": 16}
    assert verdicts(**two, **short)["v2"] != verdicts(**three, **short)["v2"]


def test_what_stops_the_engine_stops_both_runners():
    small = verdicts(kv_cache_memory_bytes=1)
    assert "not_enough_memory" in small["v1"]
    assert "not_enough_memory" in small["v2"]


@pytest.mark.parametrize("rules", RULE_SETS.releases)
def test_both_runners_are_judged_for_every_model(rules):
    for name in catalog_names():
        try:
            plan = wb.resolve(model=name, rules=rules)
        except wb.WorkbenchError:
            continue
        assert set(runner_verdicts(plan)) == set(RUNNERS), name
