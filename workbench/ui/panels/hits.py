"""What prefix caching can hit: the curve over prompt length, and a workload of one's own."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of
from workbench.core.prefix.workload import Workload
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import apply_button
from workbench.ui.session import Session, guarded
from workbench.views import html
from workbench.views.hits.figure import hit_curve
from workbench.views.hits.html import hits_html, workload_html

NUMBERS = {
    "shared": ("Shared tokens", "Tokens at the start of the prompt that other requests share."),
    "unique": ("Unique tokens", "Tokens after the shared prefix, unique to each request."),
    "requests": ("Requests", "Number of sequential requests."),
    "prefixes": ("Prefixes", "Number of distinct shared prefixes."),
}
DEFAULT_OTHERS = {"unique": 600, "requests": 64, "prefixes": 8}
BLOCKS_SHARED = 3
MAX_REQUESTS = 10_000


REPORT = (
    '<p class="wb-faint">Upper bound: assumes no eviction and no overlapping requests. '
    "vllm#45238 (64 requests of 1,600 + 600 tokens, 8 prefixes, blocks of 528, budget 2,048) "
    "measured 52 hits, where the rules give 56; they give 52 for 12 prefixes. For 1,500 shared "
    "tokens both are 0.</p>"
)


class HitsPanel(Panel):
    """The curve is hidden where nothing can hit; the text says why."""

    title = "Prefix hits"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._plan: Plan | None = None
        self._text, self._workload = widgets.HTML(), widgets.HTML()
        self._report = widgets.HTML(html.document(REPORT))
        self._curve = LiveFigure()
        self.switch_on = apply_button(
            "Apply enable_prefix_caching = yes",
            "Show the possible hits of this model with prefix caching.",
            self._switch_on,
        )
        self.inputs = {
            name: widgets.Text(
                description=label,
                tooltip=tip,
                continuous_update=False,
                style={"description_width": "96px"},
                layout=widgets.Layout(width="200px"),
            )
            for name, (label, tip) in NUMBERS.items()
        }
        self.fill(
            self._text,
            self.switch_on,
            self._curve.widget,
            widgets.HTML(html.document("<h4>A workload of your own</h4>")),
            widgets.HBox(list(self.inputs.values()), layout=widgets.Layout(flex_flow="row wrap")),
            self._workload,
            self._report,
        )
        for box in self.inputs.values():
            box.observe(self._show_workload, names="value")

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._plan = plan
        self._text.value = hits_html(plan)
        if plan.cache is None or not plan.enable_prefix_caching:
            self.switch_on.layout.display = "none" if plan.cache is None else None
            self._curve.hide()
            self._workload.value = ""
            return
        self._curve.show(hit_curve(plan))
        self.switch_on.layout.display = "none"
        self._show_workload(None)

    @guarded
    def _switch_on(self, _button: widgets.Button) -> None:
        self.session.replace(enable_prefix_caching=True)

    @guarded
    def _show_workload(self, _change: Any) -> None:
        plan = self._plan
        if plan is None or plan.cache is None or not plan.enable_prefix_caching:
            self.accept_input(self._workload)
            return
        try:
            self._evaluate(plan)
        except ScenarioError as error:
            self.refuse_input(error, self._workload)
            return
        self.accept_input(self._workload)

    def _evaluate(self, plan: Plan) -> None:
        block = caching_of(plan).alignment_tokens
        defaults = {"shared": BLOCKS_SHARED * block, **DEFAULT_OTHERS}
        for name, box in self.inputs.items():
            box.placeholder = str(defaults[name])
        numbers = {name: self._number(name, default) for name, default in defaults.items()}
        workload = Workload(
            requests=numbers["requests"],
            shared_tokens=numbers["shared"],
            unique_tokens=numbers["unique"],
            prefixes=max(1, numbers["prefixes"]),
        )
        if workload.prompt_tokens > plan.max_model_len:
            raise ScenarioError(
                "out_of_range",
                f"Invalid prompt length {workload.prompt_tokens:,}. Expected at most "
                f"max_model_len. Nearest valid value: {plan.max_model_len:,} tokens in total.",
                field="max_model_len",
            )
        self._workload.value = workload_html(plan, workload)

    def _number(self, name: str, default: int) -> int:
        text = self.inputs[name].value.strip().replace(",", "")
        if not text:
            return default
        low, high = (1, MAX_REQUESTS) if name in {"requests", "prefixes"} else (1, 2**31 - 1)
        if text.isdecimal() and text.isascii() and len(text) < 12 and low <= int(text) <= high:
            return int(text)
        raise ScenarioError(
            "out_of_range",
            f"Invalid {NUMBERS[name][0].lower()} {text[:40]!r}. Expected an integer from {low:,} "
            f"to {high:,}. Nearest valid value: {_nearest(text, low, high, default):,}.",
            field="prefix_hits",
        )


def _nearest(text: str, low: int, high: int, default: int) -> int:
    """Return the limit that a number exceeds; the default for anything but a number."""
    if text.startswith("-") or text.strip("0") == "":
        return low
    return high if text.isdecimal() else default
