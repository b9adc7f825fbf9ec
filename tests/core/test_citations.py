"""Every step of a trace cites a place in vLLM that was read, and that exists.

The places are looked up in an installed vLLM where one is named: VLLM_SRC is its package folder,
WORKBENCH_VLLM_PYTHON the Python of its environment.
"""

from __future__ import annotations

import ast
import os
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest

from tests.models.configs import bamba, deepseek_v3, llama, qwen3_5
from workbench.core.errors import WorkbenchError
from workbench.core.flex import batch, plan
from workbench.core.tables.step import BLOCKS, SLOTS
from workbench.core.versions import RULE_SETS, V0_33
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.scenario import random_scenarios

FIND = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"
OUTSIDE_THE_PLAN = {
    batch.READ_AT,
    plan.READ_AT,
    *(read_at for _rule, read_at in (*SLOTS.values(), *BLOCKS.values())),
}
"""Citations of steps outside a resolution."""


DRAFTS = {"speculative_method": "draft_model", "num_speculative_tokens": 1}
PACKED = {"kv_cache_dtype": "turboquant_k8v4"}
SELDOM = (
    {"model": "openai/whisper-large-v3"},
    {"model": "qwen3-8b", "backend": "FLEX_ATTENTION", "batch_invariant": True},
    {"model": llama(), "draft_model": llama(max_position_embeddings=1024), **DRAFTS},
    {"model": bamba(), "draft_model": bamba(), **DRAFTS},
    {"model": bamba(), "mamba_cache_mode": "all", "enable_prefix_caching": True},
    {"model": "qwen3.5-4b", "platform": "xpu", **PACKED},
    {"model": "jamba-1.5-mini", "kv_cache_dtype_skip_layers": ("0", "1"), **PACKED},
    {"model": deepseek_v3(), "platform": "cpu", "backend": "CPU_MLA"},
    {"model": "deepseek-v3.2", "kv_cache_dtype": "fp8"},
    {"model": deepseek_v3(), "tensor_parallel": 2, "decode_context_parallel": 2},
    {"model": llama(), "max_model_len": -1, "kv_cache_memory_bytes": 2**25},
)
"""Scenarios with steps that random ones hardly ever have."""


@cache
def steps_of(name):
    """Return a step of every rule that many plans of a version have."""
    found = {}
    for fields in (*map(Scenario.stated, random_scenarios(200, 1, name)), *SELDOM):
        with suppress(WorkbenchError):
            scenario = Scenario(**fields | {"rules": name})
            found |= {step.rule: step for step in resolve(scenario).trace}
    return tuple(found.values())


@pytest.mark.parametrize("name", RULE_SETS)
def test_every_step_cites_a_place(name):
    for step in steps_of(name):
        assert step.citation is not None, step.rule.name
        assert step.citation.file.endswith(".py")
        assert step.citation.functions


def test_every_rule_that_is_cited_is_a_step_of_some_plan():
    cited = {rule for rules in RULE_SETS.values() for rule in rules.citations}
    assert cited - {step.rule for name in RULE_SETS for step in steps_of(name)} == set()


@pytest.mark.parametrize("name", RULE_SETS.releases)
def test_a_release_cites_what_was_read_in_it(name):
    assert {step.citation.read_in for step in steps_of(name)} == {name}


def test_a_later_version_says_what_was_not_read_again():
    rules = V0_33.successor("0.99")
    RULE_SETS.add(rules.name, rules)
    try:
        trace = resolve(model=qwen3_5(), rules="0.99").trace
    finally:
        RULE_SETS.remove(rules.name)
    assert all(step.source.startswith("vLLM 0.99, as in 0.33, ") for step in trace)


def test_what_was_read_again_replaces_what_was_not():
    rule, old = next(iter(V0_33.citations.items()))
    read = old._replace(read_in="0.99", functions=("renamed",))
    rules = V0_33.successor("0.99", citations={rule: read})
    assert str(rules.citations[rule]) == f"vLLM 0.99, {old.file}: renamed"


def package_folder():
    """The installed vllm package that the environment names; None without one."""
    if folder := os.environ.get("VLLM_SRC"):
        return Path(folder)
    if python := os.environ.get("WORKBENCH_VLLM_PYTHON"):
        done = subprocess.run([python, "-c", FIND], capture_output=True, text=True, check=True)
        return Path(done.stdout.split()[-1])
    return None


def release_of(folder):
    """ "0.33" of a folder next to its metadata, as pip leaves it."""
    (metadata,) = folder.parent.glob("vllm-*.dist-info")
    return ".".join(metadata.name.removeprefix("vllm-").split(".")[:2])


def is_defined(source, dotted):
    """Return whether a module defines a function or class of this dotted name."""
    body = ast.parse(source).body
    for name in dotted.split("."):
        found = [node for node in body if getattr(node, "name", None) == name]
        if not found:
            return False
        body = found[-1].body
    return True


def test_a_name_that_is_not_there_is_found():
    source = "class A:\n    def b(self): ...\ndef c(): ...\n"
    assert [is_defined(source, name) for name in ("A.b", "c", "A.c", "b")] == [1, 1, 0, 0]


@pytest.mark.skipif(package_folder() is None, reason="VLLM_SRC names no folder")
def test_every_place_is_in_the_installed_vllm():
    folder = package_folder()
    release = release_of(folder)
    every = {citation for rules in RULE_SETS.values() for citation in rules.citations.values()}
    cited = {one for one in every | OUTSIDE_THE_PLAN if one.read_in == release}
    assert cited, f"nothing was read in {release}"
    assert [str(citation) for citation in cited if not (folder / citation.file).is_file()] == []
    missing = [
        (citation.file, name)
        for citation in cited
        for name in citation.functions
        if not is_defined((folder / citation.file).read_text(encoding="utf-8"), name)
    ]
    assert missing == []
