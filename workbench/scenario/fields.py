"""The table of scenario fields.

A field is declared once, whole, in the class of its section: `declare(default, kind, label, tip)`
and what `Field` lists. Settings, validation, the JSON schema, the pickers of the panel, vLLM's
command line and logs, random scenarios and sweeps read the table. Names are vLLM's where vLLM has
one. None means "the engine chooses".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from workbench.scenario.engine_fields import MODEL, EngineFields
from workbench.scenario.field import Field, declared
from workbench.scenario.memory_fields import MemoryFields, PartFields
from workbench.scenario.more_fields import FlexFields, MoreFields
from workbench.scenario.step_fields import StepFields

SECTIONS = {
    "": EngineFields,
    "More settings": MoreFields,
    "Steps of the scheduler": StepFields,
    "Memory budget of one device": MemoryFields,
    "Towers and adapters": PartFields,
    "Flex attention": FlexFields,
}
"""Title of a section of the panel -> its fields, in order; the first is always open."""


@dataclass(frozen=True)
class Settings(FlexFields, PartFields, MemoryFields, StepFields, MoreFields, EngineFields):
    """One scenario without its model. Values are not checked here: `Scenario` does that."""


def changed(settings: Settings, values: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Settings:
    """Return a plain copy with other values, which are not checked.

    It is made without its constructor, which costs as much as half a resolution.
    """
    copy = object.__new__(Settings)
    vars(copy).update(vars(settings))
    vars(copy).update(values)
    return copy


FIELDS: Mapping[str, Field] = MappingProxyType(
    {MODEL.name: MODEL}
    | {
        name: field
        for title, record in SECTIONS.items()
        for name, field in declared(record, title).items()
    }
)
"""Name -> declaration of every field of a scenario."""
