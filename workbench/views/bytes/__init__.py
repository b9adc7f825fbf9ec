"""The map of every byte of a pool, and who owns which."""
