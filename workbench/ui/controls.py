"""The pickers: one control per scenario field, offering only legal values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.model import Model
from workbench.core.what_if.choices import legal_values
from workbench.memory_size import parse_bytes
from workbench.models import catalog_names
from workbench.scenario import Scenario
from workbench.scenario_values import nearest_hint

ENGINE = "engine's choice"
WIDE = {"description_width": "104px"}
Candidates = Callable[[Scenario, Model | None], Iterable[Any]]


class Picker:
    """One control; `read` gives the field's value, `refresh` shows a scenario's.

    `read` is given what a change brought: another thread may have set the control again since.
    """

    def __init__(self, field: str, widget: widgets.ValueWidget) -> None:
        self.field = field
        self.widget = widget

    def read(self, shown: Any) -> Any:
        """What the control shows, as the scenario wants it; ScenarioError for what cannot be."""
        return shown

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """Offer what is legal now and select what the scenario has."""
        raise NotImplementedError


class Choice(Picker):
    """A dropdown; `free` fields offer every candidate, the others only legal ones."""

    def __init__(
        self,
        field: str,
        label: str,
        candidates: Candidates,
        *,
        free: bool = False,
        tip: str = "",
        nothing: str = ENGINE,
    ) -> None:
        dropdown = widgets.Dropdown(
            description=label, style=WIDE, tooltip=tip or label, layout=_layout()
        )
        super().__init__(field, dropdown)
        self._candidates = candidates
        self._free = free
        self._nothing = nothing

    def _label(self, value: Any) -> str:
        return self._nothing if value is None else _label(value)

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        present = getattr(scenario, self.field)
        values = list(self._candidates(scenario, model))
        if not self._free and model is not None:
            values = list(legal_values(model, scenario, self.field, values))
        if present not in values:
            values.append(present)
        options = tuple((self._label(value), _shown(value)) for value in values)
        if options != self.widget.options:
            self.widget.options = options
        if self.widget.value != _shown(present):
            self.widget.value = _shown(present)
        self.widget.disabled = len(options) == 1

    def read(self, shown: Any) -> Any:
        """See `Picker.read`."""
        return None if shown == ENGINE else shown


class Number(Picker):
    """A whole number, or empty for the engine's choice; sent on Enter or when left."""

    def __init__(self, field: str, label: str, tip: str = "") -> None:
        text = widgets.Text(
            description=label,
            placeholder=ENGINE,
            continuous_update=False,
            style=WIDE,
            tooltip=tip or label,
            layout=_layout(),
        )
        super().__init__(field, text)

    def read(self, shown: str) -> float | None:
        """See `Picker.read`."""
        typed = shown.strip().replace(",", "")
        if not typed:
            return None
        try:
            return int(typed)
        except ValueError:
            raise ScenarioError(
                "wrong_type",
                f"{self.field} must be a whole number of tokens, or empty for the engine's "
                f"choice; got {typed[:40]!r}.{nearest_hint(self.field, typed)}",
                field=self.field,
            ) from None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        value = getattr(scenario, self.field)
        shown = "" if value is None else str(value)
        if self.widget.value.strip().replace(",", "") != shown:
            self.widget.value = shown


class Memory(Number):
    """Bytes of memory, typed with their unit; a bare small number is asked back, not guessed."""

    def read(self, shown: str) -> int | None:
        """See `Picker.read`."""
        return parse_bytes(shown, self.field)

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        value = getattr(scenario, self.field)
        if self.widget.value.strip() and value == _bytes_or_none(self.widget.value, self.field):
            return
        self.widget.value = "" if value is None else f"{value} B"


class MemoryByRank(Number):
    """Bytes of memory of every rank, between commas; empty where all have the same."""

    def read(self, shown: str) -> Any:
        """See `Picker.read`."""
        if not shown.strip():
            return None
        sizes = (parse_bytes(size, self.field) for size in shown.split(","))
        return tuple(size for size in sizes if size is not None)

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        value = getattr(scenario, self.field)
        try:
            same = value == self.read(self.widget.value)
        except ScenarioError:
            same = False
        if not same:
            self.widget.value = "" if value is None else ", ".join(f"{size} B" for size in value)


class Layers(Number):
    """Layer numbers between commas, or the word for all sliding ones; empty for none."""

    def read(self, shown: str) -> Any:
        """See `Picker.read`."""
        return tuple(filter(None, map(str.strip, shown.split(",")))) or None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        value = getattr(scenario, self.field)
        if value != self.read(self.widget.value):
            self.widget.value = ", ".join(value or ())


class Share(Number):
    """A share such as 0.9, or empty for the engine's choice."""

    def read(self, shown: str) -> float | None:
        """See `Picker.read`; the scenario checks the range."""
        typed = shown.strip()
        if not typed:
            return None
        try:
            return float(typed)
        except ValueError:
            raise ScenarioError(
                "wrong_type",
                f"{self.field} must be a number above 0 and at most 1, or empty for the engine's "
                f"choice; got {typed[:40]!r}.",
                field=self.field,
            ) from None


class ModelPath(Picker):
    """A path or hub id, for models that the catalog does not have."""

    def __init__(self) -> None:
        text = widgets.Text(
            description="or config.json",
            placeholder="path or hub id",
            continuous_update=False,
            style=WIDE,
            tooltip="A path to a config.json or a hub id (owner/name)",
            layout=_layout(),
        )
        super().__init__("model", text)

    def read(self, shown: str) -> str | None:
        """See `Picker.read`."""
        return shown.strip() or None

    def refresh(self, scenario: Scenario, model: Model | None) -> None:
        """See `Picker.refresh`."""
        in_catalog = scenario.model in catalog_names()
        shown = "" if in_catalog or not isinstance(scenario.model, str) else scenario.model
        if self.widget.value != shown:
            self.widget.value = shown


def _bytes_or_none(text: str, field: str) -> int | None:
    try:
        return parse_bytes(text, field)
    except ScenarioError:
        return None


def _shown(value: Any) -> Any:
    """A dropdown shows nothing for None, so the engine's choice has a word of its own."""
    return ENGINE if value is None else value


def _label(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return "inline config"
    return str(value)


def _layout() -> widgets.Layout:
    return widgets.Layout(width="auto")
