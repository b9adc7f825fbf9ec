"""Make the front door as a page: a folder of static files that any web server can serve.

    make site                              # test-output/site
    python tools/site.py FOLDER --models qwen3.5-4b,bamba-9b

Everything that the page needs is in the folder, so it asks no other host: Python for browsers
(Pyodide, from npm), started once here, and the bytecode of pydantic in the locked version and of
this checkout. Needs npm, node and pip, and what they download once stays in their caches.
"""

import argparse
import base64
import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from site_board import board
from site_docs import add_docs, add_releases
from site_lite import add_lite
from site_pages import FOLDER as PAGE
from site_pages import PAGES, page
from site_tools import download, run

from workbench.models.catalog import catalog_names

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "test-output" / "site"
DOOR = ROOT / "workbench" / "door"
FILES = (
    *(PAGE / name for name in ("page.css", "page.js", "worker.js", "forms.css")),
    *(PAGE / name for name in ("board.js", "log.js")),
    *(DOOR / name for name in ("front_door.css", "front_door.js")),
)
PYODIDE = "314.0.7"
PYODIDE_SHA512 = (
    "0YvXxEhfEdpLfb/XkM2BFAeMROq0iMUX2bzzH9pOttyMcWkwq+HbE5uyuGD82LN7y2q+SNvi/6V5JEsOlD2R1A=="
)
RUNTIME = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)
REQUIRED = (
    *("annotated-types", "pydantic", "pydantic-core"),
    *("typing-extensions", "typing-inspection"),
)
"""What the rules, the readers and the front door import."""
LEFT = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--models", help="of the leader board; default: the whole catalog")
    parser.add_argument("--notebooks", action="store_true", help="run the notebooks of the pages")
    args = parser.parse_args()
    folder: Path = args.folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in FILES:
        shutil.copy(file, folder)
    for one in PAGES:
        (folder / one.file).write_text(page(one), encoding="utf-8")
    with tempfile.TemporaryDirectory() as work:
        wheels = Path(work) / "wheels"
        add_pyodide(folder / "pyodide", Path(work))
        add_wheels(wheels, Path(work))
        run(["node", ROOT / "tools" / "site_start.mjs", folder, wheels])
        add_lite(folder / "lite", folder / "pyodide", wheels)
    add_docs(folder / "docs", run_notebooks=args.notebooks)
    add_releases(folder, run_notebooks=args.notebooks)
    models = args.models.split(",") if args.models else catalog_names()
    text = json.dumps(board(models), separators=(",", ":"))
    (folder / "board.json").write_text(text, encoding="utf-8")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{folder}: {size / 2**20:.1f} MiB. Try it: python -m http.server --directory {folder}")
    return 0


def add_pyodide(folder: Path, work: Path) -> None:
    """Put Python for browsers into the folder. Errors: SystemExit for another archive."""
    run(["npm", "pack", "--silent", f"pyodide@{PYODIDE}", "--pack-destination", work])
    (archive,) = work.glob("pyodide-*.tgz")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if digest != PYODIDE_SHA512:
        raise SystemExit(f"{archive.name} has the SHA-512 {digest}. Expected {PYODIDE_SHA512}.")
    folder.mkdir()
    with tarfile.open(archive) as packed:
        for name in RUNTIME:
            source = packed.extractfile(f"package/{name}")
            assert source is not None
            (folder / name).write_bytes(source.read())


def add_wheels(folder: Path, work: Path) -> None:
    """Put the wheels into the folder: the locked requirements, and this checkout."""
    download(REQUIRED, folder)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    # of a copy, as a build folder here may hold modules that are gone
    source = work / "source"
    shutil.copytree(ROOT / "workbench", source / "workbench", symlinks=True, ignore=LEFT)
    shutil.copytree(ROOT / "kernels", source / "kernels", ignore=LEFT)
    for name in ("pyproject.toml", "setup.py", "LICENSE", "README.md"):
        shutil.copy(ROOT / name, source)
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source])


if __name__ == "__main__":
    sys.exit(main())
