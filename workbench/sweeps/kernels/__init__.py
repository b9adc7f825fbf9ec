"""Kernel sweeps: configurations to measure, where and how they run, and which one wins."""
