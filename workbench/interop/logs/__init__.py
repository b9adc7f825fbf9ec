"""Start-up logs: read, explained, turned into a scenario."""
