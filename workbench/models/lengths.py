"""The longest request that a config.json allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

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
UNSCALED_ROPE = frozenset({"su", "longrope", "llama3"})
"""RoPE kinds whose factor is already contained in the length fields."""


def derived_max_model_len(fields: Fields) -> int | None:
    """Tokens that the model supports, None when nothing limits it.

    `model_max_length` if present, else the smallest length field, times the RoPE factor; yarn
    scales its original length instead. Source: vLLM 0.23, ModelConfig max_model_len.
    """
    name = "derived_max_model_len"
    candidates = ("model_max_length",) if fields.has("model_max_length") else LENGTH_FIELDS
    present = [key for key in candidates if fields.has(key)]
    if not present:
        fields.note(name, None, "config.json, which has no length field")
        return None
    lengths = {key: fields.integer(key) for key in present}
    key = min(present, key=lambda field: lengths[field])
    length: float = lengths[key]
    factor = 1.0
    origin = key
    for place, rope in _rope_scalings(fields):
        kind = rope.get("rope_type", rope.get("type", "default"))
        if not isinstance(kind, str):
            raise fields.wrong(f"{place}/rope_type", kind, "a string")
        if kind in UNSCALED_ROPE:
            continue
        factor = _positive(fields, place, rope, "factor", factor)
        if kind == "yarn":
            original = "original_max_position_embeddings"
            if rope.get(original) is None:
                raise fields.missing(f"{place}/{original}", "the yarn-scaled length")
            length = _positive(fields, place, rope, original, length)
            origin = f"{original} of yarn"
    if factor != 1.0:
        origin += f" * RoPE factor {factor:g}"
    fields.note(name, int(length * factor), origin)
    return int(length * factor)


def default_max_model_len(fields: Fields) -> int | None:
    """L when none is asked for, where it is not the derived one: longrope's original length."""
    for place, rope in _rope_scalings(fields):
        original = rope.get("original_max_position_embeddings")
        if rope.get("rope_type", rope.get("type")) == "longrope" and original is not None:
            length = _positive(fields, place, rope, "original_max_position_embeddings", 1)
            fields.note("default_max_model_len", int(length), "longrope's original length")
            return int(length)
    return None


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


def _rope_scalings(fields: Fields) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """RoPE settings and where they stand: one object, or one per layer type.

    None for Gemma 3, whose length is scaled already.
    """
    if "gemma3" in fields.model_type:
        return
    for key in ("rope_parameters", "rope_scaling"):
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
        yield from nested or [(key, value)]
        return
