"""Rows of the offload views: remedies, prompts, bytes; and the published JSON."""

from collections import Counter
from dataclasses import asdict
from typing import Any, NamedTuple

from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.offload.fill import StoredPrompt, stored_prompt
from workbench.core.offload.plan import Offload, OffloadRequest, offload
from workbench.core.offload.pool import block_counts, layer_bytes, worker_bytes
from workbench.core.offload.remedies import offload_remedies, request_remedies
from workbench.core.offload.rules import CONCATENATED, LAST
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy
from workbench.views.offload.checks import check_rows

PROMPTS = (1024, 4096, 16384, 65536, 262144)
"""Prompt lengths of the table, in tokens; those above `max_model_len` are omitted."""
EXAMPLE_BLOCKS = 7
"""Blocks of the worked case of #38554, shown while the memory of the GPU is unknown."""


class LayerKind(NamedTuple):
    """Layers with identical pages: how many, and the bytes of one of them in one block."""

    kind: str
    layers: int
    data_bytes: int
    page_bytes: int

    @property
    def padding_bytes(self) -> int:
        """Return the bytes that are not transferred."""
        return self.page_bytes - self.data_bytes


class BlockReading(NamedTuple):
    """The number of blocks, by where it is read."""

    where: str
    blocks: int
    is_right: bool


def remedy_rows(
    plan: Plan, request: OffloadRequest, result: Offload
) -> tuple[tuple[Remedy, str], ...]:
    """Return changes of the scenario that pass the failed check, with what comes after it."""
    rows = []
    for problem in result.problems:
        for remedy in offload_remedies(plan, problem, request):
            then = offload(remedy.plan, request).problems
            after = f"then it stops at: {then[0].message}" if then else "then the offload is legal"
            rows.append((remedy, after))
    return tuple(rows)


def request_changes(request: OffloadRequest, other: OffloadRequest) -> dict[str, int | None]:
    """Return the fields in which `other` differs, with its values."""
    before, after = asdict(request), asdict(other)
    return {name: value for name, value in after.items() if value != before[name]}


def input_remedies(plan: Plan, request: OffloadRequest) -> tuple[str, ...]:
    """Return other inputs of the connector, in words, with which the failed check passes."""
    return tuple(
        ", ".join(
            f"{name} = {'nothing' if value is None else value}"
            for name, value in request_changes(request, other).items()
        )
        for problem in offload(plan, request).problems
        for other in request_remedies(plan, problem, request)
    )


def prompt_rows(plan: Plan, result: Offload) -> tuple[StoredPrompt, ...]:
    """Return what the pool holds, for a few lengths and the longest; empty after a failed check."""
    if not result.is_legal:
        return ()
    lengths = [length for length in PROMPTS if length < plan.max_model_len]
    return tuple(stored_prompt(plan, result, n) for n in (*lengths, plan.max_model_len))


def layer_kinds(plan: Plan) -> tuple[LayerKind, ...]:
    """Return the bytes of one block, layer by layer, with equal layers counted together."""
    kinds = {
        name: spec.kind
        for group in plan.built_cache().groups
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
    }
    equal = Counter((kinds[one.name], one.data_bytes, one.page_bytes) for one in layer_bytes(plan))
    return tuple(LayerKind(kind, count, data, page) for (kind, data, page), count in equal.items())


def block_readings(plan: Plan) -> tuple[BlockReading, ...]:
    """Return the configuration, then the first dimension of tensors of either order (#38554).

    While the memory of the GPU is unknown: for `EXAMPLE_BLOCKS` blocks. Where every view counts
    blocks first (0.33), that dimension alone.
    """
    blocks = plan.built_cache().blocks_or(EXAMPLE_BLOCKS)
    counts = block_counts(blocks, plan.kernel_blocks_per_block or 1)
    right_kv_first, right_blocks_first = counts.shape_is_right
    one_view = plan.rules.layouts.one_view
    shape = "[B, H, N, C]" if one_view else "(blocks, 2, ...)"
    kv_first = "first dimension of (2, blocks, ...)", counts.shape_kv_first, right_kv_first
    return (
        BlockReading("the configuration (num_blocks)", counts.configured, is_right=True),
        *([] if one_view else [BlockReading(*kv_first)]),
        BlockReading(f"first dimension of {shape}", counts.shape_blocks_first, right_blocks_first),
    )


def attention_shape(plan: Plan) -> tuple[int, ...] | None:
    """Return the shape that this plan's attention tensor really has; None where there is none."""
    blocks = plan.built_cache().blocks_or(EXAMPLE_BLOCKS)
    try:
        attention = plan_layout(plan, num_blocks=blocks).attention
    except LayoutError:
        return None
    return None if attention is None else tuple(attention.shape)


def version_notes(plan: Plan, result: Offload) -> tuple[str, ...]:
    """Describe what this version does differently: unread options, windows, bytes, hashes."""
    rules, worker = plan.rules.offload, worker_bytes(plan)
    notes = [f"{name} is not read by {plan.rules.title}." for name in result.unread]
    limited = [f"{count:,}" for count in result.window_chunks if count is not None]
    if limited:
        notes.append(
            f"Offloaded blocks that a request reaches back to, by group with a window or a state: "
            f"{', '.join(limited)}."
        )
    if worker.one_allocation and worker.descriptors > 1:
        notes.append(
            f"A block takes {worker.per_block:,} bytes of the one allocation; each of the "
            f"{worker.descriptors} descriptors reports the size of all of it, so adding them up "
            f"would give {worker.summed:,}."
        )
    notes.append(HASH_NOTES[rules.large_block_hash].format(option=rules.hash_option))
    return tuple(notes)


HASH_NOTES = {
    CONCATENATED: "A block of several hash blocks ({option}) has the hash of each, joined: a store "
    "that vLLM 0.33 filled has different keys.",
    LAST: "A block of several hash units ({option}) has the hash of the last one: a store that "
    "vLLM 0.23 filled has different keys.",
}


def offload_dict(plan: Plan, request: OffloadRequest) -> dict[str, Any]:
    """Return the published form: request, checks, sizes, what the pool holds. Bytes and tokens."""
    start: dict[str, Any] = {
        "model": plan.model.name,
        "rules": plan.settings.rules,
        "request": asdict(request),
        "plan_errors": [problem.code for problem in plan.errors],
    }
    if (cache := plan.kept_cache) is None:
        return {**start, "is_legal": False, "problems": []}
    result = offload(plan, request)
    remedies = [
        {**remedy.to_dict(), "is_legal": offload(remedy.plan, request).is_legal}
        for remedy, _after in remedy_rows(plan, request, result)
    ]
    return {
        **start,
        "is_legal": result.is_legal,
        "problems": [{**problem.to_dict(), "remedies": remedies} for problem in result.problems],
        "checks": [row._asdict() for row in check_rows(plan, request, result)],
        "scheduler_block_size": result.block_sizes and result.block_sizes.scheduler,
        "hash_block_size": result.block_sizes and result.block_sizes.hash,
        "gpu_block_sizes": list(result.gpu_block_sizes),
        "legal_block_sizes": list(result.legal_block_sizes),
        "hash_option": plan.rules.offload.hash_option,
        "large_block_hash": plan.rules.offload.large_block_hash,
        "window_chunks": list(result.window_chunks),
        "unread_options": list(result.unread),
        "worker_bytes_per_block": worker_bytes(plan).per_block,
        "factor": result.factor,
        "bytes_per_cpu_block": result.bytes_per_cpu_block,
        "cpu_blocks": result.cpu_blocks,
        "num_blocks": cache.num_blocks,
        "num_blocks_readings": [reading._asdict() for reading in block_readings(plan)],
        "attention_shape": attention_shape(plan),
        "layers": [asdict(layer) for layer in layer_bytes(plan)],
        "prompts": [asdict(prompt) for prompt in prompt_rows(plan, result)],
    }
