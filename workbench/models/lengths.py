"""The longest request that a config.json allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.model import DEFAULT_MAX_MODEL_LEN
from workbench.models.fields import MAX_INTEGER, Fields

LENGTH_FIELDS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
AS_WRITTEN = frozenset({"su", "longrope", "llama3"})
"""RoPE kinds whose factor is already contained in the length fields."""
ORIGINAL = "original_max_position_embeddings"
YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
SMALL_CONTEXT = {"phi3": 4096}
"""model_type -> what its configuration class has for `ORIGINAL`, outside the RoPE settings."""


def derived_max_model_len(fields: Fields) -> int | None:
    """Return the tokens that the model supports, None if nothing limits it.

    `model_max_length` if present, else the smallest length field, times the RoPE factor; yarn
    scales its original length instead. Source: vLLM 0.23, ModelConfig max_model_len.
    """
    name = "derived_max_model_len"
    key, length = _length_field(fields)
    if length is None:
        fields.note(name, None, "config.json, which has no length field")
        return None
    tokens, origin = _scaled(fields, length, key)
    fields.note(name, tokens, origin)
    return tokens


def _scaled(
    fields: Fields, length: int, origin: str, as_written: frozenset[str] = AS_WRITTEN
) -> tuple[int, str]:
    """Return a length as RoPE scales it, and its origin; some kinds leave it unchanged."""
    factor = 1.0
    tokens: float = length
    for place, kind, rope in _rope_scalings(fields):
        if kind in as_written:
            continue
        factor = _positive(fields, place, rope, "factor", factor)
        if kind == "yarn":
            written = fields.raw(ORIGINAL) or _positive(fields, place, rope, ORIGINAL, length)
            tokens, origin = written, f"{ORIGINAL} of yarn"
    if factor != 1.0:
        origin += f" * RoPE factor {factor:g}"
    return int(tokens * factor), origin


def yarn_as_written(fields: Fields) -> int | None:
    """Return the length if yarn's length fields count as they are, without its factor.

    Source: vLLM 0.33, ModelConfig max_model_len.
    """
    key, length = _length_field(fields)
    return None if length is None else _scaled(fields, length, key, AS_WRITTEN | YARN)[0]


def default_max_model_len(fields: Fields) -> int | None:
    """Return the default length if it is not the derived one: longrope's original.

    Only the field next to the length is read, not the one in the RoPE settings. Without any
    length field: 2048 tokens as RoPE scales them.
    """
    if any(kind == "longrope" for _, kind, _ in _rope_scalings(fields)):
        default = SMALL_CONTEXT.get(fields.model_type)
        if fields.has(ORIGINAL) or default is not None:
            return fields.integer(ORIGINAL, default, name="default_max_model_len")
        return None
    if _length_field(fields)[1] is not None:
        return None
    assumed, origin = _scaled(fields, DEFAULT_MAX_MODEL_LEN, "no length field")
    if assumed == DEFAULT_MAX_MODEL_LEN:
        return None
    fields.note("default_max_model_len", assumed, origin)
    return assumed


def _length_field(fields: Fields) -> tuple[str, int | None]:
    candidates = ("model_max_length",) if fields.has("model_max_length") else LENGTH_FIELDS
    lengths = {key: fields.integer(key) for key in candidates if fields.has(key)}
    if not lengths:
        return "", None
    key = min(lengths, key=lambda field: lengths[field])
    return key, lengths[key]


def _positive(
    fields: Fields, place: str, rope: Mapping[str, Any], key: str, default: float
) -> float:
    value = rope.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise fields.wrong(f"{place}/{key}", value, "a number")
    if not 0 < value <= MAX_INTEGER:
        raise fields.wrong(f"{place}/{key}", value, f"above 0 and at most {MAX_INTEGER}")
    return value


def _rope_scalings(fields: Fields) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Return RoPE settings, their place and their kind: one object, or one per layer type.

    `rope_scaling` replaces `rope_parameters`. None for Gemma 3, whose length is scaled
    already.
    """
    if "gemma3" in fields.model_type:
        return
    for key in ("rope_scaling", "rope_parameters"):
        value = fields.raw(key)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise fields.wrong(key, value, "an object")
        nested = [
            (f"{key}/{name[:80]}", item)
            for name, item in value.items()
            if isinstance(name, str) and isinstance(item, Mapping)
        ]
        for place, rope in nested or [(key, value)]:
            kind = rope.get("rope_type", rope.get("type", "default"))
            if not isinstance(kind, str):
                raise fields.wrong(f"{place}/rope_type", kind, "a string")
            yield place, kind, rope
        return
