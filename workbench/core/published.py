"""Declare the values of a record once: type, unit, meaning and published name are at the field.

The published dictionary and its JSON schema follow from the declarations, in the order of the
class body, so that adding a value is one field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import partial
from hashlib import sha256
from operator import attrgetter
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    cast,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Record = TypeVar("Record")
Value = TypeVar("Value")

DECLARED = "declared"
SIMPLE = {int: "integer", str: "string", bool: "boolean", float: "number", NoneType: "null"}


@dataclass(frozen=True, slots=True)
class Declaration:
    """What is said about a value where it is declared."""

    meaning: str
    unit: str = ""
    label: str = ""
    """What tables and figures call it, where that is not its name in words."""
    name: str | None = None
    """The name in the published record, None for the value's own."""
    is_published: bool = True
    """Whether the value is in the published record at all."""
    choices: tuple[str, ...] = ()
    """Every value that a word may have."""
    empty_is_null: bool = False
    """Publish None for nothing."""
    parts: type[Published] | None = None
    """A record whose published values are published in the place of this one."""
    start: Callable[[Any], Any] | None = None
    """Record -> the value that a working twin begins with, where it is not a constant."""

    @property
    def description(self) -> str:
        """Return the meaning with the unit, as the schema has it."""
        return f"{self.meaning}, in {self.unit}" if self.unit else self.meaning


def decided(
    meaning: str,
    unit: str = "",
    *,
    default: Any = None,
    required: bool = False,
    published: bool = True,
    compare: bool = True,
    **more: Any,
) -> Any:
    """Declare a field; default: what a working twin begins with. more: see `Declaration`."""
    declared = Declaration(meaning=meaning, unit=unit, is_published=published, **more)
    start = MISSING if required else default
    return field(default=start, compare=compare, metadata={DECLARED: declared})


@dataclass_transform(kw_only_default=True, field_specifiers=(decided,))
def frozen_record(kind: type[Record]) -> type[Record]:
    """Return a frozen dataclass, which the type checker takes for mutable as its twin is."""
    return dataclass(frozen=True, slots=True, weakref_slot=True, repr=False, kw_only=True)(kind)


def published(
    unit: str = "", name: str | None = None, label: str = ""
) -> Callable[[Callable[[Any], Value]], Value]:
    """Declare a property that is published; its docstring is the meaning."""

    def declare(read: Callable[[Any], Value]) -> Value:
        meaning = (read.__doc__ or "").partition("\n")[0].removeprefix("Return ").rstrip(".")
        setattr(read, DECLARED, Declaration(meaning=meaning, unit=unit, label=label, name=name))
        return cast("Value", property(read))  # what an instance has under the name

    return declare


class Published:
    """A record that publishes itself. Its declarations are those of its class body, in order."""

    __slots__ = ()
    declarations: ClassVar[Mapping[str, Declaration]] = {}
    _entries: ClassVar[tuple[Entry, ...]] = ()

    def __init_subclass__(cls) -> None:
        # A dataclass with slots is made a second time, without the fields in its body.
        if "declarations" not in vars(cls):
            cls.declarations = dict(_declared(cls)) or cls.declarations

    @classmethod
    def label_of(cls, name: str) -> str:
        """Return what people call a value of the record or of its parts, by default its name.

        >>> wb.Plan.label_of("kernel_block_size")
        'kernel block'
        """
        records = (cls, *(one.parts for one in cls.declarations.values() if one.parts))
        found = (one.declarations[name].label for one in records if name in one.declarations)
        return next(found, "") or name.replace("_", " ")

    @classmethod
    def entries(cls) -> tuple[Entry, ...]:
        """Return what is published, in the order of the class body; made on first use."""
        if "_entries" not in vars(cls):
            cls._entries = tuple(_entries(cls))
        return cls._entries

    def to_dict(self) -> dict[str, Any]:
        """Return the published values by name, JSON-able."""
        return {entry.name: entry.read(self) for entry in self.entries()}


def _declared(kind: type) -> Iterator[tuple[str, Declaration]]:
    for name, value in vars(kind).items():
        if isinstance(value, Field) and DECLARED in value.metadata:
            yield name, value.metadata[DECLARED]
        elif isinstance(value, property) and hasattr(value.fget, DECLARED):
            yield name, getattr(value.fget, DECLARED)


class Entry(NamedTuple):
    """One published value: how it is read from the record, and the schema of what is read."""

    name: str
    read: Callable[[Any], Any]
    make_schema: Callable[[], dict[str, Any]]

    @property
    def schema(self) -> dict[str, Any]:
        """Return the schema. It is made on request: types are evaluated for it, not for reading."""
        return self.make_schema()


def _entries(kind: type[Published]) -> Iterator[Entry]:
    for name, declared in kind.declarations.items():
        if declared.parts is not None:
            yield from (_of_part(name, entry) for entry in declared.parts.entries())
        elif declared.is_published:
            schema = partial(_schema_of, kind, name, declared)
            yield Entry(declared.name or name, _reader(name, declared), schema)


def _schema_of(kind: type[Published], name: str, declared: Declaration) -> dict[str, Any]:
    hints = _hints(kind)
    return _schema(hints[name] if name in hints else _returned(getattr(kind, name).fget), declared)


def _hints(kind: type[Published]) -> dict[str, Any]:
    """Return the types of published fields; the others may have types for the checker alone."""
    wanted = {
        name: kind.__annotations__[name]
        for name, declared in kind.declarations.items()
        if declared.is_published and name in kind.__annotations__
    }
    module = vars(sys.modules[kind.__module__])
    return get_type_hints(SimpleNamespace(__annotations__=wanted), module, include_extras=True)


def _of_part(name: str, entry: Entry) -> Entry:
    """Return a value of a part of the record, None where the record has no such part."""
    part = attrgetter(name)

    def read(record: Any) -> Any:
        return None if part(record) is None else entry.read(part(record))

    return Entry(entry.name, read, lambda: _nullable(entry.schema))


def _reader(name: str, declared: Declaration) -> Callable[[Any], Any]:
    value = attrgetter(name)
    if declared.empty_is_null:
        return lambda record: json_value(value(record)) or None
    return lambda record: json_value(value(record))


def json_value(value: Any) -> Any:
    """Return a value as JSON has it: tuples as lists, records as they publish themselves."""
    if value is None or isinstance(value, (int, str, float, dict)):
        return value
    if isinstance(value, (list, tuple)) and not hasattr(value, "to_dict"):
        return [json_value(item) for item in value]
    return value.to_dict() if hasattr(value, "to_dict") else str(value)


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


def definition(kind: Any) -> tuple[str, dict[str, Any]]:
    """Return the name and the schema of a TypedDict of published values."""
    hints = get_type_hints(kind, include_extras=True)
    return _name(kind), closed({name: json_schema(hint) for name, hint in hints.items()})


def json_schema(hint: Any) -> dict[str, Any]:
    """Return the schema of values of a type, as `json_value` makes them."""
    origin = get_origin(hint)
    if origin is not None:
        return _generic_schema(origin, get_args(hint))
    if is_typeddict(hint):
        return {"$ref": f"#/$defs/{_name(hint)}"}
    if hasattr(hint, "to_dict"):
        return json_schema(_returned(hint.to_dict))
    return {} if hint is Any else {"type": SIMPLE.get(hint, "string")}


def _generic_schema(origin: Any, args: tuple[Any, ...]) -> dict[str, Any]:
    if origin is Annotated:
        return {**json_schema(args[0]), "description": args[1]}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (Union, UnionType):
        return _union([json_schema(arg) for arg in args])
    if origin in (list, tuple):
        return {"type": "array", "items": json_schema(args[0])}
    return {"type": "object"}


def _schema(hint: Any, declared: Declaration) -> dict[str, Any]:
    schema = {"enum": list(declared.choices)} if declared.choices else json_schema(hint)
    if declared.empty_is_null:
        schema = _nullable(schema)
    return {**schema, "description": declared.description}


def _union(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    merged = {key: value for schema in schemas for key, value in schema.items()}
    return {**merged, "type": [schema["type"] for schema in schemas]}


def _nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return {**schema, "type": list(dict.fromkeys([*kinds, "null"]))}


def _returned(function: Callable[..., Any]) -> Any:
    return get_type_hints(function, include_extras=True)["return"]


def _name(kind: type) -> str:
    return kind.__name__.removeprefix("Published").lower()


OUTSIDE_DIGEST = "outside of the digest"
"""Metadata of a field that came later: designs saved before keep their digests."""


def digest(*records: Any) -> str:
    """Return eight hex digits of the compared values that differ from their defaults."""
    return sha256(repr([_given(record) for record in records]).encode()).hexdigest()[:8]


def _given(value: Any) -> Any:
    """Return what was given; without defaults, a field that is added later changes no digest."""
    if is_dataclass(value):
        digested = [f for f in fields(value) if f.compare and not f.metadata.get(OUTSIDE_DIGEST)]
        found = [(f.name, getattr(value, f.name), f.default) for f in digested]
    elif isinstance(value, frozenset):
        return sorted(value)  # its own order is another one in every process
    elif not isinstance(value, tuple):
        return value
    elif names := getattr(value, "_fields", ()):
        usual = getattr(value, "_field_defaults", {})
        found = [(name, getattr(value, name), usual.get(name, MISSING)) for name in names]
    else:
        return tuple(map(_given, value))
    return [(name, _given(one)) for name, one, default in found if one != default]
