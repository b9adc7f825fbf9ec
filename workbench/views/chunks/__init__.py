"""Chunk sizes of connectors, and the pairs of a fleet, as text, HTML and JSON."""
