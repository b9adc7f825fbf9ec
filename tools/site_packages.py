"""What `tools/site_start.mjs` runs in Python for browsers: the page's packages, as bytecode."""

import io
import py_compile
import sys
import zipfile
from importlib import import_module
from pathlib import Path

PAGE = "workbench.site.page"
OWN = PAGE.partition(".")[0]


def archive(root: str) -> bytes:
    """Return a zip, not compressed, of the packages in a folder; sources are compiled.

    Of our own package it has the rooms that the page imports: the others launch kernels.
    """
    import_module(PAGE)
    rooms = {name.split(".")[1] for name in sys.modules if name.startswith(f"{OWN}.")}
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as packed:
        for path in sorted(Path(root).rglob("*")):
            name = path.relative_to(root)
            if path.is_dir() or path.suffix == ".pyc":
                continue
            if name.parts[0] == OWN and Path(name.parts[1]).stem not in {*rooms, "__init__"}:
                continue
            if path.suffix == ".py":
                packed.write(_compiled(path, name), name.with_suffix(".pyc"))
            else:
                packed.write(path, name)
    return made.getvalue()


def standard_modules() -> list[str]:
    """Return the modules of the standard library that the page imports."""
    import_module(PAGE)
    return [name for name in sys.modules if name.split(".")[0] in sys.stdlib_module_names]


def _compiled(path: Path, name: Path) -> str:
    # the page has no sources whose date could be compared
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    target = str(path.with_suffix(".pyc"))
    py_compile.compile(str(path), target, str(name), doraise=True, invalidation_mode=unchecked)
    return target
