"""Labs in cells of their own: `wb.lab.bytes(plan)` is pinned, `wb.lab.bytes(door)` follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError, WorkbenchError, unknown_name_message
from workbench.core.plan import Plan
from workbench.door.labs import LABS
from workbench.door.session import Outcome, RecordedError, Session, error_html, guarded
from workbench.scenario import Scenario
from workbench.scenario.start import Start, scenario_from
from workbench.ui.front_door import FrontDoor
from workbench.ui.labs import new_panel
from workbench.ui.pieces import button, close_tree, line, mark_stale
from workbench.ui.saved import SavedPicture
from workbench.views import html
from workbench.views.sweeps.rows import point_name

FOLLOWS, PINNED, CLOSED = "follows the front door", "pinned", "closed"


class OpenLab(SavedPicture):
    """One lab with its controls in a cell of its own, and the scenario that it shows.

    A pinned lab keeps its scenario until something in it is applied; one of a front door follows
    that, and what is applied in it changes the front door.
    """

    def __init__(self, title: str, source: Scenario | FrontDoor) -> None:
        self.title = title
        self.plan: Plan | None = None
        """The plan that it shows; None where there is none."""
        self._error: WorkbenchError | None = None
        self._door = source if isinstance(source, FrontDoor) else None
        self._state = PINNED if self._door is None else FOLLOWS
        if isinstance(source, FrontDoor):
            self.session = source.session
        else:
            self.session = Session(source, self._show_outcome)
        self.panel = new_panel(title, self.session)
        self._source, self._problem = widgets.HTML(), widgets.HTML()
        self._close = button("Close", "Close this lab and free what it holds.")
        self._close.layout.margin = "2px 2px 2px auto"
        self._close.on_click(lambda _button: self.close())
        head = line(self._source, self._close)
        self.widget = widgets.VBox([head, self._problem, self.panel.widget])
        for name in ("wb-panel", "wb-tab"):
            self.widget.add_class(name)
        self._start()

    @property
    def scenario(self) -> Scenario:
        """Newest scenario."""
        return self.session.scenario

    def close(self) -> None:
        """Stop what runs, and close every widget of the lab."""
        self._state = CLOSED
        if self._door is not None:
            self._door.labs.leave(self)
        self.panel.close()
        close_tree(self.widget)

    @guarded
    def show(self, plan: Plan) -> None:
        """Show `plan`."""
        self.plan, self._error = plan, None
        self._say(plan.scenario)
        self.panel.show(plan)

    @guarded
    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Say why there is no plan; what the lab still shows is of an older scenario."""
        self.plan, self._error = None, error
        self._say(scenario, html.document(html.refusal_html(error)))
        self.panel.show_refusal(scenario, error)

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place."""
        self._problem.value = error_html(error)
        mark_stale(True, self.panel)

    def __repr__(self) -> str:
        shown = self._error or scenario_words(self.scenario)
        return f"{self.title}, {self._state}: {shown}"

    def _kept(self) -> tuple[str, str]:
        return repr(self), "".join(shown_html(self.widget))

    def _start(self) -> None:
        if self._door is not None:
            self._door.labs.follow(self)
        else:
            self.session.request(self.session.scenario)

    def _show_outcome(self, outcome: Outcome) -> None:
        if outcome.plan is not None:
            self.show(outcome.plan)
        elif outcome.error is not None:
            self.show_refusal(outcome.scenario, outcome.error)

    def _say(self, scenario: Scenario, problem: str = "") -> None:
        words = html.tag("span", f"{self._state}: {scenario_words(scenario)}", class_="wb-faint")
        adds = LABS[self.title].with_gpu
        head = (html.tag("b", self.title), html.Html(" "), words)
        self._source.value = html.document(*head, html.note(adds) if adds else "")
        self._problem.value = problem
        mark_stale(self._error is not None, self.panel)


class LabNames:
    """The labs, each in a cell of its own: `wb.lab.bytes(plan)`, `wb.lab.hits(door)`.

    A plan or a scenario pins the lab, a front door is followed; fields are changed, as in
    `wb.lab.hits(plan, tensor_parallel=2)`; `wb.lab("hits", plan)` is by name. Every lab
    works without a browser: its `panel` has the controls, its `plan` and `scenario` are values, and
    `close()` frees everything.

    >>> wb.lab.bytes(plan)
    Page bytes, pinned: nemotron-3-nano-30b-a3b, KV-cache memory per GPU 20 GiB
    """

    def __init__(self) -> None:
        self.__all__ = tuple(kind.name for kind in LABS.values())
        for title, kind in LABS.items():
            setattr(self, kind.name, _opener(title))

    def __call__(self, name: str, source: Start | FrontDoor = None, **fields: Any) -> OpenLab:
        """Open a lab by its name or its title: `wb.lab("hits", plan)` is `wb.lab.hits(plan)`.

        Errors: ScenarioError for a name that no lab has, with the nearest one.
        """
        names = {title.casefold(): kind.name for title, kind in LABS.items()}
        found = names.get(name.casefold(), name.casefold()) if isinstance(name, str) else ""
        if found not in self.__all__:
            message = unknown_name_message("lab", name, self.__all__)
            raise ScenarioError("unknown_name", f'{message} For example: wb.lab("hits", plan).')
        opened: OpenLab = getattr(self, found)(source, **fields)
        return opened

    def __getattr__(self, name: str) -> Callable[..., OpenLab]:
        """Raise AttributeError with the nearest name: all labs are attributes."""
        raise AttributeError(unknown_name_message("lab", name, self.__all__))

    def __repr__(self) -> str:
        return "\n".join(f"wb.lab.{kind.name}: {kind.line}" for kind in LABS.values())

    def _repr_html_(self) -> str:
        rows = [
            (html.code(f"wb.lab.{kind.name}(plan)"), title, kind.line)
            for title, kind in LABS.items()
        ]
        return html.document(html.table(("call", "lab", "what it shows"), rows))


def _opener(title: str) -> Callable[..., OpenLab]:
    def opened(source: Start | FrontDoor = None, **fields: Any) -> OpenLab:
        if not isinstance(source, FrontDoor):
            return OpenLab(title, scenario_from(source, **fields))
        return OpenLab(title, scenario_from(source.scenario, **fields) if fields else source)

    opened.__name__ = LABS[title].name
    opened.__doc__ = LABS[title].line
    return opened


def scenario_words(scenario: Scenario) -> str:
    """Return the model and what is set, in one line."""
    found = scenario.stated()
    reference = found.pop("model")
    model = reference if isinstance(reference, str) else "inline config"
    return ", ".join(filter(None, (model, point_name(found))))


def shown_html(widget: widgets.Widget) -> list[str]:
    """Return the HTML that a widget and its children show now, without their hidden parts.

    A figure is an image there, what can be copied a block of text.
    """
    if widget.layout.display == "none":
        return []
    if hasattr(widget, "static_html"):
        return [widget.static_html()]
    if isinstance(widget, widgets.HTML):
        return [widget.value]
    return [part for child in getattr(widget, "children", ()) for part in shown_html(child)]


lab = LabNames()
