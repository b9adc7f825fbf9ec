"""HTML of plans, traces and problems: pure strings, Jupyter's theme variables, text fallback."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.ranks import SHORT
from workbench.core.trace import Step, show
from workbench.scenario.fields import FIELDS
from workbench.views.rows import PlanFact, begun, outcome_row, result_text
from workbench.views.settings import AnyRemedy, in_labels, remedy_words
from workbench.views.units import percent_text


@cache
def style() -> str:
    """Return the style sheet as an element; identical copies on one page do no harm."""
    css = (resources.files("workbench.views") / "style.css").read_text(encoding="utf-8")
    return f"<style>{css}</style>"


class Html(str):
    """HTML that a notebook shows as such, and that is not escaped again inside other HTML."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def join(*content: Any, between: str = "") -> Html:
    """Return content as HTML: what is not `Html` is escaped, numbers as the trace shows them."""
    parts = (part if isinstance(part, Html) else escape(show(part)) for part in content)
    return Html(between.join(parts))


INLINE = frozenset(("a", "b", "button", "code", "i", "option", "select", "span", "tspan"))
"""Elements inside a line; others end one, so that words stay apart where tags are dropped."""

AFTER_TEXT = frozenset(("div", "ol", "table", "ul"))
"""Elements that can follow words directly."""


def tag(name: str, *content: Any, **attributes: Any) -> Html:
    """Return an element; `class_` is its `class`, `data_code` its `data-code`, None is omitted."""
    named = {key.strip("_").replace("_", "-"): value for key, value in attributes.items()}
    listed = "".join(
        f' {key}="{escape(str(value).lower() if isinstance(value, bool) else str(value))}"'
        for key, value in named.items()
        if value is not None
    )
    if name == "img":  # it has no content, and so no end
        return Html(f"<img{listed}>")
    start = "\n" if name in AFTER_TEXT else ""
    end = "" if name in INLINE else "\n"
    return Html(f"{start}<{name}{listed}>{join(*content)}</{name}>{end}")


def code(text: Any) -> Html:
    """Return a name or a value as vLLM would spell it."""
    return tag("code", text)


def faint(text: Any, **attributes: Any) -> Html:
    """Return what is less important."""
    return tag("span", text, class_="wb-faint", **attributes)


def note(*content: Any) -> Html:
    """Return a paragraph in small print."""
    return tag("p", *content, class_="wb-faint")


def stacked(*lines: Any) -> Html:
    """Return lines below each other."""
    return join(*lines, between="<br>\n")


def bullets(items: Iterable[Any], kind: str = "ul") -> Html:
    """Return a list; nothing without any item."""
    found = [tag("li", item) for item in items]
    return tag(kind, *found) if found else Html()


def fold(summary: str, *content: Any) -> Html:
    """Return a summary to unfold."""
    return tag("details", tag("summary", summary), *content)


def prose(text: str) -> Html:
    """Return a sentence whose `code` is in backticks."""
    parts = text.split("`")
    return join(*(code(one) if number % 2 else one for number, one in enumerate(parts)))


def code_block(text: str) -> Html:
    """Return lines to copy."""
    return tag("pre", text, class_="wb-code")


def table(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Html:
    """Return a table; a cell is escaped unless it is `Html`, and numbers have separators."""
    head = tag("tr", *(tag("th" if cell else "td", cell) for cell in header))
    body = (tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    return tag("table", tag("thead", head), tag("tbody", *body), class_="wb-table")


def wide_table(header: Iterable[Any], rows: Iterable[Iterable[Any]]) -> Html:
    """Return a table that scrolls sideways."""
    return tag("div", table(header, rows), style="overflow-x: auto")


def records(rows: Iterable[Mapping[str, Any]]) -> Html:
    """Return a table with a column for every key of the first row; nothing without rows."""
    found = list(rows)
    return table(found[0], (row.values() for row in found)) if found else Html()


def document(*parts: str) -> Html:
    """Wrap parts, which are HTML, so that the style applies."""
    return Html(style() + tag("div", *map(Html, parts), class_="wb"))


def headline_html(plan: Plan) -> Html:
    """Return the block size in large type, with the model that it belongs to."""
    backends = " + ".join(plan.attention_backends)
    settings = plan.settings
    parallel = " ".join(
        f"{word} {getattr(settings, name)}"
        for name, word in SHORT.items()
        if name == "tensor_parallel" or getattr(settings, name) > 1
    )
    where = " · ".join(filter(None, (plan.platform.name, backends, parallel)))
    # Without attention there are no pages to align, so it is not the size of a block.
    owner = (
        "per KV-cache block of "
        if plan.model.attention
        else "configured, without any attention, for "
    )
    size = f"{plan.block_size:,} tokens"
    # The spaces are for a page that drops the style sheet.
    return tag(
        "div",
        join(
            tag("span", size, class_="wb-block-size", data_value=plan.block_size),
            tag("span", owner, tag("b", plan.model.name)),
            tag("b", "✕ would not start", class_="wb-verdict") if plan.errors else "",
            faint(f"{where} · rules {plan.settings.rules} · plan {plan.fingerprint}"),
            between=" ",
        ),
        class_="wb-headline",
    )


def facts_html(facts: Iterable[PlanFact]) -> Html:
    """Return labelled numbers, side by side."""
    items = (
        tag("div", faint(f"{fact.label}: "), tag("span", fact.text, data_fact=fact.name))
        for fact in facts
    )
    return tag("div", *items, class_="wb-facts")


def problem_html(problem: Problem, remedies: Iterable[Any] = ()) -> Html:
    """Return one problem as a badge with its message, its place in vLLM, and tried remedies."""
    return problem_box(
        "✕ error" if problem.severity == "error" else "! warning",
        in_labels(problem.message),
        quoted("vLLM says", begun(problem.vllm_text)),
        remedies_html(remedies),
        code=problem.code,
        severity=problem.severity,
    )


BADGES = {"several_models": "? which one", "nothing_given": "? what to enter"}
"""Code of an error that only asks for something -> its badge."""


def refusal_html(error: WorkbenchError) -> Html:
    """Return the error of a configuration without a plan: value, allowed values, remedies."""
    said = quoted("vLLM says", begun(error.vllm_text))
    usual = "✕ vLLM refuses" if isinstance(error, Refused) else "✕ invalid input"
    badge = BADGES.get(error.code, usual)
    # What wrote a name that does not exist needs the names, not the labels.
    text = error.message if error.code == "unknown_field" else in_labels(error.message)
    shown = prose(text) if text.count("`") % 2 == 0 else text
    severity = "warning" if error.code in BADGES else "error"
    return problem_box(badge, _about(error), shown, said, code=error.code, severity=severity)


def _about(error: WorkbenchError) -> Html:
    """Return the input that has to change, unless the message names it."""
    name = error.field
    if not name or name in error.message:
        return Html()
    label = FIELDS[name].label if name in FIELDS else code(name)
    return join(label, ": ")


def problem_box(
    badge: str, *content: Any, code: str | None = None, severity: str = "error"
) -> Html:
    """Return a marked box. badge: sign and word, so that nothing is shown by colour alone."""
    head = tag("b", badge, class_="wb-badge")
    return tag(
        "div", head, " ", *content, class_="wb-problem", data_code=code, data_severity=severity
    )


def quoted(who: str, text: str | None) -> Html:
    """Return what a program says about a problem; nothing without a text."""
    return tag("div", f"{who}: ", tag("code", text), class_="wb-faint") if text else Html()


def remedies_html(remedies: Iterable[AnyRemedy | str]) -> Html:
    """Return changes that were tried and help; nothing without any."""
    tried = bullets(one if isinstance(one, str) else remedy_words(one) for one in remedies)
    return tag("div", "Tested remedies:", tried) if tried else tried


def warnings_html(texts: Iterable[str]) -> Html:
    """Return sentences that a person has to know as one box; nothing without any."""
    found = bullets(map(in_labels, texts))
    return tag("div", found, class_="wb-problem", data_severity="warning") if found else found


def log_html(lines: Sequence[str]) -> Html:
    """Return the lines that the engine will print."""
    return fold("What vLLM will log", code_block("\n".join(lines))) if lines else Html()


def trace_html(steps: Sequence[Step]) -> Html:
    """Return the trace as a table of its own, with the style."""
    return document(trace_table(steps))


def trace_table(steps: Sequence[Step]) -> Html:
    """Return one row per decision: what, result, formula, operands, source."""
    rows = (
        (
            number,
            tag("b", step.rule.title),
            result_text(step),
            _formula(step),
            stacked(*(f"{name} = {show(value)}" for name, value in step.operands.items())),
            faint(step.source),
        )
        for number, step in enumerate(steps, 1)
    )
    return table(("", "decision", "result", "rule", "operands", "source"), rows)


def _formula(step: Step) -> Html:
    noted = [tag("i", step.note)] if step.note else []
    return stacked(step.rule.formula, *noted)


ORIGINS = "Where the model's numbers come from"


def origins_html(plan: Plan) -> Html:
    """Return, field by field, the entry of config.json that it was read from."""
    notes = (tag("p", note) for note in plan.model.notes)
    return join(*notes, code_block("\n".join(map(str, plan.model.origins.values()))))


def sensitivity_html(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> Html:
    """Return single changes and their results, compared with the current configuration."""
    changed = (
        {**row, "field": FIELDS[row["field"]].label, "value": code(row["value"])} for row in rows
    )
    shown = (
        {
            "change": row["field"],
            "to": row["value"],
            "block, tokens": row["block_size"],
            "padding": _padding(row["padding_bytes"], row["padding_percent"]),
            "kernel block, tokens": row["kernel_block_size"],
            "would not start": ", ".join(row["errors"]).replace("_", " "),
        }
        for row in (outcome_row(tag("i", "current"), "", plan), *changed)
    )
    return document(records(shown))


def _padding(size: int, percent: float | None) -> str:
    return percent_text(percent) if percent is None else f"{size:,} B, {percent_text(percent)}"
