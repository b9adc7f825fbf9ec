"""A model family: how its config.json declares its layers and states."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from workbench.core.errors import ConfigError, cut, shown
from workbench.core.model import Attention, Layer
from workbench.core.states import State
from workbench.models.attention import read_attention
from workbench.models.fields import Fields

Layers = tuple[Layer, ...]
Part = int | str | tuple[str, int]
AnyState = TypeVar("AnyState", bound=State)


def nothing(_fields: Fields) -> None:
    """Return None: the family does not have this part."""


@dataclass(frozen=True)
class Family:
    """One reader: functions from fields to layers, attention geometry and state geometry."""

    name: str
    model_types: tuple[str, ...] | Mapping[str, tuple[str, ...]]
    """model_type -> the architectures that the reader was written for, the first one where
    config.json names none; a plain tuple of model types accepts every architecture."""
    layers: Callable[[Fields], Layers]
    state: Callable[[Fields], State | None] = nothing
    attention: Callable[[Fields], Attention | None] = read_attention
    stated: Callable[[Fields], Attention | None] = nothing
    """The attention as vLLM counts it before it builds layers, where they are built otherwise."""
    is_attention_free: bool = False
    supports_all_mode: bool = False
    """Whether 0.23 has cache mode "all" for it."""
    is_encoder_decoder: bool = False
    """What its configuration class has for `is_encoder_decoder`."""
    names_attention_layers: bool = True
    """The family's configuration has a per-layer list with entries that mean attention."""
    layers_in_block: int = 1
    """Layers that `num_hidden_layers` counts of one block, which pipeline stages have whole."""
    goes_by_list: bool = False
    """Its class builds as many layers as its list has, whatever `num_hidden_layers` says."""
    listed_blocks: Callable[[Fields], int | None] = nothing
    slides: bool = False
    """Its attention layers have the window that config.json names, all of them."""
    ssm_cache_dtype: Callable[[Fields], str | None] = nothing
    """What vLLM uses in place of an "auto" state dtype."""
    is_ordinary: Callable[[Fields], bool] = lambda _fields: False
    dspark: Callable[[Fields], Layers] = lambda _fields: ()
    """The layers of a DSpark drafter in the checkpoint."""
    largest_item_tokens: Callable[[Fields], int | None] = nothing
    """Tokens of the largest image or video that a step must hold whole."""

    @property
    def is_hybrid(self) -> bool:
        """Return vLLM's flag of the family; `is_ordinary` says for which models it is off."""
        return self.state is not nothing and not self.is_attention_free

    def architectures_of(self, model_type: str) -> tuple[str, ...]:
        """Return the architectures that are read under a model type; none means all of them."""
        types = self.model_types
        return types.get(model_type, ()) if isinstance(types, Mapping) else ()


FAMILIES: dict[str, Family] = {}
"""model_type -> family."""


def read_state(kind: Callable[..., AnyState], fields: Fields, **parts: Part) -> AnyState:
    """Return a state: each part a number, or a field, with its default where the class has one."""

    def value(part: Part) -> int:
        if isinstance(part, int):
            return part
        return fields.integer(part) if isinstance(part, str) else fields.integer(*part)

    return kind(**{name: value(part) for name, part in parts.items()})


def register(
    name: str,
    model_types: tuple[str, ...] | Mapping[str, tuple[str, ...]],
    layers: Callable[[Fields], Layers],
    state: Callable[[Fields], State | None] = nothing,
    **more: Any,
) -> None:
    """Add a family under all its model types; a type that is taken is a ValueError.

    more: the other fields of `Family`.
    """
    family = Family(name=name, model_types=model_types, layers=layers, state=state, **more)
    for model_type in model_types:
        if model_type in FAMILIES:
            raise ValueError(f"model_type {model_type!r} is registered twice")
        FAMILIES[model_type] = family


def find_family(fields: Fields, default: Family) -> tuple[Family, str]:
    """Return the family of a config.json and the model_type that chose it; the outer one first.

    default: the reader of every type without one of its own.
    """
    tried = []
    inner = fields.text.get("model_type")
    for pointer, value in (
        ("/model_type", fields.top.get("model_type")),
        (fields.pointer("model_type"), inner if inner is not None else fields.model_type or None),
    ):
        if value is None:
            continue
        if not isinstance(value, str):
            message = f"Invalid {pointer} {shown(value)}. Expected a string."
            raise ConfigError("config_wrong_value", message, field=pointer)
        if value in FAMILIES:
            return FAMILIES[value], value
        tried.append(value)
    if not tried:
        raise _without_type(fields.top)
    return default, tried[-1]


def _without_type(config: Mapping[str, Any]) -> ConfigError:
    """Return the error for a file without a type; that of a drafter says which model it is for."""
    code, field, stated = "config_missing_field", "/model_type", config.get("speculators_config")
    if not isinstance(stated, Mapping):
        message = "/model_type is missing; it decides which family's fields are read."
        text = "Should have a `model_type` key in its config.json."
        return ConfigError(code, message, field=field, vllm_text=text)
    verifier = stated.get("verifier")
    named = verifier.get("name_or_path") if isinstance(verifier, Mapping) else None
    target = f"{cut(named)} as model" if isinstance(named, str) else "its target as model"
    # maybe_override_with_speculators, 0.23 and 0.33
    message = (
        "This is the file of a drafter of the speculators library, which vLLM serves together with "
        f"its target. Set {target}, and this file as draft_model."
    )
    return ConfigError(code, message, field=field)
