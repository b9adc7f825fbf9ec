"""The hooks that guard a commit are the checks that CI makes, and both can fail."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = {
    hook["id"]: hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    for hook in repo["hooks"]
}


def recipe(target):
    lines = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)[1]
    return lines.replace("\\\n", " ")


def test_ci_makes_every_check_of_the_hooks():
    keys = re.search(r"^STRIPPED := (.*)$", MAKEFILE, re.MULTILINE)[1]
    assert f'--keep-id --extra-keys "{keys}"' in HOOKS["nbstripout"]["entry"]
    assert '--keep-id --extra-keys "$(STRIPPED)"' in recipe("style")
    source = HOOKS["notebook-source"]["entry"].partition("workbench")[2]
    assert f"workbench{source} notebooks" in recipe("style")
    assert "lint" in recipe("test")
    assert "not matrix" in recipe("test")
    assert recipe("test").count("not thorough") == 2
    assert "thorough" in recipe("thorough")
    assert "--matrix notebooks/matrix.toml" in recipe("matrix")


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("hook", ["nbstripout", "notebook-source"])
def test_a_hook_stops_a_notebook_with_outputs(hook, fixture_path, tmp_path):
    if not (ROOT / ".venv").exists():
        pytest.skip("the hooks run the tools of .venv, which make test builds")
    notebook = json.loads(fixture_path("good").read_text(encoding="utf-8"))
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    verify = ["--verify"] if hook == "nbstripout" else []
    command = [*shlex.split(HOOKS[hook]["entry"]), *verify, str(path)]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0
    notebook["cells"][3]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "3"}]
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode != 0


def test_no_notebook_and_no_browser_runs_where_make_test_does_not_look_for_them():
    folders = re.search(
        r"^ELSEWHERE = \$\(addprefix --ignore=tests/,(.*)\)$", MAKEFILE, re.MULTILINE
    )
    assert "$(ELSEWHERE)" in recipe("test")
    files = [file for name in folders[1].split() for file in (ROOT / "tests" / name).rglob("*.py")]
    assert files
    marked = re.compile(r"mark\.(notebook|browser)\b")
    assert [file for file in files if marked.search(file.read_text(encoding="utf-8"))] == []
