"""Prefill on one side, decode on the other: compatibility of their caches, as HTML and text."""

from typing import Any

from workbench.core.offload.remedies import transfer_remedies
from workbench.core.offload.transfer import Transfer, transfer
from workbench.core.plan import Plan
from workbench.views import html
from workbench.views.html import document, note, table, tag
from workbench.views.rows import PlanFact
from workbench.views.text import problem_lines
from workbench.views.units import tokens_text

COMPARED_HEAD = ("", "prefill", "decode", "")

NO_KERNEL_BLOCK = "has no kernel block, so there is nothing to compare: see its problems."


def transfer_html(prefill: Plan, decode: Plan) -> str:
    """Return both sides' sizes, common values, and whether decode may fetch from prefill."""
    if (lacking := _lacking(prefill, decode)) is not None:
        return document(tag("p", lacking))
    result = transfer(prefill, decode)
    mark = {"class_": "" if result.is_legal else "wb-verdict", "data_legal": result.is_legal}
    return document(
        tag("div", tag("b", verdict_text(result), **mark), class_="wb-headline"),
        html.facts_html(transfer_facts(result)),
        *map(html.problem_html, result.problems),
        html.remedies_html(transfer_remedies(prefill, decode)),
        table(COMPARED_HEAD, side_rows(result)),
        note(
            "Decode fetches from prefill. Where the blocks are unequal, vLLM finds out when the "
            "sides first meet, not at start (vllm#41037)."
        ),
    )


def side_rows(result: Transfer) -> tuple[tuple[str, str, str, str], ...]:
    """Return label, prefill, decode, and whether they are equal."""
    pairs = zip(SIDE_LABELS, _side_texts(result.prefill), _side_texts(result.decode), strict=True)
    return tuple(
        (label, there, here, "= equal" if there == here else "≠ unequal")
        for label, there, here in pairs
    )


def transfer_facts(result: Transfer) -> tuple[PlanFact, ...]:
    """Return what the sides have in common."""
    ratio, lcm = result.kernel_ratio, "least common multiple"
    blocks, kernel_blocks = result.common_block_size, result.common_kernel_block_size
    facts = (
        ("common_block_size", f"blocks: {lcm}", tokens_text(blocks)),
        ("common_kernel_block_size", f"kernel blocks: {lcm}", tokens_text(kernel_blocks)),
        (
            "kernel_ratio",
            "kernel blocks of prefill in one of decode",
            "not an integer" if ratio is None else f"{ratio:,}",
        ),
    )
    return tuple(PlanFact(*fact) for fact in facts)


def verdict_text(result: Transfer) -> str:
    """Return the verdict with its sign."""
    return f"{'✓' if result.is_legal else '✕'} {result.verdict}"


def transfer_text(prefill: Plan, decode: Plan) -> str:
    """Return the same for a terminal."""
    lines = [f"prefill: {prefill!r}", f"decode:  {decode!r}", ""]
    if (lacking := _lacking(prefill, decode)) is not None:
        return "\n".join([*lines, lacking])
    result = transfer(prefill, decode)
    lines += [verdict_text(result), *problem_lines(result.problems)]
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


SIDE_LABELS = ("tensor parallel", "KV-cache dtype", "block", "kernel block", "kernel blocks in it")


def _side_texts(side: Plan) -> tuple[str, ...]:
    sizes = (tokens_text(size) for size in (side.block_size, side.kernel_block_size))
    parallel, ratio = side.settings.tensor_parallel, side.kernel_blocks_per_block
    return f"{parallel}", side.kv_cache_dtype, *sizes, f"{ratio:,}"


def _side_dict(side: Plan) -> dict[str, Any]:
    return {
        "tensor_parallel": side.settings.tensor_parallel,
        "kv_cache_dtype": side.kv_cache_dtype,
        "block_size": side.block_size,
        "kernel_block_size": side.kernel_block_size,
        "kernel_blocks_per_block": side.kernel_blocks_per_block,
    }
