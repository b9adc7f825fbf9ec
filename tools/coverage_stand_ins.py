"""Stand-ins with which every architecture can be built, in addition to those of the probe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any
from unittest.mock import MagicMock

WITH_CACHES = frozenset({"VoxtralRealtimeGeneration"})
"""Architectures whose tower keeps a cache."""


def without_towers() -> None:
    """Do without what only towers need, which keep no cache."""
    import torch

    torch.cuda._lazy_init = lambda: None  # noqa: SLF001
    # A compiled library that only towers need, and that a machine without CUDA cannot load.
    sys.modules["vllm.third_party.deep_gemm"] = MagicMock()
    _towers()


def _towers() -> None:
    """Let a tower that cannot be built be absent: its layers keep no cache, with one exception."""
    from vllm.model_executor.models.interfaces import SupportsMultiModal

    real = SupportsMultiModal._mark_tower_model  # noqa: SLF001

    @contextmanager
    def mark(self: Any, *given: Any, targets: Any = None, **options: Any) -> Iterator[None]:
        # A context with targets may have the language model, too.
        needed = targets or type(self).__name__ in WITH_CACHES
        unbuilt = nullcontext() if needed else suppress(Exception)
        with real(self, *given, targets=targets, **options), unbuilt:
            yield

    SupportsMultiModal._mark_tower_model = mark  # noqa: SLF001
