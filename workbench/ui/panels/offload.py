"""Offload to host memory, and transfer between a prefill and a decode engine."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.offload.remedies import request_remedies
from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.scenario import Field
from workbench.scenario.kinds import Kind
from workbench.scenario.numbers import Bytes, Integer
from workbench.ui.controls import Entry
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import STALE, Panel
from workbench.ui.pieces import apply_button, dropdown, replace_children, row
from workbench.ui.session import Session, evaluate, guarded
from workbench.views.html import document, refusal_html
from workbench.views.offload.figure import offload_figure
from workbench.views.offload.html import offload_html
from workbench.views.offload.rows import remedy_rows, request_changes
from workbench.views.offload.transfer import transfer_html

SAME = "as this scenario"
PREFILL, DECODE = "prefill", "decode"


def _entry(name: str, label: str, tip: str, kind: Kind | None = None) -> Entry:
    return Entry(Field(name=name, default=None, kind=kind or Integer(), label=label, tip=tip))


class OffloadPanel(Panel):
    """Host memory and block sizes of an offload; the other side of a transfer."""

    title = "Offload and transfer"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self._inputs = (
            _entry(
                "cpu_bytes_to_use",
                "Host memory",
                "cpu_bytes_to_use, for all ranks together, e.g. 64 GiB",
                Bytes(),
            ),
            _entry(
                "block_size",
                "Offloaded block",
                "block_size in the connector's extra config",
            ),
            _entry("blocks_per_chunk", "Blocks per chunk", "blocks_per_chunk (0.33 and later)"),
            _entry(
                "hash_block_size",
                "Hash block",
                "hash_block_size (prefix_match_unit in 0.33)",
            ),
        )
        self.controls: dict[str, widgets.ValueWidget] = {
            picker.field: picker.widget for picker in self._inputs
        }
        self.controls["cpu_bytes_to_use"].value = "64 GiB"
        self.controls["block_size"].placeholder = "as on the GPU"
        self.controls |= {
            "role": dropdown("This side", (PREFILL, DECODE)),
            "other_tensor_parallel": dropdown("Other side's TP", (SAME,)),
            "other_kv_cache_dtype": dropdown("Other side's dtype", (SAME,)),
        }
        self._figure = LiveFigure()
        self._input_error, self._offload, self._transfer = (widgets.HTML() for _ in range(3))
        self._buttons = widgets.HBox(layout=widgets.Layout(flex_flow="row wrap"))
        for control in self.controls.values():
            control.observe(self._input_changed, names="value")
        offloading = [self.controls[picker.field] for picker in self._inputs]
        self.fill(
            widgets.HTML(document("<h4>Offload to host memory</h4>")),
            row(offloading),
            self._input_error,
            self._buttons,
            self._figure.widget,
            self._offload,
            widgets.HTML(document("<h4>Prefill on one engine, decode on another</h4>")),
            row([control for name, control in self.controls.items() if control not in offloading]),
            self._transfer,
        )

    def request(self) -> OffloadRequest:
        """Return the request of the inputs. Errors: ScenarioError with the allowed values."""
        values: dict[str, Any] = {
            picker.field: picker.read(picker.widget.value) for picker in self._inputs
        }
        try:
            return OffloadRequest(**values)
        except ValueError as error:
            raise ScenarioError("out_of_range", str(error)) from None

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock:
            self._plan = plan
            _offer(self.controls["other_tensor_parallel"], tensor_parallel_sizes(plan.model))
            legal = self.session.legal_values(plan.model)
            dtypes = legal.of(plan.scenario, "kv_cache_dtype", plan.rules.kv_cache_dtypes)
            _offer(self.controls["other_kv_cache_dtype"], dtypes)
            self._draw()

    @guarded
    def _input_changed(self, _change: Any) -> None:
        with self._lock:
            self._draw()

    def _draw(self) -> None:
        if self._plan is None:
            return
        self._draw_transfer(self._plan)
        try:
            request = self.request()
        except ScenarioError as error:
            self._input_error.value = document(refusal_html(error), STALE)
            self._set_stale(True)
            return
        self._input_error.value = ""
        self._draw_offload(self._plan, request)
        self._set_stale(False)
        self.clear_error()

    def _draw_offload(self, plan: Plan, request: OffloadRequest) -> None:
        self._offload.value = offload_html(plan, request)
        if plan.cache is None:
            replace_children(self._buttons, ())
            self._figure.hide()
            return
        found = offload(plan, request)
        replace_children(self._buttons, self._remedies(plan, request, found))
        self._figure.show(offload_figure(plan, request))

    def _draw_transfer(self, plan: Plan) -> None:
        changes = {
            name.removeprefix("other_"): control.value
            for name, control in self.controls.items()
            if name.startswith("other_") and control.value != SAME
        }
        other = evaluate(plan.scenario.replace(**changes))
        if other.plan is None:
            assert other.error is not None
            self._transfer.value = document(refusal_html(other.error))
            return
        sides = (plan, other.plan)
        if self.controls["role"].value == DECODE:
            sides = (other.plan, plan)
        self._transfer.value = transfer_html(*sides)

    def _remedies(
        self, plan: Plan, request: OffloadRequest, found: Offload
    ) -> list[widgets.Button]:
        """Return buttons that change the scenario, then those that change this tab's inputs."""
        buttons = []
        for remedy, after in remedy_rows(plan, request, found):
            pressed = partial(self._apply, dict(remedy.changes))
            buttons.append(apply_button(f"Apply {remedy.text}", f"Tested: {after}", pressed))
        for problem in found.problems:
            for other in request_remedies(plan, problem, request):
                inputs = {
                    name: "" if value is None else str(value)
                    for name, value in request_changes(request, other).items()
                }
                words = ", ".join(f"{name} = {value or 'empty'}" for name, value in inputs.items())
                pressed = partial(self._set_inputs, inputs)
                buttons.append(apply_button(f"Set {words}", "Tested: this check passes.", pressed))
        return buttons

    @guarded
    def _apply(self, changes: dict[str, Any], _button: widgets.Button) -> None:
        self.session.replace(**changes)

    @guarded
    def _set_inputs(self, inputs: dict[str, str], _button: widgets.Button) -> None:
        for name, value in inputs.items():
            self.controls[name].value = value

    def _set_stale(self, stale: bool) -> None:
        for widget in (self._buttons, self._figure.widget, self._offload):
            (widget.add_class if stale else widget.remove_class)("wb-stale")


def _offer(dropdown: widgets.Dropdown, values: Any) -> None:
    """Offer these values; keep the choice if it is still there."""
    options = ((SAME, SAME), *((str(value), value) for value in values))
    if options != dropdown.options:
        picked = dropdown.value
        dropdown.options = options
        if picked in [value for _label, value in options]:
            dropdown.value = picked
