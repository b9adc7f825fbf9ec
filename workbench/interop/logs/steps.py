"""What is tried one after the other to find the model of a log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from workbench.core.dtypes import INT4_HEADS, NVFP4_DTYPES, TURBOQUANT_BITS
from workbench.interop.logs.tries import DRAFTS, Changes, Start, Step, choices, together

KV_DTYPE, STATE_DTYPE = "kv_cache_dtype", "mamba_ssm_cache_dtype"
OPEN = ("tensor_parallel", DRAFTS, KV_DTYPE)
"""Fields that a log without arguments leaves open; all of them are tried together."""
LIKELY_DRAFTS = 4
RARE_KV_DTYPES = ("int8_per_token_head", INT4_HEADS, NVFP4_DTYPES[0], *TURBOQUANT_BITS)
STATE_DTYPES = ("float16", "float32")
"""One dtype for every number of bytes: sizes do not tell the others apart."""


def _open(start: Start) -> tuple[str, ...]:
    return OPEN if start.model.is_hybrid else tuple(name for name in OPEN if name != DRAFTS)


def _itself(_start: Start, _fixed: Changes) -> Iterator[Changes]:
    yield {}


def _single(start: Start, fixed: Changes) -> Iterator[Changes]:
    return together(_open(start), fixed, start, (1, 1))


def _platform(start: Start, fixed: Changes) -> Iterator[Changes]:
    return choices("platform", fixed, start)


def _several(start: Start, fixed: Changes, count: int, *, likely: bool) -> Iterator[Changes]:
    """Yield changes of so many open fields, with few drafts or with many."""
    for change in together(_open(start), fixed, start, (count, count)):
        if (change.get(DRAFTS, 0) <= LIKELY_DRAFTS) == likely:
            yield change


def _of_hybrids(
    start: Start, fixed: Changes, name: str, values: tuple[Any, ...]
) -> Iterator[Changes]:
    """Yield changes of a field to these values, alone and with up to two open fields."""
    if not start.model.is_hybrid:
        return
    for picked in _picked(name, values, fixed, start):
        for change in together(_open(start), fixed, start, (0, 2)):
            yield {**picked, **change}


def _dtypes(start: Start, fixed: Changes) -> Iterator[Changes]:
    """Yield changes to rarer KV dtypes, alone and with the state dtype and drafts."""
    if not start.model.is_hybrid:
        return
    drafts = [{}, *choices(DRAFTS, fixed, start, few=True)]
    for kv in _picked(KV_DTYPE, RARE_KV_DTYPES, fixed, start):
        for state in ({}, *_picked(STATE_DTYPE, STATE_DTYPES, fixed, start)):
            for change in drafts:
                yield {**kv, **state, **change}


def _picked(name: str, values: Iterable[Any], fixed: Changes, start: Start) -> Iterator[Changes]:
    return (change for change in choices(name, fixed, start) if change[name] in values)


OF_SIZES: tuple[Step, ...] = (
    partial(_of_hybrids, name=STATE_DTYPE, values=STATE_DTYPES),
    _dtypes,
)
"""Tried only where a log has a block size: of so many, some give any number of tokens by chance."""
UNLIKELY: tuple[Step, ...] = (
    *(partial(_several, count=3, likely=likely) for likely in (True, False)),
    partial(_of_hybrids, name="enable_prefix_caching", values=(True,)),
    *OF_SIZES,
)
STEPS: tuple[Step, ...] = (
    _itself,
    _single,
    partial(_several, count=2, likely=True),
    _platform,
    partial(_several, count=2, likely=False),
    *UNLIKELY,
)
"""What is tried one after the other, each of every model; `UNLIKELY` only where the rest fails."""
