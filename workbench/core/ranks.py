"""How many ranks an engine has, and GPUs a scenario takes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

OF_ENGINE = ("tensor_parallel", "pipeline_parallel")
"""Fields whose product is the ranks of one engine (ParallelConfig.world_size), one GPU each."""
OF_ALL = OF_ENGINE
"""Fields whose product is the GPUs of all engines."""


def ranks_of(settings: Settings) -> int:
    """Return the ranks of one engine."""
    return prod(getattr(settings, name) for name in OF_ENGINE)


def gpus_of(settings: Settings) -> int:
    """Return the GPUs of all engines."""
    return prod(getattr(settings, name) for name in OF_ALL)
