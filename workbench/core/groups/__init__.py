"""KV-cache groups: the spec of every layer, who shares a block table, and where pages are."""
