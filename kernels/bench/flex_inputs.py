"""What a case is given: the same numbers every time, on pages whose other bytes are NaN."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from workbench.kernels.bench.flex_cases import FlexCase
from workbench.kernels.paged_flex.layout import PagedInputs, Request, lay_out
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.reference import agreement_of, dense_attention

CHECKED_TOKENS = 192
"""Queries of a batch that are held against float64."""

NOT_FINITE = "not finite"


@dataclass(frozen=True, slots=True)
class FlexInput:
    """One case on a device. requests: what was laid out; mask: for the batch, on the device."""

    case: FlexCase
    paged: PagedInputs
    requests: tuple[Request, ...]
    mask: Mask

    @property
    def device(self) -> torch.device:
        """Return the device of all tensors."""
        return self.paged.query.device

    def make_finite(self) -> None:
        """Replace unused entries by zeros, for peers that multiply masked values."""
        for block in self.paged.kv_cache.split(4096):
            block.nan_to_num_(nan=0.0)


def flex_input(case: FlexCase, device: str) -> FlexInput:
    """Draw requests of normal numbers on random pages of a pool twice as large."""
    random = torch.Generator(device).manual_seed(11)

    def draw(tokens: int, heads: int) -> torch.Tensor:
        shape = (tokens, heads, case.head_dim)
        return torch.randn(shape, generator=random, device=device, dtype=case.torch_dtype)

    requests = tuple(
        Request(draw(tokens, case.kv_heads), draw(tokens, case.kv_heads), draw(queries, case.heads))
        for tokens, queries in case.sizes()
    )
    mask = case.mask_of(case.requests).on(device)
    return FlexInput(case, _paged(case, requests, device, pools=2), requests, mask)


def in_larger_pool(given: FlexInput) -> FlexInput:
    """Return the same batch in a pool of twice the size."""
    return replace(given, paged=_paged(given.case, given.requests, str(given.device), pools=4))


def _paged(
    case: FlexCase, requests: tuple[Request, ...], device: str, *, pools: int
) -> PagedInputs:
    """Lay the batch out in a cache of `pools` times the blocks that it needs."""
    blocks = sum(-(-tokens // case.block_size) for tokens, _ in case.sizes())
    spare = blocks * (pools - 1)
    return lay_out(requests, case.block_size, layout="planes", seed=5, spare=spare, device=device)


@dataclass(frozen=True, slots=True)
class Truth:
    """float64 for some queries of a case.

    tokens: their places in the packed batch; exact: [tokens, heads, dim]; tolerance: the most
    that a result may differ.
    """

    tokens: list[int]
    exact: torch.Tensor
    tolerance: float

    def difference(self, peer: Any) -> str:
        """Describe what is wrong with a peer's current result; empty if nothing is."""
        given = peer.result()[self.tokens].double()
        bad = (~given.isfinite()).flatten(1).any(1).nonzero().flatten().tolist()
        if bad:
            return f"{NOT_FINITE}, first at query {self.tokens[bad[0]]}, {len(bad)} of {len(given)}"
        gaps = (given - self.exact).abs().amax((1, 2))
        largest, worst = float(gaps.max()), self.tokens[int(gaps.argmax())]
        if largest <= self.tolerance:
            return ""
        allowed = f"{self.tolerance:.3g} is allowed against float64"
        return f"off by {largest:.3g} at query {worst}; {allowed}"


def truth(given: FlexInput) -> Truth:
    """Return dense float64 attention, and the tolerance from a computation in the case's dtype."""
    tokens = checked_tokens(given)
    arguments = (given.paged.query, given.paged.kv_cache, given.paged.batch, given.mask)
    exact, rough = (
        dense_attention(*arguments, low_precision=low, tokens=tokens)[tokens].double()
        for low in (False, True)
    )
    return Truth(tokens, exact, agreement_of(exact, exact, rough, given.case.torch_dtype).tolerance)


def checked_tokens(given: FlexInput) -> list[int]:
    """Return first, last and random queries of requests spread over the batch."""
    starts = given.paged.batch.query_start_loc
    pick = np.random.default_rng(3)
    count = min(len(starts) - 1, CHECKED_TOKENS // 3)
    chosen: set[int] = set()
    for row in np.unique(np.linspace(0, len(starts) - 2, count).astype(int)):
        first, end = int(starts[row]), int(starts[row + 1])
        chosen |= {first, end - 1, *pick.integers(first, end, CHECKED_TOKENS // count).tolist()}
    return sorted(chosen)
