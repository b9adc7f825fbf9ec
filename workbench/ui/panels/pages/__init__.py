"""The tab of pages: the byte map and the pool."""
