"""Block tables: a batch on the real kernels, step by step."""
