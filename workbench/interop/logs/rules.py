"""Choose the rule set that a log of some vLLM version is compared with."""

from __future__ import annotations

import re

from workbench.core.versions import DEFAULT, RULE_SETS

NEWEST_BEFORE_37467 = (0, 18)
RELEASE = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


def rules_for(version: str | None) -> tuple[str, str]:
    """Return (name of a rule set, what to know about it; empty if they belong together)."""
    if version is None:
        return (
            DEFAULT,
            f"The log does not contain vLLM's version; the rules are those of {DEFAULT}.",
        )
    found = RELEASE.match(version)
    if found is None or version.lstrip("v").startswith("0.1.dev"):
        return DEFAULT, f"{version} is a build without a release number; the rules are {DEFAULT}'s."
    release = (int(found.group(1)), int(found.group(2)))
    if release <= NEWEST_BEFORE_37467 and "before-37467" in RULE_SETS:
        return "before-37467", (
            f"vLLM {version} is older than #37467; its rules are known from reports only."
        )
    numbered = {_release(name): name for name in RULE_SETS if RELEASE.fullmatch(name)}
    nearest = min(numbered, key=lambda known: (abs(known[1] - release[1]), known))
    if nearest == release:
        return numbered[nearest], ""
    return numbered[nearest], (
        f"The log is of vLLM {version}; the rules are those of {numbered[nearest]}, the nearest "
        "that are known here."
    )


def _release(name: str) -> tuple[int, int]:
    found = RELEASE.match(name)
    assert found is not None
    return int(found.group(1)), int(found.group(2))
