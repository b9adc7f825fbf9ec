"""Decode context parallelism: which ranks may share the tokens of a block, and which layers.

Source: `ParallelConfig`, `verify_with_parallel_config`, `max_memory_usage_bytes` of the specs,
`check_attention_cp_compatibility`, `resolve_kv_cache_block_sizes` and the coordinators of groups,
0.23 and 0.33.
"""

from typing import Any

from workbench.core.errors import Refused
from workbench.core.groups.cache_spec import ATTENTION_SPECS, SLIDING_KINDS, CacheSpec
from workbench.core.groups.layer_specs import layer_specs
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
        why = f"it does not divide the tensor_parallel = {ranks} ranks, which it takes its own from"
        raise Refused(
            "context_ranks_not_divisor",
            **_against(run, why),
            vllm_text=f"tp_size={ranks} must be divisible",
        )


def shared_kv_heads(run: WorkingPlan) -> None:
    """Refuse ranks without the same KV heads: only those can share tokens. Errors: Refused."""
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    attention = run.model.attention
    if shared == 1 or (attention is not None and attention.use_mla):
        return
    heads = 0 if attention is None else attention.num_kv_heads
    if not heads:
        raise Refused(
            "no_kv_heads_to_share",
            **_against(run, "no layer has KV heads whose tokens could be shared"),
            vllm_text="integer division or modulo by zero",
        )
    queries = run.model.total_num_attention_heads // heads
    words = {
        code: text.format(ranks=ranks, heads=heads, queries=queries)
        for code, text in run.rules.words_of_context.items()
    }
    each = f"tensor_parallel = {ranks} ranks have {heads} KV heads"
    # Each rank then has heads of its own, and nothing in common with another.
    if ranks <= heads:
        raise Refused(
            "kv_heads_not_shared",
            **_against(run, f"{each}, so no two ranks have the same; take more ranks"),
            vllm_text=words["kv_heads_not_shared"],
        )
    if shared > ranks // heads:
        raise Refused(
            "kv_heads_shared_by_fewer",
            **_against(run, f"{each}, so at most {ranks // heads} have the same"),
            vllm_text=words["kv_heads_shared_by_fewer"],
        )
    if queries % shared:
        raise Refused(
            "query_heads_not_shared",
            **_against(run, f"it does not divide the {queries} query heads of a KV head"),
            vllm_text=words["query_heads_not_shared"],
        )


def _against(run: WorkingPlan, why: str) -> dict[str, Any]:
    """Return why ranks cannot share tokens, with the sizes that work."""
    # Raised by ParallelConfig and ModelConfig.verify_with_parallel_config.
    ranks, shared = run.settings.tensor_parallel, run.settings.decode_context_parallel
    sizes = context_sizes(run.model, ranks)
    nearest = sorted(sizes, key=lambda size: (abs(size - shared), size))
    return {
        "message": f"{FIELD} = {shared}: {why}. Nearest valid value: {nearest[0]}; with "
        f"tensor_parallel = {ranks} valid: {', '.join(map(str, sizes))}.",
        "field": FIELD,
        "operands": {FIELD: shared, "tensor_parallel": ranks},
        "candidates": [{FIELD: size} for size in nearest],
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
        candidates=({"backend": None}, WHOLE, {"hidden_state_layers": 0}),
        spread=FIELD,
        names=", ".join((*without, *hidden)),
    )


def _windows(run: WorkingPlan, text: str) -> None:
    run.problem(
        "windows_not_spread",
        operands={FIELD: run.settings.decode_context_parallel},
        candidates=(WHOLE, {"disable_hybrid_kv_cache_manager": True}),
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
        candidates=(WHOLE, {"disable_hybrid_kv_cache_manager": True}),
        field=FIELD,
    )
