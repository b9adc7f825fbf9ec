"""The vLLM model class that a config.json names, and a check against its family.

vLLM picks the model class by `architectures`, not by `model_type`, and unrelated models share a
model_type (Ling 2.5 and Ling 3). So a family reads only the architectures that it declares.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.architectures import (
    MODEL_REGISTRIES,
    architecture_of,
    base_class_of,
    module_of,
    versions_with,
    wrapper_builds,
)
from workbench.core.errors import ConfigError, shown, unknown_name_message
from workbench.core.pooling import BASES, COLPALI, DEEPSEEK, Pooling, pooling_of
from workbench.core.pooling import SEES_LATER as BIDIRECTIONAL
from workbench.core.versions import RULE_SETS
from workbench.models.family import FAMILIES, Family
from workbench.models.fields import Fields
from workbench.models.listed import KEY, listed_name

SEES_LATER = {"is_causal": False, "use_bidirectional_attention": True}
"""Fields of models whose tokens see later ones: they keep no cache."""
READS_DIRECTION = frozenset(
    {
        *("apertus", "aria", "ernie45", "gemma3", "iquest_loopcoder", "llama", "mimo", "mistral"),
        *("idefics3", "phi3", "qwen2", "qwen3", "qwen3_vl", "smolvlm", "telechat2", "teleflm"),
    }
)
"""Modules whose attention, or that of the layers they take over, asks for `is_causal` of the text's
configuration (0.23 and 0.33)."""

OF_PARAMS = {"VoxtralRealtimeForConditionalGeneration": "VoxtralRealtimeGeneration"}
"""Class in the config.json of a checkpoint -> what vLLM builds from its params.json."""
WRAPPED = "vlm_config"
"""Where ColPali's file has that of the model it retrieves with."""
MEDUSA = "MedusaModel"
"""A drafter's class that is made without the registry."""
LIBRARY_CLASSES = frozenset().union(*(one.library_classes for one in MODEL_REGISTRIES.values()))
OF_LIBRARY = (
    "It runs models of the Transformers library, each by a class of its own: name that one in "
    f"{KEY}, for example LlamaForCausalLM. `--model-impl transformers` has no field here."
)
POOLING, POOLINGS = "pooling", ("avg", "cls", "last")


def read_architecture(fields: Fields, family: Family, model_type: str) -> str:
    """Return the architecture of the whole file, checked against those of `family`.

    A multimodal wrapper is accepted if vLLM builds one of the family's models inside it.
    Errors: ConfigError for an architecture that the family was not written for, and for a wrapper
    of an unknown model_type that does not name its own.
    """
    declared = family.architectures_of(model_type)
    name = named(fields.top)
    wraps = fields.top.get("model_type") != model_type
    is_read = name in declared or (wraps and _builds(fields, family, name, declared))
    if declared and not is_read:
        raise unknown(f"/{KEY}/0", name, model_type, declared)
    return name


def named(config: Mapping[str, Any]) -> str:
    """Return the class of a file, after `with_class`. Errors: ConfigError without any."""
    name = listed_name(config, "")
    if name is None:
        raise ConfigError(
            "config_missing_field",
            f"/model_type is missing, and /{KEY} as well: one of them names the class that vLLM "
            "would use.",
            field=f"/{KEY}",
            vllm_text="Should have a `model_type` key in its config.json.",
        )
    return name


def with_class(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the object with the class that vLLM takes where the file names none, or another one.

    Errors: ConfigError where it takes none.
    """
    kind, named_class = config.get("model_type"), listed_name(config, "")
    if named_class in OF_PARAMS:
        return {**config, KEY: [OF_PARAMS[named_class]]}
    if named_class is not None or not isinstance(kind, str):
        return config
    family = FAMILIES.get(kind)
    own = kind if family and not family.architectures_of(kind) else None
    name = base_class_of(kind) or own
    if name is None:
        raise _unnamed(kind)
    if not (own or is_read(name)):
        raise ConfigError(
            "config_missing_field",
            f"/{KEY} is missing, so vLLM uses {name}, the class of model_type {kind[:80]!r} in "
            f"the Transformers library, whose layers are not described. {_to_set(kind)}",
            field=f"/{KEY}",
            vllm_text=unsupported_text(name),
        )
    return {**config, KEY: [name]}


def is_read(name: str) -> bool:
    """Return whether a release has a class, or one that generates with its layers."""
    return bool(versions_with(name) or pooling_of(name))


def _to_set(kind: str) -> str:
    """Return the sentence on the class that generates, for a model_type of a reader."""
    declared = FAMILIES[kind].architectures_of(kind) if kind in FAMILIES else ()
    name = next(iter(declared), architecture_of(kind))
    return f'For a model that generates set {KEY} to ["{name}"].' if name else f"Set {KEY}."


def as_generating(
    config: Mapping[str, Any], *, is_assumed: bool = False
) -> tuple[Mapping[str, Any], Pooling | None]:
    """Return the object with a class that generates, and what it named if that only pools."""
    name = listed_name(config, "")
    pooling = None if name is None else pooling_of(name)
    if pooling is None:
        return config, None
    if pooling.name.startswith(BIDIRECTIONAL):
        _check_pooling(config.get(POOLING), pooling.name)
    pooling = pooling._replace(base=_read_base(config, pooling.base))
    if pooling.name == DEEPSEEK and _says_later(config):
        raise ConfigError(
            "tokens_see_later_ones",
            f"{DEEPSEEK} whose tokens see later ones is built without latents, as layers that are "
            "not described here. vLLM 0.33 starts it with prefix caching off alone, and it keeps "
            "no cache then. With is_causal true it is read.",
            field="/is_causal",
        )
    later = pooling.sees_later or sees_later(config, pooling.base)
    wrapped = config.get(WRAPPED) if pooling.name == COLPALI else None
    config = {**(wrapped if isinstance(wrapped, Mapping) else {}), **config, KEY: [pooling.base]}
    return config, pooling._replace(is_assumed=is_assumed, sees_later=later)


def _read_base(config: Mapping[str, Any], base: str) -> str:
    """Return what pools with, or the class of a whole file where its family reads that alone."""
    # `_normalize_arch`: the text class in 0.33, whose layers are the same; 0.23 has no other
    kind = config.get("model_type")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    declared = () if family is None else family.architectures_of(str(kind))
    stems = (base.removesuffix(end) for end in BASES if base.endswith(end))
    whole = (stem + end for stem in stems for end in BASES if stem + end in declared)
    return base if not declared or base in declared else next(whole, base)


def _check_pooling(value: object, name: str) -> None:
    # LlamaBidirectionalConfig.verify_and_update_model_config, 0.23 and 0.33
    if value in POOLINGS:
        return
    raise ConfigError(
        "config_wrong_value",
        f"Invalid /{POOLING} {shown(value)}. {name} pools as this field says. Expected "
        f"{' or '.join(POOLINGS)}. Set it, or another class in {KEY}.",
        field=f"/{POOLING}",
        vllm_text=f"'{POOLING}'" if value is None else f"pool_type {value!r} not supported",
    )


def sees_later(config: Mapping[str, Any], architecture: str) -> bool:
    """Return whether a file says that tokens see later ones, and its class reads that."""
    return _says_later(config) and module_of(architecture) in READS_DIRECTION


def _says_later(config: Mapping[str, Any]) -> bool:
    return any(config.get(key) is value for key, value in SEES_LATER.items())


def _unnamed(kind: str) -> ConfigError:
    types = {kind for known in MODEL_REGISTRIES.values() for kind in known.model_types}
    if kind not in types | FAMILIES.keys():
        message = unknown_name_message("model_type", kind, sorted({*FAMILIES, *types}))
        more = f" With {KEY} in the file, any type is read whose class vLLM has."
        return ConfigError("unknown_model_type", message + more, field="/model_type")
    return ConfigError(
        "config_missing_field",
        f"/{KEY} is missing, and vLLM knows no class for model_type {kind[:80]!r} without it. "
        f"{_to_set(kind)}",
        field=f"/{KEY}",
        vllm_text="No model architectures are specified",
    )


def _builds(fields: Fields, family: Family, wrapper: str, declared: tuple[str, ...]) -> bool:
    """Return whether vLLM builds one of the declared models inside of `wrapper`."""
    place = f"/{fields.prefix}"
    inner = listed_name(fields.text, place)
    if inner is not None and inner not in declared:
        raise unknown(f"{place}/{KEY}/0", inner, fields.model_type, declared)
    return any(wrapper_builds(wrapper, name, has_states=family.is_hybrid) for name in declared)


def unknown(place: str, name: str, model_type: str, declared: tuple[str, ...]) -> ConfigError:
    """Return the error for an architecture that is not among those `declared`."""
    return ConfigError(
        "unknown_architecture",
        f"Invalid architecture {name[:120]!r} for model_type {model_type[:80]!r}. Expected "
        f"{' or '.join(declared)}. {way_forward(name, declared[0])}",
        field=place,
        vllm_text=None if versions_with(name) else unsupported_text(name),
    )


def unsupported_text(name: str) -> str:
    """Return what `_ModelRegistry._raise_for_unsupported` says of an unserved architecture."""
    until = {release.last_versions.get(name) for release in MODEL_REGISTRIES.values()}
    if len(until) == 1 and None not in until:
        return f"Model architecture {name} was supported in vLLM until v{until.pop()}"
    return f"Model architectures ['{name[:120]}'"  # it names all that are listed


def read_with(name: str) -> str:
    """Return the sentence on the model types under which an architecture is read, "" if none."""
    types = [kind for kind, family in FAMILIES.items() if name in family.architectures_of(kind)]
    if not types:
        return ""
    return f"That architecture is read with model_type {' or '.join(types)}: correct one of them."


def way_forward(name: str, nearest: str) -> str:
    """Return what is known of an architecture that is not read, and what to do."""
    if types := read_with(name):
        return types
    known = versions_with(name)
    if known:
        return (
            f"vLLM {' and '.join(known)} has it, but the workbench has no reader for its layers; "
            "choose another model (`workbench models`), or register a family for it."
        )
    if name in LIBRARY_CLASSES:
        return OF_LIBRARY
    if drafts_in := [one for one in MODEL_REGISTRIES if drafts(name, one)]:
        return (
            f"It is a drafter of vLLM {' and '.join(drafts_in)}, which is served next to its "
            "target: set that as model, and this file as draft_model."
        )
    return (
        f"It is not a generative model in the registry of vLLM {' or '.join(MODEL_REGISTRIES)}. If "
        f'its layers and caches are those of {nearest}, set {KEY} to ["{nearest}"].'
    )


def drafts(name: str, release: str) -> bool:
    """Return whether a release drafts with a class, under this name or as a DFlash drafter."""
    known = MODEL_REGISTRIES[release].drafters
    has_medusa = name == MEDUSA and "medusa" in RULE_SETS[release].speculation.methods
    return has_medusa or not known.isdisjoint({name, f"DFlash{name}"})
