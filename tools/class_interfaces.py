"""What the model classes of a vLLM release are marked with: for model_registries.py.

A CUDA device is simulated before this is called.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from typing import Any

import encoder_models

MARK, KINDS = "._mark_", re.compile(r'"(image|video|audio|vision_chunk)"')
"""How a class marks its towers, and what it says they are for."""


def interfaces(names: Iterable[str]) -> dict[str, Any]:
    """Return the kinds of items of every class with marked towers, and lists of classes.

    towers_by_data: those whose towers ranks may have whole (`--mm-encoder-tp-mode data`).
    without_adapters: those that `--enable-lora` refuses. adapts_vocabulary: those whose embedding
    and head may have adapters, too, or the language model of their own module.
    """
    known = importlib.import_module("vllm.model_executor.models.interfaces")
    found: dict[str, Any] = {
        "towers": {},
        "towers_by_data": [],
        "without_adapters": [],
        "adapts_vocabulary": [],
    }
    for name, kind in encoder_models.loaded(names):
        if items := _kinds_of_items(kind):
            found["towers"][name] = items
        if known.supports_multimodal(kind) and kind.supports_encoder_tp_data:
            found["towers_by_data"].append(name)
        if not known.supports_lora(kind):
            found["without_adapters"].append(name)
        elif _adapts_vocabulary(kind):
            found["adapts_vocabulary"].append(name)
    return found


def _adapts_vocabulary(kind: type) -> bool:
    """Return whether a class, or one of its module, names its vocabularies for adapters."""
    own = [kind, *vars(sys.modules[kind.__module__]).values()]
    models = [one for one in own if getattr(one, "__module__", None) == kind.__module__]
    return any(getattr(one, "embedding_modules", None) for one in models)


def _kinds_of_items(kind: type) -> list[str]:
    own = [base for base in kind.__mro__ if base.__module__.startswith("vllm.")]
    codes = [inspect.getsource(base.__init__) for base in own if "__init__" in vars(base)]
    return sorted({item for code in codes if MARK in code for item in KINDS.findall(code)})
