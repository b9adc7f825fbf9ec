"""Flex attention, parts that draw: the three grids of the plan, and the mask of a batch."""

from collections.abc import Callable
from functools import partial

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import KINDS, PREFIX
from workbench.core.flex.picture import BUILDS, MASK_IS_REFUSED, MaskPicture, mask_picture
from workbench.core.flex.plan import FLEX, FlexPlan, flex_plan
from workbench.core.flex.planned import DEFAULT_TOKENS, LayerMask, first_mask, layer_masks
from workbench.core.plan import Plan
from workbench.core.platforms import PLATFORMS
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.door.session import Session
from workbench.kernels.inspection.targets import TARGETS, Target
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import display, dropdown, grid, integer_of, line, text_box
from workbench.views.flex.figure import legal_pairs, mask_memory_figure, nested_grids
from workbench.views.flex.text import (
    TargetLimit,
    flex_html,
    masks_html,
    targets_html,
    visits_html,
)
from workbench.views.settings import changes_text

DEFAULT_BATCH = "2q48_q16s700"
ROCM_SEEN_BYTES = 64 * 1024
"""Shared memory that vLLM assumes for every ROCm device."""
OF_CAPABILITY = {"8.0": "sm_80", "9.0": "sm_90", "10.0": "sm_100", "10.3": "sm_100"}
ALL_OTHERS = "sm_120"
"""Capabilities 8.6, 8.9 and 12.x give a program 99 KiB."""
OF_PLAN = "as the plan's capability"
SIZES: dict[str, Callable[[Plan, FlexPlan], go.Figure]] = {
    "three nested grids": lambda _plan, flex: nested_grids(flex),
    "legal pairs": lambda _plan, flex: legal_pairs(flex),
    "memory of the mask": mask_memory_figure,
}
MASKS: dict[str, Callable[[MaskPicture], go.Figure]] = {
    "physical mask": MaskPicture.figure,
    "logical mask": MaskPicture.logical_figure,
    "order of the visits": MaskPicture.order_figure,
}


class BatchInput:
    """The batch and its mask, entered once for every part."""

    def __init__(self) -> None:
        self.batch = text_box("Flex batch", DEFAULT_BATCH)
        self.kind = dropdown("Mask", KINDS)
        self.size = text_box("Mask size (tokens)", str(DEFAULT_TOKENS))
        self.controls = (self.batch, self.kind, self.size)
        self.about = widgets.HTML()
        self._masks: tuple[LayerMask, ...] = ()

    def start(self, plan: Plan) -> None:
        """Begin with the mask of the plan's layers; an entered one stays while these do."""
        masks = layer_masks(plan)
        if masks != self._masks:
            self._masks, self.about.value = masks, masks_html(masks)
            self.kind.value, size = first_mask(plan)
            self.size.value = str(size)

    def read(self) -> tuple[tuple[BatchRequest, ...], str, int]:
        """Return requests, kind and size of the mask. Errors: ScenarioError."""
        size = integer_of(self.size.value, "mask size", DEFAULT_TOKENS)
        return parse_batch(self.batch.value), self.kind.value, size


class Part(Panel):
    """One page of the tab. `show` gets a plan of flex attention, and only while it is open."""

    takes_batch = True

    def forget(self) -> None:
        """Drop the plan: there is none to show."""
        self._plan = None

    def remedy_buttons(self, plan: Plan) -> list[widgets.Button]:
        """Return buttons for the tested remedies of the problems of flex attention."""
        return [
            self.apply_button(
                f"Apply {changes_text(remedy.changes)}",
                f"Tested: {remedy.plan!r}",
                partial(self.session.replace, **{"backend": FLEX, **remedy.changes}),
            )
            for problem in plan.problems
            if problem.code.startswith("flex_")
            for remedy in plan.remedies(problem)
            if remedy.plan.backend == FLEX
        ]


class SizesPart(Part):
    """Tile in mask block in cache block."""

    takes_batch = False

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        devices = ((target.title, name) for name, target in TARGETS.items())
        self.target = dropdown("Device", ((OF_PLAN, OF_PLAN), *devices))
        self.picture = dropdown("Show sizes", SIZES)
        self.sizes, self.targets = widgets.HTML(), widgets.HTML()
        self.remedies, self.figure = line(), LiveFigure()
        controls = grid([self.picture, self.target])
        self.fill(self.sizes, self.remedies, controls, self.figure, self.targets)
        self.watch(self.target, self.picture)

    def _draw(self, plan: Plan) -> Shown:
        flex = _on_target(plan, _target(plan, self.target.value))
        yield self.remedies, self.remedy_buttons(plan)
        yield self.sizes, flex_html(flex)
        every = [(_limit(target), _on_target(plan, target)) for target in TARGETS.values()]
        yield self.targets, targets_html(every)
        yield self.figure, SIZES[self.picture.value](plan, flex)


class MaskPart(Part):
    """The visited blocks, their order, and the visits without any visible key."""

    def __init__(self, session: Session, batch_input: BatchInput) -> None:
        super().__init__(session)
        self.batch_input = batch_input
        self.build = dropdown("Build", BUILDS)
        self.prefixes = text_box("Prefix ranges", "", "per request: 0-63; 0-9,20-29")
        self.stale = widgets.Checkbox(description="Stale columns", value=False, indent=False)
        self.picture = dropdown("Show mask", MASKS)
        self.error, self.cost = widgets.HTML(), widgets.HTML()
        self._refusal = self.error
        self.remedies, self.figure = line(), LiveFigure()
        controls = (self.build, self.picture, self.prefixes, self.stale)
        self.fill(grid(controls), self.error, self.remedies, self.figure, self.cost)
        self.watch(*batch_input.controls, *controls, then=self._redraw_if_open)

    def _redraw_if_open(self) -> None:
        if self.widget.layout.display != "none":
            self.redraw()

    def _draw(self, plan: Plan) -> Shown:
        try:
            mask = self._mask(plan)
        except ScenarioError as error:
            refused = error.code == MASK_IS_REFUSED
            yield self.remedies, self.remedy_buttons(plan) if refused else ()
            raise
        yield self.remedies, ()
        yield self.figure, MASKS[self.picture.value](mask)
        yield self.cost, visits_html(mask.visits, mask.lists.dropped)

    def _mask(self, plan: Plan) -> MaskPicture:
        requests, kind, size = self.batch_input.read()
        display(self.prefixes, shown=kind == PREFIX)
        prefixes = self.prefixes.value if kind == PREFIX else ""
        options = {"stale": self.stale.value, "build": self.build.value}
        return mask_picture(plan, requests, kind, size, prefixes=prefixes, **options)


def _target(plan: Plan, picked: str) -> Target:
    """Return the chosen device, or one like the plan's."""
    if picked == OF_PLAN:
        capability = plan.settings.compute_capability or PLATFORMS["cuda"].default_capability
        picked = OF_CAPABILITY.get(str(capability), ALL_OTHERS)
    return TARGETS[picked]


def _on_target(plan: Plan, target: Target) -> FlexPlan:
    flex = flex_plan(plan, _limit(target).seen_bytes)
    assert flex is not None
    return flex


def _limit(target: Target) -> TargetLimit:
    readable = target.shared_memory_bytes if target.backend == "cuda" else ROCM_SEEN_BYTES
    return TargetLimit(target.title, readable, target.shared_memory_bytes)
