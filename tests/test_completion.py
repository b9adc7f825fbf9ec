"""A real shell completes commands, models of the catalog and scenario fields."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.models import catalog_names
from workbench.scenario import FIELDS

PRESS_TAB = """
eval "$(workbench --show-completion bash)"
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_workbench_completion workbench
printf "%s\\n" "${COMPREPLY[@]}"
"""


@pytest.mark.sampled(2)
@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["co"], ["coverage"]),
        (["resolve", "qwen3.5-"], [one for one in catalog_names() if one.startswith("qwen3.5-")]),
        (["resolve", "no-such-"], []),
        (
            ["resolve", "qwen3.5-4b", "-s", "tensor"],
            [f"{name}=" for name in FIELDS if name.startswith("tensor")],
        ),
        (["sweep", "-a", "kv_cache_d"], ["kv_cache_dtype=", "kv_cache_dtype_skip_layers="]),
    ],
)
def test_bash_completes(words, expected):
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    found = subprocess.run(
        ["bash", "--norc", "-c", PRESS_TAB, "bash", "workbench", *words],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": path},
    )
    assert found.stdout.split() == expected
    assert found.stderr == ""
