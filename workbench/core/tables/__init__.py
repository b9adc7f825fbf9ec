"""Block tables: rows, batches, and the slot of a token."""
