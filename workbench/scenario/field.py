"""One field of a scenario: everything that is declared about it."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.model import Model
from workbench.core.remedies import ENGINE
from workbench.core.versions import RuleSet
from workbench.scenario.kinds import JsonSchema, Kind, Words, dtype_name

Offer = Callable[[Any, Model | None], Iterable[Any]]
"""(settings, model, if it can be read) -> values."""
Examples = Callable[["Field", Mapping[str, Any], RuleSet], Sequence[Any]]
"""(field, what was chosen before it, rule set) -> values."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """The declaration of one field; everything that handles fields reads it."""

    default: Any
    kind: Kind
    label: str
    """Of its picker."""
    tip: str
    section: str = ""
    """Title of the part of the panel that has its picker; set by the table, as the name is."""
    flag: str = ""
    """vLLM's flag, `--object.key` for a key of a JSON object, or an environment variable. The tip
    names it as `{flag}`, and without one the flag of the field's own name. What ends in a dot is
    completed by the field's name."""
    also: tuple[str, ...] = ()
    """Other flags and variables that mean the field, and its other names, as in a log."""
    none: str = ENGINE
    """What its picker calls None."""
    offer: Offer | None = None
    """The values of its picker, where they are not all that the kind has."""
    only_legal: bool = False
    """Whether the picker omits values that the plan refuses."""
    is_read: Callable[[Any], bool] | None = None
    """Whether vLLM reads the field with these settings; if not, any value of its type passes."""
    of_drafter: bool = False
    """Whether it says what drafts, or how: without drafts it has its default."""
    of_model: bool = False
    """Whether it is measured or named for one model: another model has its default."""
    examples: Sequence[Any] | Examples = ()
    """Values of random scenarios, the likely ones repeated; without them the default stays."""
    sweep: tuple[Any, ...] = ()
    """Values of the default sweep."""
    tried: Sequence[Any] = ()
    """Values that may explain the numbers of a log, where they are not those of its picker."""
    name: str = ""

    @property
    def is_listed(self) -> bool:
        """Return whether a picker lists values, instead of taking a text."""
        return self.offer is not None or self.kind.is_listed

    @property
    def argument(self) -> tuple[str, str]:
        """Return the Python name of vLLM's argument, and the key in its object; "" for none."""
        name, _, key = argument_name(self.flag).partition(".")
        return name, key

    @property
    def flags(self) -> tuple[str, ...]:
        """Return every flag that sets the field."""
        return tuple(name for name in (self.flag, *self.also) if name.startswith("--"))

    @property
    def variables(self) -> tuple[str, ...]:
        """Return every environment variable that sets the field."""
        return tuple(name for name in (self.flag, *self.also) if name.isupper())

    @property
    def other_names(self) -> tuple[str, ...]:
        """Return what the arguments and the configurations in a log call the field."""
        plain = (name for name in self.also if name.islower() and not name.startswith("--"))
        return (*map(argument_name, self.flags), *plain)

    def check(self, settings: Any) -> None:
        """Check the value that these settings have. Errors: ScenarioError."""
        value = getattr(settings, self.name)
        if value is not None and (self.is_read is None or self.is_read(settings)):
            self.kind.check(self.name, value, settings.rules)

    def candidates(self, settings: Any, model: Model | None) -> tuple[Any, ...]:
        """Return the values that a picker offers; empty for a field that takes text."""
        if self.is_read is not None and not self.is_read(settings):
            return (getattr(settings, self.name),)
        if self.offer is not None:
            return tuple(self.offer(settings, model))
        values = self.kind.candidates(settings.rules)
        if self.default is False:
            return values[::-1]
        return (None, *values) if values and self.default is None else values

    def tried_values(self, settings: Any, model: Model | None) -> Sequence[Any]:
        """Return the values with which the explanation of a log is looked for."""
        return self.tried or self.candidates(settings, model) or self.sweep

    def schema(self) -> JsonSchema:
        """Return the JSON schema of the field."""
        schema = self.kind.schema(nullable=self.default is None)  # None: the engine chooses
        return {**schema, "description": self.kind.unit} if self.kind.unit else schema

    def example_values(self, chosen: Mapping[str, Any], rules: RuleSet) -> Sequence[Any]:
        """Return the values of random scenarios; empty: the default."""
        return self.examples(self, chosen, rules) if callable(self.examples) else self.examples


def argument_name(flag: str) -> str:
    """Return the Python name of a flag, with the key of an object after a dot."""
    return flag[2:].replace("-", "_") if flag.startswith("--") else ""


def declare(default: Any, kind: Kind, label: str, tip: str, **more: Any) -> Any:
    """Return the field of a dataclass, with its declaration: see `Field`."""
    field = Field(default=default, kind=kind, label=label, tip=tip, **more)
    return dataclasses.field(default=default, metadata={"field": field})


def dtype_field(words: Any, label: str, tip: str, **more: Any) -> Any:
    """Return the field of a dtype, "auto" by default. words: see `Words`."""
    kind = Words(words, normal=dtype_name)
    return declare("auto", kind, label, tip, only_legal=True, examples=any_word, **more)


def declared(record: type, section: str) -> dict[str, Field]:
    """Return name -> declaration of the fields of a dataclass, all in one section."""
    found = {}
    for one in dataclasses.fields(record):
        field: Field = one.metadata["field"]
        own = f"--{one.name.replace('_', '-')}" if "{flag}" in field.tip else ""
        flag = field.flag + one.name if field.flag.endswith(".") else field.flag or own
        tip = field.tip.replace("{flag}", flag.replace(".", " "))
        found[one.name] = dataclasses.replace(
            field, name=one.name, section=section, flag=flag, tip=tip
        )
    return found


def any_word(field: Field, _chosen: Mapping[str, Any], rules: RuleSet) -> Sequence[Any]:
    """Return the words of the rule set as examples; six in ten draws give the default."""
    return mostly(field.default, field.kind.candidates(rules.name))


def mostly(default: Any, values: Sequence[Any], share: float = 0.6) -> tuple[Any, ...]:
    """Return values among which `default` has about this share."""
    return (*[default] * round(len(values) * share / (1 - share)), *values)
