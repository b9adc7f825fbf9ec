"""One reader per model family; importing this package registers them.

To add a family: write a module that calls `register`, and import it here.
"""

from workbench.models.families import (
    chunked,
    compressed,
    conv_windows,
    dense_latent,
    encoder_decoder,
    linear,
    mamba,
    narrow_values,
    padded_latent,
    region_summaries,
    searched,
    shared_compressed,
    shared_layers,
    side_caches,
    windows,
)

__all__ = [
    "chunked",
    "compressed",
    "conv_windows",
    "dense_latent",
    "encoder_decoder",
    "linear",
    "mamba",
    "narrow_values",
    "padded_latent",
    "region_summaries",
    "searched",
    "shared_compressed",
    "shared_layers",
    "side_caches",
    "windows",
]
