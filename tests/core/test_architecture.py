"""Who may import whom, and what `import workbench` costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.source_trees import nodes_of, parsed

ROOT = Path(__file__).parents[2]
ROOMS = {
    "core": set(),
    "access": {"core"},
    "models": {"core", "access"},
    "scenario": {"core", "access", "models"},
    "views": {"core", "scenario"},
    "kernels": set(),
    "labs": {"core", "views", "kernels"},
    "sweeps": {"core", "access", "scenario", "models", "views", "kernels", "labs", "face"},
    "verify": {"core", "access", "scenario", "models", "interop"},
    "notebooks": {"core", "access"},
    "interop": {"core", "access", "scenario", "models", "views", "sweeps", "face"},
    "exercises": {
        *("core", "access", "models", "views", "kernels", "labs"),
        *("scenario", "interop"),
    },
    "commands": {
        *("core", "access", "models", "views", "kernels", "labs", "sweeps", "verify"),
        *("scenario", "notebooks", "interop", "face"),
    },
    "door": {"core", "access", "models", "scenario", "interop", "views"},
    "site": {"core", "access", "scenario", "interop", "views", "door", "face"},
    "ui": {
        *("core", "access", "models", "views", "kernels", "labs", "sweeps", "verify"),
        *("scenario", "interop", "door"),
    },
}
"""Folder -> the folders whose modules it may import; `face` is what is next to the folders."""

NAMED_ONLY = {"core": {"scenario"}, "views": {"kernels"}}
"""Folder -> the folders whose types it may name in addition, under TYPE_CHECKING."""

SHOWS_ITSELF = {
    "core/plan.py": {
        "_repr_html_": {"workbench.views.summary"},
        "to_vllm_args": {"workbench.interop.commands.vllm_args"},
        "to_vllm_command": {"workbench.interop.commands.vllm_args"},
        "to_code": {"workbench.interop.commands.code"},
    },
    "core/plan_answers.py": {
        "figure": {"workbench.views.pages.figure"},
        "link": {"workbench.scenario.links"},
    },
    "core/byte_map/tensors.py": {
        "__repr__": {"workbench.views.bytes.text"},
        "_repr_html_": {"workbench.views.bytes.text"},
        "describe": {"workbench.views.bytes.text"},
    },
    "core/capacity/cache_plan.py": {
        "__repr__": {"workbench.views.capacity.html"},
        "_repr_html_": {"workbench.views.capacity.html"},
    },
    "core/layouts/shared_tensor.py": {
        "__repr__": {"workbench.views.pages.layout_text"},
        "_repr_html_": {"workbench.views.pages.layout_text"},
    },
    "core/chunks/answer.py": {
        "__repr__": {"workbench.views.chunks.html"},
        "_repr_html_": {"workbench.views.chunks.html"},
    },
    "core/flex/picture.py": {
        "_repr_html_": {"workbench.views.flex.text"},
        "figure": {"workbench.views.flex.mask_figure"},
        "logical_figure": {"workbench.views.flex.mask_figure"},
        "order_figure": {"workbench.views.flex.mask_figure"},
    },
    "core/flex/plan.py": {
        "__repr__": {"workbench.views.flex.text"},
        "_repr_html_": {"workbench.views.flex.text"},
        "figure": {"workbench.views.flex.figure"},
    },
    "core/offload/plan.py": {
        "__repr__": {"workbench.views.offload.html"},
        "_repr_html_": {"workbench.views.offload.html"},
        "figure": {"workbench.views.offload.figure"},
    },
    "core/offload/transfer.py": {
        "__repr__": {"workbench.views.offload.transfer"},
        "_repr_html_": {"workbench.views.offload.transfer"},
    },
    "core/capacity/memory_answer.py": {
        "_repr_html_": {"workbench.views.capacity.memory_answer"},
    },
    "core/prefix/answer.py": {
        "_repr_html_": {"workbench.views.hits.html"},
        "figure": {"workbench.views.hits.figure"},
    },
    "core/tables/step.py": {
        "__repr__": {"workbench.views.tables.text"},
        "_repr_html_": {"workbench.views.tables.text"},
        "figure": {"workbench.views.tables.figure"},
        "slot_figure": {"workbench.views.tables.figure"},
    },
    "core/what_if/verification.py": {"_repr_html_": {"workbench.views.verify"}},
    "core/flex/result.py": {
        "figure": {"workbench.views.flex.lab"},
        "_repr_html_": {"workbench.views.flex.lab"},
    },
    "core/trace.py": {"_repr_html_": {"workbench.views.html"}},
    "core/what_if/sensitivity.py": {
        "_repr_html_": {"workbench.views.html", "workbench.views.rows"},
    },
    "core/what_if/upgrades.py": {
        "__repr__": {"workbench.views.versions.differences"},
        "_repr_html_": {"workbench.views.versions.differences"},
    },
    "core/what_if/differences.py": {
        "__repr__": {"workbench.views.versions.differences"},
        "_repr_html_": {"workbench.views.versions.differences"},
    },
}
"""Module of core -> its methods that show a record -> what each imports when it is called."""

PURE = {"core"}
"""Folders that import the standard library only."""

KERNEL_PACKAGES = {"torch", "triton", "numpy"}
HEAVY = ("torch", "triton", "plotly", "ipywidgets", "anywidget", "pydantic", "numpy", "IPython")


def sources(room):
    """[(path, dotted name)] of a folder's modules."""
    folder = ROOT / "kernels" if room == "kernels" else ROOT / "workbench" / room
    files = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return [(path, f"workbench.{room}." + path.stem) for path in files]


def nodes(tree, *, types):
    """The statements of a module; without those that only a type checker reads if not `types`."""
    yield tree
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        is_check = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if types or not is_check:
            yield from nodes(child, types=types)


def imported_modules(path, *, types=True):
    """Absolute names of everything that a file imports, also inside functions and type checks."""
    relative = path.relative_to(ROOT)
    package = (
        relative.parent if relative.parts[0] == "workbench" else Path("workbench") / relative.parent
    )
    yield from imported_below(parsed(path), package, types=types)


def imported_below(tree, package, *, types=True):
    """Absolute names of everything that is imported anywhere in a syntax tree."""
    for node in nodes(tree, types=types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package.parts[: len(package.parts) - node.level + 1]) if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            if module == "workbench":
                yield from (f"workbench.{alias.name}" for alias in node.names)


def shown_with(path):
    """Method -> what it imports from outside of core; the methods of the module's classes."""
    package = path.relative_to(ROOT).parent
    methods = [
        method
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef)
    ]
    found = {}
    for method in methods:
        modules = {m for m in imported_below(method, package) if room_of(m) not in {None, "core"}}
        if modules:
            found[method.name] = modules
    return found


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
    named = {*ROOMS[room], *NAMED_ONLY.get(room, ())}
    for types, allowed in ((False, ROOMS[room]), (True, named)):
        wrong = [
            (str(path.relative_to(ROOT)), module)
            for path, _ in sources(room)
            for module in imported_modules(path, types=types)
            if room_of(module) not in {None, room, *allowed}
            and not any(module in modules for modules in showing(path).values())
        ]
        assert wrong == []


def showing(path):
    """What the methods of a module may import to show a record."""
    return SHOWS_ITSELF.get(path.relative_to(ROOT).as_posix().removeprefix("workbench/"), {})


def test_core_imports_what_shows_a_record_only_in_the_methods_that_do():
    found = {
        str(path.relative_to(ROOT / "workbench")): (
            shown_with(path),
            list(imported_modules(path, types=False)),
        )
        for path, _ in sources("core")
    }
    assert {name: methods for name, (methods, _) in found.items() if methods} == SHOWS_ITSELF
    for name, (methods, modules) in found.items():
        outside = [module for module in modules if room_of(module) not in {None, "core"}]
        assert len(outside) == sum(map(len, methods.values())), name


def modules_imported_at_once(path, known):
    """Modules of ours that a file imports when it is imported itself."""
    for node in parsed(path).body:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def imports_by_module():
    """Module of the workbench -> what it imports when it is imported."""
    known = {}
    for path in [*(ROOT / "workbench").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        known[name if name.startswith("workbench") else f"workbench.{name}"] = path
    return {
        name: {module for module in modules_imported_at_once(path, known) if module in known}
        for name, path in known.items()
    }


def test_no_modules_import_each_other_in_a_circle():
    graph = imports_by_module()
    assert "workbench.core.plan" in graph["workbench.core.working_plan"]
    assert "workbench.kernels.block_table.path" in graph["workbench.kernels.block_table.fast"]
    TopologicalSorter(graph).prepare()
    graph["workbench.core.plan"].add("workbench.core.working_plan")
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def test_the_folders_are_the_ones_that_exist():
    found = {
        path.name
        for path in (ROOT / "workbench").iterdir()
        if path.is_dir() and any(path.glob("*.py"))
    }
    assert found <= set(ROOMS)
    assert {"core", "models", "views"} <= found
    assert len(found) <= 20


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


def test_the_notebook_runner_needs_errors_and_the_readers_only():
    found = {module for path, _ in sources("notebooks") for module in imported_modules(path)}
    ours = {module for module in found if room_of(module) in {"core", "access"}}
    assert ours == {
        "workbench.core.errors",
        "workbench.access.files",
        "workbench.access.json_text",
    }


def test_only_the_public_face_imports_the_panels():
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
        "    from ..labs import devices\n"
        "    from . import plan\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    rooms = {room_of(module) for module in imported_modules(source)}
    assert rooms == {None, "views", "face", "ui", "models", "labs", "core"}


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
    "core/package_data.py": "JSON of the package",
    "models/catalog.py": "the catalog: data of the package",
    "views/html.py": "the style sheet: data of the package",
    "notebooks/execute.py": "what the own worker left in a folder made for one run",
    "notebooks/worker.py": "the request that the runner wrote for this process",
    "notebooks/offline.py": "memory and command of a process of the own run, in /proc",
    "notebooks/guard.py": "appends to a file that the runner named for this process",
    "notebooks/results.py": "merges into the file that the runner named for this process",
    "verify/vllm_probe/__init__.py": "the standard output of the own process",
    "sweeps/store/file.py": "SQLite, after the reader has looked at the file",
    "sweeps/store/turns.py": "locks the write-ahead log, and reads nothing of it",
    "commands/app_server.py": "writes the page that opens the browser",
    "commands/results.py": "creates the file that the user names, and opens none that is there",
}
"""Every module that may open a file, and why; under workbench/, without the kernels."""

NO_FILES = {"self.labs.open", "self.open", "tl.load"}
"""Labs of the front door, and memory in a kernel."""


WRITING = {"write_text", "write_bytes"}
WRITERS = {
    "exercises/progress.py": "the progress of exercises, in a file that the program names",
    "notebooks/execute.py": "into a folder made for one run",
    "notebooks/results.py": "the file that the runner named for this process",
    "notebooks/runner.py": "into a folder made for one run",
    "notebooks/worker.py": "the answer to the runner of this process",
    "verify/vllm_probe/configuration.py": "into a folder made for one question",
}
"""Every module that writes a file without the writer of named files, and why."""


def openings(path, names=OPENING):
    """Source lines of calls that open a file: by one of the names, unless it is a panel's."""
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            owner = isinstance(node.func, ast.Attribute)
            name = node.func.attr if owner else getattr(node.func, "id", "")
            # Bare names other than `open` are the functions of the reader.
            if name in (names if owner else {"open"} & names):
                called = ast.unparse(node.func)
                if called not in NO_FILES:
                    yield node.lineno, called


@pytest.mark.parametrize(("names", "allowed"), [(OPENING, OPENERS), (WRITING, WRITERS)])
def test_only_the_reader_opens_a_file_that_a_person_names(names, allowed):
    folder = ROOT / "workbench"
    found = {
        str(path.relative_to(folder)): list(openings(path, names))
        for path in sorted(folder.rglob("*.py"))
        if path.relative_to(folder).parts[0] != "kernels"
    }
    found = {name: calls for name, calls in found.items() if calls}
    assert {name: calls for name, calls in found.items() if name not in allowed} == {}
    assert sorted(set(allowed) - set(found)) == []


@pytest.mark.parametrize(
    "call",
    ["open(path)", "Path(path).open()", "path.read_text()", "os.open(path, 0)", "io.open(path)"],
)
def test_the_check_sees_every_way_to_open(tmp_path, call):
    source = tmp_path / "bad.py"
    source.write_text(call, encoding="utf-8")
    assert [line for line, _ in openings(source)] == [1]
