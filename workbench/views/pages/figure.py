"""The page-alignment figure: attention page and mamba page to scale, padding and kernel blocks."""

import plotly.graph_objects as go

from workbench.core.plan import Plan
from workbench.views import palette
from workbench.views.frame import Figure, bar, frame
from workbench.views.pages.parts import KV, LOOKS, Look, PagePart, page_parts
from workbench.views.token_bytes import page_token_bytes
from workbench.views.units import bytes_text, percent_text, tokens_text

MAMBA_ROW, ATTENTION_ROW, BEFORE = range(3)
ROW_NAMES = ("mamba page", "attention page", "before alignment")
HALF_BAR = 0.34
MAX_RULES = 300
"""More kernel blocks than this are not ruled one by one: the lines would merge into a wash."""


def page(plan: Plan, theme: str = "auto") -> go.Figure:
    """Draw the attention page and the mamba page of `plan` to scale, one below the other.

    Bytes on the lower axis, tokens on the upper one; padding hatched, kernel blocks ruled.
    """
    drawn = Figure(page_traces(plan, theme), layout=page_layout(plan, theme))
    return drawn.update_layout(meta={"plan": plan.fingerprint})


def page_traces(plan: Plan, theme: str = "auto") -> list[go.Bar | go.Scatter]:
    """Return the eight traces of the figure, always all of them; empty if a plan lacks the part."""
    parts = page_parts(plan)
    return [
        _before(plan),
        *(_part(name, look, parts.get(name)) for name, look in LOOKS.items()),
        _kernel_rules(plan, theme),
        _state_end(plan),
        go.Scatter(x=[0], y=[None], xaxis="x2", showlegend=False, hoverinfo="skip"),
    ]


def page_layout(plan: Plan, theme: str = "auto") -> go.Layout:
    """Return axes, title and colours that go with `page_traces`."""
    pages = (plan.attention_page_size_bytes, plan.final_mamba_page_size_bytes)
    end = max(filter(None, pages), default=1) * 1.02
    # not whole bytes where an entry of several tokens is aligned
    tok = plan.attention_page_size_bytes and plan.attention_page_size_bytes / plan.block_size
    line = {"linecolor": palette.THEMES[theme].grid}
    layout = frame(
        page_title(plan),
        theme,
        title_y=0.97,
        title_yanchor="top",
        barmode="stack",
        height=350,
        margin={"l": 120, "r": 30, "t": 100, "b": 110},
        hoverlabel={"align": "left"},
        x={**line, "title": "bytes per rank", "range": [0, end], "tickformat": ","},
        xaxis2={
            **line,
            "zeroline": False,
            "overlaying": "x",
            "side": "top",
            "title": "tokens of one attention layer" if tok else "",
            "range": [0, end / tok] if tok else [0, 1],
            "visible": bool(tok),
            "showgrid": False,
            "tickmode": "auto",
            "nticks": 10,
            "tickformat": ",d",
        },
        y={
            **line,
            "tickvals": list(range(len(ROW_NAMES))),
            "ticktext": ROW_NAMES,
            "range": row_range(plan),
            "showgrid": False,
            "fixedrange": True,
        },
    )
    return go.Layout(layout)


def row_range(plan: Plan) -> list[float]:
    """Return the range of rows that the plan has, so that no empty one is drawn."""
    low = MAMBA_ROW if plan.mamba_page_size_bytes else ATTENTION_ROW
    high = MAMBA_ROW
    if plan.attention_page_size_bytes:
        high = BEFORE if preferred_block_size(plan) else ATTENTION_ROW
    return [low - 0.5, max(low, high) + 0.5]


def preferred_block_size(plan: Plan) -> int | None:
    """Return phase 1's block size of a hybrid, the one that the alignment then raises."""
    if not plan.is_hybrid or not plan.attention_bytes_per_token:
        return None
    return next((s.result for s in plan.steps if s.rule.name == "preferred_block_size"), None)


def page_title(plan: Plan) -> str:
    """Return one line above the figure."""
    if not plan.attention_page_size_bytes:
        return "<b>state of one request</b> in one layer"
    words = [f"<b>{tokens_text(plan.block_size)}</b> in a block"]
    if ratio := plan.kernel_blocks_per_block:
        words.append(f"{ratio} kernel block{'s' * (ratio > 1)} of {plan.kernel_block_size:,}")
    if plan.is_hybrid and plan.mamba_page_size_bytes:
        words.append(f"padding {percent_text(plan.padding_percent)}")
    return ", ".join(words)


def _part(name: str, look: Look, part: PagePart | None) -> go.Bar:
    row = ATTENTION_ROW if name == KV else MAMBA_ROW
    if part is None:
        return _bar(look.label, row, look.colour, None, "", look.pattern)
    return _bar(part.label, row, look.colour, part.size_bytes, part.words, look.pattern)


def _bar(
    name: str, row: int, colour: str, size: int | None, text: str, pattern: str = ""
) -> go.Bar:
    drawn = bar(
        name,
        [size],
        [row],
        (colour, pattern),
        orientation="h",
        width=2 * HALF_BAR,
        hovertemplate=f"<b>{name}</b><br>{text}<extra></extra>",
        showlegend=size is not None,
    )
    drawn.marker.update(line_width=0, pattern_size=6)
    return drawn


def _before(plan: Plan) -> go.Bar:
    """Draw the page of a block before any alignment enlarged it."""
    size, text = None, ""
    preferred, per_token = preferred_block_size(plan), page_token_bytes(plan)
    if preferred is not None and per_token:
        size = preferred * per_token
        text = f"{tokens_text(preferred)} = {bytes_text(size)}"
    return _bar("attention page before alignment", BEFORE, palette.ATTENTION_BEFORE, size, text)


def _kernel_rules(plan: Plan, theme: str) -> go.Scatter:
    """Draw lines between kernel blocks, across the attention bar."""
    blocks, page_bytes = plan.kernel_blocks_per_block or 1, plan.attention_page_size_bytes or 0
    count = blocks - 1 if blocks <= MAX_RULES else 0
    places = (page_bytes * number / blocks for number in range(1, count + 1))
    x = [end for place in places for end in (place, place, None)]
    y = [ATTENTION_ROW - HALF_BAR, ATTENTION_ROW + HALF_BAR, None] * count
    return go.Scatter(
        name=f"kernel blocks of {plan.kernel_block_size} tokens",
        x=x,
        y=y,
        mode="lines",
        line={"width": 1 if blocks > 60 else 2, "color": palette.THEMES[theme].rule},
        hoverinfo="skip",
        showlegend=False,
    )


def _state_end(plan: Plan) -> go.Scatter:
    """Draw where the unpadded state ends, through both pages."""
    own = plan.mamba_page_size_bytes if plan.attention_page_size_bytes else None
    rows = (MAMBA_ROW - HALF_BAR, ATTENTION_ROW + HALF_BAR)
    needed = ""
    if own and plan.attention_bytes_per_token:
        tokens = f"{own / plan.attention_bytes_per_token:,.2f}".removesuffix(".00")
        needed = f" = {tokens} tokens' worth of KV"
    return go.Scatter(
        name=f"state{needed}",
        x=[own] * len(rows) if own else [],
        y=list(rows) if own else [],
        mode="lines",
        line={"color": palette.CURRENT, "width": 2, "dash": "dot"},
        hovertemplate=f"state ends at {bytes_text(own)}{needed}<extra></extra>",
        showlegend=bool(own),
    )
