"""Sweeps: rows, trade-offs, progress, and why one point is better."""
