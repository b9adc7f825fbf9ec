"""What an attention backend is made of, and a trial of one that keeps nothing.

>>> record = wb.adding.Backend("OWL_ATTN", platforms=("cuda",), supported=(48,))
>>> with wb.adding.trial(record):
...     wb.resolve(model="qwen3.5-4b", backend="OWL_ATTN").block_size
528
"""

from collections.abc import Iterator
from contextlib import contextmanager

from workbench.core.backend_limits import Capabilities, HeadSizes
from workbench.core.backends import Backend, Rank
from workbench.core.block_sizes import MultipleOf
from workbench.core.errors import ScenarioError
from workbench.core.layouts.shapes import HEADS, KV, NUM_BLOCKS, TOKENS, CacheLayout
from workbench.core.versions import RULE_SETS

__all__ = ["AXES", "Backend", "CacheLayout", "Capabilities", "HeadSizes"]
__all__ += ["MultipleOf", "Rank", "trial"]

BACKENDS = RULE_SETS[RULE_SETS.releases[0]].backends
"""The table of the first release, from which those of later ones are made."""
AXES = (NUM_BLOCKS, KV, TOKENS, HEADS, "head_size")
"""The dimensions of an ordinary cache by name, in the most common order, outermost first."""


@contextmanager
def trial(*records: Backend) -> Iterator[None]:
    """Add backends to every release for the time of a `with`; none is kept.

    Errors: ScenarioError for what is not a `Backend`, and for a name that is taken.

    >>> with wb.adding.trial(wb.adding.Backend("FLASH_ATTN", platforms=("cuda",), supported=())):
    ...     pass
    Traceback (most recent call last):
    workbench.core.errors.ScenarioError: ...
    """
    _check(records)
    try:
        for record in records:
            BACKENDS.add(record.name, record)
        yield
    finally:
        for record in records:
            if BACKENDS.get(record.name) is record:
                BACKENDS.remove(record.name)


def _check(records: tuple[Backend, ...]) -> None:
    for at, record in enumerate(records):
        if not isinstance(record, Backend):
            raise ScenarioError(
                "not_a_backend",
                f"Invalid record of type {type(record).__name__}. Expected a wb.adding.Backend.",
                field="backend",
            )
        if record.name in BACKENDS or record.name in {one.name for one in records[:at]}:
            raise ScenarioError(
                "name_is_taken",
                f"Backend {record.name!r} exists. Expected a name that is free, such as "
                f"{record.name}_2.",
                field="backend",
            )
