"""Read RoPE settings, and refuse those that vLLM or Transformers stops at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workbench.core.errors import ConfigError, shown
from workbench.models.fields import Fields

NAME, OLD_NAME, DEFAULT = "rope_type", "type", "default"
LONGROPE, SECTIONED = "longrope", "mrope"
SECTIONS = "mrope_section"
RENAMED = {"su": LONGROPE, SECTIONED: DEFAULT}
"""What `patch_rope_parameters` calls older RoPE kinds."""
FACTOR = "factor"
REQUIRED = {
    **dict.fromkeys(("dynamic", "linear", "yarn"), (FACTOR,)),
    "llama3": (FACTOR, "high_freq_factor", "low_freq_factor"),
    LONGROPE: ("long_factor", "short_factor"),
}
"""Kind -> what `RotaryEmbeddingConfigMixin.validate_rope` expects, apart from what it completes."""
COMPUTED = frozenset(
    {
        *(DEFAULT, *REQUIRED, "bailing_mrope", "proportional", "mllama4", "ntk", "xdrope"),
        *("deepseek_yarn", "deepseek_llama_scaling", "openpangu", "telechat3-yarn"),
    }
)
"""What `get_rope` of 0.23 or 0.33 computes."""

Scaling = tuple[str, str, Mapping[str, Any]]
"""Place, kind and values of RoPE settings."""


def rope_scalings(fields: Fields) -> Iterator[Scaling]:
    """Yield the RoPE settings: one object, or one per layer type.

    Errors: ConfigError for an object that vLLM does not load.
    """
    key = "rope_parameters" if fields.raw("rope_scaling") is None else "rope_scaling"
    value = fields.raw(key)
    if value is None:
        return
    if not isinstance(value, Mapping):
        raise fields.wrong(key, value, "an object")
    nested = [
        (f"{key}/{name[:80]}", item)
        for name, item in value.items()
        if isinstance(name, str) and isinstance(item, Mapping)
    ]
    for place, rope in nested or [(key, value)]:
        kind = rope.get(NAME, rope.get(OLD_NAME, DEFAULT))
        if not isinstance(kind, str):
            raise fields.wrong(f"{place}/{NAME}", kind, "a string")
        _check(fields, place, kind, rope)
        yield place, RENAMED.get(kind, kind), rope


def rope_kinds(fields: Fields) -> frozenset[str]:
    """Return the kinds of RoPE settings."""
    return frozenset(kind for _, kind, _ in rope_scalings(fields))


def _check(fields: Fields, place: str, kind: str, rope: Mapping[str, Any]) -> None:
    # patch_legacy_rope_type, 0.23 and 0.33
    old = rope.get(OLD_NAME, kind)
    if old != kind and (not isinstance(old, str) or RENAMED.get(old) != kind):
        raise fields.contradiction(
            place,
            f"{NAME} {shown(kind)} and {OLD_NAME} {shown(old)}, an older name of the same field. "
            f"Remove {OLD_NAME}",
            f"Found conflicts between '{NAME}={kind[:80]}' (modern field)",
        )
    if kind == SECTIONED and SECTIONS not in rope:
        text = f"Legacy {NAME} '{SECTIONED}' requires '{SECTIONS}' in rope_parameters"
        raise _missing(fields.pointer(place), [SECTIONS], kind, text)
    kind = RENAMED.get(kind, kind)
    if missing := [name for name in REQUIRED.get(kind, ()) if name not in rope]:
        text = f"Missing required keys in `rope_parameters` for '{NAME}'='{kind}'"
        raise _missing(fields.pointer(place), missing, kind, text)


def _missing(place: str, names: Sequence[str], kind: str, vllm_text: str) -> ConfigError:
    return ConfigError(
        "config_missing_field",
        f"{place} lacks {' and '.join(names)}, which RoPE of the kind {kind} needs. Set it, or "
        f"{NAME} {DEFAULT}.",
        field=place,
        vllm_text=vllm_text,
    )
