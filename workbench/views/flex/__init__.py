"""Flex attention: sizes, masks, launches, bits."""
