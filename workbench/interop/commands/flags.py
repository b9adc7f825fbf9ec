"""The flags of `vllm serve`, release by release; tools/record_flags.py writes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from workbench.core.errors import SHOWN_CHARACTERS, nearest_names
from workbench.core.package_data import release_data
from workbench.core.versions import DEFAULT

NO = "--no-"
SWITCH, OFF, VALUE, LIST = "switch", "off", "value", "list"
"""What follows a flag: nothing, nothing and it means False, a word, words."""


@dataclass(frozen=True)
class Flags:
    """The flags of one release."""

    release: str
    kinds: Mapping[str, str]
    """Flag -> what follows it."""
    names: Mapping[str, str]
    """Short form or other name -> flag."""
    opposites: Mapping[str, str]
    """Name that turns a switch off -> the switch; `--no-` works for every switch, too."""
    defaults: Mapping[str, object]
    """Flag -> its default, where that is a plain value."""

    def named(self, head: str) -> tuple[str, str]:
        """Return the flag that is written, and what follows it; the words themselves if unknown."""
        stem, dot, keys = head.partition(".")
        spelled = stem.replace("_", "-") if stem.startswith("--") else stem
        flag = self.names.get(spelled, spelled)
        if dot:
            return f"{flag}.{keys}", VALUE
        if flag in self.kinds:
            return flag, self.kinds[flag]
        switch = self.opposites.get(flag, "--" + flag.removeprefix(NO))
        if self.kinds.get(switch) == SWITCH and switch != flag:
            return switch, OFF
        begun = [one for one in self.kinds if one.startswith(flag)]
        if len(begun) == 1 and flag.startswith("--"):
            return begun[0], self.kinds[begun[0]]
        return flag, VALUE

    def unknown(self, name: str, *, is_helped: bool) -> str:
        """Return what to say of a flag that this release does not have."""
        others = [one for one in releases() if name in flags_of(one).kinds]
        if others:
            return f"vLLM {self.release} does not have this flag; vLLM {', '.join(others)} has it."
        near = _nearest(name[:SHOWN_CHARACTERS], self.release) if is_helped else ()
        hint = f" Nearest: {', '.join(near)}." if near else ""
        return f"vLLM {self.release} does not have this flag, and stops.{hint}"


@lru_cache(maxsize=256)
def _nearest(name: str, release: str) -> tuple[str, ...]:
    """Return the flags most like a name, which takes 20 ms: a text is read more than once."""
    return nearest_names(name, flags_of(release).kinds)


@cache
def _all_flags() -> dict[str, Flags]:
    return {
        release: Flags(
            release, table["flags"], table["names"], table["opposites"], table["defaults"]
        )
        for release, table in release_data("flags.json").items()
    }


def flags_of(rules: str) -> Flags:
    """Return the flags of a rule set; another name has those of the default."""
    return _all_flags().get(rules) or _all_flags()[DEFAULT]


def releases() -> tuple[str, ...]:
    """Return the releases whose flags are known, oldest first."""
    return tuple(_all_flags())
