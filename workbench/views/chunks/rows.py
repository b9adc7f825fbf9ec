"""Chunk sizes as rows: engines, sizes with their cost, pairs; and the published form."""

from dataclasses import asdict
from typing import Any

from workbench.core.chunks.answer import Chunks
from workbench.core.chunks.connectors import ANY, OWN
from workbench.core.chunks.engines import member_remedies
from workbench.core.chunks.fleet import PART, YES, Pair
from workbench.core.chunks.member import Member
from workbench.core.chunks.pieces import Piece
from workbench.core.ranks import ranks_of
from workbench.views.units import bytes_text, counted, tokens_text

COST_HEAD = ("chunk", "engine", "of all ranks", "chunks", "stored", "tail", "gets back", "hit")
SIGNS = {YES: "= equal", PART: "÷ divisible"}
SHOWN_SIZES = 6


def verdict(found: Chunks) -> str:
    """Return the answer on one line, with its sign."""
    size = found.requested_tokens or found.connector.default_tokens
    if not all(member.is_legal for member in found.members):
        bad = ", ".join(one.label for one in found.members if not one.is_legal)
        return f"✕ {found.connector.name} does not serve {bad}"
    if not found.connector.stores:
        legal = sum(pair.is_legal for pair in found.pairs())
        return f"{legal} of {counted(len(found.pairs()), 'pair')} can exchange their caches"
    if not found.legal_sizes:
        kept = all(member.keeps_states for member in found.members)
        unkept = "nothing that is stored is ever found: states are not kept"
        return f"✕ {'no chunk size is legal for all engines' if kept else unkept}"
    if found.connector.sizes == OWN and found.requested_tokens is None:
        return f"✓ hits end on multiples of {tokens_text(found.unit_tokens)}"
    if size is None:
        return f"✓ the smallest chunk has {tokens_text(found.legal_sizes[0])}"
    sign, word = ("✓", "is") if found.is_legal_size(size) else ("✕", "is not")
    return f"{sign} a chunk of {size:,} tokens {word} legal"


def legal_text(found: Chunks) -> str:
    """Return which sizes are legal."""
    if not found.legal_sizes or not found.connector.stores:
        return "" if found.connector.stores else "There is no chunk: whole blocks are transferred."
    if found.connector.sizes == ANY:
        return "Legal chunks: any number of tokens."
    sizes = ", ".join(f"{size:,}" for size in found.legal_sizes)
    if found.connector.sizes == OWN:
        return f"Not settable: blocks, and hits on multiples of {sizes} tokens."
    end = f"up to {found.longest_chunk:,}" if found.longest_chunk else "..."
    return f"Legal chunks: {sizes}, {end} (multiples of {found.unit_tokens:,})."


def engine_rows(found: Chunks) -> list[tuple[str, ...]]:
    """Return a head, then one row per engine."""
    unit = "a chunk is a multiple of" if found.connector.stores else "kernel block"
    rows: list[tuple[str, ...]] = [("engine", "vLLM", "ranks", "blocks", unit, "starts")]
    for member in found.members:
        blocks = sorted({piece.tokens for piece in member.pieces if not _is_whole(member, piece)})
        size = member.unit_tokens if found.connector.stores else member.plan.kernel_block_size
        rows.append(
            (
                member.label,
                member.plan.rules.name,
                f"{ranks_of(member.plan.settings)}",
                " and ".join(f"{block:,}" for block in blocks) or "none",
                tokens_text(size),
                "✓ yes" if member.is_legal else "✕ no",
            )
        )
    return rows


def _is_whole(member: Member, piece: Piece) -> bool:
    """Return whether a block of the group holds any request, as without prefix caching."""
    return piece.is_state and piece.tokens >= member.plan.max_model_len


def shown_sizes(found: Chunks) -> tuple[int, ...]:
    """Return the sizes whose cost is shown: the one in use, the recommended, then the smallest."""
    if not found.connector.stores:
        return ()
    first = [found.chunk_tokens, *(one.tokens for one in found.recommended), *found.compared]
    kept = [size for size in dict.fromkeys(first) if size is not None][:SHOWN_SIZES]
    return tuple(sorted(kept))


def cost_rows(found: Chunks) -> list[tuple[str, ...]]:
    """Return a head, then what the prompt costs every engine in chunks of every shown size."""
    members = [member for member in found.members if member.is_legal]
    rows = [
        (
            tokens_text(cost.chunk_tokens),
            member.label,
            bytes_text(cost.chunk_bytes),
            f"{cost.chunks:,}",
            bytes_text(cost.stored_bytes),
            tokens_text(cost.tail_tokens),
            tokens_text(cost.loadable_tokens),
            f"{cost.hit_percent} %",
        )
        for size in shown_sizes(found)
        for member, cost in zip(members, found.costs(size), strict=True)
    ]
    return [COST_HEAD, *rows] if rows else []


def pair_matrix(pairs: tuple[Pair, ...]) -> list[tuple[str, ...]]:
    """Return a head, then one row per engine that prefills: a sign for every one that decodes.

    The number after a sign is that of its reason in `pair_reasons`.
    """
    numbers = {reason: number for number, reason in enumerate(pair_reasons(pairs), 1)}
    signs = {
        (pair.prefill.label, pair.decode.label): f"{'✓' if pair.is_legal else '✕'} "
        f"{numbers[pair.reason]}"
        for pair in pairs
    }
    labels = [*dict.fromkeys(pair.prefill.label for pair in pairs)]
    rows = [(one, *(signs.get((one, other), "") for other in labels)) for one in labels]
    return [("prefill ↓ decode →", *labels), *rows]


def pair_reasons(pairs: tuple[Pair, ...]) -> list[str]:
    """Return why pairs work or do not, each reason once."""
    return [*dict.fromkeys(pair.reason for pair in pairs)]


def compared_rows(pair: Pair) -> list[tuple[str, ...]]:
    """Return what both caches of a pair have, side by side."""
    return [
        (one.what, one.prefill, one.decode, SIGNS.get(one.relation, "≠ unequal"))
        for one in pair.compared
        if (one.prefill, one.decode) != ("none", "none")
    ]


def matters(found: Chunks) -> bool:
    """Return whether some engines serve one model, so that pairs of them mean something."""
    models = [member.plan.model.name for member in found.members]
    return len(set(models)) < len(models)


def notes(found: Chunks) -> tuple[str, ...]:
    """Return what holds of the connector whatever the engines are."""
    name, said = found.connector.name, []
    shows_cost = bool(shown_sizes(found)) and any(member.is_legal for member in found.members)
    if shows_cost:
        said.append(
            "Stored bytes are an upper bound: one prompt, prefill only, nothing evicted. Only "
            "whole chunks are stored; the tail is computed again."
        )
    if shows_cost and any(one.is_state for m in found.members for one in m.pieces):
        said.append(
            "hit: how many prompts of about this length get anything back when they are sent "
            "again. A state must be kept where a chunk ends; vLLM 0.23 keeps one per step of the "
            "prefill, 0.33 one near the end of the prompt."
        )
    if not found.connector.stores and any(one.plan.model.ssm_layers for one in found.members):
        said.append("States are transferred with VLLM_SSM_CONV_STATE_LAYOUT=DS only.")
    said.append(f"{name}: {found.connector.source}.")
    return tuple(said)


def chunks_dict(found: Chunks) -> dict[str, Any]:
    """Return the published form. Sizes in tokens and bytes."""
    return {
        "connector": found.connector.name,
        "option": found.connector.option,
        "source": found.connector.source,
        "chunk_tokens": found.requested_tokens,
        "prompt_tokens": found.prompt_tokens,
        "is_legal": found.is_legal,
        "unit_tokens": found.unit_tokens,
        "longest_chunk": found.longest_chunk,
        "legal_sizes": list(found.legal_sizes),
        "nearest": list(found.nearest(found.requested_tokens)) if found.requested_tokens else [],
        "recommended": [one._asdict() for one in found.recommended],
        "problems": [problem.to_dict() for problem in found.problems],
        "engines": [_member_dict(member) for member in found.members],
        "costs": [
            {"size": size, "engines": [asdict(cost) for cost in found.costs(size)]}
            for size in shown_sizes(found)
        ],
        "pairs": [_pair_dict(pair) for pair in found.pairs()],
    }


def _member_dict(member: Member) -> dict[str, Any]:
    return {
        "label": member.label,
        "model": member.plan.model.name,
        "rules": member.plan.rules.name,
        "tensor_parallel": member.plan.settings.tensor_parallel,
        "is_legal": member.is_legal,
        "unit_tokens": member.unit_tokens,
        "groups": [asdict(piece) for piece in member.pieces],
        "remedies": [remedy.to_dict() for remedy in member_remedies(member)],
    }


def _pair_dict(pair: Pair) -> dict[str, Any]:
    return {
        "prefill": pair.prefill.label,
        "decode": pair.decode.label,
        "is_legal": pair.is_legal,
        "reason": pair.reason,
        "problems": [] if pair.transfer is None else [p.to_dict() for p in pair.transfer.problems],
        "compared": [one._asdict() for one in pair.compared],
        "remedies": [remedy.to_dict() for remedy in pair.remedies()],
    }
