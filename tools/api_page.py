"""Write docs/api.md from the docstrings of the public names.

    .venv/bin/python tools/api_page.py [--check]

--check: write nothing, and exit with 1 if the page is not what the docstrings say.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import workbench as wb
from workbench.scenario import FIELDS
from workbench.ui.open_lab import LabNames

FUNCTION = re.compile(r"<function (\w+) at 0x\w+>")
"""A default that is a function, whose address differs from run to run."""
PAGE = Path(__file__).parents[1] / "docs" / "api.md"
INTRODUCTION = """# Public names

Made by `tools/api_page.py` from the docstrings.

```python
{example}
```

Every example below runs after these two lines; those that write a file write it where Python runs.

```pycon
>>> import workbench as wb
>>> plan = wb.resolve(model="nemotron-3-nano-30b-a3b", kv_cache_memory_bytes="20 GiB")
```
"""


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; return the exit code."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        print("docs/api.md is not up to date: run tools/api_page.py")
        return 1
    return 0


def page() -> str:
    """Return the whole page."""
    head, example = (inspect.getdoc(wb) or "").split("\n\n")[:2]
    introduction = INTRODUCTION.format(example=inspect.cleandoc(example))
    names = sorted((name for name in wb.__all__ if name != "__version__"), key=str.lower)
    return "\n".join([introduction, head, "", *(line for name in names for line in entry(name))])


def entry(name: str) -> Iterator[str]:
    """Yield the lines of one public name, with the methods of a class and the parts of a module."""
    value = getattr(wb, name)
    yield from _described(f"## `wb.{name}{_signature(value)}`", value)
    if isinstance(value, ModuleType | LabNames):
        parts = ((part, getattr(value, part)) for part in getattr(value, "__all__", ()))
        yield from (line for part in parts for line in _part(name, *part))
    elif inspect.isclass(value) and not issubclass(value, Exception):
        yield from _fields(value)
        yield from (line for part in _members(value) for line in _part(name, *part))


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties that are ours, in the order of their declaration."""
    found = {
        name: part
        for owner in reversed(kind.__mro__)
        if owner.__module__.startswith("workbench")
        for name, part in vars(owner).items()
    }
    for name, part in found.items():
        is_method = isinstance(part, property | classmethod | staticmethod | FunctionType)
        if is_method and not name.startswith("_"):
            yield name, part


def _fields(kind: type) -> Iterator[str]:
    """Yield one line per field of a record, with what its declaration says about it."""
    if not is_dataclass(kind):
        return
    said = _below_fields(kind)
    said |= {name: declared.tip for name, declared in FIELDS.items() if kind is wb.Scenario}
    said |= {name: one.description for name, one in getattr(kind, "declarations", {}).items()}
    named = [one.name for one in fields(kind) if one.name in said]
    yield from (*(f"- `{name}`: {said[name]}" for name in named), *([""] if named else []))


def _below_fields(kind: type) -> dict[str, str]:
    """Return field -> the text below it in the source."""
    body = ast.parse(inspect.getsource(kind)).body[0].body  # type: ignore[attr-defined]
    return {
        line.target.id: " ".join(below.value.value.split())
        for line, below in pairwise(body)
        if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr)
    }


def _part(owner: str, name: str, part: Any) -> Iterator[str]:
    function = part.__func__ if isinstance(part, classmethod | staticmethod) else part
    signature = "" if isinstance(part, property) else _signature(function)
    yield from _described(f"### `{owner}.{name}{signature}`", function)


def _described(title: str, value: Any) -> Iterator[str]:
    own = f"`{value!r}`" if isinstance(value, tuple) else inspect.getdoc(value)
    said, found, example = (own or "").partition("\n\n>>> ")
    yield from (title, "", *said.splitlines(), "")
    if found:
        yield from ("```pycon", *f">>> {example}".splitlines(), "```", "")


def _signature(value: Any) -> str:
    """Return the arguments without their types, which the docstring explains."""
    if not callable(value) or (inspect.isclass(value) and issubclass(value, Exception)):
        return ""
    found = inspect.signature(value)
    arguments = [
        argument.replace(annotation=inspect.Parameter.empty)
        for name, argument in found.parameters.items()
        if name != "self" and not name.startswith("_")
    ]
    return FUNCTION.sub(r"\1", str(inspect.Signature(arguments)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
