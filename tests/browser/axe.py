"""axe-core in a page: what it finds against people who cannot see, or use a mouse."""

from __future__ import annotations

from importlib import resources

import pytest

VIOLATIONS = """async (css) => {
  const found = await axe.run(css, { resultTypes: ["violations"] });
  return found.violations.flatMap((rule) => rule.nodes.map((node) => `${rule.id}: ${node.html}`));
}"""


def axe_script() -> str:
    """Return the script of axe-core; skips the test where it is not installed."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    return (resources.files(axe) / "axe.min.js").read_text(encoding="utf-8")
