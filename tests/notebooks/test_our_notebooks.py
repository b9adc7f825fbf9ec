"""The notebooks that people open: house rules, and real runs through papermill with known answers.

The expected numbers are vLLM's (reported logs and its own code), not the workbench's.
"""

from pathlib import Path

import pytest

from workbench.run.notebooks import check_notebook_source, run_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEMOTRON = "nemotron-3-nano-30b-a3b"

START = {
    "nemotron-cuda-tp4": (
        {"model": NEMOTRON, "tensor_parallel": 4},
        {"block_size": 1056, "kernel_block_size": 32, "problems": []},
    ),
    "nemotron-xpu-tp4": (
        {"model": NEMOTRON, "platform": "xpu", "backend": "FLASH_ATTN", "tensor_parallel": 4},
        {"block_size": 1088, "kernel_block_size": 64, "problems": []},
    ),
    "qwen3-next-tp1": (
        {"model": "qwen3-next-80b-a3b", "tensor_parallel": 1},
        {"block_size": 544, "kernel_block_size": 544},
    ),
    "qwen3-next-flashinfer": (
        {"model": "qwen3-next-80b-a3b", "backend": "FLASHINFER", "tensor_parallel": 1},
        {"block_size": 544, "kernel_block_size": 32},
    ),
    "kimi-flashmla": (
        {"model": "kimi-linear-48b-a3b", "backend": "FLASHMLA", "tensor_parallel": 1},
        {"block_size": 1920, "kernel_block_size": 64},
    ),
    "flex-attention": (
        {"model": "bamba-9b", "backend": "FLEX_ATTENTION", "tensor_parallel": 1},
        {"block_size": 528, "problems": ["flex_block_not_power_of_2"]},
    ),
    "ordinary-decoder": (
        {"model": "llama-3.1-8b", "tensor_parallel": 1},
        {"block_size": 16, "padding_percent": None, "problems": []},
    ),
    "pure-mamba": (
        {"model": "mamba-codestral-7b", "tensor_parallel": 1},
        {"block_size": 16, "kernel_block_size": None, "problems": []},
    ),
}

ALIGNMENT = {
    "nemotron-tp1": ({"model": NEMOTRON, "tensor_parallel": 1}, {"block_size": 2096}),
    "nemotron-tp1-fp8": (
        {"model": NEMOTRON, "tensor_parallel": 1, "kv_cache_dtype": "fp8"},
        {"block_size": 4176},
    ),
    "qwen3.5-4b": (
        {"model": "qwen3.5-4b", "tensor_parallel": 1},
        {"block_size": 528, "page_bytes": 2_162_688},
    ),
    "qwen3.5-4b-xpu": (
        {"model": "qwen3.5-4b", "platform": "xpu", "tensor_parallel": 1},
        {"block_size": 576, "page_bytes": 2_359_296},
    ),
    "kimi-flash-attn-mla": (
        {"model": "kimi-linear-48b-a3b", "backend": "FLASH_ATTN_MLA", "tensor_parallel": 1},
        {"block_size": 1888},
    ),
    "equal-pages": (
        {"model": "qwen3.5-35b-a3b", "tensor_parallel": 1, "kv_cache_dtype": "fp8"},
        {"block_size": 2096, "page_bytes": 2_146_304},
    ),
    "lightning-attention": (
        {"model": "minimax-text-01", "tensor_parallel": 8},
        {"block_size": 512},
    ),
}

CAPACITY = {
    "qwen3.5-4b": (
        {"model": "qwen3.5-4b", "tensor_parallel": 1, "mamba_cache_mode": "align"},
        {"num_blocks": 1241, "blocks_per_request": 69, "printed_tokens": 589_349},
    ),
    "nemotron-tp1": (
        {"model": NEMOTRON, "tensor_parallel": 1, "mamba_cache_mode": "align"},
        {"num_blocks": 1667, "blocks_per_request": 24, "printed_tokens": 2_276_010},
    ),
    "nemotron-tp4": (
        {"model": NEMOTRON, "tensor_parallel": 4, "mamba_cache_mode": "align"},
        {"num_blocks": 6619, "blocks_per_request": 40, "printed_tokens": 5_422_284},
    ),
    "qwen3-next": (
        {"model": "qwen3-next-80b-a3b", "tensor_parallel": 1, "max_model_len": 262_144},
        {"num_blocks": 1606, "blocks_per_request": 488, "printed_tokens": 862_711},
    ),
    "kimi-flashmla": (
        {
            "model": "kimi-linear-48b-a3b",
            "backend": "FLASHMLA",
            "tensor_parallel": 1,
            "max_model_len": 131_072,
        },
        {"num_blocks": 1387, "blocks_per_request": 75, "printed_tokens": 2_423_958},
    ),
    "ordinary-decoder": (
        {"model": "llama-3.1-8b", "tensor_parallel": 1},
        {"num_blocks": 10_240, "groups": 1, "printed_tokens": 163_840, "smallest_prefix": 16},
    ),
}

ROCM_FIRST = {"platform": "rocm", "backend": "ROCM_ATTN"}
LAYOUTS = {
    "kv-first-3-blocks": ({**ROCM_FIRST, "num_blocks": 3}, True, True),
    "kv-first-1-block": ({**ROCM_FIRST, "num_blocks": 1}, True, False),
    "kv-first-2-blocks": ({**ROCM_FIRST, "num_blocks": 2}, True, True),
    "kv-second": ({"platform": "cuda", "backend": "FLASH_ATTN"}, False, False),
    "kernel-blocks": ({"platform": "cuda", "backend": "FLASHINFER"}, False, False),
    "hnd": ({"platform": "cuda", "backend": "TRITON_ATTN", "layout": "HND"}, False, False),
    "flex": ({"platform": "cuda", "backend": "FLEX_ATTENTION"}, False, False),
    "xpu-delta-net": (
        {"platform": "xpu", "backend": "", "model": "qwen3.5-4b", "tensor_parallel": 1},
        False,
        False,
    ),
}
"""Case -> parameters, whether the strides are rewritten, whether blocks mix without that."""


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_house_rules(path):
    assert check_notebook_source(path) == ()


@pytest.mark.notebook
@pytest.mark.parametrize("case", START)
def test_start(case, tmp_path):
    parameters, expected = START[case]
    _run("00_start.ipynb", parameters, {**expected, "panel_errors": 0}, tmp_path)


@pytest.mark.notebook
@pytest.mark.parametrize("case", ALIGNMENT)
def test_block_size_alignment(case, tmp_path):
    parameters, expected = ALIGNMENT[case]
    expected = {**expected, "before_37467": ["pages_not_equal"], "after_37467": 1088}
    _run("01_block_size_alignment.ipynb", parameters, expected, tmp_path)


@pytest.mark.notebook
@pytest.mark.parametrize("case", CAPACITY)
def test_capacity_and_prefix_hits(case, tmp_path):
    parameters, expected = CAPACITY[case]
    _run("03_capacity_and_prefix_hits.ipynb", parameters, expected, tmp_path)


@pytest.mark.notebook
@pytest.mark.parametrize("case", LAYOUTS)
def test_page_layouts(case, tmp_path):
    parameters, rewritten, mixed = LAYOUTS[case]
    expected = {
        "rewritten": rewritten,
        "without_rewrite": mixed,
        "misplaced": 0,
        "misplaced_states": 0,
        "larger_misplaced": 0,
        "guess_corrupts": True,
        "other_runner": "Cannot determine layout",
    }
    _run("02_page_layouts.ipynb", parameters, expected, tmp_path)


PLAIN = {"tensor_parallel": 1, "kv_cache_dtype": "auto", "block_size": 16}
QWEN = {**PLAIN, "model": "qwen3.5-4b"}
OFFLOAD = {
    "refused-and-remedied": (
        QWEN,
        {
            "problems": ["offload_hash_block_size"],
            "hash_block": 1_081_344,
            "remedy": ["enable_prefix_caching"],
            "starts_after_remedy": True,
            "cpu_blocks": 3971,
            "num_blocks": 1241,
        },
    ),
    "larger-blocks": (
        {
            **QWEN,
            "prefix_caching": True,
            "offloaded_block_size": 1056,
            "host_memory": "10 GiB",
        },
        {"problems": [], "hash_block": 528, "remedy": [], "factor": 2, "cpu_blocks": 310},
    ),
    "no-multiple": (
        {**QWEN, "prefix_caching": True, "offloaded_block_size": 1000},
        {
            "problems": ["offload_block_not_multiple"],
            "remedy": [],
            "starts_after_remedy": False,
            "cpu_blocks": None,
        },
    ),
    "nemotron-tp4-to-tp1": (
        {"model": NEMOTRON, "tensor_parallel": 4, "decode_tensor_parallel": 1},
        {
            "side_blocks": [2112, 4192],
            "transfer_legal": False,
            "num_blocks": 6619,
            "shape_blocks_first": 6619 * 33,
        },
    ),
    "nemotron-other-dtype": (
        {"model": NEMOTRON, "tensor_parallel": 1, "decode_kv_cache_dtype": "auto"},
        {"side_blocks": [4192, 2112], "transfer_legal": False},
    ),
    "ordinary-decoder": (
        {**PLAIN, "model": "llama-3.1-8b"},
        {
            "problems": [],
            "remedy": [],
            "hash_block": 16,
            "num_blocks": 10_240,
            "shape_blocks_first": 10_240,
            "cpu_blocks": 32_768,
        },
    ),
}


@pytest.mark.notebook
@pytest.mark.parametrize("case", OFFLOAD)
def test_kv_offload(case, tmp_path):
    parameters, expected = OFFLOAD[case]
    _run("04_kv_offload.ipynb", parameters, expected, tmp_path)


TABLES = {
    "nemotron-tp4": (
        {"model": NEMOTRON, "tensor_parallel": 4},
        {"block_size": 1056, "ratio": 33, "requests": 5, "new_tokens": 1403},
    ),
    "qwen-flashinfer-align": (
        {
            "model": "qwen3.5-4b",
            "backend": "FLASHINFER",
            "tensor_parallel": 1,
            "prefix_caching": True,
            "batch": "q90_2q1s1200",
        },
        {"block_size": 528, "ratio": 33, "requests": 3, "new_tokens": 92},
    ),
    "kimi-faithful": (
        {
            "model": "kimi-linear-48b-a3b",
            "backend": "FLASHMLA",
            "tensor_parallel": 1,
            "batch": "2q1s2000",
            "path": "faithful",
        },
        {"block_size": 1920, "ratio": 30, "requests": 2, "new_tokens": 2},
    ),
}


@pytest.mark.notebook
@pytest.mark.parametrize("case", TABLES)
def test_block_tables(case, tmp_path):
    parameters, expected = TABLES[case]
    _run("05_block_tables.ipynb", parameters, {**expected, "agrees": True}, tmp_path)


ORDERS = {
    "orders": [[4, 11], [11, 4], [4, 11]],
    "different_bits": True,
    "different_bits_of_our_kernel": 0,
}
FLEX = {
    "bamba": (
        {"model": "bamba-9b"},
        {
            "block_size": 528,
            "build": "generic",
            "tile": [16, 16],
            "problems": ["flex_block_not_power_of_2"],
        },
    ),
    "llama": (
        {"model": "llama-3.1-8b"},
        {"block_size": 16, "build": "direct", "tile": [16, 16], "problems": []},
    ),
    "small-device": (
        {"model": "qwen3-next-80b-a3b", "shared_memory_kib": 99, "kv_mask_block": 64},
        {"block_size": 544, "build": "generic", "tile": [16, 32]},
    ),
}


@pytest.mark.notebook
@pytest.mark.parametrize("case", FLEX)
def test_flex_attention(case, tmp_path):
    parameters, expected = FLEX[case]
    _run("06_flex_attention.ipynb", parameters, {**expected, **ORDERS}, tmp_path)


TYPED = {"enable_prefix_caching", "mamba_cache_mode", "mamba_block_size", "scheduler_block_size"}
"""What the new default of prefix caching changes for every hybrid."""
VERSIONS = {
    "kimi": ({}, {"block_size": [1888, 1920], "kernel_block_size": [1888, 1920]}, []),
    "kimi-flashmla": ({"backend": "FLASHMLA"}, {}, []),
    "nemotron": ({"model": NEMOTRON}, {"kernel_block_size": [16, 2096]}, []),
    "qwen3.5-27b": ({"model": "qwen3.5-27b"}, {"kernel_block_size": [16, 784]}, []),
    "llama": ({"model": "llama-3.1-8b"}, None, []),
    "bamba": ({"model": "bamba-9b"}, None, ["architecture_not_served"]),
    "nemotron-xpu-before": (
        {"model": NEMOTRON, "platform": "xpu", "tensor_parallel": 4, "old": "before-37467"},
        {"block_size": [64, 1088]},
        [],
    ),
}


@pytest.mark.notebook
@pytest.mark.parametrize("case", VERSIONS)
def test_versions(case, tmp_path):
    parameters, sizes, errors = VERSIONS[case]
    given = {**parameters, "smoke": True}
    expected = {"new_errors": errors}
    notebook = NOTEBOOKS / "08_versions.ipynb"
    result = run_notebook(notebook, given, output_dir=tmp_path, expect=expected)
    assert result.problems == ()
    assert result.ok
    results = result.results
    changed = results["differences"]
    if sizes is None:
        assert changed == {}
        return
    assert set(changed) >= TYPED
    for name in ("block_size", "kernel_block_size"):
        if name in sizes or case != "nemotron-xpu-before":
            assert changed.get(name) == sizes.get(name)


@pytest.mark.notebook
def test_full_size_run_without_parameters(tmp_path):
    result = run_notebook(NOTEBOOKS / "00_start.ipynb", {"smoke": False}, output_dir=tmp_path)
    assert result.problems == ()


@pytest.mark.notebook
def test_a_wrong_number_is_caught(tmp_path):
    result = run_notebook(
        NOTEBOOKS / "00_start.ipynb",
        {"smoke": True},
        output_dir=tmp_path,
        expect={"block_size": 1055},
    )
    assert [problem.kind for problem in result.problems] == ["unexpected_result"]


def _run(name, parameters, expected, folder):
    result = run_notebook(
        NOTEBOOKS / name, {**parameters, "smoke": True}, output_dir=folder, expect=expected
    )
    assert result.problems == ()
    assert result.ok
