"""The batch-invariance lab in words: what was promised, which bits differ, and where."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from workbench.core.flex.batch import OrderInversion
from workbench.core.flex.lab import BitLab, BitRun, BitTrial, OrderRow
from workbench.views.html import document, table

MOST_LISTED = 6
"""Trials of one kind that get a row each."""
MEANINGS = {
    "batch": "in a random batch",
    "padding": "between dummies",
    "pages": "on permuted pages",
    "page size": "with another page size",
    "chunks": "prefilled in chunks",
}


def bits_html(lab: BitLab) -> str:
    """Return a verdict, then one row per trial with a column for each way to choose tiles."""
    place = lab.place
    note = f" ! {escape(place.note)}." if place.note else ""
    rows = []
    every = tuple(zip(*(run.trials for run in lab.runs), strict=True))
    for kind, meaning in MEANINGS.items():
        same = [trials for trials in every if trials[0].kind == kind]
        above: tuple[BitTrial | None, ...] = (None,) * len(lab.runs)
        for trials in same[:MOST_LISTED]:
            cells = map(cell, lab.runs, trials, above)
            rows.append((meaning, escape(trials[0].detail), *cells))
            above = trials
        if rest := same[MOST_LISTED:]:
            counts = (sum(not one.equal for one in way) for way in zip(*rest, strict=True))
            more = (f"{count} of {len(rest)} differ" for count in counts)
            rows.append((meaning, f"{len(rest)} more like these", *more))
    header = ("served", "how", *(f"{escape(run.name)}{_role(run)}" for run in lab.runs))
    tiles = [("tiles", "", *(escape(run.tile) for run in lab.runs))]
    return document(
        f'<div class="wb-{"good" if lab.holds else "problem"}">{verdict(lab)}</div>',
        f"<p>{escape(lab.request)}, {escape(str(lab.shape))}. {escape(place.path)}, "
        f"{escape(place.mode)} on {escape(place.device)}.{note}</p>",
        table(header, [*tiles, *rows]),
    )


def verdict(lab: BitLab) -> str:
    """Return the verdict in one sentence."""
    broken = sum(len(run.broken) for run in lab.runs)
    if broken:
        return f"<b>✕ {broken} trials differ although equal bits are promised.</b>"
    controls = [run for run in lab.runs if run.control]
    kept = sum(
        trial.kind in run.promised for run in lab.runs if not run.control for trial in run.trials
    )
    if any(not run.differing for run in controls):
        return (
            "<b>! Nothing is proven:</b> the control does not differ either. Take a request with "
            "more keys than one tile has."
        )
    differ = sum(run.differing for run in controls)
    return (
        f"✓ 0 bits differ in all {kept} trials that promise it, and the control differs in "
        f"{differ}: a difference would have been seen."
    )


def _role(run: BitRun) -> str:
    return " <i>(negative control)</i>" if run.control else ""


def cell(run: BitRun, trial: BitTrial, above: BitTrial | None = None) -> str:
    """Describe the bits of one trial: how many differ, whether that is allowed, and where.

    above: the trial in the row above; the same places are not repeated.
    """
    may = trial.kind in run.promised
    if trial.equal:
        return f"✓ 0 of {trial.elements:,}" + ("" if may else " <i>(not promised)</i>")
    sign = "<b>✕" if may else "≠ <b>"
    if above is not None and (above.first, above.per_token) == (trial.first, trial.per_token):
        return f"{sign} {trial.differing:,} of {trial.elements:,}</b>, the same as above"
    place = trial.first[0]
    more = ", ".join(f"({p.token}, {p.head}, {p.element})" for p in trial.first[1:])
    tokens = sum(count > 0 for count in trial.per_token)
    return (
        f"{sign} {trial.differing:,} of {trial.elements:,}</b>, by {trial.largest:.1e} at most, in "
        f"{tokens} of {len(trial.per_token)} tokens"
        f'<div class="wb-faint">first: token {place.token}, head {place.head}, element '
        f"{place.element}: {place.alone:.9g} alone, {place.other:.9g} here"
        + (f"; then {more}" if more else "")
        + "</div>"
    )


def prediction_html(found: OrderInversion) -> str:
    """Return what the plain model predicts before anything runs."""
    alone, batched, pruned = (
        ", ".join(map(str, order)) for order in (found.alone, found.batched, found.pruned)
    )
    return document(
        f"<p><b>Predicted, before anything runs:</b> three requests share a group, and the row of "
        f"request 1 still names a page of request {found.request} past its own. Request "
        f"{found.request} alone is added up over pages {alone}; in the batch the direct build of "
        f"0.23 lists {batched}, pruned as in 0.33 {pruned}. Another order is another rounding.</p>"
    )


def orders_html(rows: Sequence[OrderRow]) -> str:
    """Return predicted order and measured bits, side by side."""
    body = [
        (
            escape(row.how),
            ", ".join(map(str, row.predicted)),
            "same as alone" if row.predicted == rows[0].predicted else "<b>another</b>",
            escape(row.where),
            _bits(row),
        )
        for row in rows
    ]
    header = ("request 2", "predicted order", "order", "ran", "bits other than alone")
    return document(table(header, body), f"<p>{_order_verdict(rows)}</p>")


def _bits(row: OrderRow) -> str:
    if row.differing is None:
        return "not run here"
    if not row.differing:
        return f"✓ 0 of {row.elements:,}"
    by = f", by {row.largest:.1e} at most" if row.largest else ""
    return f"≠ <b>{row.differing:,} of {row.elements:,}</b>{by}"


def _order_verdict(rows: Sequence[OrderRow]) -> str:
    ran = [row for row in rows if row.differing is not None]
    wrong = [row for row in ran if (row.predicted != rows[0].predicted) != bool(row.differing)]
    if not wrong:
        return "✓ Bits differ exactly where another order was predicted."
    return f"<b>✕ The prediction fails: {escape(wrong[0].how)}, {escape(wrong[0].where)}.</b>"
