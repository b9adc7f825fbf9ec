"""Which rules belong to the release that a log names."""

from workbench.core.versions import BEFORE_37467, DEFAULT, RULE_SETS
from workbench.core.what_if.releases import nearest_rules, release_of

NEWEST_BEFORE_37467 = (0, 18)


def rules_for(version: str | None, since: str | None = None) -> tuple[str, str]:
    """Return (name of a rule set, what to know about it; empty if they belong together).

    since: the rule set from which on a line of the log is printed; it counts without a version.
    """
    release = release_of(version)
    if version is None or release is None:
        rules = since or DEFAULT
        named = f"{version} is a build without a release number"
        missing = "The log does not contain vLLM's version" if version is None else named
        why = ", which prints such lines" if since else ""
        return rules, f"{missing}; the rules are those of {rules}{why}."
    if release <= NEWEST_BEFORE_37467:
        return BEFORE_37467.name, (
            f"vLLM {version} is older than #37467; its rules are known from reports only."
        )
    rules = nearest_rules(version)
    if release_of(rules) == release:
        return rules, ""
    return rules, (
        f"The log is of vLLM {version}; the rules are those of {rules}, the nearest that are known "
        "here."
    )


def newest_rules_for(version: str | None) -> tuple[str, str]:
    """Return the newest rule set for a log that the default one refuses, and what to know of it."""
    rules = RULE_SETS.newest
    named = f"is of vLLM {version}" if release_of(version) else "names no release"
    return rules, f"The log {named}, and {DEFAULT} refuses it; the rules are those of {rules}."


def version_of(rules: str) -> str:
    """Return a version whose logs have these rules, as vLLM prints it."""
    return "0.17.1" if rules == BEFORE_37467.name else f"{rules}.0"
