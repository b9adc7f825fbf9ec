"""docs/how_to_add.md to its end: every block is run, through the public registries alone.

Each part runs in its own process, as a file, so that it leaves no entry.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "how_to_add.md").read_text(encoding="utf-8")
PARTS = dict(
    re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
)  # fmt: skip
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def blocks(part, language):
    return "\n".join(text for name, text in BLOCK.findall(PARTS[part]) if name == language)


def test_the_four_parts_are_there():
    assert list(PARTS) == ["A backend", "A platform", "A model family", "A mask"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_can_be_followed_to_its_end(part, tmp_path):
    script = tmp_path / "followed.py"
    script.write_text(blocks(part, "python"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == blocks(part, "text").replace("\n\n", "\n")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_says_where_to_keep_it_and_what_to_run(part):
    text = PARTS[part]
    assert "**To keep it**" in text
    assert "**Then run** `pytest " in text
    named = re.findall(r"`((?:workbench|kernels|tests)/[\w/.]+)`", text)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
    tested = re.search(r"\*\*Then run\*\* `pytest ([^`]+)`", text)[1].split()
    assert all((ROOT / path).exists() for path in tested)


@pytest.mark.parametrize("part", PARTS)
def test_only_public_registries_are_used(part):
    code = blocks(part, "python")
    assert not re.search(r"\._|import _|monkeypatch|setattr|__dict__", code)
    assert re.search(r"\.add\(|register\(|Mask\(", code)
