"""What every lab returns: a record that shows itself."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from workbench.core.trace import show


class LabResult:
    """What a lab found. It shows itself: as rows, as text, and as a figure where there is one."""

    __slots__ = ()

    @property
    def rows(self) -> tuple[Mapping[str, Any], ...]:
        """Return plain values by name, one row or one per finding, e.g. for a data frame."""
        return (_flat(self),)

    def figure(self, theme: str = "auto") -> Any:
        """Return the plotly figure; None if this lab has none."""
        from workbench.views.flex.lab import lab_figure

        return lab_figure(self, theme)

    def __str__(self) -> str:
        """Return one line per row."""
        return "\n".join(
            ", ".join(f"{name.replace('_', ' ')}: {cell(value)}" for name, value in row.items())
            for row in self.rows
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from workbench.views.flex.lab import lab_html

        return lab_html(self)


def cell(value: Any) -> str:
    """Return a value of a row as text; errors and times need their leading digits."""
    return f"{value:.4g}" if isinstance(value, float) else show(value)


def _flat(record: Any) -> dict[str, Any]:
    """Return the fields of a record; those of a record that it holds follow in its place."""
    found: dict[str, Any] = {}
    for one in fields(record):
        value = getattr(record, one.name)
        found |= _flat(value) if is_dataclass(value) else {one.name: value}
    return found
