"""One reader per model family; importing this package registers them.

To add a family: write a module that calls `register`, and import it here.
"""

from workbench.models.families import (
    chunked,
    compressed,
    linear,
    mamba,
    narrow_values,
    searched,
    shared_compressed,
    shared_layers,
    side_caches,
    windows,
)

__all__ = [
    "chunked",
    "compressed",
    "linear",
    "mamba",
    "narrow_values",
    "searched",
    "shared_compressed",
    "shared_layers",
    "side_caches",
    "windows",
]
