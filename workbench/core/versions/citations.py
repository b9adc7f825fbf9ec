"""Where each release has its rules: file and function, read in the installed vLLM.

`citations.json` of a release has what was `read` in it, by the rule's module and name in
`workbench.core.stages`; `read_again` are rules that are where the release before has them.
"""

from collections.abc import Iterable, Mapping
from pkgutil import resolve_name
from typing import Any

from workbench.core.package_data import release_data
from workbench.core.trace import Citation, Rule

CITED = release_data("citations.json")


def citations_of(
    release: str, before: Mapping[Rule, Citation] | None = None
) -> dict[Rule, Citation]:
    """Return the place of every rule that was read in a release. before: of the one before it."""
    again = _of_rules(CITED[release].get("read_again", ()))
    same = {rule: (before or {})[rule]._replace(read_in=release, version="") for rule in again}
    read: dict[str, Any] = CITED[release]["read"]
    places = (
        Citation(release, one["file"], tuple(one["functions"]), one.get("note", ""))
        for one in read.values()
    )
    return {**same, **dict(zip(_of_rules(read), places, strict=True))}


def _of_rules(names: Iterable[str]) -> list[Rule]:
    return [resolve_name(f"workbench.core.stages.{name.replace('.', ':')}") for name in names]
