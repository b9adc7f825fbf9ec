"""The trace: one step per decision, with its operands, its result and where the rule comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Rule(NamedTuple):
    """One decision of the engine, as people see it in the trace.

    name: stable identifier; title: a few words; formula: in the words of the operands;
    unit: of the result ("tokens", "bytes", ""); source: version, change and place in vLLM.
    """

    name: str
    title: str
    formula: str
    unit: str
    source: str


class Step(NamedTuple):
    """One decision that was taken: the rule, its operands by name, the result, and a remark."""

    rule: Rule
    operands: Mapping[str, Any]
    result: Any
    note: str = ""

    def __str__(self) -> str:
        unit = f" {self.rule.unit}" if self.rule.unit and self.result is not None else ""
        text = f"{self.rule.title}: {show(self.result)}{unit}"
        if self.operands:
            text += " <- " + ", ".join(f"{k}={show(v)}" for k, v in self.operands.items())
        return f"{text} ({self.note})" if self.note else text

    def to_dict(self) -> dict[str, Any]:
        """Return the published form: rule, title, formula, operands, result, unit, note, source."""
        return {
            "rule": self.rule.name,
            "title": self.rule.title,
            "formula": self.rule.formula,
            "operands": dict(self.operands),
            "result": self.result,
            "unit": self.rule.unit,
            "note": self.note,
            "source": self.rule.source,
        }


def show(value: Any) -> str:
    """Return a value as the trace prints it: thousands separated, `none` for None, names bare."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)
