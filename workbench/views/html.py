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
from workbench.views.tables import PlanFact, plan_facts
from workbench.views.units import percent_text


@cache
def style() -> str:
    """The style sheet as an element; identical copies on one page do no harm."""
    css = (resources.files("workbench.views") / "style.css").read_text(encoding="utf-8")
    return f"<style>{css}</style>"


def document(*parts: str) -> str:
    """Parts wrapped so that the style applies."""
    return f'{style()}<div class="wb">{"".join(parts)}</div>'


def plan_html(plan: Plan) -> str:
    """The summary of a plan: headline, numbers, problems, log lines, and the trace to unfold."""
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
    """The block size in large type, and what it is the block size of."""
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
    """A model without attention keeps the configured size, and no block of it."""
    return "in a block of" if plan.model.attention else "configured, without any attention, for"


def _verdict(plan: Plan) -> str:
    return '<b class="wb-verdict">✕ would not start</b>' if plan.errors else ""


def facts_html(facts: Iterable[PlanFact]) -> str:
    """Labelled numbers, side by side."""
    items = "".join(
        f'<div><span class="wb-faint">{escape(fact.label)}</span>'
        f'<span data-fact="{fact.name}">{escape(fact.text)}</span></div>'
        for fact in facts
    )
    return f'<div class="wb-facts">{items}</div>'


def problem_html(problem: Problem, remedies: Sequence[Remedy] = ()) -> str:
    """One problem as a badge with its message, its place in vLLM, and tried remedies."""
    sign = "✕ error" if problem.severity == "error" else "! warning"
    seen = ""
    if problem.vllm_text:
        seen = f'<div class="wb-faint">vLLM says: <code>{escape(problem.vllm_text)}</code></div>'
    tried = "".join(f"<li>{escape(str(remedy))}</li>" for remedy in remedies)
    return (
        f'<div class="wb-problem" data-code="{escape(problem.code)}" '
        f'data-severity="{escape(problem.severity)}">'
        f'<b class="wb-badge">{sign}</b>{escape(problem.message)}{seen}'
        + (f"<div>Tried, and it helps:<ul>{tried}</ul></div>" if tried else "")
        + "</div>"
    )


def refusal_html(error: WorkbenchError) -> str:
    """A configuration without a plan: what was given, what is allowed, what to do."""
    field = f"<code>{escape(error.field)}</code>: " if error.field else ""
    seen = error.vllm_text
    said = f'<div class="wb-faint">vLLM says: <code>{escape(seen)}</code></div>' if seen else ""
    return (
        f'<div class="wb-problem" data-code="{escape(error.code)}" data-severity="error">'
        f'<b class="wb-badge">✕ refused</b>{field}{escape(error.message)}{said}</div>'
    )


def log_html(lines: Sequence[str]) -> str:
    """What the engine will print."""
    if not lines:
        return ""
    text = "\n".join(lines)
    return (
        "<details><summary>What vLLM will log</summary>"
        f'<pre class="wb-code">{escape(text)}</pre></details>'
    )


def trace_html(steps: Sequence[Step]) -> str:
    """The trace as a table of its own, with the style."""
    return document(trace_table(steps))


def trace_table(steps: Sequence[Step]) -> str:
    """One row per decision: what, result, formula, operands, source."""
    rows = [
        (
            str(number),
            f"<b>{escape(step.rule.title)}</b>",
            escape(_result(step)),
            escape(step.rule.formula) + (f"<br><i>{escape(step.note)}</i>" if step.note else ""),
            "<br>".join(
                f"{escape(name)} = {escape(show(value))}" for name, value in step.operands.items()
            ),
            f'<span class="wb-faint">{escape(step.rule.source)}</span>',
        )
        for number, step in enumerate(steps, 1)
    ]
    return table(("", "decision", "result", "rule", "operands", "source"), rows)


def origins_html(plan: Plan) -> str:
    """Field by field, the entry of config.json that it was read from."""
    notes = "".join(f"<p>{escape(note)}</p>" for note in plan.model.notes)
    lines = "\n".join(plan.model.origins.values())
    return f'{notes}<pre class="wb-code">{escape(lines)}</pre>'


def sensitivity_html(plan: Plan, rows: Sequence[Mapping[str, Any]]) -> str:
    """Single changes and what they lead to, beside the present plan."""
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
        "<i>as it is</i>",
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
    """A table of ready-made cells; the caller escapes."""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<table class="wb-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _result(step: Step) -> str:
    unit = f" {step.rule.unit}" if step.rule.unit and step.result is not None else ""
    return show(step.result) + unit
