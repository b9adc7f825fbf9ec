"""Flex attention: mask blocks, tiles, masks over the paged cache, and what is legal."""
