"""What a lab found, as HTML and as a figure: one entry per kind of result."""

from collections.abc import Callable, Mapping
from typing import Any

import plotly.graph_objects as go

from workbench.core.flex.lab import ENGINE, BitLab, FlexMistake, FlexRun, OrderLab
from workbench.core.flex.picture import stale_picture
from workbench.core.flex.result import LabResult, cell
from workbench.views import html
from workbench.views.flex.bits_figure import bits_figure
from workbench.views.flex.bits_text import bits_html, orders_html, prediction_html
from workbench.views.flex.mask_figure import visit_order
from workbench.views.html import Html, document, join, records, table, tag
from workbench.views.units import counted


def lab_html(result: LabResult) -> str:
    """Return the words of a result; a table of its rows if it has no words of its own."""
    return HTML.get(type(result), rows_html)(result)


def lab_figure(result: LabResult, theme: str = "auto") -> go.Figure | None:
    """Return the figure of a result; None if it has none."""
    draw = FIGURES.get(type(result))
    return None if draw is None else draw(result, theme)


def rows_html(result: LabResult) -> str:
    """Return one table row per row of the result."""
    shown = ({name.replace("_", " "): cell(row[name]) for name in row} for row in result.rows)
    return document(records(shown))


def _order_html(lab: OrderLab) -> str:
    return prediction_html(lab.predicted) + (orders_html(lab.orders) if lab.orders else "")


def _order_figure(_lab: OrderLab, theme: str) -> go.Figure:
    stale = stale_picture()
    return visit_order(stale.batch, stale.visits, theme)


def run_html(run: FlexRun) -> str:
    """Return where it ran, whether it is right, and how fast if it ran on a GPU."""
    requests = counted(run.requests, "request")
    tokens = f"{requests}, {run.tokens:,} queries over {run.cached_tokens:,} keys"
    remark = [("how it was computed", run.place.note)] if run.place.note else []
    rows = [
        ("path", run.place.path),
        ("ran on", f"{run.place.device}, {WHERE[run.place.mode]}"),
        *remark,
        ("shape", run.shape),
        ("tile", run.tile),
        ("batch", f"{tokens}, {run.mask} mask"),
        ("error against float64", error_text(run)),
        ("NaN in every unread byte", poison_text(run)),
        ("speed", speed_text(run)),
    ]
    return document(table(("launch", "what it did"), rows))


WHERE = {
    "gpu": "compiled for it",
    "interpreter": "in Triton's interpreter: every program in numpy",
    "eager": "dense in torch: the whole matrix of queries and slots",
}


def error_text(run: FlexRun) -> Html:
    """Return the largest error compared with the tolerance of its precision."""
    relation = "within" if run.exact_enough else "above"
    return join(
        "✓" if run.exact_enough else tag("b", "✕"),
        f" {run.max_error:.2e} at most, {relation} the tolerance of {run.tolerance:.2e}: "
        "twice the error of dense attention in the same precision, plus one rounding",
    )


def poison_text(run: FlexRun) -> Html:
    """Return whether bytes that must not be read change the result."""
    size = f"{run.tokens:,} queries x {run.shape.heads} heads x head size {run.shape.head_size}"
    elements = f"{run.elements:,} elements of the result ({size})"
    if run.unread_stays_unread:
        return join(f"✓ changes none of {elements}")
    why = ""
    if run.place.mode == "eager":
        why = ": the dense path multiplies every slot of the cache, and zero times NaN is NaN"
    elif run.place.path.startswith(ENGINE):
        why = ": torch multiplies every slot of the pages that it reads, and zero times NaN is NaN"
    return join(tag("b", f"✕ changes {run.poisoned:,} of {elements}"), why)


def speed_text(run: FlexRun) -> str:
    """Return rates on a GPU; elsewhere the reason why there are none."""
    if run.speed is None:
        reason = {
            "interpreter": "the interpreter gives no meaningful time",
            "eager": "a CPU's time is not representative",
        }
        return f"not timed: {reason.get(run.place.mode, 'no GPU')}"
    speed = run.speed
    roof = {
        "matmul": f"matrix products: {speed.matmul_flops_per_s / 1e12:,.0f} TFLOP/s",
        "copy": f"copying: {speed.copy_bytes_per_s / 1e12:,.2f} TB/s",
    }[speed.bound]
    return (
        f"{speed.seconds * 1e6:,.1f} us (median), {speed.tflops_per_s:,.1f} TFLOP/s, "
        f"{speed.percent_of_roof:.0f} % of the roof ({roof}, measured in the same run)"
    )


def mistake_html(mistake: FlexMistake) -> str:
    """Return the wrong call, the error message, and the launch after it."""
    after = mistake.after
    good = after.exact_enough and after.unread_stays_unread
    alive = "✓ The next launch works" if good else tag("b", "✕ The next launch is wrong")
    text, _, example = mistake.said.partition("Example:")
    said: list[Any] = [text]
    if example:
        said = [
            html.stacked(*text.strip().split("\n")),
            " Example:",
            html.code_block(example.strip()),
        ]
    return document(
        tag("p", tag("b", mistake.name)),
        html.code_block(mistake.tried.strip()),
        html.problem_box("✕ invalid input", *said),
        tag(
            "p",
            alive,
            f": {counted(after.requests, 'request')}, error {after.max_error:.1e}, tolerance "
            f"{after.tolerance:.1e}.",
        ),
    )


HTML: Mapping[type[LabResult], Callable[[Any], str]] = {
    FlexRun: run_html,
    BitLab: bits_html,
    OrderLab: _order_html,
    FlexMistake: mistake_html,
}
FIGURES: Mapping[type[LabResult], Callable[[Any, str], go.Figure]] = {
    BitLab: lambda lab, theme: bits_figure(lab.plan, lab, theme),
    OrderLab: _order_figure,
}
