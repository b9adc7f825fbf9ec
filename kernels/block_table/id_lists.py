"""Ids as callers have them, request by request and group by group, made flat and checked."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.numbers import Ids, integer_array, readable_twice
from workbench.kernels.errors import BlockTableError

FIELD = "block_ids"
PLAIN = {list, tuple, np.ndarray}


def flat_lists(
    requests: NDArray[np.int64], ids: Sequence[Sequence[Ids]], num_groups: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Flatten ids[request][group] to (lengths [requests, groups], ids).

    Refuses what can be read only once, and lists that are too many or too few.
    """
    _check_readable([ids])
    _check_readable(ids)
    if len(ids) != len(requests):
        raise BlockTableError(
            f"{FIELD} has {len(ids)} entries for {len(requests)} requests: give one each",
            field=FIELD,
            given=len(ids),
            limit=len(requests),
        )
    if set(map(len, ids)) - {num_groups}:
        i, found = next((i, len(lists)) for i, lists in enumerate(ids) if len(lists) != num_groups)
        raise BlockTableError(
            f"request {requests[i]}: {FIELD} has {found} lists, but there are {num_groups} groups: "
            "give one list for every group",
            field=FIELD,
            given=found,
            limit=num_groups,
            index=i,
            request=int(requests[i]),
        )
    lists = list(chain.from_iterable(ids))
    _check_readable(lists)
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    return lengths.reshape(len(requests), num_groups), _joined(lists)


def _check_readable(values: Sequence[object]) -> None:
    # asking each value whether it is a Sequence takes longer than all the rest
    if set(map(type, values)) - PLAIN:
        for value in values:
            readable_twice(value, FIELD)


def _joined(lists: list[Ids]) -> NDArray[np.int64]:
    if np.ndarray not in set(map(type, lists)):
        return integer_array(list(chain.from_iterable(lists)), FIELD)
    # only flat arrays of signed integers can skip the check of each
    if {(type(ids), getattr(ids, "ndim", 1)) for ids in lists} == {(np.ndarray, 1)} and all(
        ids.dtype.kind == "i" for ids in lists if isinstance(ids, np.ndarray)
    ):
        return np.concatenate(lists).astype(np.int64, copy=False)
    return np.concatenate([integer_array(ids, FIELD) for ids in lists])
