"""Offload to host memory as HTML and text: whether it is legal, what fits, the block counts."""

from workbench.core.offload.fill import StoredPrompt
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.plan import Plan
from workbench.core.problems import WARNING
from workbench.views import html
from workbench.views.html import Html, code, document, join, note, records, table, tag
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
from workbench.views.settings import remedy_words
from workbench.views.text import problem_lines
from workbench.views.units import bytes_text, counted, percent_text, tokens_text

NO_CACHE = "There is nothing to offload: {}."


def offload_html(plan: Plan, request: OffloadRequest) -> str:
    """Return whether vLLM starts with this offload connector, and what its host pool holds."""
    if plan.kept_cache is None:
        return document(tag("p", NO_CACHE.format(plan.no_cache_text)))
    result = offload(plan, request)
    tried = remedy_rows(plan, request, result)
    remedies = (f"{remedy_words(remedy)}; {after}" for remedy, after in tried)
    checks = ((row.question, row.operands, row.text) for row in check_rows(plan, request, result))
    return document(
        _headline(result),
        _other_errors(plan),
        html.facts_html(offload_facts(result, request)),
        *map(html.problem_html, result.problems),
        _nothing_stored(result, request),
        html.remedies_html(remedies),
        tag("h4", "The checks, in vLLM's order"),
        table(("check", "numbers", "outcome"), checks),
        *map(note, version_notes(plan, result)),
        tag("p", legal_sizes_text(result)),
        _held(plan, result, request),
        tag("h4", "How many blocks there are"),
        _readings(plan),
        tag("h4", "What one block id holds, per rank"),
        _layers(plan),
    )


def offload_facts(result: Offload, request: OffloadRequest) -> tuple[PlanFact, ...]:
    """Return the sizes, labelled; those after a failed check are omitted."""
    units, factor = result.block_sizes, result.factor
    sizes = " and ".join(f"{size:,}" for size in sorted(set(result.gpu_block_sizes)))
    host_block, memory = map(bytes_text, (result.bytes_per_cpu_block, request.cpu_bytes_to_use))
    facts = (
        ("scheduler_block_size", "scheduler block", units and tokens_text(units.scheduler)),
        ("hash_block_size", "hash block", units and tokens_text(units.hash)),
        ("gpu_block_sizes", "GPU blocks of the groups", f"{sizes} tokens"),
        ("factor", "GPU blocks in an offloaded block", factor and f"{factor:,}"),
        ("bytes_per_cpu_block", "one host block, all ranks", factor and host_block),
        ("cpu_bytes_to_use", "host memory", factor and memory),
    )
    return tuple(PlanFact(name, label, str(text)) for name, label, text in facts if text)


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
    if plan.kept_cache is None:
        return f"{plan!r}\n\n{NO_CACHE.format(plan.no_cache_text)}"
    result = offload(plan, request)
    lines = [repr(plan), "", f"{_sign(result)} {verdict_text(result)}"]
    lines += problem_lines(result.problems)
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
    lines += [f"  {row.prompt_tokens:>9,} tokens: {_held_text(row)}" for row in rows]
    lines += ["", f"Number of blocks{_example(plan)}:"]
    for reading in block_readings(plan):
        sign = "✓" if reading.is_right else "✕"
        lines.append(f"  {sign} {reading.where:38} {reading.blocks:,}")
    return "\n".join(lines)


def _held_text(prompt: StoredPrompt) -> str:
    if prompt.requests is None:
        return "nothing stored"
    blocks, prompts = counted(prompt.blocks, "host block"), counted(prompt.requests, "prompt")
    return f"{blocks}, {prompts}, {tokens_text(prompt.loadable_tokens)} loaded back of each"


def _sign(result: Offload) -> str:
    return "✓" if result.is_legal and result.cpu_blocks else "!" if result.is_legal else "✕"


def _headline(result: Offload) -> Html:
    verdict = tag(
        "b",
        f"{_sign(result)} {verdict_text(result)}",
        class_="" if result.is_legal and result.cpu_blocks != 0 else "wb-verdict",
        data_legal=result.is_legal,
        data_value="" if result.cpu_blocks is None else result.cpu_blocks,
    )
    return tag("div", verdict, class_="wb-headline")


def _nothing_stored(result: Offload, request: OffloadRequest) -> Html:
    """Return a warning where vLLM starts with a host pool that cannot hold a single block."""
    if not result.is_legal or result.cpu_blocks != 0:
        return Html()
    return html.problem_box(
        "! warning",
        f"The host memory of {request.cpu_bytes_to_use or 0:,} B is smaller than one host block of "
        f"{result.bytes_per_cpu_block:,} B: vLLM starts, and nothing is ever stored.",
        code="host_memory_below_one_block",
        severity=WARNING,
    )


def _other_errors(plan: Plan) -> Html:
    codes = ", ".join(problem.code for problem in plan.errors)
    words = f"Regardless of the offload, vLLM does not start with this scenario: {codes}."
    return html.problem_box("✕ error", words) if codes else Html()


def _held(plan: Plan, result: Offload, request: OffloadRequest) -> Html:
    if not result.is_legal or not result.bytes_per_cpu_block:
        return Html()
    rows = []
    for prompt in prompt_rows(plan, result):
        held = "nothing stored" if prompt.requests is None else prompt.requests
        rows.append(
            {
                "prompt tokens": prompt.prompt_tokens,
                "host blocks": prompt.blocks,
                "attention + state": f"{prompt.attention_blocks:,} + {prompt.state_blocks:,}",
                "bytes": prompt.blocks * result.bytes_per_cpu_block,
                "prompts held": tag("b", held),
                "tokens loaded back, each": prompt.loadable_tokens,
                "in all": prompt.held_tokens,
            }
        )
    return join(
        tag("h4", f"What {bytes_text(request.cpu_bytes_to_use)} hold"),
        records(rows),
        note(
            "Distinct prompts, one at a time in the engine. Only whole offloaded blocks are "
            "stored; a state is stored only where a prefill step ends at the end of such a block."
        ),
    )


def _example(plan: Plan) -> str:
    known = plan.built_cache().num_blocks
    return (
        "" if known else f" (the KV-cache memory is not set: an example of {EXAMPLE_BLOCKS} blocks)"
    )


def _readings(plan: Plan) -> Html:
    shape = attention_shape(plan)
    here = (" This plan's attention tensor: ", code(str(shape)), ".") if shape else ()
    lead = "Since #38554 the connector counts blocks by the configuration, not by a tensor's shape"
    rows = (
        (reading.where, reading.blocks, "✓ right" if reading.is_right else "✕ wrong")
        for reading in block_readings(plan)
    )
    return join(
        tag("p", f"{lead}{_example(plan)}.", *here), table(("read from", "blocks", ""), rows)
    )


def _layers(plan: Plan) -> Html:
    return records(
        {
            "layers": f"{kind.layers:,} x {kind.kind}",
            "page bytes each": kind.page_bytes,
            "transferred": kind.data_bytes,
            "padding, not transferred": kind.padding_bytes,
            "of the page": percent_text(100 * kind.padding_bytes / kind.page_bytes),
        }
        for kind in layer_kinds(plan)
    )
