"""Offload to host memory, and transfer between a prefill and a decode engine."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.offload.remedies import request_remedies
from workbench.core.plan import Plan
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.door.session import Session, evaluate
from workbench.scenario import Field
from workbench.scenario.numbers import Bytes, Integer
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown
from workbench.ui.pieces import Entry, dropdown, grid, line
from workbench.views.html import document, refusal_html
from workbench.views.offload.break_even import break_even_html
from workbench.views.offload.figure import offload_figure
from workbench.views.offload.html import offload_html
from workbench.views.offload.rows import remedy_rows, request_changes
from workbench.views.offload.transfer import transfer_html
from workbench.views.settings import changes_text

SAME = "as this scenario"
PREFILL, DECODE = "prefill", "decode"
MEMORY_TIP = "cpu_bytes_to_use, for all ranks together, e.g. 64 GiB"
INPUTS = (
    ("cpu_bytes_to_use", Bytes(), "Host memory", MEMORY_TIP),
    ("block_size", Integer(), "Offloaded block", "block_size in the connector's extra config"),
    ("blocks_per_chunk", Integer(), "Blocks per chunk", "blocks_per_chunk (0.33 and later)"),
    ("hash_block_size", Integer(), "Hash block", "hash_block_size (prefix_match_unit in 0.33)"),
)
"""Name of a request's field, kind, label, tip."""
RATES = (
    ("prefill", Integer(), "Prefill (tokens/s)", "What your engine computes per second, measured"),
    ("link", Bytes(), "Link (bytes/s)", "What a GPU loads per second, measured, e.g. 25 GB"),
)
"""Name of a measured rate, kind, label, tip."""


class OffloadPanel(Panel):
    """Host memory and block sizes of an offload; the other side of a transfer."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._inputs = {
            name: Entry(Field(name=name, default=None, kind=kind, label=label, tip=tip))
            for name, kind, label, tip in INPUTS
        }
        self._rates = {
            name: Entry(
                Field(name=name, default=None, kind=kind, label=label, tip=tip, none="not set")
            )
            for name, kind, label, tip in RATES
        }
        offloading = {name: entry.widget for name, entry in self._inputs.items()}
        rates = {name: entry.widget for name, entry in self._rates.items()}
        offloading["cpu_bytes_to_use"].value = "64 GiB"
        offloading["block_size"].placeholder = "as on the GPU"
        other = {
            "role": dropdown("This side", (PREFILL, DECODE)),
            "other_tensor_parallel": dropdown("Other side's TP", (SAME,)),
            "other_kv_cache_dtype": dropdown("Other side's dtype", (SAME,)),
        }
        self.controls: dict[str, widgets.ValueWidget] = offloading | rates | other
        self._figure, self._buttons = LiveFigure(), line()
        self._input_error, self._offload, self._transfer = (widgets.HTML() for _ in range(3))
        self._break_even = widgets.HTML()
        self._refusal = self._input_error
        self.fill(
            widgets.HTML(document("<h4>Offload to host memory</h4>")),
            grid(offloading.values()),
            self._input_error,
            self._buttons,
            self._figure,
            self._break_even,
            grid(rates.values()),
            self._offload,
            widgets.HTML(document("<h4>Prefill on one engine, decode on another</h4>")),
            grid(other.values()),
            self._transfer,
        )
        self.watch(*self.controls.values())

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        with self._lock, self.by_program:
            offer(self.controls["other_tensor_parallel"], tensor_parallel_sizes(plan.model))
            legal = self.session.legal_values(plan.model)
            dtypes = legal.of(plan.scenario, "kv_cache_dtype", plan.rules.kv_cache_dtypes)
            offer(self.controls["other_kv_cache_dtype"], dtypes)
            super().show(plan)

    def request(self) -> OffloadRequest:
        """Return the request of the inputs. Errors: ScenarioError with the allowed values."""
        values = {name: entry.read(entry.widget.value) for name, entry in self._inputs.items()}
        try:
            return OffloadRequest(**values)
        except ValueError as error:
            raise ScenarioError("out_of_range", str(error)) from None

    def _draw(self, plan: Plan) -> Shown:
        yield self._transfer, self._of_transfer(plan)
        request = self.request()
        yield self._offload, offload_html(plan, request)
        fits = plan.kept_cache is not None
        yield self._break_even, self._pays(plan, request) if fits else ""
        yield self._buttons, self._remedies(plan, request) if fits else ()
        yield self._figure, offload_figure(plan, request) if fits else None

    def _pays(self, plan: Plan, request: OffloadRequest) -> str:
        rates = {name: entry.read(entry.widget.value) for name, entry in self._rates.items()}
        found, length = offload(plan, request), self.session.length_of(plan)
        return break_even_html(found, length, rates["prefill"], rates["link"])

    def _of_transfer(self, plan: Plan) -> str:
        changes = {
            name.removeprefix("other_"): control.value
            for name, control in self.controls.items()
            if name.startswith("other_") and control.value != SAME
        }
        other = evaluate(plan.scenario.replace(**changes))
        if other.plan is None:
            assert other.error is not None
            return document(refusal_html(other.error))
        sides = (plan, other.plan)
        return transfer_html(*(sides if self.controls["role"].value == PREFILL else sides[::-1]))

    def _remedies(self, plan: Plan, request: OffloadRequest) -> list[widgets.Button]:
        """Return buttons that change the scenario, then those that change this tab's inputs."""
        found, buttons = offload(plan, request), []
        for remedy, after in remedy_rows(plan, request, found):
            pressed = partial(self.session.replace, **remedy.changes)
            label = f"Apply {changes_text(remedy.changes)}"
            buttons.append(self.apply_button(label, f"Tested: {after}", pressed))
        for problem in found.problems:
            for other in request_remedies(plan, problem, request):
                inputs = {
                    name: "" if value is None else str(value)
                    for name, value in request_changes(request, other).items()
                }
                words = ", ".join(f"{name} = {value or 'empty'}" for name, value in inputs.items())
                pressed = partial(self._set_inputs, inputs)
                tip = "Tested: this check passes."
                buttons.append(self.apply_button(f"Set {words}", tip, pressed))
        return buttons

    def _set_inputs(self, inputs: dict[str, str]) -> None:
        for name, value in inputs.items():
            self.controls[name].value = value


def offer(picker: widgets.Dropdown, values: Iterable[Any]) -> None:
    """Offer these values; keep the choice if it is still there."""
    options = ((SAME, SAME), *((str(value), value) for value in values))
    if options != picker.options:
        picked = picker.value
        picker.options = options
        if picked in [value for _label, value in options]:
            picker.value = picked
