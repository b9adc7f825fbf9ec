"""Typed access to a config.json that remembers where every value came from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from itertools import islice
from typing import Any, Final, TypeVar

from workbench.core.errors import ConfigError, nearest_names, shown
from workbench.core.trace import Origin, show
from workbench.models.config_defaults import defaults_of, text_type

Found = TypeVar("Found")

MAX_INTEGER: Final = 2**40
MAX_LAYERS: Final = 2048
NESTED: Final = (
    "text_config",
    "llm_config",
    "language_config",
    "thinker_config/text_config",
    "config/text",
    "decoder",
)
"""Where multimodal wrappers keep the text model's fields, first match."""

OTHER_NAMES: Final = {
    "vocab_size": ("padded_vocab_size",),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "encoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "decoder_attention_heads"),
    "hidden_size": ("n_embd", "n_embed", "d_model", "dim"),
    "num_key_value_heads": ("n_kv_heads", "num_attention_groups"),
    "max_position_embeddings": ("max_context",),
}
"""Field -> what older configuration classes call it (their `attribute_map`)."""

LAST_WORD: Final = {"num_key_value_heads": "num_attention_groups"}
"""Field -> the other name that counts where a file has both (Step3p5)."""

RENAMED_KINDS: Final = {
    "mamba": "linear_attention",
    "attention": "full_attention",
    "deepseek_sparse_attention": "indexed_attention",
}
"""Kinds of layers in lists -> what transformers 5.16 and later save instead.

Source: `_LEGACY_LAYER_TYPE_REMAP` of transformers 5.20.2, which is applied to every list it loads.
"""

LATER_SPELLING: Final = (
    "Its layer kinds are spelled as transformers 5.16 and later save them; releases of vLLM and "
    "transformers before that may stop at them."
)
REQUIRED: Final = object()


class Fields:
    """The text model's fields of one config.json, and the origins of those that were read.

    `top` is the whole object, `text` the nested text configuration where there is one.
    `listed_layers` is the length of the per-layer list that was read, `remarks` are sentences for
    the user.
    Every getter records under `name` where the value came from; a missing required field, a
    wrong type or a value out of range is a ConfigError with the JSON pointer of the field.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.top = config
        self.text = config
        self.prefix = ""
        self.origins: dict[str, Origin] = {}
        self.listed_layers = 0
        self.remarks: list[str] = []
        for place in NESTED:
            nested: Any = config
            for key in place.split("/"):
                if not isinstance(nested, Mapping):
                    raise self.wrong(place.partition("/")[0], nested, "an object")
                nested = nested.get(key)
                if nested is None:
                    break
            if nested is None:
                continue
            if not isinstance(nested, Mapping):
                raise self.wrong(place, nested, "an object")
            self.text, self.prefix = nested, place
            break
        self.defaults = defaults_of(self.model_type, is_nested=bool(self.prefix))

    @property
    def model_type(self) -> str:
        """Return that of the text configuration, or what its wrapper makes it; "" for none."""
        value = self.text.get("model_type") or text_type(self.top.get("model_type"))
        return value if isinstance(value, str) else ""

    def pointer(self, key: str) -> str:
        """Return the JSON pointer of a text field."""
        return f"/{self.prefix}/{key}" if self.prefix else f"/{key}"

    def wrong(self, key: str, value: object, allowed: str) -> ConfigError:
        """Return the error for a value of the wrong kind."""
        return ConfigError(
            "config_wrong_value",
            f"Invalid {self.pointer(key)} {shown(value)}. Expected {allowed}.",
            field=self.pointer(key),
        )

    def contradiction(self, key: str, message: str, vllm_text: str | None = None) -> ConfigError:
        """Return the error for fields that cannot both be true."""
        place = self.pointer(key)
        text = f"{place}: {message}."
        return ConfigError("config_contradiction", text, field=place, vllm_text=vllm_text)

    def missing(self, key: str, name: str) -> ConfigError:
        """Return the error for a required field that is absent."""
        names = (name[:80] for name in islice(self.text, 500) if isinstance(name, str))
        is_null = key in self.text
        near = [] if is_null else nearest_names(key, names)
        hint = f" Similar fields here: {', '.join(near)}." if near else ""
        what = "null" if is_null else "missing"
        return ConfigError(
            "config_missing_field",
            f"{self.pointer(key)} is {what}; it is needed for {name}.{hint}",
            field=self.pointer(key),
        )

    def note(self, name: str, value: object, origin: str) -> None:
        """Record where a derived value comes from."""
        self.origins[name] = Origin(name, show(value), origin)

    def reading(self, read: Callable[[Fields], Found]) -> tuple[Found, tuple[str, ...]]:
        """Return what a function reads, and the names of the fields that it read for it."""
        before, self.origins = self.origins, {}
        try:
            found = read(self)
            return found, tuple(self.origins)
        finally:
            self.origins = {**before, **self.origins}

    def has(self, key: str) -> bool:
        """Return whether a text field has a value: its own, or that of its configuration class."""
        return self.raw(key) is not None

    def raw(self, key: str) -> Any:
        """Return a text field; if absent, the default of its configuration class, else None."""
        return self.text[name] if (name := self._name(key)) in self.text else self.defaults.get(key)

    def _name(self, key: str) -> str:
        """Return the name that a field has here."""
        if key in self.text and LAST_WORD.get(key) not in self.text:
            return key
        return next((name for name in OTHER_NAMES.get(key, ()) if name in self.text), key)

    def vocab_size(self) -> int | None:
        """Return a positive, possible integer, else None: this field stops no model."""
        value = self.raw("vocab_size")
        is_size = isinstance(value, int) and not isinstance(value, bool)
        return value if is_size and 0 < value <= MAX_INTEGER else None

    def integer(
        self,
        key: str,
        default: Any = REQUIRED,
        *,
        name: str | None = None,
        minimum: int = 1,
        maximum: int = MAX_INTEGER,
    ) -> int:
        """Return an integer field within [minimum, maximum]; `default` is the config class's."""
        value = self._found(key, default, name)
        if value is None:
            return default  # type: ignore[no-any-return]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, value, "an integer")
        if not minimum <= value <= maximum:
            raise self.wrong(key, value, f"between {minimum} and {maximum}")
        self.note(name or key, value, self._where(key))
        return value

    def number(self, key: str, default: float, *, name: str | None = None) -> float:
        """Return a positive, finite number."""
        value = self._found(key, default, name)
        if value is None:
            return default
        self.note(name or key, self.positive(key, value), self._where(key))
        return value  # type: ignore[no-any-return]

    def positive(self, key: str, value: object) -> float:
        """Return `value`, which `key` has, if it is a positive, finite number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, value, "a number")
        if not 0 < value <= MAX_INTEGER:
            raise self.wrong(key, value, f"above 0 and at most {MAX_INTEGER}")
        return value

    def _found(self, key: str, default: Any, name: str | None) -> Any:
        """Return a field that is present; else None, and record the default."""
        value, name = self.raw(key), name or key
        if value is None:
            if default is REQUIRED:
                raise self.missing(key, name)
            self.note(name, default, f"the family's default ({key} is absent)")
        return value

    def word(self, key: str, allowed: Sequence[str], *, name: str | None = None) -> str | None:
        """Return a string out of `allowed`, None if absent."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, str) or value not in allowed:
            raise self.wrong(key, value, f"one of {', '.join(allowed)}")
        self.note(name or key, value, self._where(key))
        return value

    def layer_list(self, key: str, allowed: Mapping[Any, str]) -> tuple[str, ...] | None:
        """Return a per-layer list, translated by `allowed`; None if absent or empty."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple | str):
            raise self.wrong(key, value, "a list with one entry per layer")
        if len(value) > MAX_LAYERS:
            raise self.wrong(key, value, f"at most {MAX_LAYERS} layers")
        later = {RENAMED_KINDS[one]: kind for one, kind in allowed.items() if one in RENAMED_KINDS}
        words = {**later, **allowed}
        result = []
        for position, entry in enumerate(value):
            known = isinstance(entry, str | int) and not isinstance(entry, bool)
            if not known or entry not in words:
                names = ", ".join(map(str, allowed))
                raise self.wrong(f"{key}/{position}", entry, f"one of {names}")
            result.append(words[entry])
        self.note("layers", f"{len(result)} layers", self._where(key))
        self.listed_layers = len(result)
        if any(entry not in allowed for entry in value):
            self.remarks.append(LATER_SPELLING)
        return tuple(result)

    def index_list(self, key: str, first: int = 0) -> frozenset[int] | None:
        """Return a list of layer indexes from `first` on, 0-based, also of layers that are not."""
        value = self.raw(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) > MAX_LAYERS:
            raise self.wrong(key, value, "a list of layer indexes")
        for position, entry in enumerate(value):
            if isinstance(entry, bool) or not isinstance(entry, int):
                raise self.wrong(f"{key}/{position}", entry, "an integer")
            if not first <= entry < first + MAX_LAYERS:
                last = first + MAX_LAYERS - 1
                raise self.wrong(f"{key}/{position}", entry, f"between {first} and {last}")
        self.note("layers", f"{len(value)} listed", self._where(key))
        return frozenset(entry - first for entry in value)

    def omit(self, key: str) -> None:
        """Read on as if neither the object nor its class had such a field."""
        self.text = {name: value for name, value in self.text.items() if name != key}
        self.defaults = {name: value for name, value in self.defaults.items() if name != key}

    def layer_count(self) -> int:
        """Return `num_hidden_layers`."""
        return self.integer("num_hidden_layers", maximum=MAX_LAYERS)

    def child(self, key: str) -> Fields:
        """Return the fields of a nested object, sharing this record of origins."""
        value = self.raw(key)
        if value is None:
            raise self.missing(key, "the layer geometry")
        if not isinstance(value, Mapping):
            raise self.wrong(key, value, "an object")
        child = copy(self)
        child.text, child.defaults = value, {}
        child.prefix = f"{self.prefix}/{key}" if self.prefix else key
        return child

    def _where(self, key: str) -> str:
        name = self._name(key)
        if name not in self.text:
            return f"the family's default ({key} is absent)"
        return f"{self.prefix.replace('/', '.')}.{name}" if self.prefix else name
