"""Decode context parallelism: which ranks may share the tokens of a block, and which layers.

Source: `ParallelConfig`, `verify_with_parallel_config`, `max_memory_usage_bytes` of the specs,
`check_attention_cp_compatibility`, `resolve_kv_cache_block_sizes` and the coordinators of groups,
0.23 and 0.33.
"""

from typing import Any

from workbench.core.groups.cache_spec import ATTENTION_SPECS, SLIDING_KINDS, CacheSpec
from workbench.core.groups.layer_specs import layer_specs
from workbench.core.kv_connectors import connector_of
from workbench.core.model import CHUNKED
from workbench.core.ranks import context_sizes
from workbench.core.runner import keeps_drafts_whole
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

SPAN = Rule(
    "context_parallel",
    "Tokens of a block over its ranks",
    "block * decode_context_parallel for attention; a state is whole on every rank",
    "tokens",
)
FIELD = "decode_context_parallel"
WHOLE: dict[str, Any] = {FIELD: 1}


def context_ranks(run: WorkingPlan) -> None:
    """Refuse ranks that tensor parallelism cannot be divided into. Errors: Refused."""
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    if ranks % shared:
        raise run.refusal("context_ranks_not_divisor", **_sizes(run))


def shared_kv_heads(run: WorkingPlan) -> None:
    """Refuse ranks without the same KV heads: only those can share tokens. Errors: Refused."""
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    attention = run.model.counted
    if shared == 1 or (attention is not None and attention.use_mla):
        return
    heads = 0 if attention is None else attention.num_kv_heads
    if not heads:
        raise run.refusal("no_kv_heads_to_share", **_sizes(run))
    queries = run.model.total_num_attention_heads // heads
    words = {
        code: text.format(ranks=ranks, heads=heads, queries=queries)
        for code, text in run.rules.words_of_context.items()
    }
    found = {**_sizes(run), "heads": heads, "fewer": ranks // heads, "queries": queries}
    # Each rank then has heads of its own, and nothing in common with another.
    if ranks <= heads:
        text = words["kv_heads_not_shared"]
        raise run.refusal("kv_heads_not_shared", **found, vllm_text=text)
    if shared > ranks // heads:
        text = words["kv_heads_shared_by_fewer"]
        raise run.refusal("kv_heads_shared_by_fewer", **found, vllm_text=text)
    if queries % shared:
        text = words["query_heads_not_shared"]
        raise run.refusal("query_heads_not_shared", **found, vllm_text=text)


def transferred_shares(run: WorkingPlan) -> None:
    """Refuse shares of blocks that a KV connector cannot move (0.33). Errors: Refused."""
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    if shared == 1 or not connector_of(run).moves_whole_latents:
        return
    text = (
        f"decode_context_parallel_size={shared} must be 1 or equal to the NIXL transfer parallel "
        f"size={ranks}."
    )
    if shared == ranks:
        if run.use_mla:
            return
        text = "PD with decode_context_parallel_size > 1 is only supported for MLA models."
    raise run.refusal(
        "connector_moves_whole_latents",
        operands={FIELD: shared, "tensor_parallel": ranks},
        candidates=(WHOLE, {"kv_connector": None}),
        connector=run.settings.kv_connector,
        vllm_text=text,
    )


def _sizes(run: WorkingPlan) -> dict[str, Any]:
    """Return the numbers of ranks that can share tokens, nearest first, as a refusal needs them."""
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    sizes = context_sizes(run.model, ranks)
    nearest = sorted(sizes, key=lambda size: (abs(size - shared), size))
    return {
        "operands": {FIELD: shared, "tensor_parallel": ranks},
        "candidates": [{FIELD: size} for size in nearest],
        "nearest": nearest[0],
        "valid": ", ".join(map(str, sizes)),
    }


def spread_layers(run: WorkingPlan) -> None:
    """Check that every layer can be spread over ranks, and set what a block then spans."""
    shared, attention = run.settings.decode_context_parallel, run.model.attention
    if shared == 1 or attention is None:
        return
    block = run.block_size
    run.step(SPAN, block * shared, block_size=block, ranks=shared)
    if not attention.is_compressed:  # its windows are refused before
        _backends(run)
    grouping = run.grouping
    specs = (
        [spec for group in grouping.examples for spec in group.different_specs]
        if grouping is not None
        else layer_specs(run).different
    )
    spread = [spec for spec in specs if spec.context_ranks > 1]
    if any(spec.kind in SLIDING_KINDS for spec in spread):
        _windows(run, "DCP not support sliding window.")
    elif grouping is not None and len(grouping.groups) > 1:
        _several_groups(run, spread, len(grouping.groups))


def _backends(run: WorkingPlan) -> None:
    """Report backends that do not return what the ranks of a decode are joined by."""
    others = (name for _variant, name, _sizes in run.layer_backends)
    drafts = () if keeps_drafts_whole(run) else (run.draft_backend,)
    names = dict.fromkeys(filter(None, (run.backend, *others, *drafts)))
    # A rank sees its own tokens only: the LSE says how much its result counts in the sum.
    without = [name for name in names if not run.rules.backends[name].returns_lse]
    hidden = ["the layer of hidden states"] if run.settings.hidden_state_layers else []
    if not without and not hidden:
        return
    run.problem(
        "layers_not_spread",
        operands={FIELD: run.settings.decode_context_parallel, "without": [*without, *hidden]},
        candidates=({"backend": None}, WHOLE),
        spread=FIELD,
        names=", ".join((*without, *hidden)),
    )


def _windows(run: WorkingPlan, text: str) -> None:
    run.problem(
        "windows_not_spread",
        operands={FIELD: run.settings.decode_context_parallel},
        candidates=(WHOLE,),
        field=FIELD,
        vllm_text=text,
    )


def _several_groups(run: WorkingPlan, spread: list[CacheSpec], groups: int) -> None:
    """Check what several groups allow: in 0.33 all but chunks, in 0.23 nothing."""
    if run.rules.groups.spreads_by_layer:
        chunked = any(spec.kind == ATTENTION_SPECS[CHUNKED] for spec in spread)
        if chunked and run.enable_prefix_caching:
            _windows(run, "DCP with hybrid KV cache layouts only supports full-attention")
        return
    run.problem(
        "groups_not_spread",
        operands={FIELD: run.settings.decode_context_parallel, "groups": groups},
        candidates=(WHOLE,),
        field=FIELD,
    )
