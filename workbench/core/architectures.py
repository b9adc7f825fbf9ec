"""Which model classes (`architectures` of a config.json) each vLLM version has.

The data is parsed from the releases by tools/model_registries.py; every file names its origin.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.package_data import release_data

ANY_LANGUAGE_MODEL = "*"
"""A wrapper that builds whichever language model its text configuration names."""


@dataclass(frozen=True)
class Wrapper:
    """A multimodal class around a language model.

    language_models: architectures that it builds from the text configuration. is_hybrid: vLLM
    gives its language model a cache for states.
    """

    language_models: frozenset[str]
    is_hybrid: bool


@dataclass(frozen=True)
class ModelRegistry:
    """The model classes of one vLLM version."""

    version: str
    """As rule sets name it."""
    origin: str
    """The release and the file that this was parsed from."""
    served: Mapping[str, str]
    """Architectures that generate -> the module of vLLM that builds their layers."""
    model_types: Mapping[str, str]
    """model_type -> its served architecture, for those whose text generation transformers knows."""
    base_classes: Mapping[str, str]
    """model_type -> the class that vLLM takes where a file names none (`get_config`)."""
    wrappers: Mapping[str, Wrapper]
    """Served architectures that build a language model of their own."""
    last_versions: Mapping[str, str]
    """Architecture -> last release that had it."""
    run_by_transformers: frozenset[str]
    """Not served, but the Transformers library runs them, without states."""
    library_knows_parts: bool
    """What Transformers runs keeps latents, and the windows of a text part."""
    without_plans: frozenset[str]
    """Classes of Transformers that it refuses to split over ranks and stages."""
    with_state_dtype: frozenset[str]
    """Architectures whose own dtype replaces an "auto" `mamba_ssm_cache_dtype`; those of other
    classes around the same layers stay at the model's."""
    without_stages: frozenset[str]
    """Classes, drafters too, that are not cut into pipeline stages (`SupportsPP`)."""
    gives_hidden_states: frozenset[str]
    """Architectures that give the hidden states of some layers to drafters (`SupportsEagle3`)."""
    hands_on_states: frozenset[str]
    """Architectures whose stages hand on the hidden states that heads of drafters read."""

    only_tied: frozenset[str]
    """Classes that assert that their head is the embedding."""
    never_tied: frozenset[str]
    """Classes that assert that it is not."""

    embedding_named_apart: frozenset[str]
    """Classes whose embedding drafters do not find by its name."""

    towers: Mapping[str, frozenset[str]]
    """Classes -> the kinds of items that their towers are for, where they are marked so."""
    towers_by_data: frozenset[str]
    """Classes whose towers ranks may have whole (`--mm-encoder-tp-mode data`)."""
    without_adapters: frozenset[str]
    """Classes without an interface for LoRA (`SupportsLoRA`)."""
    adapts_vocabulary: frozenset[str]
    """Classes whose embedding and head may have adapters, too."""

    encoders: Mapping[str, str]
    """Classes that pool over tokens which see later ones, so that they keep no cache -> the module
    of vLLM that builds their layers."""
    pooling: Mapping[str, str]
    """Other classes that pool -> the module of vLLM that builds their layers."""
    drafters: frozenset[str]
    """Classes that draft for a target."""
    library_classes: frozenset[str]
    """Classes around a model of Transformers, which no config.json has to name."""

    @property
    def registered(self) -> frozenset[str]:
        """Return every architecture of the registry."""
        found = frozenset({*self.served, *self.encoders, *self.pooling})
        return found | self.drafters | self.library_classes

    def has(self, architecture: str) -> bool:
        """Return whether the version has a class that generates or pools."""
        return any(architecture in one for one in (self.served, self.encoders, self.pooling))


def _model_registry(version: str, entry: Mapping[str, Any]) -> ModelRegistry:
    return ModelRegistry(
        version=version,
        origin=entry["origin"],
        served=entry["served"],
        model_types=entry["model_types"],
        base_classes=entry["base_classes"],
        wrappers={
            name: Wrapper(frozenset(wrapper["language_models"]), wrapper["is_hybrid"])
            for name, wrapper in entry["wrappers"].items()
        },
        last_versions=entry["last_versions"],
        run_by_transformers=frozenset(entry["run_by_transformers"]),
        library_knows_parts=entry["library_knows_parts"],
        without_plans=frozenset(entry["without_plans"]),
        with_state_dtype=frozenset(entry["with_state_dtype"]),
        without_stages=frozenset(entry["without_stages"]),
        gives_hidden_states=frozenset(entry["gives_hidden_states"]),
        hands_on_states=frozenset(entry["hands_on_states"]),
        embedding_named_apart=frozenset(entry["embedding_named_apart"]),
        towers={name: frozenset(kinds) for name, kinds in entry["towers"].items()},
        towers_by_data=frozenset(entry["towers_by_data"]),
        without_adapters=frozenset(entry["without_adapters"]),
        adapts_vocabulary=frozenset(entry["adapts_vocabulary"]),
        encoders=entry["encoders"],
        pooling=entry["pooling"],
        drafters=frozenset(entry["drafters"]),
        library_classes=frozenset(entry["library_classes"]),
        only_tied=frozenset(entry["only_tied"]),
        never_tied=frozenset(entry["never_tied"]),
    )


MODEL_REGISTRIES: Mapping[str, ModelRegistry] = {
    version: _model_registry(version, entry)
    for version, entry in release_data("architectures.json").items()
}
"""Version -> its registry, oldest first."""


def versions_with(architecture: str) -> tuple[str, ...]:
    """Return the versions that have an architecture, oldest first."""
    return tuple(version for version, known in MODEL_REGISTRIES.items() if known.has(architecture))


def only_pools(architecture: str) -> bool:
    """Return whether versions have the class for pooling alone, over layers that keep a cache."""
    known = MODEL_REGISTRIES.values()
    return any(architecture in one.pooling for one in known) and not any(
        architecture in one.served for one in known
    )


def is_encoder(architecture: str) -> bool:
    """Return whether a version has the class as an encoder, which keeps no cache."""
    return any(architecture in known.encoders for known in MODEL_REGISTRIES.values())


def versions_running(architecture: str) -> tuple[str, ...]:
    """Return the versions that run an architecture, although they do not serve it."""
    return tuple(
        version
        for version, known in MODEL_REGISTRIES.items()
        if architecture in known.run_by_transformers
    )


def is_run_by_transformers(architecture: str) -> bool:
    """Return whether a version runs an architecture that it does not serve."""
    return bool(versions_running(architecture))


def is_left_to_transformers(architecture: str) -> bool:
    """Return whether no version has a class of its own: every layer keeps keys and values then."""
    return is_run_by_transformers(architecture) and not versions_with(architecture)


def _newest(names: Iterable[str | None]) -> str | None:
    """Return what the newest version says, of those that say something."""
    return next((name for name in reversed([*names]) if name is not None), None)


def module_of(architecture: str) -> str | None:
    """Return the module of vLLM that builds an architecture, of its newest version; None if none.

    Architectures with equal layers share one: "llama" is that of AquilaForCausalLM.
    """
    tables = ({**one.pooling, **one.encoders, **one.served} for one in MODEL_REGISTRIES.values())
    return _newest(table.get(architecture) for table in tables)


def architecture_of(model_type: str) -> str | None:
    """Return the architecture that transformers has for a model_type, if a version serves it."""
    return _newest(registry.model_types.get(model_type) for registry in MODEL_REGISTRIES.values())


def base_class_of(model_type: str) -> str | None:
    """Return the class of a file that names none, None where no version knows one."""
    return _newest(registry.base_classes.get(model_type) for registry in MODEL_REGISTRIES.values())


def language_models(architecture: str) -> frozenset[str]:
    """Return what a multimodal class builds from its text configuration, in any version."""
    known = (registry.wrappers.get(architecture) for registry in MODEL_REGISTRIES.values())
    return frozenset().union(*(one.language_models for one in known if one is not None))


def wrapper_builds(architecture: str, language_model: str, *, has_states: bool) -> bool:
    """Return whether a version's wrapper of this name builds that language model."""
    # Models with states also need a wrapper for which vLLM keeps states.
    wrappers = (known.wrappers.get(architecture) for known in MODEL_REGISTRIES.values())
    return any(
        (wrapper.is_hybrid or not has_states)
        and {language_model, ANY_LANGUAGE_MODEL} & wrapper.language_models
        for wrapper in wrappers
        if wrapper is not None
    )
