"""The notebooks that people open: house rules, and real runs that a matrix file cannot express.

The other runs, with known answers, stand in notebooks/matrix.toml. The expected numbers are
vLLM's (reported logs and its own code), not the workbench's.
"""

from pathlib import Path

import pytest

from workbench.run.notebooks import check_notebook_source, run_notebook

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
NEMOTRON = "nemotron-3-nano-30b-a3b"


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_house_rules(path):
    assert check_notebook_source(path) == ()


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


TUNING = {
    "qwen": ({}, {"front": 6, "servers": 6, "block_size": 1088, "kept": 52}),
    "block-table-llama": (
        {"model": "llama-3.1-8b", "kernel": "block-table"},
        {"front": 1, "block_size": 16},
    ),
    "nemotron-tp4": (
        {"model": NEMOTRON, "tensor_parallel": 4, "kv_cache_memory": "30 GiB"},
        {"front": 6, "block_size": 2304},
    ),
    "kimi-rocm": (
        {"model": "kimi-linear-48b-a3b", "platform": "rocm", "prompt_tokens": 900},
        {"front": 4, "kept": 24},
    ),
}
SESSION = {
    "points": 216,
    "rows": 2,
    "measured_twice": 0,
    "all_correct": True,
    "design_agrees": True,
    "log_verdicts": ["known", "told", "agrees", "agrees"],
}


@pytest.mark.notebook
@pytest.mark.parametrize("case", TUNING)
def test_tuning_session(case, tmp_path):
    parameters, expected = TUNING[case]
    _run("07_tuning_session.ipynb", parameters, {**SESSION, **expected}, tmp_path)


@pytest.mark.notebook
def test_a_tuning_session_that_is_run_again_measures_nothing(tmp_path):
    parameters = {"results_folder": str(tmp_path), "model": "llama-3.1-8b"}
    _run("07_tuning_session.ipynb", parameters, SESSION, tmp_path)
    before = (tmp_path / "results.db").read_bytes()
    _run("07_tuning_session.ipynb", parameters, SESSION, tmp_path)
    assert (tmp_path / "results.db").read_bytes() == before


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
