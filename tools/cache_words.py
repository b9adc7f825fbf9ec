"""Write which fields of a config.json the sources of vLLM read: workbench/models/cache_words.json.

    .venv/bin/python tools/cache_words.py FOLDER FOLDER

FOLDER has the packages vllm and transformers of one release each (site-packages). Only names that
may speak of the cache (`CACHE_WORDS` of the default reader) are kept: those that a module of models
or the modules that it takes parts from name, those that the configuration class of its types names,
and, under "", those that any other source of vLLM takes from a configuration, and that one of
vLLM's own configuration classes names. Nothing is imported.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from model_sources import sources

from workbench.core.architectures import MODEL_REGISTRIES, ModelRegistry
from workbench.models.families.decoder import CACHE_WORDS

TARGET = Path(__file__).parents[1] / "workbench" / "models" / "cache_words.json"
MODELS = "model_executor/models"
OF_MODELS = (MODELS, "models")
"""Folders of vLLM in which a source speaks of its own models alone."""
SHARED = tuple(f"{MODELS}/{name}.py" for name in ("interfaces", "interfaces_base", "utils"))
"""Sources that nearly every module takes parts from: their words count for all."""
CLASSES = "transformers_utils/configs"


def main() -> None:
    """Run from the command line."""
    found: dict[str, set[str]] = {}
    for folder in map(Path, sys.argv[1:]):
        for module, words in words_of_release(folder).items():
            found.setdefault(module, set()).update(words)
    of_all = found.pop("")
    own = {module: sorted(words - of_all) for module, words in sorted(found.items())}
    rows = {"": sorted(of_all)} | {module: words for module, words in own.items() if words}
    lines = (f"{json.dumps(module)}: {json.dumps(words)}" for module, words in rows.items())
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def words_of_release(folder: Path) -> dict[str, set[str]]:
    """Return the words of every served module, and under "" those of all other sources."""
    package = folder / "vllm"
    registry = MODEL_REGISTRIES[release_of(package)]
    places = {path: path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    others = [path for path, place in places.items() if not place.startswith(OF_MODELS)]
    found = {"": named(others, read_from_config)}
    of_all = [path for path, place in places.items() if place.startswith((CLASSES, *SHARED))]
    found[""] |= named(of_all)
    for module in set(registry.served.values()):
        own = {path for name in taken_from(package, module) for path in sources(package, name)}
        own |= {*configurations(folder, registry, module)}
        found[module] = named(own - {*of_all})
    return found


def release_of(package: Path) -> str:
    """Return the release as rule sets name it."""
    text = (package / "_version.py").read_text(encoding="utf-8")
    number = re.search(r"version = '(\d+\.\d+)\.", text)
    if number is None:
        raise SystemExit(f"{package} has no version.")
    return number[1]


def taken_from(package: Path, module: str) -> set[str]:
    """Return a module and those that it takes parts from, of theirs too."""
    found, new = set(), {module}
    while new:
        found |= new
        files = [path for name in new for path in sources(package, name)]
        new = {name for path in files for name in imported(path)} - found
    return found


@cache
def imported(path: Path) -> frozenset[str]:
    """Return which modules of models a source imports from."""
    own, names = path.parent.as_posix().endswith(MODELS), set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            begin, _, end = node.module.partition(f"vllm.{MODELS.replace('/', '.')}.")
            if own and node.level == 1:
                names.add(node.module.split(".")[0])
            elif not begin and end:
                names.add(end.split(".")[0])
    return frozenset(names)


def configurations(folder: Path, registry: ModelRegistry, module: str) -> Iterator[Path]:
    """Yield the sources of the library's configuration classes for the types of a module."""
    for kind, name in registry.model_types.items():
        if registry.served[name] == module:
            parts = {kind, kind.removesuffix("_text"), kind.replace("-", "_")}
            for part in parts:
                yield from (folder / "transformers" / "models" / part).glob("configuration_*.py")


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed source."""
    return ast.parse(path.read_text(encoding="utf-8"))


def named(
    paths: Iterable[Path], names: Callable[[ast.AST], Iterable[str]] | None = None
) -> set[str]:
    """Return the words of caches among the names of every node of the sources."""
    nodes = (node for path in paths for node in ast.walk(tree(path)))
    return {
        word for node in nodes for word in (names or any_name)(node) if CACHE_WORDS.search(word)
    }


def any_name(node: ast.AST) -> Iterator[str]:
    """Yield what a node of a model's own source may call a field of its config.json."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg | ast.keyword) and node.arg:
        yield node.arg
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target.id
    elif isinstance(node, ast.Constant) and str(node.value).isidentifier():
        yield str(node.value)


def read_from_config(node: ast.AST) -> Iterator[str]:
    """Yield what a node takes from an object that is called a configuration."""
    if isinstance(node, ast.Attribute) and is_config(node.value):
        yield node.attr
    elif isinstance(node, ast.Call) and any(map(is_config, [node.func, *node.args])):
        yield from (str(one.value) for one in node.args if isinstance(one, ast.Constant))
    elif isinstance(node, ast.Subscript | ast.Compare) and any(map(is_config, ast.walk(node))):
        yield from (str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant))


def is_config(node: ast.AST) -> bool:
    """Return whether a node is called a configuration, or is one of its methods."""
    name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    return name.removesuffix(".get").endswith(("config", "cfg", "config_dict"))


if __name__ == "__main__":
    main()
