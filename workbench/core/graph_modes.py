"""Which steps of an engine have a CUDA graph: the modes of vLLM, and the requested one.

Source: `CUDAGraphMode`, and what `VllmConfig.__post_init__` makes of `--enforce-eager`, 0.23 and
0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.backends import LayerQuery

if TYPE_CHECKING:
    from workbench.core.backends import Backend
    from workbench.core.plan import Plan
    from workbench.scenario.fields import Settings

NONE, PIECEWISE, FULL = "NONE", "PIECEWISE", "FULL"
FULL_DECODE_ONLY, FULL_AND_PIECEWISE = "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"
NEVER, SINGLE, UNIFORM, ALWAYS = LEVELS = (
    "NEVER",
    "UNIFORM_SINGLE_TOKEN_DECODE",
    "UNIFORM_BATCH",
    "ALWAYS",
)
"""From none to all batches; vLLM orders them the same way."""
GRAPH_MODES = (NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE)
WITH_DECODES = frozenset({FULL_DECODE_ONLY, FULL_AND_PIECEWISE})
"""Modes in which steps of decoding have graphs of their own."""


def requested_mode(settings: Settings) -> str:
    """Return the requested mode, before backends limit it."""
    return NONE if settings.enforce_eager else settings.cudagraph_mode or FULL_AND_PIECEWISE


def graph_level(plan: Plan, backend: Backend) -> str:
    """Return of which batches the layers of a backend run inside of a graph, one of LEVELS."""
    reads_tokens = not backend.is_ssm and plan.model.attention is not None
    if backend.cuda_graphs_where is not None and reads_tokens:
        level, condition = backend.cuda_graphs_where
        if condition(LayerQuery.of(plan)):
            return level
    return backend.cuda_graphs
