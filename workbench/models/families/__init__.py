"""One reader per model family; importing this package registers them.

To add a family: write a module with its `Family`, call `register`, and import it here.
"""

from workbench.models.families import (
    decoder,
    gated_delta_net,
    kimi_linear,
    lfm2,
    mamba1,
    mamba2,
    minimax,
    nemotron_h,
    nemotron_nas,
    zamba2,
)

__all__ = [
    "decoder",
    "gated_delta_net",
    "kimi_linear",
    "lfm2",
    "mamba1",
    "mamba2",
    "minimax",
    "nemotron_h",
    "nemotron_nas",
    "zamba2",
]
