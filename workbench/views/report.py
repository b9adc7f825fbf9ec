"""One HTML page about a plan that needs neither a kernel nor a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import waste
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.views import html
from workbench.views.capacity.group_figure import groups
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_figure import memory_bar
from workbench.views.capacity.waste_figure import PARTS, prompt_lengths, reserved_bytes
from workbench.views.hits.html import hits_html
from workbench.views.pages.figure import page
from workbench.views.rows import assumptions, plan_facts

PROMPT_TOKENS = 4096
CONFIG = {"displaylogo": False, "responsive": True}
PAGE_STYLE = """
body { max-width: 1180px; margin: 24px auto 80px; padding: 0 20px; background: #fff; color: #222;
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 6px; }
nav a { margin-right: 16px; } section { overflow-x: auto; }
footer { margin-top: 40px; color: #666; font-size: 12px; }
pre { background: #f4f4f4; padding: 8px 10px; overflow-x: auto; }
@media print { nav { display: none; } details > * { display: block; } }
"""


@dataclass(frozen=True, slots=True)
class Page:
    """Content of a report in addition to the plan."""

    title: str = ""
    notes: str = ""
    warnings: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    """Title -> the text to paste."""
    made_with: Mapping[str, str] = field(default_factory=dict)
    """Name -> version."""
    figures: bool = True
    """False leaves them and plotly out; every figure comes with its numbers as a table."""


def report_html(
    plan: Plan,
    page_of: Page,
    remedies: Callable[[Problem], Sequence[Remedy]] = lambda _problem: (),
) -> str:
    """Return the page as one file, plotly's script included if it has figures."""
    title = page_of.title or f"{plan.model.name}: block size {plan.block_size:,} tokens"
    sections = list(_sections(plan, page_of, remedies))
    links = "".join(f'<a href="#{name}">{escape(head)}</a>' for name, head, _body in sections)
    bodies = "".join(
        f'<section id="{name}"><h2>{escape(head)}</h2>{body}</section>'
        for name, head, body in sections
    )
    script = f"<script>{get_plotlyjs()}</script>" if page_of.figures else ""
    versions = ", ".join(f"{name} {version}" for name, version in page_of.made_with.items())
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>{html.style()}<style>{PAGE_STYLE}</style>{script}</head>"
        f'<body><main class="wb"><h1>{escape(title)}</h1>{_notes(page_of)}'
        f"{html.headline_html(plan)}{html.facts_html(plan_facts(plan))}<nav>{links}</nav>{bodies}"
        f"<footer>Plan {plan.fingerprint}. Made with {escape(versions)}.</footer>"
        "</main></body></html>\n"
    )


def _notes(page_of: Page) -> str:
    texts = filter(str.strip, page_of.notes.split("\n\n"))
    notes = "".join(f"<p>{escape(text)}</p>" for text in texts)
    warned = "".join(f"<li>{escape(warning)}</li>" for warning in page_of.warnings)
    return notes + (
        f'<div class="wb-problem" data-severity="warning"><ul>{warned}</ul></div>' if warned else ""
    )


def _sections(
    plan: Plan, page_of: Page, remedies: Callable[[Problem], Sequence[Remedy]]
) -> Iterable[tuple[str, str, str]]:
    """Yield (anchor, heading, HTML) of every part that this plan has."""
    yield "problems", "Problems", _problems(plan, remedies)
    yield "commands", "Commands", _commands(page_of)
    yield "page", "A page, byte by byte", _figure(page_of, page(plan))
    if plan.cache is not None:
        prompt = min(PROMPT_TOKENS, plan.max_model_len)
        drawn = [groups(plan)]
        if plan.cache.num_blocks is not None:
            drawn.append(memory_bar(plan, prompt))
        yield "groups", "Groups and capacity", _figure(page_of, *drawn) + pool_html(plan)
        reserved = _waste(plan, plan.cache) + _figure(page_of, reserved_bytes(plan))
        yield "waste", "Waste: what one request reserves", reserved
        if plan.enable_prefix_caching:
            yield "hits", "Prefix hits", hits_html(plan)
    yield "why", "Why: every decision", html.trace_table(plan.steps)
    yield "log", "What vLLM will log", _log(plan)
    yield "model", "Where the model's numbers come from", _assumed(plan) + html.origins_html(plan)


def _problems(plan: Plan, remedies: Callable[[Problem], Sequence[Remedy]]) -> str:
    if not plan.problems:
        return '<div class="wb-good">✓ No start-up problem found for these settings.</div>'
    return "".join(html.problem_html(problem, remedies(problem)) for problem in plan.problems)


def _commands(page_of: Page) -> str:
    return "".join(
        f'<h3>{escape(name)}</h3><pre class="wb-code">{escape(text)}</pre>'
        for name, text in page_of.commands.items()
    )


def _figure(page_of: Page, *drawn: go.Figure) -> str:
    if not page_of.figures:
        return ""
    return "".join(
        figure.to_html(full_html=False, include_plotlyjs=False, config=CONFIG) for figure in drawn
    )


def _waste(plan: Plan, cache: CachePlan) -> str:
    """Return the bytes that a request reserves, by purpose; the figure's numbers."""
    prompts = prompt_lengths(plan.max_model_len)
    rows = [waste(plan, cache, prompt).parts for prompt in prompts]
    parts = [part for part in PARTS if any(row[part] for row in rows)]
    body = [
        [f"{prompt:,}", f"{sum(row.values()):,}", *(f"{row[part]:,}" for part in parts)]
        for prompt, row in zip(prompts, rows, strict=True)
    ]
    words = (
        f"<p>Every mamba page carries {plan.padding_bytes:,} bytes of padding "
        f"({plan.padding_percent:.2f} %).</p>"
        if plan.is_hybrid and plan.padding_percent is not None
        else ""
    )
    return words + html.table(("prompt tokens", "bytes reserved", *parts), body)


def _log(plan: Plan) -> str:
    if not plan.log_lines:
        return "<p>Nothing about sizes: no block had to grow.</p>"
    lines = "\n".join(plan.log_lines)
    return f'<pre class="wb-code">{escape(lines)}</pre>'


def _assumed(plan: Plan) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in assumptions(plan))
    return (
        f"<p>Absent from config.json, so the family's default:</p><ul>{lines}</ul>" if lines else ""
    )
