"""The trace: one step per decision, with its operands, its result and where the rule comes from."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from workbench.core.errors import shown


class Rule(NamedTuple):
    """One decision of the engine, as people see it in the trace.

    name: stable; formula: in the words of the operands; unit: of the result ("tokens", "bytes").
    """

    name: str
    title: str
    formula: str
    unit: str = ""


class Origin(NamedTuple):
    """One number of a model, as text, and the entry of config.json or the rule that gave it."""

    name: str
    value: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} = {self.value} from {self.source}"

    def __repr__(self) -> str:
        # saved designs have the digest of models whose origins were sentences
        return repr(str(self))


class Citation(NamedTuple):
    """The place in vLLM where a rule was read.

    read_in: the version that was read; file: in the package; functions: dotted names in it.
    version: the one whose trace it is in, where that is a later one that was not read again.
    """

    read_in: str
    file: str
    functions: tuple[str, ...]
    note: str = ""
    version: str = ""

    def __str__(self) -> str:
        inherited = self.version not in {"", self.read_in}
        version = f"{self.version}, as in {self.read_in}" if inherited else self.read_in
        note = f" ({self.note})" if self.note else ""
        return f"vLLM {version}, {self.file}: {', '.join(self.functions)}{note}"


class PublishedStep(TypedDict):
    """One decision that was taken."""

    rule: str
    title: str
    formula: str
    operands: dict[str, Any]
    result: Any
    unit: str
    note: str
    source: str


class Step(NamedTuple):
    """One decision that was taken: the rule, its operands by name, the result, and a remark."""

    rule: Rule
    operands: Mapping[str, Any]
    result: Any
    note: str = ""
    citation: Citation | None = None

    @property
    def source(self) -> str:
        """Return where vLLM has the rule: version, file and function."""
        return "" if self.citation is None else str(self.citation)

    def __str__(self) -> str:
        unit = f" {self.rule.unit}" if self.rule.unit and self.result is not None else ""
        text = f"{self.rule.title}: {show(self.result)}{unit}"
        if self.operands:
            text += " <- " + ", ".join(f"{k}={show(v)}" for k, v in self.operands.items())
        return f"{text} ({self.note})" if self.note else text

    def _repr_html_(self) -> str:
        return Trace([self])._repr_html_()

    def to_dict(self) -> PublishedStep:
        """Return the published form: rule, title, formula, operands, result, unit, note, source."""
        return {
            "rule": self.rule.name,
            "title": self.rule.title,
            "formula": self.rule.formula,
            "operands": dict(self.operands),
            "result": self.result,
            "unit": self.rule.unit,
            "note": self.note,
            "source": self.source,
        }


class Trace(tuple[Step, ...]):
    """The steps of a plan; prints as a table in text and in HTML."""

    __slots__ = ()

    def step(self, rule: str) -> Step:
        """Return the last step of the rule with this name; KeyError lists the existing names."""
        for step in reversed(self):
            if step.rule.name == rule:
                return step
        raise KeyError(f"no step {shown(rule)}; steps: {', '.join(s.rule.name for s in self)}")

    def __repr__(self) -> str:
        return "\n".join(f"{number:2d}  {step}" for number, step in enumerate(self, 1))

    def _repr_html_(self) -> str:
        from workbench.views.html import trace_html

        return trace_html(self)


def show(value: Any) -> str:
    """Return a value as the trace prints it: thousands separated, `none` for None, names bare."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.2f}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(show(item) for item in value) + "]"
    return str(value)
