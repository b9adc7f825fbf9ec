"""Read values from vLLM's own dumps: `non-default args: {...}` and the engine's config line."""

import ast
import re
from typing import Any, NamedTuple

from workbench.core.errors import WorkbenchError
from workbench.interop.commands.command_line import read_command
from workbench.interop.commands.connectors import offloading_connector
from workbench.interop.commands.not_modelled import effect
from workbench.interop.commands.references import local_config
from workbench.interop.commands.speculation import SPECULATION, printed_speculation
from workbench.models.catalog import catalog_name
from workbench.models.names import checkpoint_in, same_model, similar_model
from workbench.scenario import FIELDS, MODEL, Field

CLOSING = {"(": ")", "[": "]", "{": "}"}
QUOTES = ("'", '"')
MARK = re.compile(r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|['"()\[\]{},]""", re.DOTALL)
KEY = re.compile(r"""\s*,?\s*(?:'([^'\\]+)'\s*:|"([^"\\]+)"\s*:|([A-Za-z_]\w*)\s*=)\s*""")
OBJECTS = {field.argument[0] for field in FIELDS.values() if field.argument[1]} - {SPECULATION}
"""Names of objects with fields in them."""


def entries(dump: object) -> dict[str, Any]:
    """Return the entries of a dict's or a dataclass's printed form, as far as they can be read.

    Values that are not Python literals (objects, torch.bfloat16) stay text; an entry that is cut
    off at the end of the text is omitted.
    """
    found: dict[str, Any] = {}
    text = str(dump)
    at = text.find("{") + 1 if text.lstrip().startswith("{") else 0
    while (key := KEY.match(text, at)) is not None:
        end = _end_of_value(text, key.end())
        if end is None:
            break
        name = next(filter(None, key.groups()))
        raw = text[key.end() : end].strip()
        try:
            found[name] = ast.literal_eval(raw)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            found[name] = raw
        at = end
    return found


def _end_of_value(text: str, start: int) -> int | None:
    """Return where the value that starts here ends; None if the text ends inside it."""
    waiting: list[str] = []
    for found in MARK.finditer(text, start):
        mark = found[0]
        if mark in QUOTES:  # it is not closed: the pattern takes a whole quotation
            return None
        if mark in CLOSING:
            waiting.append(CLOSING[mark])
        elif waiting and mark == waiting[-1]:
            waiting.pop()
        elif not waiting and mark in ",})]":
            return found.start()
    return None if waiting else len(text)


def logged_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario fields in a dump of arguments, of the engine or of a selector."""
    values = {**values, **_inside_objects(values)}
    read = {name: _read(field, values) for name, field in FIELDS.items()}
    found = {name: value for name, value in read.items() if value is not None}
    if connector := offloading_connector(values):
        found["kv_connector"] = connector
    if served := _served_as(values):
        found["model"] = served
    return {**found, **printed_speculation(values.get(SPECULATION), values.get("model"))}


def _served_as(values: dict[str, Any]) -> str | None:
    """Return the name under which a model is served, where its folder does not say which it is."""
    names = values.get("served_model_name") or ()
    served = names if isinstance(names, list | tuple) else (names,)
    if "model" not in values or known_model(str(values["model"])).name is not None:
        return None
    return next((one for one in map(str, served) if known_model(one).name is not None), None)


def _inside_objects(values: dict[str, Any]) -> dict[str, Any]:
    """Return `object.key` -> value for the keys of a dict or of a printed object."""
    found: dict[str, Any] = {}
    for name in OBJECTS:
        inside = values.get(name)
        if isinstance(inside, str):
            inside = entries(inside[inside.find("(") + 1 :])
        if isinstance(inside, dict):
            found |= {f"{name}.{key}": value for key, value in inside.items()}
    return found


def _read(field: Field, values: dict[str, Any]) -> Any:
    """Return the value of a field; None if nothing is said about it, or that a switch is off."""
    given = next((values[name] for name in field.other_names if values.get(name) is not None), None)
    if given is None:
        return None
    value = str(given) if field is MODEL else field.kind.read(given)
    return None if value is False and field.default is False else value


def unfollowed(values: dict[str, Any]) -> tuple[str, ...]:
    """Return what changes sizes and has no field in a scenario, one sentence each."""
    inside = {**values, **_inside_objects(values)}
    followed = {one.argument[0] for one in FIELDS.values() if _read(one, inside) is not None}
    rest = {name: value for name, value in values.items() if name not in followed & OBJECTS}
    found = ((name, value, effect(name, value)) for name, value in rest.items())
    notes = [
        f"{name} = {str(value)[:80]}: not modelled here, although {why}."
        for name, value, why in found
        if why is not None
    ]
    return (*notes, *_note_of_name(values))


def command_facts(command: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a command, and what `unfollowed` returns of it.

    Nothing of text that only mentions one.
    """
    try:
        read = read_command(command)
    except WorkbenchError:
        return {}, ()
    # what a shell would have replaced is unknown
    fields = {name: value for name, value in read.fields.items() if "$" not in str(value)}
    given = {**read.fields, "served_model_name": read.without_field.get("served_model_name")}
    if served := _served_as(given):
        fields["model"] = served
    return fields, (*read.not_modelled, *_note_of_name(given))


def _note_of_name(values: dict[str, Any]) -> tuple[str, ...]:
    served = _served_as(values)
    if served is None:
        return ()
    return (f"{values['model']} is served as {served}, which is taken for its model.",)


class KnownModel(NamedTuple):
    """The catalog model or the path of a name in a log, and what a reader must know about it."""

    name: str | None
    note: str = ""
    is_stand_in: bool = False
    """It has the sizes of the checkpoint, which can be quantized in another way."""


def known_model(reference: str) -> KnownModel:
    """Return the model for a name in a log; without a name where none is certain."""
    if name := catalog_name(reference) or local_config(reference):
        return KnownModel(name)
    if name := checkpoint_in(reference):
        return KnownModel(name, f"{reference} is treated as {name}, because of its name.")
    if same := same_model(reference):
        note = (
            f"{reference} has the sizes of {same.name} ({same.why}). A quantized checkpoint can "
            "set a KV dtype of its own."
        )
        return KnownModel(same.name, note, is_stand_in=True)
    similar = similar_model(reference)
    advice = f" Give {similar} if it has that model's config.json." if similar else ""
    note = (
        f"{reference} is not in the catalog (`workbench models`). To compare the sizes, give the "
        f"path of its config.json as the model (`--model`).{advice}"
    )
    return KnownModel(None, note)
