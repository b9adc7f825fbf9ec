"""Notebooks as pages of the documentation, with the outputs of a run where there is one.

A run is kept by what it was made from, so that only what changed runs again.
"""

import hashlib
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from site_lite import IN_BROWSER

from workbench.notebooks.page import HIDDEN_CELL, HIDDEN_INPUT, SHOWN

ROOT = Path(__file__).parents[1]
NOTEBOOKS = (*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks/lessons").glob("*.ipynb"))
RUNS = ROOT / "test-output" / "site-notebooks"
WORKERS = 2
SMOKE = "smoke=true"
"""The small sizes that CI uses; a page says so."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@cache
def sources() -> bytes:
    """Return a digest of all that a notebook can import."""
    folders = (ROOT / name for name in ("workbench", "kernels"))
    files = (path for folder in folders for path in sorted(folder.rglob("*")))
    digest = hashlib.sha256((ROOT / "constraints.txt").read_bytes())
    for path in files:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.read_bytes())
    return digest.digest()


def run_of(notebook: Path) -> Path:
    """Return where the run of a notebook is kept: named by it and by all that it can import."""
    digest = hashlib.sha256(notebook.read_bytes() + sources())
    return RUNS / digest.hexdigest()[:20] / f"{notebook.stem}.executed.ipynb"


def run_all() -> None:
    """Run every notebook that has no run. Errors: SystemExit with the output of one that fails."""
    RUNS.mkdir(parents=True, exist_ok=True)
    missing = {path: to for path in NOTEBOOKS if not (to := run_of(path)).exists()}
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(_run, missing, missing.values()))


def _run(notebook: Path, to: Path) -> None:
    command = [sys.executable, "-m", "workbench", "notebook", "run", notebook, "-p", SMOKE]
    done = subprocess.run(
        [*command, "--output", to.parent], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        to.unlink(missing_ok=True)
        raise SystemExit(done.stdout + done.stderr)
    print(f"ran {notebook.relative_to(ROOT)}")


def as_markdown(notebook: Path) -> str:
    """Return a notebook as Markdown: what readers see of it, and the outputs as HTML."""
    run = run_of(notebook)
    has_run = run.exists()
    source = run if has_run else notebook
    cells = json.loads(source.read_text(encoding="utf-8"))["cells"]
    shown = [cell for cell in cells if HIDDEN_CELL not in _tags(cell)]
    first, *rest = (part for cell in shown for part in _parts(cell))
    note = (
        f"These outputs were made with `{SMOKE}`, the small sizes that CI uses."
        if has_run
        else "This page shows no outputs: `make site SITE_ARGS=--notebooks` runs the notebooks."
    )
    link = f"[{notebook.name}]({notebook.name}){{ download }}"
    name = notebook.relative_to(ROOT / "notebooks").as_posix()
    if name in IN_BROWSER:
        up = "../" * (2 + name.count("/"))
        where = f'<a href="{up}lite/lab/index.html?path={name}">run it in this browser</a>'
    else:
        where = "not in a browser: it needs torch, numpy or widgets"
    return "\n\n".join([first, f"{link} ({where}). {note}\n{{ .notebook-note }}", *rest]) + "\n"


def _tags(cell: dict[str, Any]) -> list[str]:
    tags: list[str] = cell["metadata"].get("tags", [])
    return tags


def _parts(cell: dict[str, Any]) -> list[str]:
    """Return the Markdown of one cell, a part for its source and one per output."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [source]
    # the cell that a run adds for the parameters repeats what the page says in words
    if "injected-parameters" in _tags(cell):
        return []
    code = [] if HIDDEN_INPUT in _tags(cell) else [f"```python\n{source}\n```"]
    outputs = "\n".join(_output(output) for output in cell["outputs"])
    start = '<div class="notebook-output" tabindex="0" data-search-exclude>'
    return [*code, f"{start}\n{outputs}\n</div>"] if outputs else code


def _output(output: dict[str, Any]) -> str:
    """Return an output as HTML: its first type that a page shows, or its text."""
    data = output.get("data", {})
    kind = next((kind for kind in SHOWN if kind in data), None)
    if kind in ("text/html", "image/svg+xml"):
        return "".join(data[kind])
    if kind and kind.startswith("image/"):
        return f'<img alt="{escape(output_text(data))}" src="data:{kind};base64,{data[kind]}">'
    return f"<pre>{escape(output_text(data, output))}</pre>"


def output_text(data: dict[str, Any], output: dict[str, Any] | None = None) -> str:
    """Return the words of an output without colours of a terminal."""
    text = (output or {}).get("text") or data.get("text/markdown") or data.get("text/plain", "")
    return COLOURS.sub("", "".join(text))
