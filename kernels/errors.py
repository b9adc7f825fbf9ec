"""Errors of the kernels' inputs, raised before anything is launched."""


class InputError(ValueError):
    """Input that a kernel refuses.

    `field` names the input, `given` is the offending value, `limit` what is allowed (the first
    value that is too large, a length, a divisor). `index` is its place in the list it came in,
    `group` and `request` identify the row; None if not applicable.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str,
        given: object = None,
        limit: object = None,
        index: int | None = None,
        group: int | None = None,
        request: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field, self.given, self.limit = field, given, limit
        self.index, self.group, self.request = index, group, request


class BlockTableError(InputError):
    """Input that a block table refuses."""


class RowOverflow(BlockTableError):  # noqa: N818 - what happens, as vLLM 0.33 words it
    """A row needs more manager blocks than it can hold: `need` > `capacity`."""

    def __init__(self, *, request: int, group: int, need: int, capacity: int) -> None:
        super().__init__(
            f"request {request}, group {group}: the row would need {need} manager blocks but has "
            f"room for {capacity}. Shorten the request, or build the table with max_blocks >= "
            f"{need} for this group.",
            field="block_ids",
            given=need,
            limit=capacity,
            group=group,
            request=request,
        )
        self.need = need
        self.capacity = capacity


class PagedFlexError(InputError):
    """Input that paged attention refuses; `request` is the batch row concerned."""
