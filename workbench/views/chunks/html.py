"""Chunk sizes and pairs, as HTML and for a terminal."""

from collections.abc import Sequence

from workbench.core.chunks.answer import Chunks
from workbench.core.chunks.engines import member_remedies
from workbench.core.chunks.fleet import Pair
from workbench.views import html
from workbench.views.chunks import rows as chunk_rows
from workbench.views.html import Html, bullets, document, fold, join, note, table, tag, wide_table
from workbench.views.offload.transfer import COMPARED_HEAD
from workbench.views.settings import remedy_words
from workbench.views.text import aligned, problem_lines


def chunks_html(found: Chunks) -> str:
    """Return the answer in full: legal sizes, problems, sizes to take, costs, pairs."""
    return document(
        _headline(found),
        tag("p", legal) if (legal := chunk_rows.legal_text(found)) else Html(),
        *map(html.problem_html, found.problems),
        html.remedies_html(
            f"{member.label}: {remedy_words(remedy)}"
            for member in found.members
            for remedy in member_remedies(member)
        ),
        _rows(chunk_rows.engine_rows(found)),
        _sizes(found),
        _pairs(found),
        *map(note, chunk_rows.notes(found)),
    )


def _headline(found: Chunks) -> Html:
    text = chunk_rows.verdict(found)
    mark = {"class_": "wb-verdict" if text.startswith("✕") else "", "data_legal": found.is_legal}
    purpose = html.faint(f"{found.connector.name}: {found.connector.purpose}")
    return tag("div", tag("b", text, **mark), " ", purpose, class_="wb-headline")


def _rows(rows: list[tuple[str, ...]]) -> Html:
    head, *body = rows
    return wide_table(head, body)


def _sizes(found: Chunks) -> Html:
    if not (rows := chunk_rows.cost_rows(found)):
        return Html()
    items = (f"{one.tokens:,} tokens: {one.reason}" for one in found.recommended)
    return join(
        tag("h4", "Sizes to take"),
        bullets(items),
        tag("h4", f"A prompt of {found.prompt_tokens:,} tokens"),
        _rows(rows),
    )


def _pairs(found: Chunks) -> Html:
    if not chunk_rows.matters(found):
        return Html()
    pairs = found.pairs()
    folds = (_pair(pair) for pair in pairs if pair.transfer is not None)
    return join(
        tag("h4", "Prefill on one engine, decode on another (NIXL)"),
        _rows(chunk_rows.pair_matrix(pairs)),
        _numbered(chunk_rows.pair_reasons(pairs)),
        *folds,
    )


def _numbered(reasons: Sequence[str]) -> Html:
    return tag("ol", *(tag("li", reason) for reason in reasons))


def _pair(pair: Pair) -> Html:
    return fold(
        f"{pair.prefill.label} → {pair.decode.label}",
        html.remedies_html(pair.remedies()),
        table(COMPARED_HEAD, chunk_rows.compared_rows(pair)),
    )


def chunks_text(found: Chunks) -> str:
    """Return the answer in full: legal sizes, problems, sizes to take, costs, pairs."""
    connector = found.connector
    lines = [f"{connector.name}: {connector.purpose}", "", chunk_rows.verdict(found)]
    if legal := chunk_rows.legal_text(found):
        lines.append(legal)
    lines += problem_lines(found.problems)
    for member in found.members:
        for remedy in member_remedies(member):
            lines.append(f"  tested remedy for {member.label}: {remedy}")
    lines += ["", *aligned(chunk_rows.engine_rows(found), "  ")]
    if connector.stores and found.recommended:
        lines += ["", "Sizes to take:"]
        lines += [f"  {one.tokens:,} tokens: {one.reason}" for one in found.recommended]
    if rows := chunk_rows.cost_rows(found):
        lines += ["", f"A prompt of {found.prompt_tokens:,} tokens:"]
        lines += aligned(rows, "  ")
    if chunk_rows.matters(found):
        lines += ["", "Prefill on one engine, decode on another (NIXL):", *pairs_lines(found)]
    return "\n".join([*lines, "", *chunk_rows.notes(found)])


def pairs_lines(found: Chunks) -> list[str]:
    """Return the matrix of pairs, then what the refused ones compare and what helps."""
    pairs = found.pairs()
    reasons = enumerate(chunk_rows.pair_reasons(pairs), 1)
    lines = aligned(chunk_rows.pair_matrix(pairs), "  ")
    lines += ["", *(f"  {number} {reason}" for number, reason in reasons)]
    for pair in pairs:
        if not pair.is_legal and pair.transfer is not None:
            lines += ["", *pair_lines(pair)]
    return lines


def pair_lines(pair: Pair) -> list[str]:
    """Return one refused pair: the reason, both sides, tested remedies."""
    lines = [f"{pair.prefill.label} -> {pair.decode.label}: {pair.reason}"]
    lines += [f"  tested remedy: {remedy}" for remedy in pair.remedies()]
    return [*lines, *aligned([COMPARED_HEAD, *chunk_rows.compared_rows(pair)], "  ")]
