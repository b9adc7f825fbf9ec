"""What versions are compared by: numbers of a plan, traits of a rule set, and their words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from workbench.core.package_data import package_data
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, smallest_prefix
from workbench.core.rule_set import RuleSet

DECIMALS = 2


@dataclass(frozen=True)
class Fact:
    """A number to compare: its published name, what a change of it means, how it is written."""

    name: str
    means: str
    called: str = ""
    """What people call a number that is not a value of the plan."""
    unit: str = ""
    steps: tuple[str, ...] = ()
    """Those that may decide it, by default the one of its name; the first whose result differs is
    followed to its operands."""
    appears: str = ""
    """What it means that there was no such number before, if that is something else."""
    vanishes: str = ""
    is_of_memory: bool = False
    """Whether the memory for the cache decides it, besides the steps."""

    @property
    def label(self) -> str:
        """Return what people call it."""
        return self.called or Plan.label_of(self.name)

    def read(self, plan: Plan) -> Any:
        """Return the number of a plan or of its cache, None where there is none.

        A share or a concurrency has the two decimals that vLLM logs: 2.513 is 2.508 there.
        """
        read = READERS.get(self.name)
        holder = plan if hasattr(plan, self.name) else plan.cache
        value = read(plan) if read else getattr(holder, self.name, None)
        return round(value, DECIMALS) if isinstance(value, float) else value

    def meaning(self, old: Any, new: Any) -> str:
        """Return what it means for an upgrade that the number goes from `old` to `new`."""
        means = self.appears if old is None else self.vanishes if new is None else ""
        means = means or self.means
        on = "on" if new else "off"
        return means.format(old=_text(old), new=_text(new), on=on, percent=_percent(old, new))


def _smallest_prefix(plan: Plan) -> int | None:
    """Return the tokens that two prompts must share before anything of them is found again."""
    if not plan.enable_prefix_caching or plan.kept_cache is None or plan.model.attention is None:
        return None
    return smallest_prefix(caching_of(plan))


def _of_hashes(name: str) -> Callable[[Plan], Any]:
    """Return the reader of a size that only prefix caching and connectors have a use for."""

    # resolve_kv_cache_block_sizes, 0.23 and 0.33
    def read(plan: Plan) -> Any:
        is_hashed = plan.enable_prefix_caching or plan.settings.kv_connector is not None
        return getattr(plan.cache, name, None) if is_hashed else None

    return read


READERS: dict[str, Callable[[Plan], Any]] = {
    "page_size_bytes": attrgetter("attention_page_size_bytes"),
    "smallest_prefix": _smallest_prefix,
    **{name: _of_hashes(name) for name in ("scheduler_block_size", "hash_block_size")},
}
PREFIX = "smallest cacheable prefix"
_DATA = package_data("workbench.core.what_if", "facts.json")
FACTS = tuple(Fact(**{**one, "steps": tuple(one.get("steps", ()))}) for one in _DATA["facts"])


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _percent(old: Any, new: Any) -> str:
    if not isinstance(old, int | float) or not isinstance(new, int | float) or not old:
        return "other"
    change = 100 * (new - old) / old
    return f"{abs(change):.1f} % {'more' if change > 0 else 'fewer'}"


@dataclass(frozen=True)
class Trait:
    """What a version does whatever the scenario is, and what a change of it means.

    reads: a value of the rule set, as `str.format` finds it; words: what a value of it is called,
    where that is another text.
    """

    label: str
    means: str
    reads: str
    words: Mapping[str, str] = field(default_factory=dict)

    def of(self, rules: RuleSet) -> str:
        """Return what a rule set does, read from its data."""
        found = f"{{0.{self.reads}}}".format(rules)
        return self.words.get(found, found)


TRAITS = {name: Trait(**one) for name, one in _DATA["traits"].items()}
"""Trait by name, in the order in which they are shown; the words of `RuleSet.traits` come first."""


def traits_of(rules: RuleSet) -> dict[str, str]:
    """Return what a rule set does whatever the scenario is: trait -> words."""
    return {name: rules.traits.get(name) or trait.of(rules) for name, trait in TRAITS.items()}
