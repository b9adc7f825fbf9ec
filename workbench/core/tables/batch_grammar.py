"""Batches in the grammar of vLLM's attention benchmarks: `2q2k_32q1s1k` is 34 requests.

Segments are joined by `_`: `<count>q<query tokens>s<sequence tokens>`, where the count is 1 and
the sequence is the query if omitted, and `k` multiplies by 1024.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.errors import ScenarioError, check_integer, shown

SEGMENT = re.compile(r"(\d+)?q(\d+)(k?)(?:s(\d+)(k?))?", re.ASCII)
K = 1024
MAX_REQUESTS = 65536
LONGEST = "the largest number of tokens"
EXAMPLE = "2q2k_32q1s1k"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One request of a step: `query_tokens` new ones, the last of `sequence_tokens`."""

    query_tokens: int
    sequence_tokens: int


def as_batch(batch: str | Sequence[BatchRequest]) -> tuple[BatchRequest, ...]:
    """Return the requests of a batch that is given in the grammar, or as requests.

    Errors: ScenarioError for anything else, and for a batch without a request.
    """
    if isinstance(batch, str):
        return parse_batch(batch)
    given = tuple(batch) if isinstance(batch, list | tuple) else ()
    if not given or not all(isinstance(one, BatchRequest) for one in given):
        raise _error(
            f"Invalid batch {shown(batch)}. Expected a text such as {EXAMPLE}, or at least one "
            "BatchRequest(query_tokens, sequence_tokens)."
        )
    for one in given:
        check_integer("sequence_tokens", one.sequence_tokens, 1, LARGEST_INT32, LONGEST)
        check_integer("query_tokens", one.query_tokens, 1, one.sequence_tokens, "sequence_tokens")
    return given


def as_request(request: str | BatchRequest) -> BatchRequest:
    """Return one request that is given in the grammar, or as such. Errors: ScenarioError."""
    found = as_batch(request if isinstance(request, str) else (request,))
    if len(found) > 1:
        raise _error(f"{len(found)} requests are given where one is expected, for example q40s300.")
    return found[0]


def parse_batch(text: str) -> tuple[BatchRequest, ...]:
    """Return the requests of a batch, in order. Errors: ScenarioError with the wrong segment."""
    requests: list[BatchRequest] = []
    for segment in text.strip().lower().split("_"):
        found = SEGMENT.fullmatch(segment)
        if found is None:
            raise _error(
                f"{segment[:40]!r} is not a valid batch segment. Expected [count]q<new tokens>"
                f"[s<all tokens>], joined by _, for example {EXAMPLE}."
            )
        count = int(found[1] or 1)
        query = _tokens(found[2], found[3])
        sequence = _tokens(found[4], found[5]) if found[4] else query
        if not 1 <= count <= MAX_REQUESTS - len(requests):
            raise _error(
                f"{segment[:40]!r}: a batch has from 1 to {MAX_REQUESTS:,} requests. Nearest valid "
                f"count: {1 if count < 1 else MAX_REQUESTS - len(requests)}."
            )
        if not 1 <= query <= sequence <= LARGEST_INT32:
            raise _error(
                f"{segment[:40]!r}: {query:,} new tokens of {sequence:,} in all. At least one "
                f"token is new, and at most all of them are, up to {LARGEST_INT32:,}."
            )
        requests += [BatchRequest(query, sequence)] * count
    return tuple(requests)


def _tokens(digits: str, k: str) -> int:
    # longer texts are too large whatever they say, and int() would take its time
    return min(int(digits[:12]), LARGEST_INT32 + 1) * (K if k else 1)


def _error(message: str) -> ScenarioError:
    return ScenarioError("batch_not_readable", message, field="batch")
