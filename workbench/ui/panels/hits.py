"""What prefix caching can hit: a workload, its threshold, the curve, and what to change."""

from functools import partial

import ipywidgets as widgets

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of
from workbench.core.prefix.workload import Workload, WorkloadHits, workload_hits
from workbench.core.what_if.workload_steps import workload_steps
from workbench.door.session import Session
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import apply_button, display, grid, integer_of, line, text_box
from workbench.views import html
from workbench.views.hits.figure import hit_curve
from workbench.views.hits.html import hits_html, threshold_html, workload_html
from workbench.views.settings import changes_text

NUMBERS = {
    "shared_tokens": (
        "Shared prefix (tokens)",
        "Tokens at the start of the prompt that other requests share.",
    ),
    "unique_tokens": (
        "Unique suffix (tokens)",
        "Tokens after the shared prefix, unique to each request.",
    ),
    "requests": ("Requests", "Number of sequential requests."),
    "prefixes": ("Prefixes", "Number of distinct shared prefixes."),
}
"""Number of a workload -> label, tip."""
LARGEST = {"requests": 10_000, "prefixes": 10_000}
USUAL = {"unique_tokens": 600, "requests": 64, "prefixes": 8}
BLOCKS_SHARED = 3
STEPS_SHOWN = 4
REPORT = (
    '<p class="wb-faint">Upper bound: assumes no eviction and no overlapping requests. '
    "vllm#45238 (64 requests of 1,600 + 600 tokens, 8 prefixes, blocks of 528, budget 2,048) "
    "measured 52 hits, where the rules give 56; they give 52 for 12 prefixes. For 1,500 shared "
    "tokens both are 0.</p>"
)


class HitsPanel(Panel):
    """The workload's threshold, verdict and place in the curve; without hits the text says why."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._threshold, self._workload = widgets.HTML(), widgets.HTML()
        self._report = widgets.HTML(html.document(REPORT))
        self._curve, self._advice = LiveFigure(), widgets.HTML()
        self.steps = line()
        self.switch_on = apply_button(
            f"Apply {changes_text({'enable_prefix_caching': True})}",
            "Show the possible hits of this model with prefix caching.",
        )
        self.inputs = {name: text_box(label, tip=tip) for name, (label, tip) in NUMBERS.items()}
        title = widgets.HTML(html.document("<b>Your workload</b>"))
        self.workload = widgets.VBox([title, grid(self.inputs.values())])
        self.fill(
            self._threshold,
            line(self.switch_on),
            self.workload,
            self._curve,
            self._workload,
            self._advice,
            self.steps,
            self._report,
        )
        self.press(self.switch_on, lambda: self.session.replace(enable_prefix_caching=True))
        self.watch(*self.inputs.values())

    def _draw(self, plan: Plan) -> Shown:
        has_cache = plan.kept_cache is not None
        display(self.switch_on, shown=has_cache and not plan.enable_prefix_caching)
        has_hits = has_cache and plan.enable_prefix_caching
        display(self.workload, shown=has_hits)  # without hits no number of it changes anything
        if not has_hits:
            yield self._threshold, hits_html(plan)
            yield self._curve, None
            yield from ((part, "") for part in (self._workload, self._advice))
            yield self.steps, ()
            return
        found = workload_hits(caching_of(plan), self._read(plan))
        yield self._threshold, threshold_html(plan, found.workload.prompt_tokens)
        yield self._curve, hit_curve(plan, found=found)
        yield self._workload, workload_html(plan, found)
        yield from self._draw_steps(plan, found)

    def _draw_steps(self, plan: Plan, found: WorkloadHits) -> Shown:
        """Yield a button for every change after which the workload reuses more."""
        steps = workload_steps(plan, found.workload)[:STEPS_SHOWN]
        advice = "What to change, and the share of all prompt tokens that is then reused:"
        if not steps:
            advice = "No single change lets this workload reuse more."
        yield self._advice, html.document(html.tag("p", advice))
        whole = found.workload.prompt_tokens * found.workload.requests or 1
        yield (
            self.steps,
            [
                self.apply_button(
                    f"{changes_text(step.changes)}: {100 * step.cached_tokens / whole:.0f} % "
                    f"instead of {100 * sum(found.cached_tokens) / whole:.0f} %",
                    f"{step.hits.hits:,} of {found.workload.requests:,} requests hit.",
                    partial(self.session.replace, **step.changes),
                )
                for step in steps
            ],
        )

    def _read(self, plan: Plan) -> Workload:
        """Return the workload of the inputs; an empty one has its placeholder's value."""
        usual = {"shared_tokens": BLOCKS_SHARED * caching_of(plan).alignment_tokens, **USUAL}
        numbers = {}
        for name, (label, _tip) in NUMBERS.items():
            box = self.inputs[name]
            box.placeholder = str(usual[name])
            text = box.value.strip() or box.placeholder
            high = LARGEST.get(name, LARGEST_INT32)
            numbers[name] = integer_of(text, label, usual[name], high=high)
        workload = Workload(**numbers)
        if workload.prompt_tokens <= plan.max_model_len:
            return workload
        raise ScenarioError(
            "out_of_range",
            f"Invalid prompt length {workload.prompt_tokens:,}. Expected at most max_model_len. "
            f"Nearest valid value: {plan.max_model_len:,} tokens in total.",
            field="max_model_len",
        )
