"""Paged flex attention: launches, masks, bits, orders of tiles, cost of a block mask."""
