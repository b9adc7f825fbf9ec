"""Which rules belong to the release that a log names."""

import re

from workbench.core.versions import DEFAULT, RULE_SETS

NEWEST_BEFORE_37467 = (0, 18)
RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d+))?(?!\d)")
NEWEST = [*filter(RELEASE.fullmatch, RULE_SETS)][-1]


def release_of(version: str | None) -> tuple[int, int] | None:
    """Return major and minor of a release; None for a build without one."""
    found = RELEASE.match(version or "")
    is_named = found is not None and not str(version).lstrip("v").startswith("0.1.dev")
    return (int(found[1]), int(found[2])) if found and is_named else None


def rules_for(version: str | None) -> tuple[str, str]:
    """Return (name of a rule set, what to know about it; empty if they belong together)."""
    if version is None:
        note = f"The log does not contain vLLM's version; the rules are those of {DEFAULT}."
        return DEFAULT, note
    release = release_of(version)
    if release is None:
        return DEFAULT, f"{version} is a build without a release number; the rules are {DEFAULT}'s."
    if release <= NEWEST_BEFORE_37467 and "before-37467" in RULE_SETS:
        return "before-37467", (
            f"vLLM {version} is older than #37467; its rules are known from reports only."
        )
    numbered = {one: name for name in RULE_SETS if (one := release_of(name))}
    nearest = min(numbered, key=lambda one: (abs(one[1] - release[1]), -one[1]))
    if nearest == release:
        return numbered[nearest], ""
    return numbered[nearest], (
        f"The log is of vLLM {version}; the rules are those of {numbered[nearest]}, the nearest "
        "that are known here."
    )
