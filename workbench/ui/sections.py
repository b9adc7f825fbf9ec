"""The pickers of the panel, section by section: what most people pick is always open."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import ipywidgets as widgets

from workbench.core.model import Model
from workbench.core.what_if.choices import LegalValues
from workbench.scenario import FIELDS, MODEL, Field, Scenario
from workbench.scenario.fields import SECTIONS
from workbench.ui.controls import Choice, Entry, ModelPath, Picker


@dataclass(frozen=True, slots=True)
class Section:
    """Pickers under one title; the first section has none and is always open."""

    title: str
    pickers: tuple[Picker, ...]

    def grid(self) -> widgets.GridBox:
        """Return the pickers, as many in a row as fit."""
        return widgets.GridBox(
            [picker.widget for picker in self.pickers],
            layout=widgets.Layout(
                grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", grid_gap="2px 14px"
            ),
        )

    def title_for(self, scenario: Scenario) -> str:
        """Return the title, with the number of fields that differ from vLLM's defaults."""
        count = sum(
            getattr(scenario, picker.field) != picker.declared.default for picker in self.pickers
        )
        return f"{self.title} ({count} set)" if count else self.title


class Controls:
    """Every picker: the open section, and the others folded below it."""

    def __init__(self) -> None:
        self.sections = build_sections()
        self.pickers = tuple(picker for section in self.sections for picker in section.pickers)
        first, *others = self.sections
        self._folded = widgets.Accordion(
            [section.grid() for section in others],
            titles=tuple(section.title for section in others),
            selected_index=None,
        )
        self.widget = widgets.VBox([first.grid(), self._folded])
        self._of_legal = tuple(
            picker
            for picker in self.pickers
            if isinstance(picker, Choice) and picker.declared.only_legal
        )
        self._lock = threading.RLock()  # a click comes on one thread, what is legal on another
        self._shown: Scenario | None = None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Show `scenario`; a folded section says how much of it is set."""
        with self._lock:
            self._shown = scenario
            for picker in self.pickers:
                picker.refresh(scenario, model)
            titles = tuple(section.title_for(scenario) for section in self.sections[1:])
            self._folded.titles = titles

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


def build_sections() -> tuple[Section, ...]:
    """Return every section with its pickers, in the order in which they are laid out."""
    return tuple(
        Section(
            title,
            tuple(
                picker
                for field in FIELDS.values()
                if field.section == title
                for picker in _pickers(field)
            ),
        )
        for title in SECTIONS
    )


def _pickers(field: Field) -> tuple[Picker, ...]:
    """Return the control of a field; a model that the catalog does not have has a second one."""
    if field is MODEL:
        return (Choice(field), ModelPath())
    return (Choice(field) if field.is_listed else Entry(field),)
