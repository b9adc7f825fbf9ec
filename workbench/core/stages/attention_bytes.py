"""Bytes of attention cache: of one token in one layer, and of the layer's page."""

from __future__ import annotations

from workbench.core.errors import Refused
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

TOKEN_BYTES = Rule(
    "attention_bytes_per_token",
    "Attention bytes of one token",
    "kv_heads * 2 * head_size * bytes; MLA: head_size * bytes; packed types: see operands",
    "bytes",
)


def attention_token_bytes(run: WorkingPlan) -> None:
    """Set `attention_bytes_per_token`."""
    attention = run.model.attention
    if attention is None:
        return
    kv_heads = attention.kv_heads_per_rank(run.settings.tensor_parallel)
    run.attention_bytes_per_token, formula = run.rules.token_bytes(
        attention, kv_heads, run.kv_cache_dtype, run.model_dtype, run.backend
    )
    if not run.attention_bytes_per_token:
        raise Refused(
            "head_size_too_small",
            f"kv_cache_dtype = {run.kv_cache_dtype} packs heads of {attention.head_size} elements "
            "into 0 bytes; no block size follows from that. Use auto or fp8.",
            field="kv_cache_dtype",
            operands={"kv_cache_dtype": run.kv_cache_dtype, "head_size": attention.head_size},
            candidates=[{"kv_cache_dtype": "auto"}, {"kv_cache_dtype": "fp8"}],
        )
    run.step(
        TOKEN_BYTES,
        run.attention_bytes_per_token,
        formula,
        kv_heads_per_rank=kv_heads,
        head_size=attention.head_size,
        kv_cache_dtype=run.kv_cache_dtype,
        model_dtype=run.model_dtype,
        use_mla=attention.use_mla,
    )


def attention_page(run: WorkingPlan) -> None:
    """Set `attention_page_size_bytes`: the page that the layer itself will request."""
    attention = run.model.attention
    if attention is None:
        return
    per_token, _formula = run.rules.layer_token_bytes(
        attention,
        attention.kv_heads_per_rank(run.settings.tensor_parallel),
        run.kv_cache_dtype,
        run.model_dtype,
        run.backend,
    )
    run.attention_page_size_bytes = run.block_size * per_token
