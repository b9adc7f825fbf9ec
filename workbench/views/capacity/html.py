"""Groups, capacity and every number that is called "block size", as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import NamedTuple

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import NULL_BLOCKS, blocks_for_prompt, requests_that_fit
from workbench.core.capacity.pipeline import pipeline
from workbench.core.groups.graph_support import NONE, attention_groups, graph_support
from workbench.core.groups.grouping import Group
from workbench.core.groups.layer_classes import layer_number
from workbench.core.layouts.runners import runner_verdicts
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.views.html import document, table
from workbench.views.units import bytes_text, counted, tokens_text

GROUP_HEADER = (
    "group",
    "spec",
    "block size",
    "kernel block",
    "page bytes",
    "backend",
    "graph support",
    "slots",
    "layers",
)
STAGES = (1, 2, 4, 8)
STAGE_HEADER = (
    "stages",
    "layers of each",
    "places of a block",
    "blocks",
    "requests of full length",
    "idle on the rank with the most memory",
)
PROMPTS = (16, 128, 1024, 8192, 32768, 131072)
"""Prompt lengths of the capacity table, in tokens; above `max_model_len` none."""


class BlockSizeMeaning(NamedTuple):
    """One of the numbers that are called "block size"."""

    name: str
    tokens: int | None
    meaning: str


def glossary(plan: Plan, cache: CachePlan) -> tuple[BlockSizeMeaning, ...]:
    """Return every "block size" of a plan with its present value."""
    groups = [
        BlockSizeMeaning(
            f"manager block, {layers} x {kind}",
            block_size,
            "unit of allocation of these groups",
        )
        for (kind, block_size), layers in Counter(
            (group.spec.kind, group.spec.block_size) for group in cache.groups
        ).items()
    ]
    smallest = min((group.spec.block_size for group in cache.groups), default=None)
    return (
        BlockSizeMeaning(
            "--block-size", plan.settings.block_size, "alignment granularity, not a cap"
        ),
        *groups,
        BlockSizeMeaning("minimum over groups", smallest, "what the metrics label shows"),
        BlockSizeMeaning("kernel block", plan.kernel_block_size, "what the attention kernel sees"),
        BlockSizeMeaning(
            "scheduler block",
            cache.scheduler_block_size,
            "least common multiple over groups"
            if len(cache.groups) > 1
            else "one group: the configured size, whatever the group's own is",
        ),
        BlockSizeMeaning("hash block", cache.hash_block_size, "unit of prefix hashes"),
    )


def pool_html(plan: Plan, prompt_tokens: int | None = None) -> str:
    """Return the group tree, what fits, and the glossary; say so where there is no cache to show.

    prompt_tokens: a length to add to the table of what fits.
    """
    cache = plan.cache
    if cache is None:
        return document("<p>The pages cannot be made equal, so no groups are built.</p>")
    return document(
        f"<h4>Groups</h4><p>{escape(cache.grouping.reason)}. One block id takes "
        f"{bytes_text(cache.grouping.bytes_per_block)} over all tensors.</p>",
        _groups(plan, cache),
        _graphs(plan),
        _runners(plan),
        "<h4>What fits</h4>",
        _capacity(plan, cache, prompt_tokens),
        _stages(plan, cache),
        "<h4>Every number called block size</h4>",
        table(
            ("name", "tokens", "meaning"),
            [
                (escape(entry.name), show(entry.tokens), escape(entry.meaning))
                for entry in glossary(plan, cache)
            ],
        ),
    )


def _groups(plan: Plan, cache: CachePlan) -> str:
    used = attention_groups(plan, cache)
    rows = []
    for number, (group, kernel) in enumerate(
        zip(cache.groups, cache.kernel_block_sizes, strict=True)
    ):
        empty = f", {group.padding_layers} empty" if group.padding_layers else ""
        names = ", ".join(group.layers)
        own = [found for found in used if found.group == number]
        rows.append(
            (
                str(number),
                escape(group.kind),
                f"{group.spec.block_size:,}",
                show(kernel),
                _page_bytes(group),
                _each(escape(found.backend) for found in own),
                _each(f"<code>{found.graph_level}</code>" for found in own),
                f'<span title="{escape(names)}">{len(group.layers)} layers{empty}</span>',
                f'<span class="wb-faint">{escape(_short(group.layers))}</span>',
            )
        )
    return table(GROUP_HEADER, rows)


def _page_bytes(group: Group) -> str:
    """Return the page of the group, and the layers of each size where they differ."""
    pages = Counter(spec.page_size_bytes for spec in group.own_specs)
    parts = ", ".join(f"{count} of {page:,}" for page, count in pages.items())
    sizes = f'<br><span class="wb-faint">{parts}</span>' if pages else ""
    return f"{group.page_size_bytes:,}{sizes}"


def _each(words: Iterable[str]) -> str:
    """Return one line per distinct value: a group may have layers of several backends."""
    return "<br>".join(dict.fromkeys(words)) or "none"


def _graphs(plan: Plan) -> str:
    support = graph_support(plan, plan.cache)
    if support.mode == NONE:
        return "<p>CUDA graphs: none are captured on this platform by default.</p>"
    weakest = "" if support.backend is None else f" ({escape(support.backend)})"
    return (
        f"<p>CUDA graphs: the weakest group decides, <code>{support.level}</code>{weakest}; the "
        f"default mode becomes <code>{support.mode}</code>.</p>"
    )


def _runners(plan: Plan) -> str:
    rows = []
    for runner, problems in runner_verdicts(plan).items():
        reasons = "<br>".join(escape(problem.message) for problem in problems)
        rows.append((runner.upper(), reasons or "✓ supported"))
    return table(("model runner", "support"), rows)


def _capacity(plan: Plan, cache: CachePlan, prompt_tokens: int | None) -> str:
    if cache.num_blocks is None:
        return (
            f"<p>One request of {tokens_text(cache.max_model_len)} needs "
            f"{bytes_text(cache.needed_bytes)} ({cache.blocks_per_request:,} blocks). "
            "Set the memory for the KV cache to see how many fit.</p>"
        )
    printed = ""
    if cache.num_blocks <= NULL_BLOCKS:
        blocks = counted(cache.num_blocks, "block")
        return f"<p>The pool has {blocks}: nothing fits, and vLLM stops.</p>"
    if any(problem.field == "kv_cache_memory_bytes" for problem in plan.errors):
        printed = "vLLM stops before it prints a size: one request of full length does not fit."
    elif cache.max_concurrency is not None:
        printed = (
            f"vLLM prints {cache.printed_tokens:,} tokens and {cache.max_concurrency:.2f}x for "
            f"{tokens_text(cache.max_model_len)}."
        )
    prompts = sorted({*PROMPTS, cache.max_model_len, *filter(None, [prompt_tokens])})
    rows = [
        (
            f"{prompt:,}",
            f"{blocks_for_prompt(plan, cache, prompt):,}",
            f"{blocks_for_prompt(plan, cache, prompt) * cache.grouping.bytes_per_block:,}",
            f"<b>{requests_that_fit(plan, cache, prompt):,}</b>",
        )
        for prompt in prompts
        if prompt <= cache.max_model_len
    ]
    pool = f"{cache.num_blocks:,} blocks, one of them the null block. {printed}"
    return f"<p>{pool}{_sequence_bound(cache)}</p>" + table(
        ("prompt tokens", "blocks per request", "bytes", "requests that fit"), rows
    )


def _stages(plan: Plan, cache: CachePlan) -> str:
    """Return the effect of pipeline stages; empty without a block to allocate."""
    counts = [count for count in STAGES if count <= plan.model.num_hidden_layers]
    if not cache.num_blocks or len(counts) < 2:
        return ""
    rows = []
    for count in counts:
        found = pipeline(plan, count)
        idle = [found.imbalance_bytes(number) or 0 for number in range(count)]
        small = [number for number, stage in enumerate(found.stages) if stage.is_too_small]
        fits = (found.num_blocks or 0) / cache.printed_blocks
        rows.append(
            (
                f"{count}",
                ", ".join(str(len(stage.layers)) for stage in found.stages),
                ", ".join(str(stage.grouping.group_size) for stage in found.stages),
                show(found.num_blocks),
                f"<b>{fits:.2f}x</b>" if not small else f"✕ stage {small[0]} is too small",
                bytes_text(max(idle)) if max(idle) else "nothing",
            )
        )
    lead = (
        "What if the layers were split (<code>--pipeline-parallel-size</code>), with the same "
        "memory on every rank: a rank keeps the layers of its stage, and the stage with the "
        "fewest blocks decides for all."
    )
    return f"<h4>Over pipeline stages</h4><p>{lead}</p>" + table(STAGE_HEADER, rows)


def _sequence_bound(cache: CachePlan) -> str:
    """Return the limit on sequences: each one holds a mamba block, which bounds graph capture."""
    if not any(group.spec.is_mamba for group in cache.groups):
        return ""
    return f" <code>max_num_seqs</code> may be at most {cache.num_blocks:,} with CUDA graphs."


def _short(layers: tuple[str, ...]) -> str:
    numbers = [str(layer_number(name)) for name in layers]
    shown = ", ".join(numbers[:8])
    return shown + (", ..." if len(numbers) > 8 else "")
