"""Errors of paged attention, raised before anything is launched."""


class PagedFlexError(ValueError):
    """Input that paged attention refuses.

    `field` names the input, `given` is the offending value, `limit` what is allowed (the first
    value that is too large, a length, a divisor). `index` is its place in the list it came in,
    `request` is the batch row concerned; None if not applicable.
    """

    def __init__(
        self,
        message: str,
        *,
        field: str,
        given: object = None,
        limit: object = None,
        index: int | None = None,
        request: int | None = None,
    ) -> None:
        super().__init__(message)
        self.field = field
        self.given = given
        self.limit = limit
        self.index = index
        self.request = request
