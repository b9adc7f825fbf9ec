"""Code that runs things: notebooks, environments, kernels, sweeps and their results."""
