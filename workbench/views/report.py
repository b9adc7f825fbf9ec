"""One HTML page about a plan that needs neither a kernel nor a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import waste
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.views import html
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_parts import PARTS, prompt_lengths
from workbench.views.hits.html import hits_html
from workbench.views.html import Html, join, tag
from workbench.views.pages.drawing import page_drawing
from workbench.views.rows import ASSUMED, assumptions, plan_facts

if TYPE_CHECKING:
    import plotly.graph_objects as go

PROMPT_TOKENS = 4096
PAGE_STYLE = """
body { max-width: 1180px; margin: 24px auto 80px; padding: 0 20px; background: #fff; color: #222;
  font: 14px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 6px; }
section { overflow-x: auto; }
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
    figures: bool = False
    """Whether plotly's figures and its script, 5 MB, are in it; their numbers are there as tables
    anyhow."""


def report_html(
    plan: Plan, page_of: Page, remedies: Callable[[Problem], Sequence[Remedy]] = lambda _problem: ()
) -> str:
    """Return the page as one file, plotly's script included if it has figures."""
    title = page_of.title or f"{plan.model.name}: block size {plan.block_size:,} tokens"
    sections = list(_sections(plan, page_of, remedies))
    script = _script() if page_of.figures else ""
    links = (tag("a", head, href=f"#{name}") for name, head, _parts in sections)
    versions = ", ".join(f"{name} {version}" for name, version in page_of.made_with.items())
    body = tag(
        "main",
        tag("h1", title),
        *(tag("p", text) for text in page_of.notes.split("\n\n") if text.strip()),
        html.warnings_html(page_of.warnings),
        html.headline_html(plan),
        html.facts_html(plan_facts(plan)),
        tag("nav", join(*links, between=" · ")),
        *(tag("section", tag("h2", head), *parts, id=name) for name, head, parts in sections),
        tag("footer", f"Plan {plan.fingerprint}. Made with {versions}."),
        class_="wb",
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{tag('title', title)}{html.style()}<style>{PAGE_STYLE}</style>{script}</head>"
        f"<body>{body}</body></html>\n"
    )


def _sections(
    plan: Plan, page_of: Page, remedies: Callable[[Problem], Sequence[Remedy]]
) -> Iterable[tuple[str, str, Sequence[Html]]]:
    """Yield (anchor, heading, HTML) of every part that this plan has."""
    problems = [html.problem_html(problem, remedies(problem)) for problem in plan.problems]
    good = tag("div", "✓ No start-up problem found for these settings.", class_="wb-good")
    yield "problems", "Problems", problems or [good]
    pasted = page_of.commands.items()
    commands = [join(tag("h3", name), html.code_block(text)) for name, text in pasted]
    yield "commands", "Commands", commands
    yield "page", "A page, byte by byte", [page_drawing(plan)]
    if (cache := plan.kept_cache) is not None:
        drawn = _figures(plan, cache) if page_of.figures else {}
        yield "groups", "Groups and capacity", [*drawn.get("groups", ()), pool_html(plan)]
        reserved = [*_waste(plan, cache), *drawn.get("waste", ())]
        yield "waste", "Waste: what one request reserves", reserved
        if plan.enable_prefix_caching:
            yield "hits", "Prefix hits", [hits_html(plan)]
    yield "why", "Why: every decision", [html.trace_table(plan.steps)]
    logged = html.code_block("\n".join(plan.log_lines))
    silent = tag("p", "Nothing about sizes: no block had to grow.")
    yield "log", "What vLLM will log", [logged if plan.log_lines else silent]
    lead = tag("p", ASSUMED)
    assumed = html.bullets(assumptions(plan))
    origins = [*([lead, assumed] if assumed else []), html.origins_html(plan)]
    yield "model", html.ORIGINS, origins


def _script() -> str:
    from plotly.offline import get_plotlyjs

    return f"<script>{get_plotlyjs()}</script>"


def _figures(plan: Plan, cache: CachePlan) -> dict[str, list[Html]]:
    """Return anchor of a section -> its figures. Only here a report needs plotly."""
    from workbench.views.capacity.group_figure import groups
    from workbench.views.capacity.memory_figure import memory_bar, reserved_bytes

    prompt = min(PROMPT_TOKENS, plan.max_model_len)
    sized = [] if cache.num_blocks is None else [memory_bar(plan, prompt)]
    return {
        "groups": [_figure_html(figure) for figure in (groups(plan), *sized)],
        "waste": [_figure_html(reserved_bytes(plan))],
    }


def _figure_html(figure: go.Figure) -> Html:
    from workbench.views.frame import CONFIG

    config = {**CONFIG, "responsive": True}
    return Html(figure.to_html(full_html=False, include_plotlyjs=False, config=config))


def _waste(plan: Plan, cache: CachePlan) -> Iterable[Html]:
    """Yield the bytes that a request reserves, by purpose; the figure's numbers."""
    if plan.is_hybrid and plan.padding_percent is not None:
        padding = f"{plan.padding_bytes:,} bytes of padding ({plan.padding_percent:.2f} %)"
        yield tag("p", f"Every mamba page carries {padding}.")
    rows = {
        prompt: waste(plan, cache, prompt).parts for prompt in prompt_lengths(plan.max_model_len)
    }
    parts = [part for part in PARTS if any(row[part] for row in rows.values())]
    body = (
        (prompt, sum(row.values()), *(row[part] for part in parts)) for prompt, row in rows.items()
    )
    yield html.table(("prompt tokens", "bytes reserved", *parts), body)
