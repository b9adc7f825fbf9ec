"""Prefill on one side, decode on the other: compatibility of their caches, as HTML and text."""

from __future__ import annotations

from html import escape
from typing import Any

from workbench.core.offload.remedies import SideRemedy, transfer_remedies
from workbench.core.offload.transfer import Transfer, transfer
from workbench.core.plan import Plan
from workbench.views.html import document, facts_html, problem_html, table
from workbench.views.rows import PlanFact
from workbench.views.units import tokens_text

NO_KERNEL_BLOCK = "has no kernel block, so there is nothing to compare: see its problems."


def transfer_html(prefill: Plan, decode: Plan) -> str:
    """Return both sides' sizes, common values, and whether decode may fetch from prefill."""
    if (lacking := _lacking(prefill, decode)) is not None:
        return document(f"<p>{escape(lacking)}</p>")
    result = transfer(prefill, decode)
    return document(
        f'<div class="wb-headline"><b class="{"" if result.is_legal else "wb-verdict"}" '
        f'data-legal="{str(result.is_legal).lower()}">{escape(verdict_text(result))}</b></div>',
        facts_html(transfer_facts(result)),
        *(problem_html(problem) for problem in result.problems),
        _remedies_html(transfer_remedies(prefill, decode)),
        table(
            ("", "prefill", "decode", ""),
            [tuple(map(escape, row)) for row in side_rows(result)],
        ),
        '<p class="wb-faint">Decode fetches from prefill. Where the blocks are unequal, vLLM finds '
        "out when the sides first meet, not at start (vllm#41037).</p>",
    )


def side_rows(result: Transfer) -> tuple[tuple[str, str, str, str], ...]:
    """Return label, prefill, decode, and whether they are equal."""
    ours, theirs = _side_texts(result.decode), _side_texts(result.prefill)
    return tuple(
        (label, theirs[label], value, "= equal" if theirs[label] == value else "≠ unequal")
        for label, value in ours.items()
    )


def transfer_facts(result: Transfer) -> tuple[PlanFact, ...]:
    """Return what the sides have in common."""
    ratio = "not an integer" if result.kernel_ratio is None else f"{result.kernel_ratio:,}"
    return (
        PlanFact(
            "common_block_size",
            "blocks: least common multiple",
            tokens_text(result.common_block_size),
        ),
        PlanFact(
            "common_kernel_block_size",
            "kernel blocks: least common multiple",
            tokens_text(result.common_kernel_block_size),
        ),
        PlanFact("kernel_ratio", "kernel blocks of prefill in one of decode", ratio),
    )


def verdict_text(result: Transfer) -> str:
    """Return the verdict with its sign."""
    return f"{'✓' if result.is_legal else '✕'} {result.verdict}"


def transfer_text(prefill: Plan, decode: Plan) -> str:
    """Return the same for a terminal."""
    lines = [f"prefill: {prefill!r}", f"decode:  {decode!r}", ""]
    if (lacking := _lacking(prefill, decode)) is not None:
        return "\n".join([*lines, lacking])
    result = transfer(prefill, decode)
    lines += [verdict_text(result)]
    for problem in result.problems:
        lines.append(str(problem))
        if problem.vllm_text:
            lines.append(f"  vLLM says: {problem.vllm_text.rstrip('.')}...")
    lines += [f"  tested remedy: {remedy}" for remedy in transfer_remedies(prefill, decode)]
    lines += ["", f"  {'':18} {'prefill':>14} {'decode':>14}"]
    for label, there, here, same in side_rows(result):
        lines.append(f"  {label:18} {there:>14} {here:>14}  {same}")
    lines += ["", *(f"  {fact.label:42} {fact.text}" for fact in transfer_facts(result))]
    return "\n".join(lines)


def transfer_dict(prefill: Plan, decode: Plan) -> dict[str, Any]:
    """Return the published form: both sides, common values, problems. Sizes in tokens."""
    start: dict[str, Any] = {
        "model": decode.model.name,
        "rules": decode.settings.rules,
        "plan_errors": {
            "prefill": [problem.code for problem in prefill.errors],
            "decode": [problem.code for problem in decode.errors],
        },
    }
    if _lacking(prefill, decode) is not None:
        return {**start, "is_legal": False, "problems": []}
    result = transfer(prefill, decode)
    return {
        **start,
        "is_legal": result.is_legal,
        "is_homogeneous": result.prefill.block_size == result.decode.block_size,
        "verdict": result.verdict,
        "prefill": _side_dict(result.prefill),
        "decode": _side_dict(result.decode),
        "common_block_size": result.common_block_size,
        "common_kernel_block_size": result.common_kernel_block_size,
        "kernel_ratio": result.kernel_ratio,
        "problems": [problem.to_dict() for problem in result.problems],
        "remedies": [remedy.to_dict() for remedy in transfer_remedies(prefill, decode)],
    }


def _lacking(prefill: Plan, decode: Plan) -> str | None:
    for name, plan in (("Prefill", prefill), ("Decode", decode)):
        if not plan.kernel_block_size:
            return f"{name} {NO_KERNEL_BLOCK}"
    return None


def _remedies_html(remedies: tuple[SideRemedy, ...]) -> str:
    if not remedies:
        return ""
    rows = "".join(f"<li>{escape(str(remedy))}</li>" for remedy in remedies)
    return f"<div>Tested remedies:<ul>{rows}</ul></div>"


def _side_texts(side: Plan) -> dict[str, str]:
    return {
        "tensor parallel": f"{side.settings.tensor_parallel}",
        "KV-cache dtype": side.kv_cache_dtype,
        "block": tokens_text(side.block_size),
        "kernel block": tokens_text(side.kernel_block_size),
        "kernel blocks in it": f"{side.kernel_blocks_per_block:,}",
    }


def _side_dict(side: Plan) -> dict[str, Any]:
    return {
        "tensor_parallel": side.settings.tensor_parallel,
        "kv_cache_dtype": side.kv_cache_dtype,
        "block_size": side.block_size,
        "kernel_block_size": side.kernel_block_size,
        "kernel_blocks_per_block": side.kernel_blocks_per_block,
    }
