"""Who may import whom, and what `import workbench` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = {
    "core": set(),
    "access": {"core"},
    "models": {"core", "access"},
    "views": {"core"},
    "kernels": set(),
    "run": {"core", "access", "kernels"},
    "interop": {"core", "access", "models"},
    "exercises": {"core", "access", "views", "kernels", "run", "face"},
    "commands": {"core", "access", "models", "views", "kernels", "run", "interop", "face"},
    "ui": {"core", "access", "models", "views", "kernels", "run", "interop", "face"},
}
"""Folder -> the folders whose modules it may import; `face` is what is next to the folders."""

PURE = {"core"}
"""Folders that import the standard library only."""

KERNEL_PACKAGES = {"torch", "triton", "numpy"}
HEAVY = ("torch", "triton", "plotly", "ipywidgets", "anywidget", "pydantic", "numpy", "IPython")


def sources(room):
    """[(path, dotted name)] of a folder's modules."""
    folder = ROOT / "kernels" if room == "kernels" else ROOT / "workbench" / room
    files = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return [(path, f"workbench.{room}." + path.stem) for path in files]


def imported_modules(path):
    """Absolute names of everything that a file imports, also inside functions and type checks."""
    relative = path.relative_to(ROOT)
    package = (
        relative.parent if relative.parts[0] == "workbench" else Path("workbench") / relative.parent
    )
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package.parts[: len(package.parts) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            if module == "workbench":
                yield from (f"workbench.{alias.name}" for alias in node.names)


def room_of(module):
    """The folder that a module of ours is in, "face" next to the folders, None for others."""
    head, *rest = module.split(".")
    if head == "kernels":
        return "kernels"
    if head != "workbench":
        return None
    return rest[0] if rest and rest[0] in ROOMS else "face"


@pytest.mark.parametrize("room", ROOMS)
def test_a_folder_imports_only_what_it_may(room):
    wrong = [
        (str(path.relative_to(ROOT)), module)
        for path, _ in sources(room)
        for module in imported_modules(path)
        if room_of(module) not in {None, room, *ROOMS[room]}
    ]
    assert wrong == []


def test_the_folders_are_the_ones_that_exist():
    found = {
        path.name
        for path in (ROOT / "workbench").iterdir()
        if path.is_dir() and any(path.glob("*.py"))
    }
    assert found <= set(ROOMS)
    assert {"core", "models", "views"} <= found


@pytest.mark.parametrize("room", sorted(PURE))
def test_the_rules_are_pure_python(room):
    used = {module.split(".")[0] for path, _ in sources(room) for module in imported_modules(path)}
    assert used <= set(sys.stdlib_module_names) | {"workbench"}
    assert not used & {"os", "io", "pathlib", "socket", "subprocess", "urllib", "tempfile"}


def test_the_kernels_need_torch_triton_and_numpy_only():
    used = {
        module.split(".")[0] for path, _ in sources("kernels") for module in imported_modules(path)
    }
    assert used <= set(sys.stdlib_module_names) | {"workbench", "kernels"} | KERNEL_PACKAGES


def test_nobody_imports_the_panels_but_the_public_face():
    importing = {
        room
        for room in ROOMS
        for path, _ in sources(room)
        if "ui" in {room_of(module) for module in imported_modules(path)}
    }
    assert importing <= {"ui"}


def test_transformers_is_imported_nowhere():
    face = [(path, path.stem) for path in (ROOT / "workbench").glob("*.py")]
    for path, _ in [*face, *(source for room in ROOMS for source in sources(room))]:
        names = {module.split(".")[0] for module in imported_modules(path)}
        assert "transformers" not in names
        assert not names & {"pickle", "marshal", "shelve", "dill"}


def test_the_check_sees_every_way_to_import(tmp_path, monkeypatch):
    folder = tmp_path / "workbench" / "core"
    folder.mkdir(parents=True)
    source = folder / "bad.py"
    source.write_text(
        "from __future__ import annotations\n"
        "import workbench.views.html\n"
        "from workbench import ui\n"
        "def late():\n"
        "    from workbench.models import read_model\n"
        "    from ..run import devices\n"
        "    from . import plan\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    rooms = {room_of(module) for module in imported_modules(source)}
    assert rooms == {None, "views", "face", "ui", "models", "run", "core"}


def loaded_after(statement):
    code = f"import sys\n{statement}\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_importing_the_workbench_loads_nothing_heavy():
    assert not loaded_after("import workbench").intersection(HEAVY)


def test_resolving_loads_neither_torch_nor_figures_nor_widgets():
    loaded = loaded_after("import workbench as wb; wb.resolve(wb.Scenario())")
    assert not loaded.intersection(set(HEAVY) - {"pydantic"})
    assert "workbench.core" in loaded


OPENING = {"open", "read_text", "read_bytes", "fdopen", "connect", "fromfile", "load", "FileIO"}
"""Names of functions that open a file for reading."""

OPENERS = {
    "access/files.py": "the one reader of files that a person names",
    "core/architectures.py": "the registries of the versions: data of the package",
    "exercises/exercise.py": "hints: data of the package",
    "interop/command_words.py": "flags of vLLM: data of the package",
    "models/catalog.py": "the catalog: data of the package",
    "views/html.py": "the style sheet: data of the package",
    "run/notebooks/schema.py": "the schema of results: data of the package",
    "run/sweeps/measuring.py": "the kernels' own source, to hash it",
    "run/notebooks/execute.py": "what the own worker left in a folder made for one run",
    "run/notebooks/worker.py": "the request that the runner wrote for this process",
    "run/notebooks/guard.py": "appends to a file that the runner named for this process",
    "run/notebooks/results.py": "merges into the file that the runner named for this process",
    "run/vllm_probe/__init__.py": "the standard output of the own process",
    "run/store/file.py": "SQLite, after the reader has looked at the file",
    "commands/app_server.py": "writes the page that opens the browser",
    "commands/results.py": "creates the file that the user names, and opens none that is there",
}
"""Every module that may open a file, and why; under workbench/, without the kernels."""

NO_FILES = {"self._tabs.open", "self.open"}
"""Tabs of the panel."""


def openings(path):
    """Source lines of calls that open a file: by a name of OPENING, unless it is a panel's."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            owner, _, name = called.rpartition(".")
            # Bare names other than `open` are the functions of the reader.
            if name in (OPENING if owner else {"open"}) and called not in NO_FILES:
                yield node.lineno, called


def test_only_the_reader_opens_a_file_that_a_person_names():
    folder = ROOT / "workbench"
    found = {
        str(path.relative_to(folder)): list(openings(path))
        for path in sorted(folder.rglob("*.py"))
        if "kernels" not in path.relative_to(folder).parts
    }
    found = {name: calls for name, calls in found.items() if calls}
    assert {name: calls for name, calls in found.items() if name not in OPENERS} == {}
    assert sorted(set(OPENERS) - set(found)) == []


@pytest.mark.parametrize(
    "call",
    ["open(path)", "Path(path).open()", "path.read_text()", "os.open(path, 0)", "io.open(path)"],
)
def test_the_check_sees_every_way_to_open(tmp_path, call):
    source = tmp_path / "bad.py"
    source.write_text(call, encoding="utf-8")
    assert [line for line, _ in openings(source)] == [1]
