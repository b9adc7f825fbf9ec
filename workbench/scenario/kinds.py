"""Kinds of scenario fields: how a value is written, checked, offered and published."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from workbench.access.json_text import json_or_word
from workbench.core.devices import device_named
from workbench.core.errors import ScenarioError, check_name, nearest_names, shown
from workbench.core.groups.built_layers import WINDOWS
from workbench.core.sizes import invalid
from workbench.core.versions import RULE_SETS, RuleSet
from workbench.models.overrides import MODELLED, modelled

JsonSchema = dict[str, Any]
AUTO = "auto"  # None to vLLM, which takes any case (validate_backend_before, 0.23 and 0.33)
DTYPE_NAMES = {"half": "float16", "float": "float32"}
"""Other names of a dtype on vLLM's command line."""


class Kind:
    """What the values of a field are; the base is any text.

    expected: what the error of a value of another type asks for; item: the same for an element.
    """

    expected = "a string"
    item = "a string"
    unit = ""
    json: ClassVar[JsonSchema] = {"type": "string"}
    is_listed = False

    def clean(self, name: str, value: Any) -> Any:
        """Return what a scenario stores for a value as a person may write it."""
        return value

    def check(self, name: str, value: Any, rules: str) -> None:
        """Check a value of the right type. Errors: ScenarioError with the nearest valid one."""

    def hint(self, given: object) -> str:
        """Return a sentence with the valid value nearest to one of another type, or nothing."""
        return ""

    def schema(self, *, nullable: bool) -> JsonSchema:
        """Return the JSON schema of a value."""
        return {**self.json, "type": [self.json["type"], "null"]} if nullable else self.json

    def candidates(self, rules: str) -> tuple[Any, ...]:
        """Return the values that a picker lists, without None."""
        return ()

    def all_words(self) -> tuple[Any, ...]:
        """Return the candidates of every version."""
        return tuple(dict.fromkeys(word for rules in RULE_SETS for word in self.candidates(rules)))

    def read(self, value: Any) -> Any:
        """Return the value that vLLM's command line or log gives, as a scenario has it.

        None means that it says nothing about the field.
        """
        return value

    def write(self, value: Any) -> Any:
        """Return the value of vLLM's argument; True and False are the two forms of a switch."""
        return value

    def parse(self, name: str, text: str) -> Any:
        """Return the value of a text that a person entered, None for an empty one."""
        return text.strip() or None

    def format(self, value: Any) -> str:
        """Return the text that `parse` reads back."""
        return "" if value is None else str(value)


class ModelReference(Kind):
    """A model: a name, or the object of a config.json."""

    expected = "a name, a path or a config object"
    json: ClassVar[JsonSchema] = {
        "type": ["string", "object"],
        "description": "catalog name, path of a config.json, hub id, or the config object",
    }

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {**self.json, "type": [*self.json["type"], "null"]} if nullable else self.json


class Changes(Kind):
    """Fields of config.json that a command changes."""

    expected = "an object of fields of config.json"
    json: ClassVar[JsonSchema] = {
        "type": "object",
        "description": "RoPE settings, lengths, sizes, architectures, a reranker's fields; at the "
        "top or in text_config",
    }

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`; other fields may change more than is applied here."""
        known = modelled(value)
        if known != value:
            unknown = next(key for key in value if key not in known or known[key] != value[key])
            others = sorted(MODELLED - {unknown})
            nearest = nearest_names(str(unknown), others) or ("rope_parameters",)
            raise ScenarioError(
                "unknown_name",
                f"Invalid {name} field {shown(unknown)}. Expected RoPE settings, lengths, sizes, "
                "architectures, a reranker's fields, or sliding_window = null. Nearest valid "
                f"value: {nearest[0]}. For another field, give the changed config.json as the "
                "model.",
                field=name,
            )

    def read(self, value: Any) -> Any:
        """See `Kind.read`; what is not applied here is omitted."""
        found = json_or_word(value) if isinstance(value, str) else value
        return (modelled(found) or None) if isinstance(found, dict) else None

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`."""
        return json_or_word(text) if text.strip() else None

    def format(self, value: Any) -> str:
        """See `Kind.format`."""
        return "" if value is None else json.dumps(value)


@dataclass(frozen=True)
class Words(Kind):
    """One of some words: these, or those of the rule set."""

    of: tuple[str, ...] | Callable[[RuleSet], tuple[str, ...]]
    of_any_version: bool = False
    """Accept words of every version: the plan says what to do in a version without one."""
    normal: Callable[[str], str | None] = str
    """The word that vLLM means with another form of it; None if it says nothing about the field."""
    is_listed = True

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`; another form of a word becomes the word, and auto is left to vLLM."""
        if self.normal is str or not isinstance(value, str) or value in self.all_words():
            return value
        word = self.normal(value)
        is_form = word in self.all_words() or (word is None and value.casefold() == AUTO)
        return word if is_form else value

    def candidates(self, rules: str) -> tuple[str, ...]:
        """See `Kind.candidates`; the words that a rule set accepts."""
        return self.of(RULE_SETS[rules]) if callable(self.of) else self.of

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        allowed = self.all_words() if self.of_any_version else self.candidates(rules)
        check_name(name, value, allowed, name)

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {"enum": [*self.all_words(), *([None] if nullable else [])]}

    def read(self, value: Any) -> Any:
        """See `Kind.read`."""
        return self.normal(str(value))


class Capability(Words):
    """A compute capability such as "9.0"; the number 9.0 is accepted too."""

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`; a capability that no device has may be longer than a float."""
        if not isinstance(value, int | float):
            return value
        try:
            return f"{value:.1f}"
        except OverflowError:
            return shown(value)

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {
            "type": ["string", "number", "null"],
            "description": f"on cuda one of {', '.join(self.all_words())}; not read elsewhere",
        }


class DeviceName(Words):
    """A device; case, punctuation and the vendor's name do not matter."""

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`; another form of a name becomes the name."""
        found = device_named(value)
        return value if found is None else found.name

    def schema(self, *, nullable: bool) -> JsonSchema:
        """See `Kind.schema`."""
        return {
            "type": ["string", "null"],
            "description": f"one of {', '.join(self.all_words())}; case and punctuation do not "
            "matter, the driver's name is accepted too",
        }

    def read(self, value: Any) -> Any:
        """See `Kind.read`; a log may name a device that is not known here."""
        found = device_named(value)
        return None if found is None else found.name


@dataclass(frozen=True)
class Switch(Kind):
    """On or off. on, off: the values of vLLM's flag, if it is not a switch itself."""

    expected = "true or false"
    json: ClassVar[JsonSchema] = {"type": "boolean"}
    is_listed = True
    on: str | bool = True
    off: str | bool = False

    def candidates(self, rules: str) -> tuple[Any, ...]:
        """See `Kind.candidates`."""
        return (True, False)

    def read(self, value: Any) -> bool:
        """See `Kind.read`; an environment variable is on with "1"."""
        return bool(value in (self.on, "1"))

    def write(self, value: Any) -> Any:
        """See `Kind.write`."""
        return self.on if value else self.off


class Version(Kind):
    """A version such as "2.9", "2.9.1+cu130" or "2.9.0.dev20250901"."""

    pattern = r"\d{1,4}\.\d{1,4}([.+-].*)?"
    json: ClassVar[JsonSchema] = {"type": "string", "pattern": f"^{pattern}$"}

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        if not re.fullmatch(self.pattern, value, re.ASCII):
            expected = "a version such as 2.9 or 2.9.1+cu130."
            raise invalid("wrong_type", name, value, expected)


class Layers(Kind):
    """Numbers of layers, or the word for all sliding ones."""

    expected = "a list of layer numbers"
    json: ClassVar[JsonSchema] = {
        "type": "array",
        "items": {"type": "string", "description": f'a layer number, or "{WINDOWS}"'},
    }

    def clean(self, name: str, value: Any) -> Any:
        """See `Kind.clean`; numbers become texts."""
        if not isinstance(value, list | tuple):
            return value
        return tuple(str(layer) if type(layer) is int else layer for layer in value)

    def check(self, name: str, value: Any, rules: str) -> None:
        """See `Kind.check`."""
        for layer in value:
            if not re.fullmatch(r"\d{1,5}", layer, re.ASCII) and layer != WINDOWS:
                near = WINDOWS if layer[:1].isalpha() else 0
                message = (
                    f"Invalid {name} entry {shown(layer)}. Expected a layer number such as 0, or "
                    f"{WINDOWS} for all sliding layers. Nearest valid value: {near}."
                )
                raise ScenarioError("unknown_name", message, field=name)

    def read(self, value: Any) -> Any:
        """See `Kind.read`."""
        layers = value if isinstance(value, list | tuple) else str(value).split(",")
        return tuple(map(str, layers)) or None

    def write(self, value: Any) -> Any:
        """See `Kind.write`."""
        return list(value)

    def parse(self, name: str, text: str) -> Any:
        """See `Kind.parse`."""
        return tuple(filter(None, map(str.strip, text.split(",")))) or None

    def format(self, value: Any) -> str:
        """See `Kind.format`."""
        return ", ".join(value or ())


def enum_member(text: str) -> str | None:
    """Return the member of any printed enum: `a`, `Enum.A`, `<Enum.A: 'module.path'>`."""
    member = text.strip("<>").split(":")[0].rpartition(".")[2].strip()
    return None if member.casefold() == AUTO else member.upper()


def dtype_name(text: str) -> str:
    """Return the name of a dtype, of which `torch.bfloat16` and `half` are other forms."""
    name = text.removeprefix("torch.")
    return DTYPE_NAMES.get(name, name)
