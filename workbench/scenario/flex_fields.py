"""The fields that flex attention reads."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.scenario.field import declare
from workbench.scenario.kinds import Switch, Version
from workbench.scenario.numbers import MAX_TOKENS, Integer

TOKENS = "tokens"


@dataclass(frozen=True)
class FlexFields:
    """Sizes of tiles and mask blocks; vLLM accepts any integer, the plan says what it causes."""

    batch_invariant: bool = declare(
        False,
        Switch(),
        "Batch invariant",
        "VLLM_BATCH_INVARIANT=1",
        flag="VLLM_BATCH_INVARIANT",
        also=("use_batch_invariant",),
    )
    torch_version: str | None = declare(
        None,
        Version(),
        "torch",
        "Before 2.9 the default mask block is 128 x 128",
        none="2.9 or later (vLLM's)",
        offer=lambda _settings, _model: (None, "2.8", "2.9"),
    )
    flex_attn_block_m: int | None = declare(
        None,
        Integer(low=-MAX_TOKENS),
        "Tile, queries",
        "--attention-config flex_attn_block_m: BLOCK_M of the kernel",
        unit=TOKENS,
        flag="--attention-config.flex_attn_block_m",
    )
    flex_attn_block_n: int | None = declare(
        None,
        Integer(low=-MAX_TOKENS),
        "Tile, keys",
        "--attention-config flex_attn_block_n: BLOCK_N of the kernel",
        unit=TOKENS,
        flag="--attention-config.flex_attn_block_n",
    )
    flex_attn_q_block_size: int | None = declare(
        None,
        Integer(low=-MAX_TOKENS),
        "Mask block, q",
        "--attention-config flex_attn_q_block_size, in tokens",
        unit=TOKENS,
        flag="--attention-config.flex_attn_q_block_size",
    )
    flex_attn_kv_block_size: int | None = declare(
        None,
        Integer(low=-MAX_TOKENS),
        "Mask block, kv",
        "--attention-config flex_attn_kv_block_size, in tokens",
        unit=TOKENS,
        flag="--attention-config.flex_attn_kv_block_size",
    )
