"""What prefix caching can hit: the curve over prompt length, and a workload of one's own."""

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of
from workbench.core.prefix.workload import Workload
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import apply_button, display, grid, integer_of, text_box
from workbench.ui.session import Session
from workbench.views import html
from workbench.views.hits.figure import hit_curve, hits_html, workload_html

NUMBERS = {
    "shared_tokens": (
        "Shared tokens",
        "Tokens at the start of the prompt that other requests share.",
    ),
    "unique_tokens": ("Unique tokens", "Tokens after the shared prefix, unique to each request."),
    "requests": ("Requests", "Number of sequential requests."),
    "prefixes": ("Prefixes", "Number of distinct shared prefixes."),
}
"""Number of a workload -> label, tip."""
LARGEST = {"requests": 10_000, "prefixes": 10_000}
MAX_TOKENS = 2**31 - 1
USUAL = {"unique_tokens": 600, "requests": 64, "prefixes": 8}
BLOCKS_SHARED = 3
REPORT = (
    '<p class="wb-faint">Upper bound: assumes no eviction and no overlapping requests. '
    "vllm#45238 (64 requests of 1,600 + 600 tokens, 8 prefixes, blocks of 528, budget 2,048) "
    "measured 52 hits, where the rules give 56; they give 52 for 12 prefixes. For 1,500 shared "
    "tokens both are 0.</p>"
)


class HitsPanel(Panel):
    """The curve is hidden where nothing can hit; the text says why."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._text, self._workload = widgets.HTML(), widgets.HTML()
        self._report = widgets.HTML(html.document(REPORT))
        self._curve = LiveFigure()
        self.switch_on = apply_button(
            "Apply enable_prefix_caching = yes",
            "Show the possible hits of this model with prefix caching.",
        )
        self.inputs = {name: text_box(label, tip=tip) for name, (label, tip) in NUMBERS.items()}
        self.fill(
            self._text,
            self.switch_on,
            self._curve,
            widgets.HTML(html.document("<h4>A workload of your own</h4>")),
            grid(self.inputs.values()),
            self._workload,
            self._report,
        )
        self.press(self.switch_on, lambda: self.session.replace(enable_prefix_caching=True))
        self.watch(
            *self.inputs.values(), then=lambda: self.redraw(self._draw_workload, self._workload)
        )

    def _draw(self, plan: Plan) -> Shown:
        yield self._text, hits_html(plan)
        display(self.switch_on, shown=plan.cache is not None and not plan.enable_prefix_caching)
        yield self._curve, hit_curve(plan) if _caches(plan) else None
        yield from self._draw_workload(plan)

    def _draw_workload(self, plan: Plan) -> Shown:
        yield self._workload, workload_html(plan, self._read(plan)) if _caches(plan) else ""

    def _read(self, plan: Plan) -> Workload:
        """Return the workload of the inputs; an empty one has its placeholder's value."""
        usual = {"shared_tokens": BLOCKS_SHARED * caching_of(plan).alignment_tokens, **USUAL}
        numbers = {}
        for name, (label, _tip) in NUMBERS.items():
            box = self.inputs[name]
            box.placeholder = str(usual[name])
            text = box.value.strip() or box.placeholder
            numbers[name] = integer_of(text, label, usual[name], high=LARGEST.get(name, MAX_TOKENS))
        workload = Workload(**numbers)
        if workload.prompt_tokens <= plan.max_model_len:
            return workload
        raise ScenarioError(
            "out_of_range",
            f"Invalid prompt length {workload.prompt_tokens:,}. Expected at most max_model_len. "
            f"Nearest valid value: {plan.max_model_len:,} tokens in total.",
            field="max_model_len",
        )


def _caches(plan: Plan) -> bool:
    return plan.cache is not None and bool(plan.enable_prefix_caching)
