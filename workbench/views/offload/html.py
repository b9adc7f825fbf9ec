"""Offload to host memory as HTML and text: whether it is legal, what fits, the block counts."""

from __future__ import annotations

from html import escape

from workbench.core.offload.fill import StoredPrompt
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.plan import Plan
from workbench.core.problems import WARNING, Problem
from workbench.views.html import document, facts_html, problem_html, table
from workbench.views.offload.checks import check_rows
from workbench.views.offload.rows import (
    EXAMPLE_BLOCKS,
    attention_shape,
    block_readings,
    input_remedies,
    layer_kinds,
    prompt_rows,
    remedy_rows,
    version_notes,
)
from workbench.views.rows import PlanFact
from workbench.views.units import bytes_text, counted, percent_text, tokens_text

NO_CACHE = "The pages cannot be made equal, so there is nothing to offload."
PROMPT_HEADER = (
    *("prompt tokens", "host blocks", "attention + state", "bytes", "prompts held"),
    *("tokens loaded back, each", "in all"),
)


def offload_html(plan: Plan, request: OffloadRequest) -> str:
    """Return whether vLLM starts with this offload connector, and what its host pool holds."""
    if plan.cache is None:
        return document(f"<p>{NO_CACHE}</p>")
    result = offload(plan, request)
    return document(
        f'<div class="wb-headline">{_headline(result)}</div>',
        _other_errors(plan),
        facts_html(offload_facts(result, request)),
        *(problem_html(problem) for problem in result.problems),
        _nothing_stored(result, request),
        _remedies(plan, request, result),
        "<h4>The checks, in vLLM's order</h4>",
        table(
            ("check", "numbers", "outcome"),
            [
                tuple(map(escape, (row.question, row.operands, row.text)))
                for row in check_rows(plan, request, result)
            ],
        ),
        "".join(f'<p class="wb-faint">{escape(note)}</p>' for note in version_notes(plan, result)),
        _held(plan, result, request),
        "<h4>How many blocks there are</h4>",
        _readings(plan),
        "<h4>What one block id holds, per rank</h4>",
        _layers(plan),
    )


def offload_facts(result: Offload, request: OffloadRequest) -> tuple[PlanFact, ...]:
    """Return the sizes, labelled; those after a failed check are omitted."""
    facts = []
    if result.block_sizes is not None:
        facts += [
            PlanFact(
                "scheduler_block_size", "scheduler block", tokens_text(result.block_sizes.scheduler)
            ),
            PlanFact("hash_block_size", "hash block", tokens_text(result.block_sizes.hash)),
        ]
    sizes = " and ".join(f"{size:,}" for size in sorted(set(result.gpu_block_sizes)))
    facts.append(PlanFact("gpu_block_sizes", "GPU blocks of the groups", f"{sizes} tokens"))
    if result.factor is not None:
        facts += [
            PlanFact("factor", "GPU blocks in an offloaded block", f"{result.factor:,}"),
            PlanFact(
                "bytes_per_cpu_block",
                "one host block, all ranks",
                bytes_text(result.bytes_per_cpu_block),
            ),
            PlanFact("cpu_bytes_to_use", "host memory", bytes_text(request.cpu_bytes_to_use)),
        ]
    return tuple(facts)


def legal_sizes_text(result: Offload) -> str:
    """Return which offloaded block sizes are legal."""
    if not result.legal_block_sizes:
        return "Groups differ in size: no offloaded block size can be set."
    sizes = ", ".join(f"{size:,}" for size in result.legal_block_sizes)
    return f"Legal offloaded block sizes: {sizes}, ... (every multiple)."


def verdict_text(result: Offload) -> str:
    """Return the verdict on one line."""
    if not result.is_legal:
        return "vLLM fails at start-up with this offload configuration"
    if result.cpu_blocks is None:
        return "legal, but no layer keeps a cache"
    if not result.cpu_blocks:
        return "legal, but the host memory is smaller than one block: nothing is ever stored"
    return f"legal: {result.cpu_blocks:,} host blocks"


def offload_text(plan: Plan, request: OffloadRequest) -> str:
    """Return the same for a terminal."""
    if plan.cache is None:
        return f"{plan!r}\n\n{NO_CACHE}"
    result = offload(plan, request)
    lines = [repr(plan), "", f"{_sign(result)} {verdict_text(result)}"]
    for problem in result.problems:
        quoted = f"  vLLM says: {problem.vllm_text.rstrip('.')}..." if problem.vllm_text else ""
        lines += [str(problem), *filter(None, (quoted,))]
    for remedy, after in remedy_rows(plan, request, result):
        lines.append(f"  tested remedy: {remedy}; {after}")
    inputs = input_remedies(plan, request)
    lines += [f"  tested, and this check passes: {words}" for words in inputs]
    lines += ["", *(f"  {fact.label:34} {fact.text}" for fact in offload_facts(result, request))]
    lines += ["", legal_sizes_text(result), "", "Checks, in vLLM's order:"]
    for row in check_rows(plan, request, result):
        lines.append(f"  {row.text:14} {row.question}: {row.operands}")
    lines += ["", *version_notes(plan, result)]
    if rows := prompt_rows(plan, result):
        lines += ["", "What the host pool holds:"]
    for prompt in rows:
        lines.append(
            f"  {prompt.prompt_tokens:>9,} tokens: "
            + (
                "nothing stored"
                if prompt.requests is None
                else f"{counted(prompt.blocks, 'host block')}, "
                f"{counted(prompt.requests, 'prompt')}, "
                f"{counted(prompt.loadable_tokens, 'token')} loaded back of each"
            )
        )
    lines += ["", f"Number of blocks{_example(plan)}:"]
    for reading in block_readings(plan):
        sign = "✓" if reading.is_right else "✕"
        lines.append(f"  {sign} {reading.where:38} {reading.blocks:,}")
    return "\n".join(lines)


def _sign(result: Offload) -> str:
    return "✓" if result.is_legal and result.cpu_blocks else "!" if result.is_legal else "✕"


def _headline(result: Offload) -> str:
    style = "" if result.is_legal and result.cpu_blocks != 0 else "wb-verdict"
    count = "" if result.cpu_blocks is None else str(result.cpu_blocks)
    return (
        f'<b class="{style}" data-legal="{str(result.is_legal).lower()}" data-value="{count}">'
        f"{_sign(result)} {escape(verdict_text(result))}</b>"
    )


def _nothing_stored(result: Offload, request: OffloadRequest) -> str:
    """Return a warning where vLLM starts with a host pool that cannot hold a single block."""
    if not result.is_legal or result.cpu_blocks != 0:
        return ""
    message = (
        f"The host memory of {request.cpu_bytes_to_use or 0:,} B is smaller than one host block of "
        f"{result.bytes_per_cpu_block:,} B: vLLM starts, and nothing is ever stored."
    )
    return problem_html(
        Problem(
            "host_memory_below_one_block",
            severity=WARNING,
            field="cpu_bytes_to_use",
            message=message,
        )
    )


def _other_errors(plan: Plan) -> str:
    if not plan.errors:
        return ""
    codes = ", ".join(problem.code for problem in plan.errors)
    return (
        f'<div class="wb-problem" data-severity="error"><b class="wb-badge">✕ error</b>'
        f"Regardless of the offload, vLLM does not start with this scenario: {escape(codes)}.</div>"
    )


def _remedies(plan: Plan, request: OffloadRequest, result: Offload) -> str:
    rows = [
        f"<li>{escape(str(remedy))}; {escape(after)}</li>"
        for remedy, after in remedy_rows(plan, request, result)
    ]
    return f"<div>Tested remedies:<ul>{''.join(rows)}</ul></div>" if rows else ""


def _held(plan: Plan, result: Offload, request: OffloadRequest) -> str:
    sizes = f"<p>{escape(legal_sizes_text(result))}</p>"
    if not result.is_legal or not result.bytes_per_cpu_block:
        return sizes
    rows = [
        (
            f"{prompt.prompt_tokens:,}",
            f"{prompt.blocks:,}",
            f"{prompt.attention_blocks:,} + {prompt.state_blocks:,}",
            f"{prompt.blocks * result.bytes_per_cpu_block:,}",
            f"<b>{_requests(prompt)}</b>",
            f"{prompt.loadable_tokens:,}",
            "none" if prompt.held_tokens is None else f"{prompt.held_tokens:,}",
        )
        for prompt in prompt_rows(plan, result)
    ]
    memory = escape(bytes_text(request.cpu_bytes_to_use))
    return (
        f"{sizes}<h4>What {memory} hold</h4>{table(PROMPT_HEADER, rows)}"
        '<p class="wb-faint">Distinct prompts, one at a time in the engine. Only whole offloaded '
        "blocks are stored; a state is stored where a step of the prefill ends on the end of one."
        "</p>"
    )


def _requests(prompt: StoredPrompt) -> str:
    return "nothing stored" if prompt.requests is None else f"{prompt.requests:,}"


def _example(plan: Plan) -> str:
    known = plan.built_cache().num_blocks
    return "" if known else f" (KV memory is not set: an example of {EXAMPLE_BLOCKS} blocks)"


def _readings(plan: Plan) -> str:
    rows = [
        (escape(reading.where), f"{reading.blocks:,}", "✓ right" if reading.is_right else "✕ wrong")
        for reading in block_readings(plan)
    ]
    shape = attention_shape(plan)
    here = "" if shape is None else f" This plan's attention tensor: <code>{shape}</code>."
    return (
        "<p>Since #38554 the connector counts blocks by the configuration, not by a tensor's shape"
        f"{escape(_example(plan))}.{here}</p>" + table(("read from", "blocks", ""), rows)
    )


def _layers(plan: Plan) -> str:
    rows = [
        (
            f"{kind.layers:,} x {escape(kind.kind)}",
            f"{kind.page_bytes:,}",
            f"{kind.data_bytes:,}",
            f"{kind.page_bytes - kind.data_bytes:,}",
            percent_text(100 * (kind.page_bytes - kind.data_bytes) / kind.page_bytes),
        )
        for kind in layer_kinds(plan)
    ]
    header = (
        "layers",
        "page bytes each",
        "transferred",
        "padding, not transferred",
        "of the page",
    )
    return table(header, rows)
