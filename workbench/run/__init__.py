"""Running things: notebooks, environments; later kernels, sweeps and their results."""
