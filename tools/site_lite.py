"""Make lessons that run in the visitor's browser: JupyterLite with the Python of the front door.

What a kernel imports, Pyodide loads as its lock file says. The one made here lists wheels of the
same folder, so that no other host is used.
"""

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import site_tools
from packaging.utils import canonicalize_name

ROOT = site_tools.ROOT
IN_BROWSER = (
    "01_block_size_alignment.ipynb",
    "03_capacity_and_prefix_hits.ipynb",
    "04_kv_offload.ipynb",
    "08_versions.ipynb",
    "09_chunks.ipynb",
    "lessons/01_order_of_initialisation.ipynb",
    "lessons/04_count_blocks_from_the_configuration.ipynb",
    "lessons/06_read_a_start_up_log.ipynb",
    "lessons/08_add_a_backend.ipynb",
    "lessons/09_find_the_fault_in_a_log.ipynb",
)
"""Notebooks without widgets, torch and numpy: the latter have no wheel for Pyodide here."""
REQUIRED = (
    *("asttokens", "comm", "executing", "ipython", "ipython-pygments-lexers"),
    *("jedi", "matplotlib-inline", "narwhals", "packaging", "parso", "plotly", "prompt-toolkit"),
    *("micropip", "pure-eval", "pygments", "stack-data", "traitlets", "wcwidth"),
)
"""What IPython and figures import, in the versions of constraints.txt."""
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<to>(?!https?:|#)[^)]*)\)")
"""To another file of the repository, in Markdown."""
KERNEL = "@jupyterlite/pyodide-kernel-extension"
OF_KERNEL = ("ipykernel", "piplite", "pyodide_kernel")
"""Wheels that the extension of the kernel brings."""


def add_lite(folder: Path, pyodide: Path, wheels: Path) -> None:
    """Write JupyterLite into a folder next to Pyodide; `wheels`: those for Pyodide."""
    with tempfile.TemporaryDirectory() as work:
        source = Path(work)
        site_tools.download(REQUIRED, wheels)
        extension = site_tools.installed() / "share" / "jupyter" / "labextensions" / KERNEL
        for name in IN_BROWSER:
            target = source / "files" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(in_browser(ROOT / "notebooks" / name), encoding="utf-8")
        build = {
            "apps": ["lab"],
            "contents": [str(source / "files")],
            "federated_extensions": [str(extension)],
            "ignore_sys_prefix": ["federated_extensions"],
            "no_sourcemaps": True,
            "no_unused_shared_packages": True,
            "output_dir": str(folder.absolute()),
        }
        write(source / "jupyter_lite_config.json", {"LiteBuildConfig": build})
        packages = dict(entry(path) for path in sorted(wheels.iterdir()))
        write(source / "jupyter-lite.json", settings(packages))
        site_tools.run_module("jupyterlite_core", "build", "--lite-dir", source)
    own = folder / "extensions" / KERNEL / "static" / "pypi"
    for name in OF_KERNEL:
        (wheel,) = own.glob(f"{name}-*.whl")
        packages.update([entry(wheel)])
        shutil.copy(wheel, wheels)
    shutil.rmtree(own)
    shutil.copytree(wheels, folder / "wheels")
    lock = json.loads((pyodide / "pyodide-lock.json").read_text(encoding="utf-8"))
    lock["packages"] = packages
    write(folder / "wheels" / "pyodide-lock.json", lock)


def in_browser(notebook: Path) -> str:
    """Return a notebook without the links to what JupyterLite does not have here."""
    here = {(ROOT / "notebooks" / name).resolve() for name in IN_BROWSER}

    def kept(link: re.Match[str]) -> str:
        found = (notebook.parent / link["to"]).resolve() in here
        return link[0] if found else f"{link['text']} (not in a browser)"

    content = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = LINK.sub(kept, "".join(cell["source"]))
    return json.dumps(content)


def write(path: Path, value: dict[str, Any]) -> None:
    """Write values of JSON."""
    path.write_text(json.dumps(value), encoding="utf-8")


def entry(wheel: Path) -> tuple[str, dict[str, Any]]:
    """Return a wheel as a package of Pyodide's lock file."""
    with ZipFile(wheel) as packed:
        (metadata,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        found = HeaderParser().parsestr(packed.read(metadata).decode())
    name = canonicalize_name(found["Name"])
    return name, {
        "name": name,
        "version": found["Version"],
        "file_name": wheel.name,
        "install_dir": "site",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "package_type": "package",
        "imports": [],
        "depends": [],
    }


def settings(packages: Iterable[str]) -> dict[str, Any]:
    """Return the settings of JupyterLite: the Python of this site, with these packages loaded."""
    kernel = {
        "pyodideUrl": "./../pyodide/pyodide.mjs",
        "pipliteUrls": [],
        "disablePyPIFallback": True,
        "loadPyodideOptions": {
            "lockFileURL": "./wheels/pyodide-lock.json",
            "packages": [*packages, *map(canonicalize_name, OF_KERNEL)],
            # plotly's other way to show a figure loads MathJax from another host
            "env": {"PLOTLY_RENDERER": "plotly_mimetype"},
        },
    }
    return {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "Hybrid KV Workbench",
            "litePluginSettings": {f"{KERNEL}:kernel": kernel},
        },
    }
