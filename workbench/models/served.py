"""The architectures of the default reader: those that a version serves and no family declares."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.core.architectures import (
    ANY_LANGUAGE_MODEL,
    architecture_of,
    is_run_by_transformers,
    language_models,
    module_of,
    versions_with,
)
from workbench.core.errors import ConfigError
from workbench.core.package_data import package_data
from workbench.models.architecture import named, read_with, unknown, unsupported_text, way_forward
from workbench.models.fields import Fields
from workbench.models.listed import KEY, listed_name


def read_served_architecture(fields: Fields, model_type: str, refusals: Mapping[str, str]) -> str:
    """Return the architecture of a file that the default reader reads.

    refusals: architecture -> why the default reader does not read it.
    Errors: ConfigError for one that no version serves, for one with a reader of its own, and for a
    multimodal wrapper that does not build such a language model.
    """
    name = named(fields.top)
    if not versions_with(name) and not is_run_by_transformers(name):
        way = way_forward(name, architecture_of(model_type) or "LlamaForCausalLM")
        raise _invalid(f"/{KEY}/0", name, model_type, way, unsupported_text(name))
    for place, one in ((f"/{KEY}/0", name), *_inner(fields, name, model_type)):
        if types := read_with(one):
            raise _invalid(place, one, model_type, types)
        if reason := refusals.get(one):
            raise ConfigError("unknown_architecture", f"{one}: {reason}", field=place)
    if not any(name in release["exact"] for release in compared().values()):
        fields.remarks.append(
            f"{name[:120]} is read by the default reader, and nothing was compared with a model "
            "that an installed vLLM builds (`workbench coverage`)."
        )
    return name


@lru_cache(maxsize=1)
def compared() -> Mapping[str, Any]:
    """Return what tools/write_coverage.py found in the recorded answers of each release."""
    found: dict[str, Any] = package_data("workbench.models", "coverage.json")
    return found


def _inner(fields: Fields, wrapper: str, model_type: str) -> list[tuple[str, str]]:
    """Return the place and name of the language model inside of a wrapper, if it is known."""
    if fields.text is fields.top:
        return []
    place = f"/{fields.prefix}"
    name = listed_name(fields.text, place) or architecture_of(model_type)
    builds = language_models(wrapper)
    if name is None or not builds:
        return []
    modules = {module_of(one) for one in builds}
    if ANY_LANGUAGE_MODEL not in builds and module_of(name) not in modules:
        raise unknown(f"{place}/{KEY}/0", name, model_type, tuple(sorted(builds)))
    return [(f"{place}/{KEY}/0", name)]


def _invalid(place: str, name: str, model_type: str, way: str, vllm_text: str = "") -> ConfigError:
    return ConfigError(
        "unknown_architecture",
        f"Invalid architecture {name[:120]!r} for model_type {model_type[:80]!r}. {way}",
        field=place,
        vllm_text=vllm_text,
    )
