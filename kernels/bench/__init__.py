"""Benchmarks of the kernels: `python -m workbench.kernels.bench block-table`.

Needs torch, triton, numpy and the standard library. Importing this package imports none of them.
"""
