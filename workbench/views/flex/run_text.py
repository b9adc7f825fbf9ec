"""The result of a flex attention launch, and of a deliberate mistake, in words."""

from __future__ import annotations

from html import escape

from workbench.core.flex.lab import FlexMistake, FlexRun, FlexSpeed
from workbench.views.html import document, table


def run_html(run: FlexRun) -> str:
    """Return where it ran, whether it is right, and how fast if it ran on a GPU."""
    tokens = f"{run.requests:,} requests, {run.tokens:,} queries over {run.cached_tokens:,} keys"
    rows = [
        ("path", escape(run.place.path)),
        ("ran on", f"{escape(run.place.device)}, {WHERE[run.place.mode]}"),
        ("shape", escape(str(run.shape))),
        ("tile", escape(run.tile)),
        ("batch", f"{tokens}, {escape(run.mask)} mask"),
        ("error against float64", error_text(run)),
        ("NaN in every unread byte", poison_text(run)),
        ("speed", escape(speed_text(run))),
    ]
    if run.place.note:
        rows.insert(2, ("different from the request", f"! {escape(run.place.note)}"))
    return document(table(("launch", "what it did"), rows))


WHERE = {
    "gpu": "compiled for it",
    "interpreter": "in Triton's interpreter: every program in numpy",
    "eager": "dense in torch: the whole matrix of queries and slots",
}


def error_text(run: FlexRun) -> str:
    """Return the largest error compared with the tolerance of its precision."""
    sign = "✓" if run.exact_enough else "<b>✕</b>"
    relation = "within" if run.exact_enough else "above"
    return (
        f"{sign} {run.max_error:.2e} at most, {relation} the tolerance of {run.tolerance:.2e}: "
        "twice the error of dense attention in the same precision, plus one rounding"
    )


def poison_text(run: FlexRun) -> str:
    """Return whether bytes that must not be read change the result."""
    if run.unread_stays_unread:
        return f"✓ changes none of {run.elements:,} elements"
    why = ""
    if run.place.mode == "eager":
        why = ": the dense path multiplies every slot of the cache, and zero times NaN is NaN"
    return f"<b>✕ changes {run.poisoned:,} of {run.elements:,} elements</b>{why}"


def speed_text(run: FlexRun) -> str:
    """Return rates on a GPU; elsewhere the reason why there are none."""
    if run.speed is None:
        reason = {
            "interpreter": "the interpreter gives no meaningful time",
            "eager": "a CPU's time is not representative",
        }
        return f"not timed: {reason.get(run.place.mode, 'no GPU')}"
    return _rates(run.speed)


def _rates(speed: FlexSpeed) -> str:
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
    alive = "✓ The next launch works" if good else "<b>✕ The next launch is wrong</b>"
    return document(
        f"<p><b>{escape(mistake.name)}</b></p>"
        f'<pre class="wb-code">{escape(mistake.tried.strip())}</pre>'
        f'<div class="wb-problem" data-severity="error"><b class="wb-badge">✕ refused</b>'
        f"{_paragraphs(mistake.said)}</div>"
        f"<p>{alive}: {after.requests} requests, error {after.max_error:.1e}, tolerance "
        f"{after.tolerance:.1e}.</p>"
    )


def _paragraphs(message: str) -> str:
    """Return a message as paragraphs: the first line as a sentence, the example line by line."""
    text, _, example = message.partition("Example:")
    if not example:
        return escape(text)
    return (
        f"{escape(text).strip().replace(chr(10), '<br>')} Example:"
        f'<pre class="wb-code">{escape(example.strip())}</pre>'
    )
