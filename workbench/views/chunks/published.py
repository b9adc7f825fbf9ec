"""The published form of chunk sizes and pairs. Sizes in tokens and bytes."""

from dataclasses import asdict
from typing import Any

from workbench.core.chunks.answer import Chunks
from workbench.core.chunks.engines import member_remedies
from workbench.core.chunks.fleet import Pair
from workbench.core.chunks.member import Member
from workbench.views.chunks.rows import shown_sizes


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
