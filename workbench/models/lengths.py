"""The longest request that a config.json allows."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.core.model import DEFAULT_MAX_MODEL_LEN
from workbench.models.config_defaults import BY_RELEASE, ORIGINAL
from workbench.models.fields import Fields
from workbench.models.rope import LONGROPE, Scaling, rope_scalings

LENGTH_FIELDS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
AS_WRITTEN = frozenset({LONGROPE, "llama3"})
"""RoPE kinds whose factor is already contained in the length fields."""
YARN = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
SMALL_CONTEXT = {"phi3": 4096}
"""model_type -> what its configuration class has for `ORIGINAL`, outside the RoPE settings."""
OF_FLAT = {
    "ernie4_5_vl_moe": 131_072,
    "glm4v": 32_768,
    "glm4v_moe": 65_536,
    "glm_ocr": 131_072,
}
"""Type of a whole model -> the length of its text class, which transformers 5.20 takes where a file
has no part for the text: what such a file says itself is not read."""


class Lengths(NamedTuple):
    """Tokens of a request, as `Model` has them; None without a limit, or without a difference."""

    derived_max_model_len: int | None = None
    yarn_as_written: int | None = None
    default_max_model_len: int | None = None
    class_max_model_len: int | None = None


def read_lengths(fields: Fields) -> Lengths:
    """Return the lengths: derived, with yarn's length as written (0.33), by default, of a class.

    `model_max_length` if present, else the smallest length field, times the RoPE factor; yarn
    scales its original length instead. Source: vLLM 0.23 and 0.33, ModelConfig max_model_len.
    """
    keys = ("model_max_length",) if fields.has("model_max_length") else LENGTH_FIELDS
    lengths = {key: fields.integer(key) for key in keys if fields.has(key)}
    scalings = list(rope_scalings(fields))
    if "gemma3" in fields.model_type:  # its length is scaled already
        scalings = []
    of_class = _of_class(fields, lengths, scalings)
    is_longrope = any(kind == LONGROPE for _, kind, _ in scalings)
    if not lengths:
        fields.note("derived_max_model_len", None, "config.json, which has no length field")
        default = _longrope(fields) if is_longrope else _assumed(fields, scalings)
        return Lengths(default_max_model_len=default, class_max_model_len=of_class)
    key = min(lengths, key=lambda field: lengths[field])
    tokens, origin = _scaled(fields, lengths[key], key, scalings)
    fields.note("derived_max_model_len", tokens, origin)
    written, _ = _scaled(fields, lengths[key], key, scalings, AS_WRITTEN | YARN)
    return Lengths(tokens, written, _longrope(fields) if is_longrope else None, of_class)


def _of_class(fields: Fields, lengths: dict[str, int], scalings: list[Scaling]) -> int | None:
    """Return the derived length where a class completes what the file omits; None without one."""
    if not fields.prefix and fields.model_type in OF_FLAT:
        return OF_FLAT[fields.model_type]
    key, tokens = BY_RELEASE.get(fields.model_type, ("", 0))
    if not key or key in fields.text or "model_max_length" in lengths:
        return None
    return _scaled(fields, min(tokens, *lengths.values(), tokens), key, scalings)[0]


def _scaled(
    fields: Fields,
    length: int,
    origin: str,
    scalings: list[Scaling],
    as_written: frozenset[str] = AS_WRITTEN,
) -> tuple[int, str]:
    """Return a length as RoPE scales it, and its origin; some kinds leave it unchanged."""
    factor = 1.0
    tokens: float = length

    def positive(place: str, rope: Mapping[str, Any], key: str, default: float) -> float:
        value = rope.get(key)
        return default if value is None else fields.positive(f"{place}/{key}", value)

    for place, kind, rope in scalings:
        if kind in as_written:
            continue
        factor = positive(place, rope, "factor", factor)
        if kind == "yarn":
            tokens = fields.raw(ORIGINAL) or positive(place, rope, ORIGINAL, length)
            origin = f"{ORIGINAL} of yarn"
    if factor != 1.0:
        origin += f" * RoPE factor {factor:g}"
    return int(tokens * factor), origin


def _longrope(fields: Fields) -> int | None:
    """Return longrope's original length; the field in the RoPE settings is not read."""
    default = SMALL_CONTEXT.get(fields.model_type)
    if default is None and not fields.has(ORIGINAL):
        return None
    return fields.integer(ORIGINAL, default, name="default_max_model_len")


def _assumed(fields: Fields, scalings: list[Scaling]) -> int | None:
    """Return 2048 tokens as RoPE scales them, if it does."""
    assumed, origin = _scaled(fields, DEFAULT_MAX_MODEL_LEN, "no length field", scalings)
    if assumed == DEFAULT_MAX_MODEL_LEN:
        return None
    fields.note("default_max_model_len", assumed, origin)
    return assumed
