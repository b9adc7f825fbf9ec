"""What a newcomer looks for, or adds, is in one place.

Held elsewhere: a backend and a platform (`tests/test_how_to_add.py`), a release
(`tests/test_releases.py`), a scenario field (`tests/scenario/test_added_field.py`), a decided value
(`tests/core/test_decided_values.py`).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.source_trees import nodes_of
from workbench.core.versions import RULE_SETS

ROOT = Path(__file__).parents[1]
VERSIONS = ROOT / "workbench" / "core" / "versions"
MODULES = sorted((ROOT / "workbench").rglob("*.py"))
PROBES = ROOT / "workbench" / "verify" / "vllm_probe"
"""What runs inside an installed vLLM, whose modules differ between releases."""


def declares(path, backend):
    """Whether a module makes the record of a backend, or changes it for a release."""
    return any(
        (is_record(node) and is_word(node.args[0], backend))
        or (isinstance(node, ast.Dict) and any(is_word(key, backend) for key in node.keys))
        for node in nodes_of(path)
    )


def is_record(node):
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return is_call and node.func.id == "Backend" and node.args


def is_word(node, word):
    return isinstance(node, ast.Constant) and node.value == word


@pytest.mark.sampled(1)
@pytest.mark.parametrize("backend", ["FLASHINFER", "TRITON_ATTN", "FLASH_ATTN"])
def test_the_block_sizes_of_a_backend_are_in_its_record_and_in_what_a_release_changes(backend):
    found = [path for path in MODULES if declares(path, backend)]
    assert VERSIONS / "v0_23" / "backends.py" in found
    assert {path.parent.parent for path in found} == {VERSIONS}
    assert len(found) <= len(RULE_SETS.releases)


def test_only_its_own_folder_knows_a_release():
    outside = [path for path in MODULES if VERSIONS not in path.parents]
    assert len(outside) > 300
    imports = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in outside
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom) and re.search(r"\bv0_\d+\b", node.module or "")
    ]
    assert imports == []


def test_no_rule_asks_for_the_name_of_a_release():
    compared = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in MODULES
        if PROBES not in path.parents
        for node in nodes_of(path)
        if isinstance(node, ast.Compare)
        if any(is_word(side, name) for side in ast.walk(node) for name in RULE_SETS.releases)
    ]
    assert compared == []
