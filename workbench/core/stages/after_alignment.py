"""What follows the alignment: XPU's rounding, and 0.33's check that every backend agrees."""

from workbench.core.arithmetic import round_up
from workbench.core.block_sizes import describe
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

XPU_GDN = Rule(
    "xpu_gdn_block_size",
    "XPU rounding for gated delta nets",
    "64 * ceil(block_size / 64); padded page * (new // old)",
    "tokens",
)
XPU_GDN_MULTIPLE = 64
ALIGNED_BLOCK_CHECK = Rule(
    "aligned_block_check",
    "All backends take the aligned block",
    "a block that the alignment changed must suit every backend",
)


def xpu_gdn_rounding(run: WorkingPlan) -> None:
    """Round blocks of gated delta nets up to multiples of 64 on XPU."""
    # Quirk kept as it is in 0.23: when no padding was recorded, none is recorded now, although the
    # attention page has grown; the pages then differ (`pages` reports it).
    state = run.model.state
    if run.platform.name != "xpu" or state is None or state.backend != "GDN_ATTN":
        return
    if run.backend is None:
        return
    # The kernel there takes multiples of 64 only (XPUPlatform.update_block_size_for_backend).
    before, run.block_size = run.block_size, round_up(run.block_size, XPU_GDN_MULTIPLE)
    if run.block_size == before:
        return
    if run.mamba_cache_mode == "align":
        run.mamba_block_size = run.block_size
    padded = run.mamba_page_size_padded
    if padded is not None:
        run.mamba_page_size_padded = run.block_size * (padded // before)
    _log_xpu_rounding(run, padded)
    run.step(
        XPU_GDN,
        run.block_size,
        "" if padded is not None else "no padding was recorded, so none is added: pages differ",
        block_size=before,
        mamba_block_size=run.mamba_block_size,
        mamba_page_size_padded=run.mamba_page_size_padded,
    )


def _log_xpu_rounding(run: WorkingPlan, padded: int | None) -> None:
    block, new = run.block_size, run.mamba_page_size_padded
    if run.rules.all_backends:
        run.log(
            f"[XPU]Setting attention block size to {block} tokens to ensure multiple of "
            f"{XPU_GDN_MULTIPLE}."
        )
        if padded is not None:
            run.log(f"[XPU]Scaled mamba_page_size_padded from {padded} to {new} bytes accordingly.")
        return
    if padded is None:
        return  # 0.23 has a line for this, too, which fails where a number is missing
    run.log(
        f"[XPU]Setting attention block size to {block} tokens to ensure multiple of "
        f"{XPU_GDN_MULTIPLE}, set mamba_page_size_padded to {new} bytes "
        f"accordingly, before was {padded} bytes."
    )


def aligned_block_check(run: WorkingPlan) -> None:
    """Refuse an aligned block that a backend does not take (0.33)."""
    before, block = run.block_size_of_phase_1, run.block_size
    # An unchanged block is not tested: phase 1 chose it for all backends, or the user set it.
    if before is None or block == before:
        return
    refusing = [
        backend
        for backend, sizes in run.backend_records
        if not backend.supports_block_size(sizes, block)
    ]
    names = [backend.name for backend in refusing]
    run.step(ALIGNED_BLOCK_CHECK, not names, block_size=block, before=before, refused_by=names)
    if not names:
        return
    details = "; ".join(
        f"{backend.name} takes {describe(sizes)}"
        for backend, sizes in run.backend_records
        if backend in refusing
    )
    run.problem(
        "aligned_block_size_refused",
        operands={"block_size": block, "refused_by": names},
        details=details,
        names=", ".join(backend.log_name for backend in refusing),
    )
