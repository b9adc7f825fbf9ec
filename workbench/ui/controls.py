"""The pickers: one control per scenario field, offering only legal values, section by section."""

import threading
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.model import Model
from workbench.core.what_if.choices import LegalValues
from workbench.models import catalog_names
from workbench.scenario import FIELDS, MODEL, Field, Scenario
from workbench.scenario.field import ENGINE
from workbench.scenario.fields import SECTIONS
from workbench.ui.pieces import dropdown, grid, text_box


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
        raise NotImplementedError

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Offer what is legal now and select what the scenario has."""
        raise NotImplementedError


class Choice(Picker):
    """A dropdown of the values that a field offers.

    Which of them are legal takes many resolutions. ipywidgets does not report that a dropdown is
    opened, so `offer` is called with them once they are known; until then, the options stay.
    """

    def __init__(self, declared: Field) -> None:
        super().__init__(declared, dropdown(declared.label, (), tip=declared.tip))
        self._offered: tuple[Any, ...] = ()

    def _label(self, value: Any) -> str:
        if value is None:
            return self.declared.none
        if isinstance(value, bool):
            return "on" if value else "off"
        return "inline config" if isinstance(value, dict) else str(value)

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
        self.widget.value = _shown(present)
        self.widget.disabled = len(options) == 1

    def read(self, shown: Any) -> Any:
        """See `Picker.read`."""
        return None if shown == ENGINE else shown


class Entry(Picker):
    """A text, empty for the engine's choice; sent on Enter or when left."""

    def __init__(self, declared: Field) -> None:
        super().__init__(declared, text_box(declared.label, "", declared.none, declared.tip))

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


class ModelPath(Entry):
    """A path or hub id, for models that the catalog does not have."""

    def __init__(self) -> None:
        tip = "Load the model from a path to a config.json or from a hub id (owner/name)."
        super().__init__(replace(MODEL, label="or config.json", none="path or hub id", tip=tip))

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        given = scenario.model
        in_list = not isinstance(given, str) or given in catalog_names()
        self.widget.value = "" if in_list else given


def _shown(value: Any) -> Any:
    """Return the option of a value; a dropdown cannot show None, so that has a word of its own."""
    return ENGINE if value is None else value


def _pickers(section: str) -> tuple[Picker, ...]:
    """Return the controls of a section; a model that the catalog does not have has a second one."""
    found: list[Picker] = []
    for field in FIELDS.values():
        if field.section == section:
            found.append(Choice(field) if field.is_listed else Entry(field))
        if field is MODEL and field.section == section:
            found.append(ModelPath())
    return tuple(found)


class Controls:
    """Every picker: what most people pick is always open, the other sections fold below it."""

    def __init__(self) -> None:
        self.sections = {title: _pickers(title) for title in SECTIONS}
        self.pickers = tuple(picker for found in self.sections.values() for picker in found)
        first, *others = (
            grid([picker.widget for picker in found], 300) for found in self.sections.values()
        )
        titles = tuple(self.sections)[1:]
        self._folded = widgets.Accordion(others, titles=titles, selected_index=None)
        self.widget = widgets.VBox([first, self._folded])
        self._of_legal = tuple(
            picker
            for picker in self.pickers
            if isinstance(picker, Choice) and picker.declared.only_legal
        )
        self._lock = threading.RLock()  # a click comes on one thread, what is legal on another
        self._shown: Scenario | None = None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Show `scenario`; a folded section says how many fields differ from vLLM's defaults."""
        with self._lock:
            self._shown = scenario
            for picker in self.pickers:
                picker.refresh(scenario, model)
            titles = []
            for title, pickers in [*self.sections.items()][1:]:
                count = sum(getattr(scenario, one.field) != one.declared.default for one in pickers)
                titles.append(f"{title} ({count} set)" if count else title)
            self._folded.titles = tuple(titles)

    def legal_is_known(self, scenario: Scenario, legal: LegalValues) -> bool:
        """Return whether `offer_legal` has nothing to resolve."""
        return all(
            legal.are_known(scenario, one.field, one.declared.candidates(scenario, legal.model))
            for one in self._of_legal
        )

    def offer_legal(self, scenario: Scenario, legal: LegalValues) -> None:
        """Offer the legal values of `scenario`, unless another one is shown by then."""
        for picker in self._of_legal:
            candidates = picker.declared.candidates(scenario, legal.model)
            values = legal.of(scenario, picker.field, candidates)
            with self._lock:
                if self._shown is not scenario:
                    return
                picker.offer(values, getattr(scenario, picker.field))
