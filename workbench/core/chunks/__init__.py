"""Chunk sizes of connectors, and which engines of a fleet can exchange or share their caches."""
