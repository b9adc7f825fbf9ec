"""Phase 2: make the attention page at least as large as the mamba page, then pad the latter.

Source: Platform.update_block_size_for_backend in vLLM 0.23 (#37467); before that change the same
arithmetic ran inside the model configuration, with a granularity that no backend had determined.
"""

from math import lcm

from workbench.core.arithmetic import cdiv, round_up
from workbench.core.block_sizes import describe, smallest_base
from workbench.core.groups.pipeline import cuts_of
from workbench.core.model import SSM
from workbench.core.platforms import is_sm10x
from workbench.core.stages.gdn_prefill import flashinfer_prefill
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

GRANULARITY = Rule(
    "alignment_granule",
    "Alignment granularity A",
    "max(smallest supported kernel block, block_size)",
    "tokens",
)
GRANULARITY_FOR_ALL = GRANULARITY._replace(
    formula="max(smallest supported kernel block, block_size), at least 128 for MLA; align mode: "
    "the lcm with the tokens between prefill checkpoints"
)
GRANULARITY_BEFORE_37467 = GRANULARITY._replace(
    formula="a constant: 16; 32 where FlashInfer may take heads of 256 on SM10x; MLA: 64, explicit "
    "FLASH_ATTN_MLA 32, explicit CUTLASS_MLA 128"
)
MLA_CONSTANTS = {"FLASH_ATTN_MLA": 32, "CUTLASS_MLA": 128}
"""Explicit backend -> granularity of MLA before #37467, in tokens."""
MLA_CONSTANT = 64
LARGE_HEAD, LARGE_HEAD_CONSTANT = 256, 32
TOKENS_NEEDED = Rule(
    "tokens_needed",
    "Tokens needed to fill one Mamba page",
    "mamba_page / attention_bytes_per_token",
    "tokens",
)
ALIGNED = Rule(
    "aligned_block_size",
    "Aligned block size N",
    "A * ceil(mamba_page / (A * attention_bytes_per_token))",
    "tokens",
)
ALIGNED_FOR_ALL = ALIGNED._replace(
    formula=f"{ALIGNED.formula}, rounded up to a multiple of the smallest kernel block of every "
    "backend"
)
ALIGNED_TO_CHUNKS = Rule(
    "aligned_block_size",
    "Aligned block size N (mode all)",
    "c * ceil(ceil(mamba_page / attention_bytes_per_token) / c), c = lcm(base chunk, A)",
    "tokens",
)
BLOCK_SIZE = Rule(
    "block_size", "Block size", "N if it is larger than block_size, else block_size stays", "tokens"
)
PADDING = Rule(
    "mamba_page_size_padded",
    "Padded mamba page",
    "block_size * attention_bytes_per_token, recorded unless the pages are equal already",
    "bytes",
)
MAMBA_BLOCK_SIZE = Rule(
    "mamba_block_size",
    "Mamba block size",
    "align: the block size; all: N; none: unchanged",
    "tokens",
)


def hybrid_alignment(run: WorkingPlan) -> None:
    """Run phase 2 with the alignment granularity of the chosen backend."""
    if run.stage_layers is not None and not run.backends:
        return  # a pipeline stage without attention layers, which aligns nothing
    if _is_needed(run):
        supported = (
            run.supported_kernel_block_sizes if run.backend is None else run.first_backend[1]
        )
        _align(run, _granularity(run, smallest_base(supported)))


def align_without_backend(run: WorkingPlan) -> None:
    """Align as before #37467: no backend is known yet, the granularity is a constant."""
    if _is_needed(run):
        _align(run, _constant_granularity(run))


def _is_needed(run: WorkingPlan) -> bool:
    # For a state of 0 bytes _align_hybrid_block_size returns before it changes anything.
    if run.model.is_hybrid and run.attention_bytes_per_token and run.mamba_page_size_bytes:
        return True
    run.step(BLOCK_SIZE, run.block_size, f"no alignment needed: {_why_not(run)}")
    return False


def _align(run: WorkingPlan, granularity: int) -> None:
    """Choose the block size and the padding; granularity in tokens."""
    # States have a fixed size and tokens do not, so it is the attention block that grows: both
    # kinds of layer then have pages of one size, which any group may take from the pool.
    tok, mamba_page = run.attention_bytes_per_token, run.mamba_page_size_bytes
    assert tok is not None
    assert mamba_page is not None
    run.step(
        TOKENS_NEEDED,
        mamba_page / tok,
        mamba_page_size_bytes=mamba_page,
        attention_bytes_per_token=tok,
    )
    before = run.mamba_block_size
    if run.mamba_cache_mode == "all":
        needed = run.mamba_block_size = _align_to_chunks(run, granularity, tok, mamba_page)
    else:
        needed = _smallest_multiple(run, granularity, tok, mamba_page)
    _raise_block_size(run, needed)
    # A checkpoint is kept at the end of a block, so a state has to have attention's block. This is
    # unconditional in Platform._align_hybrid_block_size: an explicit --mamba-block-size is lost.
    if run.mamba_cache_mode == "align":
        run.mamba_block_size = run.block_size
    run.step(
        MAMBA_BLOCK_SIZE,
        run.mamba_block_size,
        _overwritten(run),
        mamba_cache_mode=run.mamba_cache_mode,
        mamba_block_size=before,
        explicit=run.settings.mamba_block_size,
    )
    _pad(run, tok, mamba_page)


def _constant_granularity(run: WorkingPlan) -> int:
    """Return A as before #37467, from an explicit backend and the head, not an explicit size."""
    attention, backend = run.model.attention, run.settings.backend
    assert attention is not None
    granularity = run.rules.default_block_size
    if attention.use_mla:
        granularity = MLA_CONSTANTS.get(backend or "", MLA_CONSTANT)
    elif is_sm10x(run) and attention.head_size == LARGE_HEAD and backend in {None, "FLASHINFER"}:
        granularity = LARGE_HEAD_CONSTANT
    run.step(
        GRANULARITY_BEFORE_37467,
        granularity,
        use_mla=attention.use_mla,
        head_size=attention.head_size,
        backend=backend or "not known yet",
    )
    return granularity


def _granularity(run: WorkingPlan, smallest: int) -> int:
    """Return A, the granularity of the block; 0.33 adds MLA's 128 and the prefill checkpoints."""
    rules, attention = run.rules, run.model.attention
    # Never below the block of phase 1 or of the user: the alignment only enlarges it.
    granularity = max(smallest, run.block_size)
    shown = {"smallest_kernel_block": smallest, "block_size": run.block_size}
    if attention is not None and attention.use_mla and rules.mla_granule > 1:
        # MLA decode kernels of TRT-LLM and FlashInfer take kernel blocks in groups of 128 tokens,
        # so a manager block must split into whole groups (Platform._align_hybrid_block_size, 0.33).
        granularity = max(granularity, rules.mla_granule)
        shown["mla_granule"] = rules.mla_granule
    if checkpoint := prefill_checkpoint_tokens(run):
        # A checkpoint inside a prefill has to be at the end of a block (same function).
        granularity = lcm(granularity, checkpoint)
        shown["prefill_checkpoint_tokens"] = checkpoint
    rule = GRANULARITY_FOR_ALL if rules.all_backends else GRANULARITY
    run.step(rule, granularity, supported=describe(run.supported_kernel_block_sizes), **shown)
    return granularity


def prefill_checkpoint_tokens(run: WorkingPlan) -> int:
    """Return the tokens between the states that a prefill can keep by itself; 0 without any."""
    # Source: QwenGatedDeltaNetAttention.get_prefill_checkpoint_alignment, 0.33; other layers of
    # that kind (OLMo-Hybrid, Kimi) have none.
    takes = flashinfer_prefill(run) and _has_states(run)
    return run.rules.prefill_checkpoint_tokens if takes else 0


def _has_states(run: WorkingPlan) -> bool:
    """Return whether the first ranks with attention, which the plan shows, have SSM layers too."""
    kinds = {True: set[int](), False: set[int]()}
    for layer in run.model.layers:
        kinds[layer.kind == SSM].add(layer.number)
    parts = cuts_of(run) if run.stage_layers is None else (run.stage_layers,)
    shown = next((part for part in parts if not kinds[False].isdisjoint(part)), parts[0])
    return not kinds[True].isdisjoint(shown)


def _smallest_multiple(run: WorkingPlan, granularity: int, tok: int, mamba_page: int) -> int:
    """Return N: the fewest tokens that fill a mamba page, as a multiple of the granularity."""
    # Rounded up: attention is never padded here, so its page has to hold the state by itself.
    needed = granularity * cdiv(mamba_page, granularity * tok)
    operands = {"A": granularity, "mamba_page": mamba_page, "attention_bytes_per_token": tok}
    if not run.rules.all_backends:
        run.step(ALIGNED, needed, **operands)
        return needed
    # A comes from the first backend alone. Rounding up suits the smallest sizes of the others; what
    # one of them refuses all the same stops the start (Platform._check_aligned_block_size).
    every = lcm(*(smallest_base(sizes) for _name, sizes in run.backends))
    needed = round_up(needed, every)
    run.step(ALIGNED_FOR_ALL, needed, **operands, every_backend=every)
    return needed


def _overwritten(run: WorkingPlan) -> str:
    explicit = run.settings.mamba_block_size
    changed = explicit is not None and explicit != run.mamba_block_size
    return f"the explicit {explicit} is overwritten" if changed else ""


def _why_not(run: WorkingPlan) -> str:
    if run.attention_bytes_per_token is None:
        return "no layer has attention"
    if run.model.is_hybrid and run.mamba_page_size_bytes == 0:
        return "a state takes 0 bytes"
    return "no layer has a state"


def _align_to_chunks(run: WorkingPlan, granularity: int, tok: int, mamba_page: int) -> int:
    # For the sake of Mamba-2's kernels, which scan whole chunks; an explicit mamba block takes the
    # chunk's place (_align_hybrid_block_size, 0.23).
    base = run.settings.mamba_block_size or run.model.chunk_size
    chunk = lcm(base, granularity)
    needed = round_up(cdiv(mamba_page, tok), chunk)
    run.step(
        ALIGNED_TO_CHUNKS,
        needed,
        base_chunk=base,
        A=granularity,
        c=chunk,
        tokens_needed=cdiv(mamba_page, tok),
    )
    return needed


def _raise_block_size(run: WorkingPlan, needed: int) -> None:
    before = run.block_size
    # Also over an explicit --block-size: only phase 1 respects it
    # (Platform.update_block_size_for_backend).
    if before < needed:
        run.block_size = needed
        run.log(
            f"Setting attention block size to {needed} tokens to ensure that attention page size "
            "is >= mamba page size."
        )
    run.step(
        BLOCK_SIZE,
        run.block_size,
        "raised" if before < needed else "kept",
        N=needed,
        block_size=before,
        explicit=run.settings.block_size,
    )


def _pad(run: WorkingPlan, tok: int, mamba_page: int) -> None:
    page = run.block_size * tok
    padding = 100 * (page - mamba_page) / mamba_page
    # The state is padded, never attention. With equal pages `_align_hybrid_block_size` returns
    # early and neither records nor logs a padding.
    if page != mamba_page:
        run.mamba_page_size_padded = page
        run.log(
            f"Padding mamba page size by {padding:.2f}% to ensure that mamba page size and "
            "attention page size are exactly equal."
        )
    run.step(
        PADDING,
        run.mamba_page_size_padded,
        f"padding {padding:.2f} %",
        block_size=run.block_size,
        attention_bytes_per_token=tok,
        mamba_page=mamba_page,
    )
