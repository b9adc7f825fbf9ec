"""HTML of plans, traces and problems: pure strings, Jupyter's theme variables, text fallback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.core.trace import Step, show
from workbench.views.rows import PlanFact, plan_facts
from workbench.views.units import percent_text


@cache
def style() -> str:
    """Return the style sheet as an element; identical copies on one page do no harm."""
    css = (resources.files("workbench.views") / "style.css").read_text(encoding="utf-8")
    return f"<style>{css}</style>"


class Html(str):
    """HTML that a notebook shows as such."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return str(self)


def document(*parts: str) -> str:
    """Wrap parts so that the style applies."""
    return f'{style()}<div class="wb">{"".join(parts)}</div>'


def plan_html(plan: Plan) -> str:
    """Return a plan's summary: headline, numbers, problems, log lines, and the trace to unfold."""
    return document(
        headline_html(plan),
        facts_html(plan_facts(plan)),
        *(problem_html(problem) for problem in plan.problems),
        log_html(plan.log_lines),
        f"<details><summary>Why: {len(plan.steps)} steps</summary>{trace_table(plan.steps)}"
        "</details>",
        f"<details><summary>Where the model's numbers come from</summary>{origins_html(plan)}"
        "</details>",
    )


def headline_html(plan: Plan) -> str:
    """Return the block size in large type, with the model that it belongs to."""
    backends = " + ".join(dict.fromkeys(filter(None, (plan.backend, plan.plain_backend))))
    where = " · ".join(
        filter(None, (plan.settings.platform, backends, f"TP {plan.settings.tensor_parallel}"))
    )
    return (
        '<div class="wb-headline">'
        f'<span class="wb-block-size" data-value="{plan.block_size}">'
        f"{plan.block_size:,} tokens</span>"
        f"<span>{_of_what(plan)} <b>{escape(plan.model.name)}</b></span>"
        f"{_verdict(plan)}"
        f'<span class="wb-faint">{escape(where)} · rules {escape(plan.settings.rules)} · plan '
        f"{plan.fingerprint}</span></div>"
    )


def _of_what(plan: Plan) -> str:
    """Return the words between block size and model; without attention it is not a block's size."""
    return "in a block of" if plan.model.attention else "configured, without any attention, for"


def _verdict(plan: Plan) -> str:
    return '<b class="wb-verdict">✕ would not start</b>' if plan.errors else ""


def facts_html(facts: Iterable[PlanFact]) -> str:
    """Return labelled numbers, side by side."""
    items = "".join(
        f'<div><span class="wb-faint">{escape(fact.label)}</span>'
        f'<span data-fact="{fact.name}">{escape(fact.text)}</span></div>'
        for fact in facts
    )
    return f'<div class="wb-facts">{items}</div>'


def problem_html(problem: Problem, remedies: Sequence[Remedy] = ()) -> str:
    """Return one problem as a badge with its message, its place in vLLM, and tried remedies."""
    sign = "✕ error" if problem.severity == "error" else "! warning"
    quoted = ""
    if problem.vllm_text:
        quoted = f'<div class="wb-faint">vLLM says: <code>{escape(problem.vllm_text)}</code></div>'
    tried = "".join(f"<li>{escape(str(remedy))}</li>" for remedy in remedies)
    return (
        f'<div class="wb-problem" data-code="{escape(problem.code)}" '
        f'data-severity="{escape(problem.severity)}">'
        f'<b class="wb-badge">{sign}</b>{escape(problem.message)}{quoted}'
        + (f"<div>Tested remedies:<ul>{tried}</ul></div>" if tried else "")
        + "</div>"
    )


def refusal_html(error: WorkbenchError) -> str:
    """Return the error of a configuration without a plan: value, allowed values, remedies."""
    field = f"<code>{escape(error.field)}</code>: " if error.field else ""
    text = error.vllm_text
    quoted = f'<div class="wb-faint">vLLM says: <code>{escape(text)}</code></div>' if text else ""
    return (
        f'<div class="wb-problem" data-code="{escape(error.code)}" data-severity="error">'
        f'<b class="wb-badge">✕ refused</b>{field}{escape(error.message)}{quoted}</div>'
    )


def log_html(lines: Sequence[str]) -> str:
    """Return the lines that the engine will print."""
    if not lines:
        return ""
    text = "\n".join(lines)
    return (
        "<details><summary>What vLLM will log</summary>"
        f'<pre class="wb-code">{escape(text)}</pre></details>'
    )


def trace_html(steps: Sequence[Step]) -> str:
    """Return the trace as a table of its own, with the style."""
    return document(trace_table(steps))


def trace_table(steps: Sequence[Step]) -> str:
    """Return one row per decision: what, result, formula, operands, source."""
    rows = [
        (
            str(number),
            f"<b>{escape(step.rule.title)}</b>",
            escape(_result(step)),
            escape(step.rule.formula) + (f"<br><i>{escape(step.note)}</i>" if step.note else ""),
            "<br>".join(
                f"{escape(name)} = {escape(show(value))}" for name, value in step.operands.items()
            ),
            f'<span class="wb-faint">{escape(step.source)}</span>',
        )
        for number, step in enumerate(steps, 1)
    ]
    return table(("", "decision", "result", "rule", "operands", "source"), rows)


def origins_html(plan: Plan) -> str:
    """Return, field by field, the entry of config.json that it was read from."""
    notes = "".join(f"<p>{escape(note)}</p>" for note in plan.model.notes)
    lines = "\n".join(plan.model.origins.values())
    return f'{notes}<pre class="wb-code">{escape(lines)}</pre>'


def sensitivity_html(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return single changes and their results, compared with the present plan."""
    body = [
        (
            f"<code>{escape(str(row['field']))}</code>",
            f"<code>{escape(show(row['value']))}</code>",
            f"{row['block_size']:,}",
            escape(_padding(row["padding_bytes"], row["padding_percent"])),
            escape(show(row["kernel_block_size"])),
            escape(", ".join(row["errors"])),
        )
        for row in rows
    ]
    now = (
        "<i>current</i>",
        "",
        f"{plan.block_size:,}",
        escape(_padding(plan.padding_bytes, plan.padding_percent)),
        escape(show(plan.kernel_block_size)),
        escape(", ".join(problem.code for problem in plan.errors)),
    )
    header = ("change", "to", "block size", "padding", "kernel block", "would not start")
    return document(table(header, [now, *body]))


def _padding(size: int, percent: float | None) -> str:
    return percent_text(percent) if percent is None else f"{size:,} B, {percent_text(percent)}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of ready-made cells; the caller escapes."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="wb-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _result(step: Step) -> str:
    unit = f" {step.rule.unit}" if step.rule.unit and step.result is not None else ""
    return show(step.result) + unit
