"""The pickers: one control per scenario field, offering only legal values."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.model import Model
from workbench.models import catalog_names
from workbench.scenario import MODEL, Field, Scenario
from workbench.scenario.field import ENGINE

WIDE = {"description_width": "158px"}


class Picker:
    """One control; `read` gives the field's value, `refresh` shows a scenario's.

    `read` gets the changed value: another thread may have set the control again since.
    """

    def __init__(self, declared: Field, widget: widgets.ValueWidget) -> None:
        self.declared = declared
        self.field = declared.name
        self.widget = widget

    def read(self, shown: Any) -> Any:
        """Return the scenario's value of what the control shows; ScenarioError if it has none."""
        return shown

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Offer what is legal now and select what the scenario has."""
        raise NotImplementedError


class Choice(Picker):
    """A dropdown of the values that a field offers.

    Which of them are legal takes many resolutions. ipywidgets does not report that a dropdown is
    opened, so `offer` is called with them once they are known; until then, the options stay.
    """

    def __init__(self, declared: Field) -> None:
        self._offered: tuple[Any, ...] = ()
        dropdown = widgets.Dropdown(
            description=declared.label, style=WIDE, tooltip=declared.tip, layout=_layout()
        )
        super().__init__(declared, dropdown)

    def _label(self, value: Any) -> str:
        return self.declared.none if value is None else _label(value)

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        values = self.declared.candidates(scenario, model)
        if self.declared.only_legal and model is not None:
            values = tuple(value for value in values if value in self._offered)
        self.offer(values, getattr(scenario, self.field))

    def offer(self, values: tuple[Any, ...], present: Any) -> None:
        """Offer these values, and select the present one."""
        self._offered = values if present in values else (*values, present)
        options = tuple((self._label(value), _shown(value)) for value in self._offered)
        if options != self.widget.options:
            self.widget.options = options
        if self.widget.value != _shown(present):
            self.widget.value = _shown(present)
        self.widget.disabled = len(options) == 1

    def read(self, shown: Any) -> Any:
        """See `Picker.read`."""
        return None if shown == ENGINE else shown


class Entry(Picker):
    """A text, empty for the engine's choice; sent on Enter or when left."""

    def __init__(self, declared: Field) -> None:
        text = widgets.Text(
            description=declared.label,
            placeholder=declared.none,
            continuous_update=False,
            style=WIDE,
            tooltip=declared.tip,
            layout=_layout(),
        )
        super().__init__(declared, text)

    def read(self, shown: str) -> Any:
        """See `Picker.read`."""
        return self.declared.kind.parse(self.field, shown)

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`; a text that means the same stays as it is."""
        value = getattr(scenario, self.field)
        try:
            is_same = value == self.read(self.widget.value)
        except ScenarioError:
            is_same = False
        if not is_same:
            self.widget.value = self.declared.kind.format(value)


class ModelPath(Picker):
    """A path or hub id, for models that the catalog does not have."""

    def __init__(self) -> None:
        text = widgets.Text(
            description="or config.json",
            placeholder="path or hub id",
            continuous_update=False,
            style=WIDE,
            tooltip="Load the model from a path to a config.json or from a hub id (owner/name).",
            layout=_layout(),
        )
        super().__init__(MODEL, text)

    def read(self, shown: str) -> str | None:
        """See `Picker.read`."""
        return shown.strip() or None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        in_catalog = scenario.model in catalog_names()
        shown = "" if in_catalog or not isinstance(scenario.model, str) else scenario.model
        if self.widget.value != shown:
            self.widget.value = shown


def _shown(value: Any) -> Any:
    """Return the option of a value; a dropdown cannot show None, so that has a word of its own."""
    return ENGINE if value is None else value


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return "inline config"
    return str(value)


def _layout() -> widgets.Layout:
    return widgets.Layout(width="auto")
