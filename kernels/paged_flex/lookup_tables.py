"""What masks and scores look up: values that a table can hold, and tables that fit a batch.

The one place where values of a mask or a score are refused. `masks` calls it while it builds a
table, and every way to compute attention (kernel, engine's path, reference) before it begins.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import torch

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.work import PagedBatch

if TYPE_CHECKING:
    from workbench.kernels.paged_flex.masks import Mask, Score

LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127
LOWEST, HIGHEST = -(2**31), 2**31 - 2
"""Of a position in a table: 32 bits, and a kernel adds 1 to the end of a range."""


def list_of(given: Any, field: str) -> list[Any]:
    """Return the entries of a sequence. Errors: PagedFlexError for what has none."""
    try:
        return list(given)
    except TypeError:
        raise PagedFlexError(
            f"Invalid {field} {given!r}. Expected a list.", field=field, given=given
        ) from None


def lists_of(given: Any, field: str) -> list[list[Any]]:
    """Return a list for each request."""
    return [list_of(row, f"{field}[{i}]") for i, row in enumerate(list_of(given, field))]


def integer_table(rows: Sequence[Sequence[Any]], name: str, *, columns: int) -> torch.Tensor:
    """Return [requests, columns] int32. Errors: PagedFlexError for what is not a position."""
    for i, row in enumerate(rows):
        for value in row:
            check_position(value, name, i)
    return torch.tensor(rows, dtype=torch.int32).reshape(len(rows), columns)


def check_position(value: Any, field: str, index: int) -> None:
    """Refuse what is not an integer in LOWEST .. HIGHEST; field[index] is its request's entry."""
    # a bool is an Integral, and never a position
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise PagedFlexError(
            f"Invalid {field}[{index}] {value!r}. Expected integers.",
            field=field,
            given=value,
            index=index,
        )
    if not LOWEST <= int(value) <= HIGHEST:
        near = LOWEST if int(value) < 0 else HIGHEST
        raise PagedFlexError(
            f"Invalid {field}[{index}] {value}. Expected {LOWEST} to {HIGHEST}. "
            f"Nearest valid value: {near}",
            field=field,
            given=value,
            limit=near,
            index=index,
        )


def check_size(field: str, value: Any) -> None:
    """Refuse what is not a Python integer in 1 .. HIGHEST: a window, a chunk, a document."""
    if not isinstance(value, bool) and isinstance(value, int) and 1 <= value <= HIGHEST:
        return
    near = HIGHEST if isinstance(value, int) and value > HIGHEST else 1
    raise PagedFlexError(
        f"Invalid {field} {value!r}. Expected an integer in 1 to {HIGHEST}. "
        f"Nearest valid value: {near}",
        field=field,
        given=value,
        limit=near,
    )


def check_finite(field: str, value: Any, index: int | None = None) -> None:
    """Refuse what is not a number, and what is not finite in float32."""
    name = field if index is None else f"{field}[{index}]"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise PagedFlexError(
            f"Invalid {name} {value!r}. Expected numbers.", field=field, given=value, index=index
        )
    if not -LARGEST_FLOAT32 <= float(value) <= LARGEST_FLOAT32:
        near = None if math.isnan(value) else math.copysign(LARGEST_FLOAT32, value)
        hint = "" if near is None else f" Nearest valid value: {near:.8g}"
        raise PagedFlexError(
            f"Invalid {name} {value}. Expected a finite float32 number.{hint}",
            field=field,
            given=value,
            limit=near,
            index=index,
        )


def check_range(pair: Any, field: str, index: int) -> None:
    """Refuse what is not a pair of start and end; field[index] is its request's entry."""
    if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
        raise PagedFlexError(
            f"Invalid {field}[{index}] {pair!r}. Expected pairs (start, end), both included.",
            field=field,
            given=pair,
            limit=2,
            index=index,
        )


def float_table(values: Sequence[Any], field: str) -> torch.Tensor:
    """Return [values] float32. Errors: PagedFlexError for what is not a finite number."""
    values = list_of(values, field)
    for index, value in enumerate(values):
        check_finite(field, value, index)
    return torch.tensor([float(value) for value in values], dtype=torch.float32)


def check_tables(mask: "Mask", score: "Score | None", batch: PagedBatch, *, heads: int) -> None:
    """Refuse tables with too few rows, columns or tokens for a batch of so many query heads."""
    _check_mask_table(mask, batch.num_requests)
    _check_tokens(mask, batch.seq_lens.tolist())
    if score is not None:
        _check_score_table(score, heads)


def _check_mask_table(mask: "Mask", requests: int) -> None:
    shape = (requests, 0) if mask.aux is None else tuple(mask.aux.shape)
    if len(shape) != 2:
        raise PagedFlexError(
            f"Invalid values of the mask {mask.name!r}: a tensor {list(shape)}. Expected "
            "[requests, values].",
            field="mask",
            given=shape,
            limit=2,
        )
    if mask.aux is not None and (mask.aux.is_floating_point() or mask.aux.dtype == torch.bool):
        raise PagedFlexError(
            f"The values of the mask {mask.name!r} must hold integers; got {mask.aux.dtype}. "
            "Convert them with .to(torch.int32).",
            field="mask",
            given=str(mask.aux.dtype),
        )
    if shape[0] < requests:
        raise PagedFlexError(
            f"the mask {mask.name!r} holds values of {shape[0]} requests, but the batch has "
            f"{requests}",
            field="mask",
            given=shape[0],
            limit=requests,
        )
    if shape[1] < mask.columns:
        raise PagedFlexError(
            f"The mask {mask.name!r} reads {mask.columns} values of a request, and its table has "
            f"{shape[1]}. Build it again with the function of `masks` that made it.",
            field="mask",
            given=shape[1],
            limit=mask.columns,
        )


def _check_tokens(mask: "Mask", seq_lens: Sequence[int]) -> None:
    if mask.tokens is None:
        return
    for i, (covered, needed) in enumerate(zip(mask.tokens, seq_lens, strict=False)):
        if covered < needed:
            raise PagedFlexError(
                f"Invalid lengths of the {mask.name} of request {i}: they add up to {covered} "
                f"tokens, and the request has {needed}. Expected at least {needed}. Nearest valid "
                f"value: {needed}; lengthen the last one, or add one of {needed - covered}.",
                field="lengths",
                given=covered,
                limit=needed,
                index=i,
                request=i,
            )


def _check_score_table(score: "Score", heads: int) -> None:
    shape = (0,) if score.aux is None else tuple(score.aux.shape)
    if score.aux is not None and len(shape) != 1:
        raise PagedFlexError(
            f"Invalid values of the score {score.name!r}: a tensor {list(shape)}. Expected a flat "
            "one: call .flatten().",
            field="score",
            given=shape,
            limit=1,
        )
    if shape[0] < heads and (score.aux is not None or score.by_head):
        raise PagedFlexError(
            f"the score {score.name!r} holds {shape[0]} values for {heads} heads",
            field="score",
            given=shape[0],
            limit=heads,
        )
