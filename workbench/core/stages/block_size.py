"""Phase 1 (preferred block size) and the platform's own sizes."""

from __future__ import annotations

from workbench.core.block_sizes import describe
from workbench.core.run import Run
from workbench.core.trace import Rule

PLATFORM_BLOCK_SIZE = Rule(
    "platform_block_size",
    "Platform's block size",
    "CPU takes its own default unless a size is typed",
    "tokens",
    "vLLM 0.23, CpuPlatform.check_and_update_config",
)
PREFERRED_BLOCK_SIZE = Rule(
    "preferred_block_size",
    "Phase 1: preferred block size",
    "a typed size stays; else the default if the backend supports it, else its smallest size",
    "tokens",
    "vLLM 0.23, #37467, Platform.update_block_size_for_backend",
)
XPU_DEFAULT_BLOCK_SIZE = Rule(
    "xpu_default_block_size",
    "Platform's 64, after the alignment",
    "XPU overwrites the block size that was just aligned",
    "tokens",
    "vLLM before #37467, XPUPlatform.check_and_update_config",
)
XPU_BLOCK_SIZE = 64


def cpu_block_size(run: Run) -> None:
    """CPU: 128 tokens unless typed."""
    if run.platform.name != "cpu":
        return
    if run.settings.block_size is None:
        run.block_size = run.rules.cpu_block_size
    run.step(PLATFORM_BLOCK_SIZE, run.block_size, typed=run.settings.block_size)


def preferred_block_size(run: Run) -> None:
    """Phase 1: ask the backend of the first non-SSM layer. CPU has no such phase in 0.23."""
    if run.backend is None or run.platform.name == "cpu":
        return
    typed = run.settings.block_size
    if typed is None:
        run.block_size = run.backend.preferred_block_size(
            run.rules.default_block_size, run.platform.name, run.supported
        )
        if run.block_size != run.rules.default_block_size:
            name = run.backend.reported_name or run.backend.name
            run.log_lines.append(
                f"Setting kv cache block size to {run.block_size} for {name} backend."
            )
    run.step(
        PREFERRED_BLOCK_SIZE,
        run.block_size,
        "" if typed is None else "typed: phase 1 is skipped",
        typed=typed,
        default=run.rules.default_block_size,
        backend=run.backend.name,
        supported=describe(run.supported),
    )


def xpu_default_block_size(run: Run) -> None:
    """Before #37467: XPU's 64 arrives when the mamba pages are already padded."""
    if run.platform.name != "xpu" or run.settings.block_size is not None:
        return
    before, run.block_size = run.block_size, XPU_BLOCK_SIZE
    run.step(XPU_DEFAULT_BLOCK_SIZE, run.block_size, aligned_before=before)
