"""Phase 2: make the attention page at least as large as the mamba page, then pad the latter.

Source: Platform.update_block_size_for_backend in vLLM 0.23 (#37467); before that change the same
arithmetic ran inside the model configuration, with a granule that no backend had been asked for.
"""

from __future__ import annotations

from math import lcm

from workbench.core.arithmetic import cdiv, round_up
from workbench.core.block_sizes import describe, smallest_base
from workbench.core.run import Run
from workbench.core.trace import Rule

_SOURCE = "vLLM 0.23, #37467, Platform.update_block_size_for_backend"
GRANULE = Rule(
    "alignment_granule",
    "Alignment granule A",
    "max(smallest supported kernel block, block_size)",
    "tokens",
    _SOURCE,
)
TOKENS_NEEDED = Rule(
    "tokens_needed",
    "Tokens that outweigh one mamba page",
    "mamba_page / attention_bytes_per_token",
    "tokens",
    _SOURCE,
)
ALIGNED = Rule(
    "aligned_block_size",
    "Aligned block size N",
    "A * ceil(mamba_page / (A * attention_bytes_per_token))",
    "tokens",
    _SOURCE,
)
ALIGNED_TO_CHUNKS = Rule(
    "aligned_block_size",
    "Aligned block size N (mode all)",
    "c * ceil(ceil(mamba_page / attention_bytes_per_token) / c), c = lcm(base chunk, A)",
    "tokens",
    _SOURCE,
)
BLOCK_SIZE = Rule(
    "block_size",
    "Block size",
    "N if it is larger than block_size, else block_size stays",
    "tokens",
    _SOURCE,
)
PADDING = Rule(
    "mamba_page_size_padded",
    "Padded mamba page",
    "block_size * attention_bytes_per_token, recorded unless the pages are equal already",
    "bytes",
    _SOURCE,
)
MAMBA_BLOCK_SIZE = Rule(
    "mamba_block_size",
    "Mamba block size",
    "align: the block size; all: N; none: unchanged",
    "tokens",
    _SOURCE,
)
XPU_GDN = Rule(
    "xpu_gdn_block_size",
    "XPU rounding for gated delta nets",
    "64 * ceil(block_size / 64); padded page * (new // old)",
    "tokens",
    "vLLM 0.23, XPUPlatform.update_block_size_for_backend",
)
XPU_GDN_MULTIPLE = 64


def hybrid_alignment(run: Run) -> None:
    """Phase 2 with the granule of the chosen backend."""
    align(run, smallest_base(run.supported))


def align_without_backend(run: Run) -> None:
    """The alignment before #37467: no backend is known yet, the granule is the default size."""
    align(run, run.rules.default_block_size)


def align(run: Run, smallest: int) -> None:
    """Choose the block size and the padding; `smallest` is the smallest kernel block in tokens."""
    tok, mamba_page = run.attention_bytes_per_token, run.mamba_page_size_bytes
    if not run.model.is_hybrid or tok is None or not mamba_page:
        run.step(BLOCK_SIZE, run.block_size, f"no alignment needed: {_why_not(run)}")
        return
    granule = max(smallest, run.block_size)
    run.step(
        GRANULE,
        granule,
        smallest_kernel_block=smallest,
        block_size=run.block_size,
        supported=describe(run.supported),
    )
    run.step(
        TOKENS_NEEDED,
        mamba_page / tok,
        mamba_page_size_bytes=mamba_page,
        attention_bytes_per_token=tok,
    )
    before = run.mamba_block_size
    if run.mamba_cache_mode == "all":
        needed = run.mamba_block_size = _align_to_chunks(run, granule, tok, mamba_page)
    else:
        needed = granule * cdiv(mamba_page, granule * tok)
        run.step(ALIGNED, needed, A=granule, mamba_page=mamba_page, attention_bytes_per_token=tok)
    _raise_block_size(run, needed)
    if run.mamba_cache_mode == "align":
        run.mamba_block_size = run.block_size
    run.step(
        MAMBA_BLOCK_SIZE,
        run.mamba_block_size,
        _overwritten(run),
        mamba_cache_mode=run.mamba_cache_mode,
        mamba_block_size=before,
        typed=run.settings.mamba_block_size,
    )
    _pad(run, tok, mamba_page)


def _overwritten(run: Run) -> str:
    typed = run.settings.mamba_block_size
    changed = typed is not None and typed != run.mamba_block_size
    return f"the typed {typed} is overwritten" if changed else ""


def _why_not(run: Run) -> str:
    if run.attention_bytes_per_token is None:
        return "no layer has attention"
    if run.model.is_hybrid and run.mamba_page_size_bytes == 0:
        return "a state takes 0 bytes"
    return "no layer has a state"


def _align_to_chunks(run: Run, granule: int, tok: int, mamba_page: int) -> int:
    base = run.settings.mamba_block_size or run.model.chunk_size
    chunk = lcm(base, granule)
    needed = round_up(cdiv(mamba_page, tok), chunk)
    run.step(
        ALIGNED_TO_CHUNKS,
        needed,
        base_chunk=base,
        A=granule,
        c=chunk,
        tokens_needed=cdiv(mamba_page, tok),
    )
    return needed


def _raise_block_size(run: Run, needed: int) -> None:
    before = run.block_size
    if before < needed:
        run.block_size = needed
        run.log_lines.append(
            f"Setting attention block size to {needed} tokens to ensure that attention page size "
            "is >= mamba page size."
        )
    run.step(
        BLOCK_SIZE,
        run.block_size,
        "raised" if before < needed else "kept",
        N=needed,
        block_size=before,
        typed=run.settings.block_size,
    )


def _pad(run: Run, tok: int, mamba_page: int) -> None:
    page = run.block_size * tok
    padding = 100 * (page - mamba_page) / mamba_page
    if page != mamba_page:
        run.mamba_page_size_padded = page
        run.log_lines.append(
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


def xpu_gdn_rounding(run: Run) -> None:
    """XPU: blocks of gated delta nets are multiples of 64.

    Quirk kept as it is in 0.23: when no padding was recorded, none is recorded now, although the
    attention page has grown; the pages then differ (`pages` reports it).
    """
    state = run.model.state
    if run.platform.name != "xpu" or state is None or state.backend != "GDN_ATTN":
        return
    if run.backend is None:
        return
    before, run.block_size = run.block_size, round_up(run.block_size, XPU_GDN_MULTIPLE)
    if run.block_size == before:
        return
    if run.mamba_cache_mode == "align":
        run.mamba_block_size = run.block_size
    padded = run.mamba_page_size_padded
    if padded is not None:
        run.mamba_page_size_padded = run.block_size * (padded // before)
    run.log_lines.append(
        f"[XPU]Setting attention block size to {run.block_size} tokens to ensure multiple of "
        f"{XPU_GDN_MULTIPLE}, set mamba_page_size_padded to {run.mamba_page_size_padded} bytes "
        f"accordingly, before was {padded} bytes."
    )
    run.step(
        XPU_GDN,
        run.block_size,
        "" if padded is not None else "no padding was recorded, so none is added: pages differ",
        block_size=before,
        mamba_block_size=run.mamba_block_size,
        mamba_page_size_padded=run.mamba_page_size_padded,
    )
