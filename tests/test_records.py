"""A record of more than five fields is built by keyword; its name alone may come first."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.source_trees import nodes_of, parsed

ROOT = Path(__file__).parents[1]
LIMIT = 5
BY_POSITION = 1
NOT_FIELDS = ("ClassVar", "InitVar")


def package_of(path):
    """The dotted folder of a module, as it is imported."""
    parts = path.relative_to(ROOT).parent.parts
    return parts if parts[0] == "workbench" else ("workbench", *parts)


def modules():
    """{dotted name: (folder, syntax tree, path)} of every module of both packages."""
    found = {}
    for path in sorted([*(ROOT / "workbench").rglob("*.py"), *(ROOT / "kernels").rglob("*.py")]):
        folder = package_of(path)
        parts = folder if path.stem == "__init__" else (*folder, path.stem)
        found[".".join(parts)] = (folder, parsed(path), path)
    return found


def imported(folder, tree):
    """{local name: dotted name} of what a module imports from ours."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = folder[: len(folder) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return names


class Records:
    """Every dataclass and named tuple, and what a name in a module refers to."""

    def __init__(self):
        self.modules = modules()
        self.names = {
            name: {
                **imported(folder, tree),
                **{n.name: f"{name}.{n.name}" for n in tree.body if isinstance(n, ast.ClassDef)},
            }
            for name, (folder, tree, _) in self.modules.items()
        }
        self.classes = {
            f"{name}.{node.name}": (name, node)
            for name, (_, tree, _) in self.modules.items()
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }

    def referred(self, module, node):
        """The class that an expression refers to, by its dotted name, if it is one of ours."""
        if isinstance(node, ast.Name):
            return self._followed(self.names[module].get(node.id))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            outer = self.names[module].get(node.value.id)
            return self._followed(f"{outer}.{node.attr}")
        return None

    def _followed(self, dotted):
        """Follow a name through modules that import it from another."""
        while dotted and dotted not in self.classes:
            module, _, name = dotted.rpartition(".")
            dotted = self.names.get(module, {}).get(name)
        return dotted

    @cache  # noqa: B019  (there is one, as long as the tests run)
    def fields(self, dotted):
        """The fields of a record in the order of its signature; none of other classes."""
        module, node = self.classes[dotted]
        if any(isinstance(n, ast.FunctionDef) and n.name == "__init__" for n in node.body):
            return []
        bases = [self.referred(module, base) for base in node.bases]
        names = [name for base in bases if base for name in self.fields(base)]
        if not names and not self.is_record(node):
            return []
        own = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        own = [n.target.id for n in own if not ast.unparse(n.annotation).startswith(NOT_FIELDS)]
        return names + [name for name in own if name not in names]

    @staticmethod
    def is_record(node):
        marks = [*node.decorator_list, *node.bases]
        return any("dataclass" in text or text == "NamedTuple" for text in map(ast.unparse, marks))

    def built(self):
        """Yield (path, call, fields) of every construction of a record, `cls(...)` too."""
        for name, (_, tree, path) in self.modules.items():
            owners = {
                id(inner): node
                for node in tree.body
                if isinstance(node, ast.ClassDef)
                for inner in ast.walk(node)
            }
            for node in nodes_of(path):
                if isinstance(node, ast.Call):
                    dotted = self.referred(name, node.func)
                    if is_own_class(node.func) and (owner := owners.get(id(node))):
                        dotted = f"{name}.{owner.name}"
                    if dotted in self.classes and (fields := self.fields(dotted)):
                        yield path, node, fields


def is_own_class(node):
    """Whether an expression is `cls` or `type(self)`."""
    called = node.func if isinstance(node, ast.Call) else None
    is_type = isinstance(called, ast.Name) and called.id == "type"
    name = node.args[0] if is_type and len(node.args) == 1 else node
    return isinstance(name, ast.Name) and name.id == ("self" if is_type else "cls")


all_records = cache(Records)


def test_wide_records_are_built_by_keyword():
    found = [(p, call) for p, call, fields in all_records().built() if len(fields) > LIMIT]
    assert len(found) > 100
    assert [
        f"{path.relative_to(ROOT)}:{call.lineno}: {ast.unparse(call)[:60]}"
        for path, call in found
        if len(call.args) > BY_POSITION or any(isinstance(a, ast.Starred) for a in call.args)
    ] == []


def described(doc, field):
    """Whether a class docstring has a sentence that begins with "field: "."""
    return re.search(rf"(?:^|[.;] ){field}(?:, \w+)*: ", " ".join(doc.split()))


def test_field_documentation_is_at_the_field():
    records = all_records()
    wide = {name: found for name in records.classes if len(found := records.fields(name)) > LIMIT}
    assert [
        f"{name}: {field}"
        for name, found in wide.items()
        for field in found
        if described(ast.get_docstring(records.classes[name][1]) or "", field)
    ] == []
