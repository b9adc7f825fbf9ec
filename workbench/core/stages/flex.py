"""Flex attention (#41252): mask blocks and tiles that vLLM, or the compiler, will not take."""

from collections.abc import Mapping
from typing import Any

from workbench.core.arithmetic import next_power_of_2
from workbench.core.flex.plan import FLEX, FlexPlan, fields_of, flex_plan
from workbench.core.flex.sizes import (
    FLEX_FIELDS,
    SMALL_BLOCK,
    FlexRefusal,
    too_large_for_cache_block,
)
from workbench.core.flex.tiles import LARGEST_SHARED_MEMORY_BYTES, SMALLEST_TILE, USUAL_TILE
from workbench.core.problems import ERROR, Problem
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

CONSTRUCTION = Rule(
    "flex_tiles_at_construction",
    "Tiles fit the cache block",
    "batch invariance: explicit block_m and block_n <= block size before any alignment",
)
MASK_BLOCK = Rule(
    "flex_mask_block",
    "Flex mask block (queries, keys)",
    "explicit sizes, else 16 and the kernel block (torch >= 2.9), else 128 and 128",
    "tokens",
)


def flex_construction(run: WorkingPlan) -> None:
    """Check what the layers refuse while they are built: a soft cap, shared caches, then tiles."""
    # Under batch invariance explicit tiles are compared with the block size before alignment, since
    # by the time that the mask is built the block has grown. A quantized cache never comes so far:
    # the backend is refused for it before.
    if run.backend != FLEX:
        return
    _no_alibi(run)
    _no_soft_cap(run)
    _no_shared_cache(run)
    if not run.settings.batch_invariant:
        return
    fields = fields_of(run.settings)
    configured = run.settings.block_size or run.rules.default_block_size
    refusal = too_large_for_cache_block(fields, configured)
    run.step(
        CONSTRUCTION,
        refusal is None,
        block_m=fields.block_m,
        block_n=fields.block_n,
        block_size=configured,
    )
    if refusal is not None:
        _problem(run, refusal)


def _no_alibi(run: WorkingPlan) -> None:
    """Refuse positions that are added to scores (0.23 and 0.33)."""
    attention = run.model.attention
    if attention is not None and attention.has_alibi:
        run.problem("flex_alibi", operands={"backend": FLEX}, candidates=_OTHERS[:2])


def _no_soft_cap(run: WorkingPlan) -> None:
    """Refuse a soft cap: the engine's flex attention passes no score_mod (0.23 and 0.33)."""
    attention = run.model.attention
    if attention is None or attention.logits_soft_cap is None:
        return
    run.problem(
        "flex_soft_cap",
        operands={"logits_soft_cap": attention.logits_soft_cap},
        candidates=_OTHERS[:2],
        flex=FLEX,
    )


def _no_shared_cache(run: WorkingPlan) -> None:
    """Refuse layers that read the cache of an earlier one (0.23 and 0.33)."""
    attention = run.model.attention
    if attention is None or not attention.shares_caches:
        return
    run.problem("flex_shared_cache", operands={"backend": FLEX}, candidates=_OTHERS[:2])


def flex_mask_block(run: WorkingPlan) -> None:
    """Check mask block sizes over the kernel block, and tiles that cannot be compiled."""
    found = flex_plan(run)
    if found is None:
        return
    run.step(
        MASK_BLOCK,
        (found.mask.q_block_size, found.mask.kv_block_size),
        f"{found.build} build" if found.mask.refusal is None else "refused",
        q_block_size=found.fields.q_block_size,
        kv_block_size=found.fields.kv_block_size,
        block_m=found.fields.block_m,
        block_n=found.fields.block_n,
        kernel_block_size=run.kernel_block_size,
        small_blocks=found.small,
    )
    for refusal in found.refusals:
        if refusal.code != "flex_tile_exceeds_cache_block":
            _problem(run, refusal)
    if found.tiles is not None and not found.refusals:
        smallest = min(found.tiles.block_m, found.tiles.block_n)
        if smallest < SMALLEST_TILE:
            _below_the_floor(run, smallest, found.tiles.block_m, found.tiles.block_n)
        _too_large_for_a_program(run, found)


def _too_large_for_a_program(run: WorkingPlan, found: FlexPlan) -> None:
    """Refuse blocks whose tile fits into no GPU."""
    # The direct build makes a tile as long as a block.
    excess = found.too_large()
    if found.tiles is None or excess is None:
        return
    run.problem(
        "flex_tile_exceeds_shared_memory",
        operands={
            "BLOCK_M": found.tiles.block_m,
            "BLOCK_N": found.tiles.block_n,
            "needed": excess.needed,
            "limit": excess.limit,
        },
        candidates=(
            {excess.field: USUAL_TILE},
            {"flex_attn_block_m": USUAL_TILE, "flex_attn_block_n": USUAL_TILE},
            {"flex_attn_kv_block_size": SMALL_BLOCK},
            {"flex_attn_q_block_size": SMALL_BLOCK},
            *_OTHERS,
        ),
        field=excess.field,
        largest_shared_memory_bytes=LARGEST_SHARED_MEMORY_BYTES,
        excess=excess,
        usual_tile=USUAL_TILE,
    )


def _below_the_floor(run: WorkingPlan, smallest: int, block_m: int, block_n: int) -> None:
    side = ("q", "m") if block_m == smallest else ("kv", "n")
    explicit = getattr(run.settings, f"flex_attn_block_{side[1]}") is not None
    field = f"flex_attn_block_{side[1]}" if explicit else f"flex_attn_{side[0]}_block_size"
    run.problem(
        "flex_tile_below_16",
        operands={"BLOCK_M": block_m, "BLOCK_N": block_n, "smallest": SMALLEST_TILE},
        candidates=({field: SMALLEST_TILE}, {field: None}, dict.fromkeys(FLEX_FIELDS)),
        field=field,
        lowest=smallest,
    )


def _problem(run: WorkingPlan, refusal: FlexRefusal) -> None:
    said = {} if refusal.exception in (None, "ValueError") else {"raises": refusal.exception}
    found = Problem(
        code=refusal.code,
        severity=ERROR,
        field=refusal.field,
        message=refusal.message,
        operands={**refusal.operands, **said},
        vllm_text=refusal.vllm_text,
        candidates=_candidates(run, refusal),
    )
    run.problems += (found,)


def _candidates(run: WorkingPlan, refusal: FlexRefusal) -> tuple[Mapping[str, Any], ...]:
    """Return what may help, nearest first: a block size, a mask block, a tile, another backend."""
    if refusal.field == "block_size":
        near = next_power_of_2(run.block_size)
        return (
            {"block_size": near},
            {"flex_attn_kv_block_size": SMALL_BLOCK},
            {"block_size": near, "flex_attn_block_n": USUAL_TILE},
            *_OTHERS,
        )
    sizes = (
        refusal.operands.get("nearest_power_of_2"),
        refusal.operands.get("nearest"),
        SMALL_BLOCK,
    )
    return (
        *({refusal.field: size} for size in sizes if size is not None),
        {refusal.field: None},
        {refusal.field: None, "flex_attn_kv_block_size": SMALL_BLOCK},
        *_OTHERS,
    )


_OTHERS: tuple[Mapping[str, Any], ...] = (
    {"backend": None},
    {"backend": "TRITON_ATTN"},
    {**dict.fromkeys(FLEX_FIELDS), "flex_attn_kv_block_size": SMALL_BLOCK},
)


def batch_invariance(run: WorkingPlan) -> None:
    """Refuse batch invariance with SSM layers or other backends (vllm#42960, #48613)."""
    # CUDA and ROCm refuse the others when backends are chosen, but not those of compressed
    # attention; XPU and CPU say nothing. An SSM layer stops the start, when its backend is sought.
    if not run.settings.batch_invariant:
        return
    backend, state = run.backend_record, run.model.state
    if state is not None:
        run.problem("ssm_not_batch_invariant", operands={"not_covered": [run.mamba_backend]})
    if backend is None or backend.batch_invariant:
        return
    if run.platform.checks_backend and backend.tests_device:
        return
    invariant = [
        name
        for name, other in run.rules.backends.items()
        if other.batch_invariant and other.is_selectable
    ]
    run.problem(
        "batch_invariance_not_covered",
        operands={"not_covered": [backend.name], "covered": invariant},
        candidates=({"batch_invariant": False}, *({"backend": name} for name in invariant)),
        backend=backend,
        names=", ".join(invariant),
    )
