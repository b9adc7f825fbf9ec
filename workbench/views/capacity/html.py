"""Groups, capacity and every number that is called "block size", as HTML."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import NULL_BLOCKS, blocks_for_prompt, requests_that_fit
from workbench.core.graph_modes import NONE
from workbench.core.groups.graph_support import WITH_GRAPHS, attention_groups, graph_support
from workbench.core.groups.grouping import Group
from workbench.core.groups.layer_classes import layer_number
from workbench.core.layouts.runners import runner_verdicts
from workbench.core.plan import Plan
from workbench.core.what_if.outcomes import outcome_of
from workbench.views.html import (
    Html,
    code,
    code_block,
    document,
    faint,
    join,
    records,
    stacked,
    tag,
)
from workbench.views.settings import in_labels
from workbench.views.units import bytes_text, counted, tokens_text

STAGES = (1, 2, 4, 8)
PROMPTS = (16, 128, 1024, 8192, 32768, 131072)
"""Prompt lengths of the capacity table, in tokens; above `max_model_len` none."""


class BlockSizeMeaning(NamedTuple):
    """One of the numbers that are called "block size"."""

    name: str
    tokens: int | None
    meaning: str


def glossary(plan: Plan, cache: CachePlan) -> tuple[BlockSizeMeaning, ...]:
    """Return every "block size" of a plan with its present value."""
    sizes = [(group.spec.block_size, group.spec.kind) for group in cache.groups]
    scheduler = "one group: the configured size, whatever the group's own is"
    if len(sizes) > 1:
        scheduler = "least common multiple over groups"
    entries = (
        ("--block-size", plan.settings.block_size, "alignment granularity, not a cap"),
        *(
            (f"manager block, {layers} x {kind}", size, "unit of allocation of these groups")
            for (size, kind), layers in Counter(sizes).items()
        ),
        (
            "minimum over groups",
            min((size for size, _kind in sizes), default=None),
            "what the metrics label shows",
        ),
        ("kernel block", plan.kernel_block_size, "what the attention kernel sees"),
        ("scheduler block", cache.scheduler_block_size, scheduler),
        ("hash block", cache.hash_block_size, "unit of prefix hashes"),
    )
    return tuple(BlockSizeMeaning(*entry) for entry in entries)


def cache_text(cache: CachePlan) -> str:
    """Return the size of the pool, and a line for the groups of every kind."""
    size = bytes_text(cache.grouping.bytes_per_block)
    blocks = "blocks" if cache.num_blocks is None else counted(cache.num_blocks, "block")
    fits = ""
    if cache.num_blocks is not None and cache.printed_tokens is not None:
        fits = f", {cache.printed_tokens:,} tokens, {cache.max_concurrency:.2f}x"
    groups = Counter(
        f"{group.kind}, {counted(len(group.layers), 'layer')}: {group.spec.block_size:,} tokens, "
        f"{group.page_size_bytes:,} bytes a layer"
        for group in cache.groups
    )
    lines = (f"  {counted(count, 'group')} of {kind}" for kind, count in groups.items())
    return "\n".join([f"{blocks} of {size} over all tensors{fits}", *lines])


def cache_html(cache: CachePlan) -> Html:
    """Return the same as HTML."""
    return document(code_block(cache_text(cache)))


def pool_html(plan: Plan, prompt_tokens: int | None = None) -> Html:
    """Return the group tree, what fits, and the glossary; say so where there is no cache to show.

    prompt_tokens: a length to add to the table of what fits.
    """
    cache = plan.kept_cache
    if cache is None:
        return document(tag("p", f"No groups are built: {plan.no_cache_text}."))
    size = bytes_text(cache.grouping.bytes_per_block)
    return document(
        tag("h4", "Groups"),
        tag("p", f"{cache.grouping.reason}. One block id takes {size} over all tensors."),
        _groups(plan, cache),
        _graphs(plan, cache),
        _runners(plan),
        _drafter(plan),
        tag("h4", "What fits"),
        _capacity(plan, cache, prompt_tokens),
        _stages(plan, cache),
        tag("h4", "Every number called block size"),
        records(entry._asdict() for entry in glossary(plan, cache)),
    )


def _drafter(plan: Plan) -> Html:
    cost = plan.drafter_cost()
    if cost is None:
        return join()
    return join(tag("h4", "The drafter"), *(tag("p", one) for one in cost.sentences))


def _groups(plan: Plan, cache: CachePlan) -> Html:
    used = attention_groups(plan, cache)
    rows = []
    for number, group in enumerate(cache.groups):
        empty = f", {group.padding_layers} empty" if group.padding_layers else ""
        own = [found for found in used if found.group == number]
        layers = f"{len(group.layers)} layers{empty}"
        rows.append(
            {
                "group": number,
                "spec": group.kind,
                "block, tokens": group.spec.block_size,
                "kernel block, tokens": cache.kernel_block_sizes[number],
                "page bytes": _page_bytes(group),
                "backend": _each(found.backend for found in own),
                "graph support": _each(code(found.graph_level) for found in own),
                "slots": tag("span", layers, title=", ".join(group.layers)),
                "layers": faint(_short(group.layers)),
            }
        )
    return records(rows)


def _page_bytes(group: Group) -> Html:
    """Return the page of the group, and the layers of each size where they differ."""
    pages = Counter(spec.page_size_bytes for spec in group.own_specs)
    parts = ", ".join(f"{count} of {page:,}" for page, count in pages.items())
    return stacked(group.page_size_bytes, *([faint(parts)] if parts else []))


def _each(words: Iterable[str]) -> Html | str:
    """Return one line per distinct value: a group may have layers of several backends."""
    return stacked(*dict.fromkeys(words)) or "none"


def _graphs(plan: Plan, cache: CachePlan) -> Html:
    support = graph_support(plan, cache)
    if support.mode == NONE:
        on = "" if plan.platform.name in WITH_GRAPHS else " on this platform by default"
        return tag("p", f"CUDA graphs: none are captured{on}.")
    return tag(
        "p",
        "CUDA graphs: the weakest group decides, ",
        code(support.level),
        "" if support.backend is None else f" ({support.backend})",
        "; the mode becomes ",
        code(support.mode),
        ".",
    )


def _runners(plan: Plan) -> Html:
    return records(
        {
            "model runner": runner.upper(),
            "support": stacked(*(in_labels(problem.message) for problem in problems))
            or "✓ supported",
        }
        for runner, problems in runner_verdicts(plan).items()
    )


def _capacity(plan: Plan, cache: CachePlan, prompt_tokens: int | None) -> Html:
    longest = tokens_text(cache.max_model_len)
    if cache.num_blocks is None:
        return tag(
            "p",
            f"One request of {longest} needs {bytes_text(cache.needed_bytes)} "
            f"({cache.blocks_per_request:,} blocks). Set the memory for the KV cache to see how "
            "many fit.",
        )
    if cache.num_blocks <= NULL_BLOCKS:
        blocks = counted(cache.num_blocks, "block")
        return tag("p", f"The pool has {blocks}: nothing fits, and vLLM stops.")
    printed = ""
    if any(problem.field == "kv_cache_memory_bytes" for problem in plan.errors):
        printed = "vLLM stops before it prints a size: one request of full length does not fit."
    elif cache.max_concurrency is not None:
        printed = (
            f"vLLM prints {cache.printed_tokens:,} tokens and {cache.max_concurrency:.2f}x for "
            f"{longest}."
        )
    bound: tuple[Html | str, ...] = ()
    if any(group.spec.is_mamba for group in cache.groups):
        # Each sequence holds a mamba block, which bounds the capture of graphs.
        limit = f" may be at most {cache.num_blocks:,} with CUDA graphs."
        bound = (" ", code("max_num_seqs"), limit)
    rows = []
    for prompt in sorted({*PROMPTS, cache.max_model_len, prompt_tokens or cache.max_model_len}):
        if prompt <= cache.max_model_len:
            blocks_each = blocks_for_prompt(plan, cache, prompt)
            rows.append(
                {
                    "prompt tokens": prompt,
                    "blocks per request": blocks_each,
                    "bytes": blocks_each * cache.grouping.bytes_per_block,
                    "requests that fit": tag("b", requests_that_fit(plan, cache, prompt)),
                }
            )
    pool = tag("p", f"{cache.num_blocks:,} blocks, one of them the null block. {printed}", *bound)
    return join(pool, records(rows))


def _stages(plan: Plan, cache: CachePlan) -> Html:
    """Return the effect of pipeline stages; empty without a block to allocate."""
    counts = [count for count in STAGES if count <= plan.model.num_hidden_layers]
    if not cache.num_blocks or len(counts) < 2:
        return Html()
    rows = []
    memory = {"kv_cache_memory_bytes": cache.available_bytes, "kv_cache_memory_bytes_by_rank": None}
    for count in counts:
        changed = {**memory, "pipeline_parallel": count}
        found = outcome_of(plan.model, plan.settings, trace=False, **changed).plan
        if found is None or found.cache is None:
            continue
        stages = found.cache.every_stage
        idle = max(stage.unused_bytes or 0 for stage in stages)
        fits = tag("b", f"{found.cache.max_concurrency or 0:.2f}x")
        names = [{n for group in stage.groups for n in group.layers} for stage in stages]
        rows.append(
            {
                "stages": count,
                "cached layers of each": ", ".join(str(len(one)) for one in names),
                "layers per block id": ", ".join(str(one.grouping.group_size) for one in stages),
                "blocks": found.cache.num_blocks,
                "requests of full length": f"✕ {found.errors[0].code}" if found.errors else fits,
                "idle on the rank with the most memory": bytes_text(idle) if idle else "nothing",
            }
        )
    lead = tag(
        "p",
        "What if the layers were split (",
        code("--pipeline-parallel-size"),
        "), with the same memory on every rank: a rank keeps the layers of its stage, and the "
        "stage with the fewest blocks decides for all.",
    )
    return join(tag("h4", "Over pipeline stages"), lead, records(rows))


def _short(layers: tuple[str, ...]) -> str:
    numbers = [str(layer_number(name)) for name in layers]
    shown = ", ".join(numbers[:8])
    return shown + (", ..." if len(numbers) > 8 else "")
