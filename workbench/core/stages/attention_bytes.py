"""Bytes of attention cache: of one token in one layer, and of the layer's page."""

from __future__ import annotations

from workbench.core.arithmetic import cdiv
from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS, kv_element_bytes
from workbench.core.errors import Refused
from workbench.core.model import Attention
from workbench.core.run import Run
from workbench.core.trace import Rule

TOKEN_BYTES = Rule(
    "attention_bytes_per_token",
    "Attention bytes of one token",
    "kv_heads * 2 * head_size * bytes; MLA: head_size * bytes; packed types: see operands",
    "bytes",
    "vLLM 0.23, page_size_bytes of a one-token spec (the probe of the platform hook)",
)
SCALE_BYTES = 4
FP8_DS_MLA_BYTES_PER_TOKEN = 656


def turboquant_slot_bytes(kv_cache_dtype: str, head_size: int) -> int:
    """Return the bytes of one token's packed K and V of one head, rounded up to an even number."""
    key_bits, value_bits = TURBOQUANT_BITS[kv_cache_dtype]
    key = head_size if key_bits == 8 else cdiv(head_size * key_bits, 8) + 2
    value = cdiv(head_size * value_bits, 8) + 4
    return key + value + (key + value) % 2


def token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    _backend: str | None = None,
) -> tuple[int, str]:
    """Return the bytes per token, layer and rank that the alignment counts, and the formula.

    0.23 queries no backend. MLA is tested first: a packed dtype then counts one byte per element.
    """
    scales = 2 * kv_heads * SCALE_BYTES if kv_cache_dtype in PER_TOKEN_HEAD_DTYPES else 0
    size = attention.head_size
    if attention.use_mla:
        plain = size * kv_element_bytes(kv_cache_dtype, model_dtype)
        return plain + scales, "head_size * bytes" + (" + 8 of scales" if scales else "")
    if kv_cache_dtype in TURBOQUANT_BITS:
        slot = turboquant_slot_bytes(kv_cache_dtype, size)
        return kv_heads * slot, f"kv_heads * packed slot of {slot}"
    if kv_cache_dtype == "nvfp4":
        return 2 * kv_heads * (size // 2 + size // 16), "2 * kv_heads * (head/2 + head/16)"
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    plain = kv_heads * 2 * size * element
    return plain + scales, "kv_heads * 2 * head_size * bytes" + (" + scales" if scales else "")


def layer_token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    _backend: str | None = None,
) -> tuple[int, str]:
    """Return the bytes of one token in the layer's real page, and the formula.

    Differs from `token_bytes` for MLA only: fp8_ds_mla packs 656 bytes, and MLA pages hold no
    per-token-head scales.
    """
    if not attention.use_mla:
        return token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype)
    if kv_cache_dtype == "fp8_ds_mla":
        return FP8_DS_MLA_BYTES_PER_TOKEN, "packed latent of 656"
    return attention.head_size * kv_element_bytes(kv_cache_dtype, model_dtype), "head_size * bytes"


def attention_token_bytes(run: Run) -> None:
    """Set `attention_bytes_per_token`."""
    attention = run.model.attention
    if attention is None:
        return
    kv_heads = attention.kv_heads_per_rank(run.settings.tensor_parallel)
    run.attention_bytes_per_token, formula = run.rules.token_bytes(
        attention, kv_heads, run.kv_cache_dtype, run.model_dtype, _name(run)
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


def attention_page(run: Run) -> None:
    """Set `attention_page_size_bytes`: the page that the layer itself will request."""
    attention = run.model.attention
    if attention is None:
        return
    per_token, _formula = run.rules.layer_token_bytes(
        attention,
        attention.kv_heads_per_rank(run.settings.tensor_parallel),
        run.kv_cache_dtype,
        run.model_dtype,
        _name(run),
    )
    run.attention_page_size_bytes = run.block_size * per_token


def _name(run: Run) -> str | None:
    return None if run.backend is None else run.backend.name
