"""The batch-invariance lab in words: what was promised, which bits differ, and where."""

from collections.abc import Sequence
from typing import Any

from workbench.core.flex.batch import OrderInversion
from workbench.core.flex.lab import BitLab, BitRun, BitTrial, OrderRow
from workbench.views.html import Html, document, join, note, records, table, tag

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
    remark = f" {place.note}." if place.note else ""
    rows: list[tuple[Any, ...]] = [("tiles", "", *(run.tile for run in lab.runs))]
    every = tuple(zip(*(run.trials for run in lab.runs), strict=True))
    for kind, meaning in MEANINGS.items():
        same = [trials for trials in every if trials[0].kind == kind]
        above: tuple[BitTrial | None, ...] = (None,) * len(lab.runs)
        for trials in same[:MOST_LISTED]:
            rows.append((meaning, trials[0].detail, *map(cell, lab.runs, trials, above)))
            above = trials
        if rest := same[MOST_LISTED:]:
            counts = (sum(not one.equal for one in way) for way in zip(*rest, strict=True))
            more = (f"{count} of {len(rest)} differ" for count in counts)
            rows.append((meaning, f"{len(rest)} more like these", *more))
    control = join(" ", tag("i", "(negative control)"))
    names = (join(run.name, control if run.control else "") for run in lab.runs)
    return document(
        tag("div", verdict(lab), class_="wb-good" if lab.holds else "wb-problem"),
        tag(
            "p",
            f"{lab.request}, {lab.shape}. {place.path}, {place.mode} on {place.device}.{remark}",
        ),
        table(("served", "how", *names), rows),
        note(
            f"Counted: elements of the request's result with other bits, of {lab.tokens:,} queries "
            f"x {lab.shape.heads} heads x head size {lab.shape.head_size}."
        ),
    )


def verdict(lab: BitLab) -> Html:
    """Return the verdict in one sentence."""
    broken = sum(len(run.broken) for run in lab.runs)
    if broken:
        return tag("b", f"✕ {broken} trials differ although bitwise equality is promised.")
    controls = [run for run in lab.runs if run.control]
    kept = sum(
        trial.kind in run.promised for run in lab.runs if not run.control for trial in run.trials
    )
    if any(not run.differing for run in controls):
        advice = (
            " the control does not differ either. Use a request with more keys than one tile has."
        )
        return join(tag("b", "! Nothing is proven:"), advice)
    differ = sum(run.differing for run in controls)
    return join(
        f"✓ 0 bits differ in all {kept} trials that promise it, and the control differs in "
        f"{differ}: a difference would have been seen."
    )


def cell(run: BitRun, trial: BitTrial, above: BitTrial | None = None) -> Html:
    """Describe the bits of one trial: how many differ, whether that is allowed, and where.

    above: the trial in the row above; the same places are not repeated.
    """
    may = trial.kind in run.promised
    if trial.equal:
        promised = "" if may else tag("i", "(not promised)")
        return join(f"✓ 0 of {trial.elements:,}", *([" ", promised] if promised else []))
    count = f"{trial.differing:,} of {trial.elements:,}"
    marked = tag("b", f"✕ {count}") if may else join("≠ ", tag("b", f" {count}"))
    if above is not None and (above.first, above.per_token) == (trial.first, trial.per_token):
        return join(marked, ", the same as above")
    first = trial.first[0]
    more = ", ".join(f"({p.token}, {p.head}, {p.element})" for p in trial.first[1:])
    tokens = sum(count > 0 for count in trial.per_token)
    where = (
        f"first: token {first.token}, head {first.head}, element {first.element}: "
        f"{first.alone:.9g} alone, {first.other:.9g} here" + (f"; then {more}" if more else "")
    )
    return join(
        marked,
        f", by {trial.largest:.1e} at most, in {tokens} of {len(trial.per_token)} tokens",
        tag("div", where, class_="wb-faint"),
    )


def prediction_html(found: OrderInversion) -> str:
    """Return what the plain model predicts before anything runs."""
    alone, batched, pruned = (
        ", ".join(map(str, order)) for order in (found.alone, found.batched, found.pruned)
    )
    return document(
        tag(
            "p",
            tag("b", "Predicted, before anything runs:"),
            " three requests share a group, and the row of request 1 still names a page of request "
            f"{found.request} past its own. Request {found.request} alone is added up over pages "
            f"{alone}; in the batch the direct build of 0.23 lists {batched}, pruned as in 0.33 "
            f"{pruned}. A different order rounds differently.",
        )
    )


def orders_html(rows: Sequence[OrderRow]) -> str:
    """Return predicted order and measured bits, side by side."""
    alone = rows[0].predicted
    shown = records(
        {
            "request 2": row.how,
            "predicted order": ", ".join(map(str, row.predicted)),
            "order": "same as alone" if row.predicted == alone else tag("b", "another"),
            "ran": row.where,
            "differing bits": _bits(row),
        }
        for row in rows
    )
    shown = join(
        shown, note("Counted: elements of the request's result with other bits than alone.")
    )
    ran = [row for row in rows if row.differing is not None]
    wrong = [row for row in ran if (row.predicted != alone) != bool(row.differing)]
    if not wrong:
        return document(shown, tag("p", "✓ Bits differ exactly where another order was predicted."))
    failed = tag("b", f"✕ The prediction fails: {wrong[0].how}, {wrong[0].where}.")
    return document(shown, tag("p", failed))


def _bits(row: OrderRow) -> Html | str:
    if row.differing is None:
        return "not run here"
    if not row.differing:
        return f"✓ 0 of {row.elements:,}"
    by = f", by {row.largest:.1e} at most" if row.largest else ""
    return join("≠ ", tag("b", f"{row.differing:,} of {row.elements:,}"), by)
