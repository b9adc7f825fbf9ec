"""Calls of `paged_attention` for an inspector, which compiles what they launch: see `PublicCall`.

Tensors are small: a kernel's code depends on sizes of heads, pages and tiles, not on lengths.
"""

from collections.abc import Callable
from typing import Any

import torch

from workbench.kernels.kernel_spec import PublicCall
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.device import default_settings
from workbench.kernels.paged_flex.layout import lay_out, random_request
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.settings import Settings

TOKENS = 40
DECODED_TOKENS = 1_100
"""Enough for splits, which a combine adds up."""
KV_HEADS = 2
MLA: dict[str, Any] = {"head_dim": 576, "value_dim": 512, "in_key": True, "group": 128}
"""Of DeepSeek's models on one GPU; its cache has one KV head, and here two."""


def attention_call(
    name: str,
    settings: Settings | None = None,
    *,
    bitwise: bool = False,
    decode: bool = False,
    dtype: str = "float16",
    head_dim: int = 128,
    value_dim: int | None = None,
    in_key: bool = False,
    group: int = 4,
    block_size: int = 64,
    ratio: int = 1,
    mask: Callable[[], Mask] = masks.causal,
    score: Callable[[], Score] | None = None,
    limited: bool = True,
    cache_dtype: str | None = None,
) -> PublicCall:
    """Return a call of one request: a prefill, or the decode of a token and its combine.

    settings: the target's own if None, those of bitwise mode if `bitwise`. cache_dtype: of a cache
    of 8 bits, "int8" or "float8_e4m3fn", with a scale for each head.
    """

    def run() -> None:
        request = random_request(
            DECODED_TOKENS if decode else TOKENS,
            1 if decode else TOKENS,
            heads=KV_HEADS * group,
            kv_heads=KV_HEADS,
            dim=head_dim,
            value_dim=value_dim,
            in_key=in_key,
            dtype=getattr(torch, dtype),
        )
        paged = lay_out([request], block_size, ratio=ratio)
        cache, scales = paged.kv_cache, {}
        if cache_dtype:
            cache = cache.nan_to_num(0.0).to(getattr(torch, cache_dtype))
            scales = {name: torch.ones(KV_HEADS) for name in ("key_scale", "value_scale")}
        paged_attention(
            paged.query,
            cache,
            paged.batch,
            **scales,
            mask=mask(),
            score=score() if score else None,
            settings=settings or default_settings(paged.query.device, bitwise=bitwise),
            value_dim=paged.value_dim,
        )

    return PublicCall(name, run, limited)


INSPECTED = (
    attention_call("prefill, page 64"),
    attention_call("prefill, page 256", block_size=256),
    attention_call("prefill, page 16", block_size=16),
    attention_call("prefill, page 528, bfloat16", block_size=528, dtype="bfloat16"),
    attention_call("prefill, head 256", head_dim=256),
    attention_call("prefill, window", mask=lambda: masks.sliding_window(1024)),
    attention_call(
        "prefill, documents, soft cap",
        mask=lambda: masks.document([[TOKENS]]),
        score=lambda: masks.soft_cap(30.0),
    ),
    attention_call("prefill, float32", dtype="float32"),
    attention_call("decode, page 64", decode=True),
    attention_call("decode, page 16", decode=True, block_size=16),
    attention_call("keys 192, values 128", head_dim=192, value_dim=128),
    attention_call("decode, keys 192, values 128", decode=True, head_dim=192, value_dim=128),
    attention_call("MLA", **MLA),
    attention_call("MLA, page 16", block_size=16, **MLA),
    attention_call("MLA decode", decode=True, **MLA),
    attention_call("MLA decode, bitwise", decode=True, bitwise=True, **MLA),
    attention_call("bitwise, page 64", bitwise=True),
    attention_call("bitwise, page 16 in 528", bitwise=True, block_size=16, ratio=33),
    attention_call("bitwise, head 256", bitwise=True, head_dim=256),
    attention_call("bitwise decode, page 64", bitwise=True, decode=True),
    attention_call("prefill, int8 cache", cache_dtype="int8"),
    attention_call("decode, int8 cache", cache_dtype="int8", decode=True),
    attention_call("prefill, head 512", head_dim=512),
    attention_call("decode, head 512", head_dim=512, decode=True),
    attention_call("bitwise, head 512", head_dim=512, bitwise=True),
)
"""What every target launches with its own settings."""
