"""A requested chunk size, and engines that address chunks in one store by the same key."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from workbench.core.chunks.connectors import LMCACHE, OFFLOADING, OWN, Connector
from workbench.core.chunks.member import Member
from workbench.core.offload.checks import stops
from workbench.core.problems import WARNING, Problem

if TYPE_CHECKING:
    from workbench.core.chunks.answer import Chunks


def size_problems(found: "Chunks") -> Iterator[Problem]:
    """Check the requested size, or the connector's default where none is given."""
    connector, requested = found.connector, found.requested_tokens
    size = connector.default_tokens if requested is None else requested
    unit = found.unit_tokens
    if size is None or unit is None or found.is_legal_size(size):
        return
    near = " or ".join(f"{one:,}" for one in found.nearest(size))
    hint = f"Nearest legal: {near}." if near else "No size is legal for all engines."
    if any(member.sets_no_size for member in found.members):
        where = "" if connector.sizes == OWN else ", where these have several sizes"
        yield stops(
            "chunk_not_settable",
            {"connector": connector, "where": where, "unit": unit},
            chunk_tokens=size,
        )
        return
    yield stops(
        "chunk_not_multiple" if size % unit else "chunk_too_long",
        {
            "what": "The default chunk" if requested is None else "A chunk",
            "reason": f"{_reason(found, size)} {hint}",
            "advice": f" Set {connector.option}." if connector.option else "",
            "vllm_text": _vllm_text(found, size),
        },
        chunk_tokens=size,
        unit_tokens=unit,
        longest_chunk=found.longest_chunk,
    )


def _reason(found: "Chunks", size: int) -> str:
    """Return why a size is not legal: whose blocks it cuts."""
    words = []
    for member in found.members:
        blocks = sorted({piece.tokens for piece in member.pieces if size % piece.tokens})
        if blocks:
            shown = " and ".join(f"{block:,}" for block in blocks)
            words.append(f"{member.label} has blocks of {shown} tokens, and it is not a multiple")
    if words:
        return f"{'; '.join(words)}."
    return (
        f"It is longer than a window of {found.longest_chunk:,} tokens, which is not whole blocks."
    )


def _vllm_text(found: "Chunks", size: int) -> str | None:
    """Return what the first engine that refuses the size prints."""
    bad = next((one for one in found.members if size % (one.unit_tokens or 1)), None)
    if found.connector.name == LMCACHE:
        if bad is None:
            return "group 0: sub-chunk sliding window size"
        return f"LMCache chunk size {size} must be a multiple of {bad.unit_tokens}"
    if found.connector.name == OFFLOADING and bad is not None:
        rules, block = bad.plan.rules.offload, bad.unit_tokens
        text = f"'block_size'={size} in kv_connector_extra_config must be a multiple of the GPU KV "
        text += f"cache block size ({block} tokens)."
        return text if rules.takes_blocks_per_chunk else "AssertionError"
    return None


def shared_problems(found: "Chunks") -> Iterator[Problem]:
    """Warn of engines that never find each other's chunks, or that find the wrong ones."""
    if not found.connector.key:
        return
    for one, other in combinations(found.members, 2):
        if one.pieces and other.pieces and one.plan.model.name == other.plan.model.name:
            problem = _pair_problem(found.connector, one, other)
            if problem is not None:
                yield replace(problem, severity=WARNING)


def _pair_problem(connector: Connector, one: Member, other: Member) -> Problem | None:
    first, second = _key(connector, one), _key(connector, other)
    if differ := [name for name in first if first[name] != second[name]]:
        shown = ", ".join(f"{name} {first[name]} and {second[name]}" for name in differ)
        small, large = one.unit_tokens, other.unit_tokens
        advice = ""
        if connector.one_size and small and large and small != large:
            advice = f" With a server each, chunks of {small:,} and {large:,} tokens are legal."
        return stops(
            "chunks_not_shared",
            {
                "one": one,
                "other": other,
                "shown": shown,
                "advice": advice,
            },
            first=first,
            second=second,
        )
    there, here = _stored(one), _stored(other)
    if there == here:
        return None
    names = (name for name in there if there[name] != here[name])
    shown = ", ".join(f"{name} {there[name]} and {here[name]}" for name in names)
    return stops(
        "chunks_wrongly_shared",
        {"one": one, "other": other, "shown": shown, "connector": connector},
        first=there,
        second=here,
    )


def _key(connector: Connector, member: Member) -> dict[str, Any]:
    """Return what the key of a chunk says of the engine."""
    plan = member.plan
    values = {
        "ranks": max(piece.copies for piece in member.pieces) * plan.settings.pipeline_parallel,
        "kv_cache_dtype": plan.kv_cache_dtype,
        "hash block": plan.built_cache().hash_block_size,
    }
    return {name: values[name] for name in connector.key}


def _stored(member: Member) -> dict[str, Any]:
    """Return what decides the bytes of a chunk on one rank."""
    plan = member.plan
    return {
        "vLLM": plan.rules.version,
        "backend": plan.backend,
        "kv_cache_dtype": plan.kv_cache_dtype,
        "tensor_parallel": plan.settings.tensor_parallel,
        "pipeline_parallel": plan.settings.pipeline_parallel,
        "blocks": sorted({piece.tokens for piece in member.pieces}),
        "state dtypes": plan.mamba_state_dtypes,
    }
