"""Errors of paged attention, raised before anything is launched."""

from workbench.kernels.block_table.errors import InputError


class PagedFlexError(InputError):
    """Input that paged attention refuses; `request` is the batch row concerned."""
