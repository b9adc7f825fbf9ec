"""Flex attention of a plan on one batch: `wb.flex(plan, "q20_q8s150").launch()`."""

from collections.abc import Sequence
from typing import Any

from workbench.core.errors import check_plan
from workbench.core.flex.batch import KINDS, mask_rule
from workbench.core.flex.lab import AS_PLANNED, BitLab, FlexMistake, FlexRun, OrderLab
from workbench.core.flex.picture import MaskPicture, mask_picture
from workbench.core.flex.planned import first_mask
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest, as_batch
from workbench.labs.flex.bits import bit_lab
from workbench.labs.flex.launch import launch_flex
from workbench.labs.flex.masks import BuildCosts, MaskComparison, cost_lab, mask_lab
from workbench.labs.flex.mistakes import FLEX_MISTAKES, make_flex_mistake
from workbench.labs.flex.order import order_lab

EXAMPLE = "q20_q8s150"
"""Small enough for the interpreter: a prompt of 20 tokens, and 8 new tokens of 150."""


class FlexSession:
    """A batch and a mask over the pages of a plan; every method launches and returns what it found.

    batch: in vLLM's grammar, or as requests. mask: one of `masks`, by default that of most
    attention layers of the plan; mask_tokens: its window, prefix or chunk, by default that of the
    plan's layers, else 64. On a GPU if there is one, else interpreted. Errors of every method:
    ScenarioError for what the kernels refuse, with what is allowed.

    >>> flex_plan = wb.resolve(model="llama-3.1-8b", backend="FLEX_ATTENTION")
    >>> wb.flex(flex_plan, "q40_3q1s300").picture()
    66 block visits, 3 without any visible key
    """

    masks = KINDS
    mistakes = tuple(FLEX_MISTAKES)

    def __init__(
        self,
        plan: Plan,
        batch: str | Sequence[BatchRequest] = EXAMPLE,
        *,
        mask: str = AS_PLANNED,
        mask_tokens: int | None = None,
    ) -> None:
        check_plan("wb.flex", plan, Plan)
        self.plan = plan
        self.batch = as_batch(batch)
        kind, size = first_mask(plan)
        self.mask = kind if mask == AS_PLANNED else mask
        self.mask_tokens = size if mask_tokens is None else mask_tokens
        mask_rule(self.mask, self.mask_tokens)  # refuses what none of the methods takes

    def __repr__(self) -> str:
        from workbench.views.units import counted

        requests = counted(len(self.batch), "request")
        return f"flex attention of {requests}, mask {self.mask}; {self.plan!r}"

    @property
    def _mask(self) -> dict[str, Any]:
        return {"mask": self.mask, "mask_tokens": self.mask_tokens}

    def picture(self, **options: Any) -> MaskPicture:
        """Return which blocks are visited; options: `prefixes`, `stale`, `build`."""
        return mask_picture(self.plan, self.batch, **self._mask, **options)

    def launch(self, **options: Any) -> FlexRun:
        """Run the batch once over zeros and once over NaN, and compare with float64.

        options: `kernel`, `dtype`, `tile` ("64 x 32"), `custom_mask`.
        """
        return launch_flex(self.plan, self.batch, **self._mask, **options)

    def bits(self, subject: int = 0, **options: Any) -> BitLab:
        """Run request `subject` alone and in random batches, and count the bits that differ.

        options: `dtype`, `batches`, `seed`.
        """
        return bit_lab(self.plan, self.batch, subject=subject, **self._mask, **options)

    def orders(self, *, compiled: bool = True) -> OrderLab:
        """Add a request up in the predicted orders of its pages; see `order_lab`."""
        return order_lab(self.plan, compiled=compiled)

    def compare_masks(self) -> MaskComparison:
        """Compare every pair of the mask, and every block, with torch's own."""
        return mask_lab(self.plan, self.batch, **self._mask)

    def build_cost(self) -> BuildCosts:
        """Measure both builds of the block mask on this machine while the pool grows."""
        return cost_lab(self.plan, self.batch, **self._mask)

    def mistake(self, name: str) -> FlexMistake:
        """Trigger one of `mistakes`, then run a correct launch."""
        return make_flex_mistake(self.plan, mistake=name)
