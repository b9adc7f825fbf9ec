"""Which classes of a vLLM release pool over tokens that see later ones: for model_registries.py.

A CUDA device is simulated before this is called.
"""

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

TABLES = tuple(
    f"_{kind}_MODELS"
    for kind in (
        *("EMBEDDING", "LATE_INTERACTION", "REWARD"),
        *("TOKEN_CLASSIFICATION", "SEQUENCE_CLASSIFICATION"),
    )
)
MODELS = "vllm.model_executor.models"
LAYER = "EncoderOnlyAttention"
CAUSAL = frozenset({"ColBERTLfm2Model"})
"""Classes over layers as they generate, in a module that has the other kind as well."""
BIDIRECTIONAL = frozenset({"EmbeddingGemma2Model"})
"""Classes whose layers are of the first kind, and not built as `LAYER`."""


def encoders(tables: dict[str, Any]) -> dict[str, str]:
    """Return the classes of these tables whose layers keep no cache -> the module of each."""
    # ModelConfig.attn_type; models of later interaction pool at CLS over layers that generate, too
    base = importlib.import_module(f"{MODELS}.interfaces_base")
    modules, found = pooling_classes(tables), {}
    for name, kind in loaded(set(modules)):
        at_start = base.get_default_seq_pooling_type(kind) == "CLS" and _has_layer(kind)
        at_start = (at_start and name not in CAUSAL) or name in BIDIRECTIONAL
        if at_start or base.get_attn_type(kind) == "encoder_only":
            found[name] = modules[name]
    return found


def pooling_classes(tables: dict[str, Any]) -> dict[str, str]:
    """Return the classes that pool -> the module of each."""
    return {name: module for one in TABLES for name, (module, _class) in tables[one].items()}


def loaded(names: Iterable[str]) -> Iterator[tuple[str, type]]:
    """Yield the classes of these names that can be imported here, in order."""
    registry = importlib.import_module(f"{MODELS}.registry")
    for name in sorted(names):
        try:
            yield name, registry.ModelRegistry.models[name].load_model_cls()
        except (ImportError, OSError) as error:
            print(f"{name}: {error}")


def _has_layer(kind: type) -> bool:
    """Return whether the module of a class, or one that it has classes of, has such layers."""
    own = vars(sys.modules[kind.__module__])
    places = {getattr(one, "__module__", None) for one in own.values()}
    modules = (sys.modules[place] for place in places if place and place.startswith(MODELS))
    return LAYER in own or any(hasattr(module, LAYER) for module in modules)
