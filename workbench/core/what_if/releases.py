"""The rule set for a release of vLLM."""

import re

from workbench.core.versions import RULE_SETS

RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d+))?(?!\d)")


def release_of(version: str | None) -> tuple[int, int] | None:
    """Return major and minor of a release; None for a build without one."""
    found = RELEASE.match(version or "")
    is_named = found is not None and not str(version).lstrip("v").startswith("0.1.dev")
    return (int(found[1]), int(found[2])) if found and is_named else None


def nearest_rules(version: str) -> str:
    """Return the rule set for a vLLM version: its own, else the nearest, of two the newer one.

    A build without a release number gets the newest. A major release is further than a minor one.
    """
    numbered = {_number(one): name for name in RULE_SETS if (one := release_of(name))}
    release = release_of(version)
    given = _number(release) if release else max(numbered)
    return numbered[min(numbered, key=lambda number: (abs(number - given), -number))]


def _number(release: tuple[int, int]) -> int:
    return 10_000 * release[0] + release[1]
