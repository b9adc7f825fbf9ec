"""The labs of flex attention: a new one is an entry here and its function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from workbench.core.flex.batch import predicted_orders
from workbench.core.flex.lab import AS_PLANNED, DTYPES, KERNELS, OrderLab
from workbench.core.flex.result import LabResult
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.flex.mistakes import FLEX_MISTAKES

Choices = tuple[tuple[str, Any], ...]
"""(label, value) of every choice."""
MOST_OFFERED = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LabInput:
    """An argument of a lab: a choice, else a number from 1 to `most`, else text."""

    name: str
    label: str
    tip: str
    default: Any = ""
    choices: tuple[str, ...] = ()
    of_batch: Callable[[Sequence[BatchRequest]], Choices] | None = None
    """The choices for the requests of a batch, where they depend on it."""
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One lab. The panel is made from this, and nothing is imported before it runs."""

    title: str
    button: str
    tip: str
    home: str
    """`module:function`. The function takes the plan, the batch if `takes_batch` (and then `mask`
    and `mask_tokens`), the inputs by name and the `job`; it returns a LabResult. Errors:
    ScenarioError for what is refused; Stopped."""
    explained: str = ""
    inputs: tuple[LabInput, ...] = ()
    takes_batch: bool = True
    before: Callable[[], LabResult] | None = None
    """What is known before anything runs."""

    @property
    def function(self) -> Callable[..., LabResult]:
        """Import and return the function; this may take seconds."""
        module, _, name = self.home.partition(":")
        found: Callable[..., LabResult] = getattr(import_module(module), name)
        return found


def _requests(batch: Sequence[BatchRequest]) -> Choices:
    return tuple(
        (f"{i}: {one.query_tokens:,} queries over {one.sequence_tokens:,} keys", i)
        for i, one in enumerate(batch[:MOST_OFFERED])
    )


DTYPE = LabInput(
    name="dtype",
    label="dtype",
    tip="The dtype of queries, keys and values",
    choices=(AS_PLANNED, *DTYPES),
)

FLEX_LABS = (
    Lab(
        title="Launch",
        button="Launch batch",
        tip="Run this batch, and compare it with float64",
        home="workbench.labs.flex.launch:launch_flex",
        explained="The batch above runs in the shape of one rank of this plan, with random numbers "
        "on random pages: on a GPU if there is one, else interpreted, or eager for torch's path. "
        "The result is compared with float64; a second run fills everything that must not be read "
        "with NaN.",
        inputs=(
            LabInput(
                name="kernel", label="Kernel", tip="Which kernel is launched", choices=KERNELS
            ),
            DTYPE,
            LabInput(name="tile", label="Tile", tip="Queries x keys, e.g. 64 x 32; empty: default"),
        ),
    ),
    Lab(
        title="Batch invariance",
        button="Compare bits",
        tip="Run the request under every batch composition and compare",
        home="workbench.labs.flex.bits:bit_lab",
        explained="One request of the batch above is computed alone, then in random batches with "
        "the other requests and two extra ones, between padding requests, on permuted pages, with "
        "other page sizes and in chunks. Bits that differ are counted and located, under our two "
        "ways to choose tiles, and under a control that chooses them by the size of the batch.",
        inputs=(
            LabInput(
                name="subject",
                label="Request",
                tip="The request that is computed in every way",
                of_batch=_requests,
            ),
            DTYPE,
            LabInput(
                name="batches", label="Batches", tip="How many random batches", default=4, most=200
            ),
        ),
    ),
    Lab(
        title="Reduction order",
        button="Compare orders",
        tip="Add the request up in the predicted orders",
        home="workbench.labs.flex.order:order_lab",
        takes_batch=False,
        before=lambda: OrderLab(predicted_orders()),
    ),
    Lab(
        title="Against torch",
        button="Compare masks",
        tip="Compare every pair of the mask, and every block, with torch's own",
        home="workbench.labs.flex.masks:mask_lab",
        explained="The mask of the batch above, over blocks of this plan, is built by torch's "
        "create_mask and as a real BlockMask, and compared with the plain model of the tab Mask.",
    ),
    Lab(
        title="Build cost",
        button="Measure builds",
        tip="Time both builds of the block mask on this machine",
        home="workbench.labs.flex.masks:cost_lab",
        explained="Both builds of the block mask of the batch above are timed on the CPU of this "
        "machine, while the pool grows: the generic build evaluates every pair of token and slot, "
        "the direct one lists pages from the block table.",
    ),
    Lab(
        title="Failure demos",
        button="Run it",
        tip="Trigger the mistake, then run a correct launch",
        home="workbench.labs.flex.mistakes:make_flex_mistake",
        explained="Each mistake is actually triggered and rejected with the allowed values; a "
        "correct launch afterwards shows that nothing broke.",
        inputs=(
            LabInput(
                name="mistake",
                label="Failure demo",
                tip="What is done wrong",
                choices=tuple(FLEX_MISTAKES),
            ),
        ),
        takes_batch=False,
    ),
)
