"""pytest on a machine with few packages: tests that import others are skipped, and named."""

from __future__ import annotations

import ast
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from workbench.kernels.mode import triton_mode

_skipped: dict[str, str] = {}


def missing_package(file: Path) -> str | None:
    """Return a package that a test file imports, itself or by a file of tests, and is not here."""
    seen: set[Path] = set()
    waiting = [file]
    root = next((folder for folder in file.parents if (folder / "tests").is_dir()), file.parent)
    while waiting:
        text = waiting.pop()
        if text in seen or not text.is_file():
            continue
        seen.add(text)
        for name in _imported(text):
            top = name.partition(".")[0]
            if top == "tests":
                waiting.append(root / f"{name.replace('.', '/')}.py")
            elif top not in sys.stdlib_module_names and not _is_here(top):
                return top
    return None


def _imported(file: Path) -> list[str]:
    names = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
    return names


def _is_here(package: str) -> bool:
    try:
        return package in sys.modules or find_spec(package) is not None
    except (ImportError, ValueError):
        return False


class SkippedFile(pytest.File):
    """A file of tests that is not imported."""

    def collect(self) -> list[pytest.Item]:
        """Return no test, and note what is missing for this file."""
        _skipped[self.path.name] = missing_package(self.path) or ""
        return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> SkippedFile | None:
    """Skip a file of tests that needs a package that is not installed."""
    if missing_package(module_path):
        return SkippedFile.from_parent(parent, path=module_path)
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files were skipped."""
    for name, package in _skipped.items():
        terminalreporter.write_line(f"{name} is skipped: it needs {package}")


def pytest_configure() -> None:
    """Settle where kernels run; property tests have no time limit, as kernels compile in them."""
    triton_mode()
    if _is_here("hypothesis"):
        from hypothesis import HealthCheck, settings

        settings.register_profile(
            "gpu",
            max_examples=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        settings.load_profile("gpu")
