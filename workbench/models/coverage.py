"""How much of a vLLM release is read: every architecture of its registry, and how it was checked.

>>> wb.coverage("0.33").find("LlamaForCausalLM").status
'exact'
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from workbench.core.architectures import MODEL_REGISTRIES, ModelRegistry, wrapper_builds
from workbench.core.errors import check_name
from workbench.core.speculation import SpeculationRules
from workbench.core.versions import RULE_SETS
from workbench.models import read  # noqa: F401  (registers every family)
from workbench.models.architecture import OF_LIBRARY
from workbench.models.families.decoder import REFUSALS
from workbench.models.family import FAMILIES
from workbench.models.served import compared

EXACT, READ, REFUSED = "exact", "read", "refused"
STATUSES = (EXACT, READ, REFUSED)
EXTRACTS = "ExtractHiddenStatesModel"
"""What the method of that name builds, without a file of its own."""
MTP = "MTP"
"""In the names of classes that draft with layers of the target's own checkpoint."""


class CoveredArchitecture(NamedTuple):
    """One architecture, its status (of STATUSES), and what it was compared with, or why not."""

    architecture: str
    status: str
    how: str


@dataclass(frozen=True)
class Coverage:
    """The architectures of a release.

    exact: compared with the model that vLLM builds; read: there is a reader, and nothing was
    compared; refused: with the reason.
    """

    rules: str
    origin: str
    """What was installed for the comparison, and what was compared."""
    rows: tuple[CoveredArchitecture, ...]

    def find(self, architecture: str) -> CoveredArchitecture:
        """Return one architecture. Errors: ScenarioError for a name outside of the release."""
        rows = {row.architecture: row for row in self.rows}
        check_name("Architecture", architecture, rows, "architecture", "unknown_architecture")
        return rows[architecture]

    def only(self, status: str | None) -> Self:
        """Return those with one status; None keeps all. Errors: ScenarioError for any other."""
        if status is None:
            return self
        check_name("Status", status, STATUSES, "status", "unknown_status")
        return replace(self, rows=tuple(row for row in self.rows if row.status == status))

    def count(self, status: str) -> int:
        """Return how many architectures have a status."""
        return sum(row.status == status for row in self.rows)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.count(status)} {status}" for status in STATUSES)
        noun = "architecture" if len(self.rows) == 1 else "architectures"
        lines = [f"vLLM {self.rules}: {len(self.rows)} {noun}, {counts}", self.origin]
        return "\n".join([*lines, *(f"{row.status:8} {row[0]:42} {row.how}" for row in self.rows)])

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Return the whole as values of JSON."""
        counts = {status: self.count(status) for status in STATUSES}
        rows = [row._asdict() for row in self.rows]
        return {"rules": self.rules, "origin": self.origin, "counts": counts, "rows": rows}


NEWEST = [*MODEL_REGISTRIES][-1]


def coverage(rules: str = NEWEST) -> Coverage:
    """Return which architectures of a release are read, and which of them exactly.

    rules: a release with a registry ("0.23", "0.33"). Errors: ScenarioError for any other.

    >>> wb.coverage("0.33").count("exact") > 100
    True
    """
    check_name("Release", rules, MODEL_REGISTRIES, "rules", "unknown_rules")
    checked = compared()[rules]
    registry = MODEL_REGISTRIES[rules]
    found = (_covered(name, registry, checked) for name in sorted(registry.registered))
    return Coverage(rules, checked["origin"], tuple(found))


def _covered(name: str, registry: ModelRegistry, checked: dict[str, Any]) -> CoveredArchitecture:
    if name in checked["exact"]:
        return CoveredArchitecture(name, EXACT, checked["exact"][name])
    if name in checked["refused"]:
        return CoveredArchitecture(name, REFUSED, checked["refused"][name])
    if name in registry.library_classes:
        return CoveredArchitecture(name, REFUSED, OF_LIBRARY)
    if name in registry.drafters:
        return _drafter(name, RULE_SETS[registry.version].speculation)
    if name in REFUSALS:
        return CoveredArchitecture(name, REFUSED, REFUSALS[name])
    readers = sorted({one.name for kind, one in FAMILIES.items() if _reads(one, kind, name)})
    unchecked = checked["unchecked"].get(name, "no configuration of it was compared")
    by = ", ".join(readers) or "the default reader"
    return CoveredArchitecture(name, READ, f"by {by}; {unchecked}")


def _drafter(name: str, rules: SpeculationRules) -> CoveredArchitecture:
    """Return a drafter that no recorded plan has."""
    modelled = {*rules.heads, *rules.decides, EXTRACTS}
    if MTP in name or not modelled.isdisjoint({name, f"DFlash{name}"}):
        return CoveredArchitecture(name, READ, "as a drafter; no plan with it was compared")
    return CoveredArchitecture(name, REFUSED, "a drafter whose layers are not modelled")


def _reads(family: Any, model_type: str, name: str) -> bool:
    declared = family.architectures_of(model_type)
    return name in declared or any(
        wrapper_builds(name, one, has_states=True) for one in declared if family.is_hybrid
    )
