"""Which models of the catalog a test needs: all of them, or one of each kind."""

from __future__ import annotations

from functools import cache

from workbench.core.architectures import versions_with
from workbench.core.errors import Refused
from workbench.core.model import Model
from workbench.core.versions import DEFAULT
from workbench.models import catalog_names, load_model
from workbench.scenario.resolution import resolve


def is_served(name: str, rules: str = DEFAULT) -> bool:
    """Whether a release has the class of a catalog model."""
    return rules in versions_with(load_model(name).architecture)


def short_length(name: str, most: int = 2048) -> int:
    """Return a max_model_len that a catalog model supports: its own where that is below `most`."""
    return min(most, load_model(name).derived_max_model_len or most)


@cache
def distinct_models(rules: str = DEFAULT) -> tuple[str, ...]:
    """Return the first name of every kind of cache that a release starts without settings.

    Models of one kind differ in numbers only: of layers, heads and widths.
    """
    found: dict[object, str] = {}
    for name in catalog_names():
        kind = _kind(load_model(name))
        if kind not in found and _starts(name, rules):
            found[kind] = name
    return tuple(found.values())


def _starts(name: str, rules: str) -> bool:
    """Whether a release serves and starts a model: not where it cannot read the checkpoint."""
    if not is_served(name, rules):
        return False
    try:
        return not resolve(model=name, rules=rules).errors
    except Refused:
        return False


def _kind(model: Model) -> tuple[object, ...]:
    attention = model.attention
    flags = attention and (attention.use_mla, attention.is_sparse, attention.has_sinks)
    layers = frozenset(layer._replace(number=0, num_kv_heads=None) for layer in model.layers)
    return model.family, model.is_hybrid, layers, model.mtp is not None, flags
