"""Sweeps of scenarios and of kernels."""
