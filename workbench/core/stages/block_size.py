"""Phase 1 (preferred block size) and the platform's own sizes."""

from itertools import product
from math import lcm

from workbench.core.backends import Backend
from workbench.core.block_sizes import BlockSize, base_of, describe
from workbench.core.groups.pipeline import cuts_of
from workbench.core.model import CHUNKED, CROSS
from workbench.core.stages.built_backends import built_backends
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

PLATFORM_BLOCK_SIZE = Rule(
    "platform_block_size",
    "Platform's block size",
    "CPU takes its own default unless a size is set explicitly",
    "tokens",
)
PREFERRED_BLOCK_SIZE = Rule(
    "preferred_block_size",
    "Phase 1: preferred block size",
    "an explicit size stays; else the default if the backend supports it, else its smallest size",
    "tokens",
)
COMMON_BLOCK_SIZE = Rule(
    "preferred_block_size",
    "Phase 1: block size that all backends take",
    "an explicit size stays; one backend: its preferred size; several: the default if supported, "
    "else the smallest LCM of one size of each that all support",
    "tokens",
)
XPU_DEFAULT_BLOCK_SIZE = Rule(
    "xpu_default_block_size",
    "Platform's 64, after the alignment",
    "XPU overwrites the block size that was just aligned",
    "tokens",
)
XPU_BLOCK_SIZE = 64
CPU_MLA_BLOCK_SIZE = 16


def cpu_block_size(run: WorkingPlan) -> None:
    """Set 128 tokens on CPU unless the size is explicit."""
    if run.platform.name != "cpu":
        return
    # CpuPlatform.check_and_update_config comes before phase 1, which then has nothing to do
    if run.settings.block_size is None:
        run.block_size = run.rules.cpu_block_size
    run.step(PLATFORM_BLOCK_SIZE, run.block_size, explicit=run.settings.block_size)


def preferred_block_size(run: WorkingPlan) -> None:
    """Run phase 1: query the backend of the first non-SSM layer. CPU skips this phase in 0.23."""
    if run.backend is None or run.platform.name == "cpu":
        return
    explicit = run.settings.block_size
    backend, supported = run.first_backend
    if explicit is None:
        run.block_size = backend.preferred_block_size(
            run.rules.default_block_size, run.platform.name, supported
        )
        if run.block_size != run.rules.default_block_size:
            run.log(
                f"Setting kv cache block size to {run.block_size} for {backend.log_name} backend."
            )
    run.block_size_of_phase_1 = run.block_size
    run.step(
        PREFERRED_BLOCK_SIZE,
        run.block_size,
        "" if explicit is None else "set explicitly: phase 1 is skipped",
        explicit=explicit,
        default=run.rules.default_block_size,
        backend=backend.name,
        supported=describe(supported),
    )


def common_block_size(run: WorkingPlan) -> None:
    """Run phase 1 of 0.33: choose a block that every non-SSM backend takes."""
    # The CPU default is 128.
    if run.backend is None:
        return
    on_cpu = run.platform.name == "cpu"
    default = run.rules.cpu_block_size if on_cpu else run.rules.default_block_size
    explicit = run.settings.block_size
    if explicit is None:
        common = _common(run, default)
        if common is None:
            _nothing_in_common(run)
        else:
            run.block_size = common
        if run.block_size != default and not on_cpu:
            names = "/".join(run.rules.backends[name].log_name for name, _own in _said(run))
            run.log(f"Setting kv cache block size to {run.block_size} for {names} backend(s).")
    # CPU_MLA takes exactly one size, and overwrites an explicit one (0.33)
    elif run.backend == "CPU_MLA":
        run.block_size = CPU_MLA_BLOCK_SIZE
    run.block_size_of_phase_1 = run.block_size
    run.step(
        COMMON_BLOCK_SIZE,
        run.block_size,
        "" if explicit is None else _explicit_note(run, explicit),
        explicit=explicit,
        default=default,
        supported={backend.name: describe(sizes) for backend, sizes in run.backend_records},
    )


def _explicit_note(run: WorkingPlan, explicit: int) -> str:
    if run.block_size != explicit:
        return f"CPU_MLA has no other size: the explicit {explicit} is overwritten"
    return "set explicitly: phase 1 is skipped"


def _common(run: WorkingPlan, default: int) -> int | None:
    """Return the smallest block that every backend takes; None without one."""
    # One class may prefer more than it needs, several have to agree on what all take.
    if len(_classes(run)) == 1:
        backend, supported = run.first_backend
        return backend.preferred_block_size(default, run.platform.name, supported)
    if _all_support(run.backend_records, default):
        return default
    bases = ([base_of(entry) for entry in sizes] or [1] for _backend, sizes in run.backend_records)
    # a common block is a multiple of one base of each backend
    candidates = sorted({lcm(*choice) for choice in product(*bases)})
    # A multiple is not enough for a backend that takes exact sizes (CPU_MLA takes 16 alone).
    return next((size for size in candidates if _all_support(run.backend_records, size)), None)


def _classes(run: WorkingPlan) -> tuple[tuple[str, str], ...]:
    """Return every class of backend, as the layers are built; see `built_backends`."""
    # The backends of such layers are classes derived from that of the others.
    derived = any(layer.kind in {CHUNKED, CROSS} for layer in run.model.layers)
    if derived or run.settings.hidden_state_layers:
        return tuple(built_backends(run))
    return tuple((name, "") for name, _sizes in run.backends)


def _said(run: WorkingPlan) -> tuple[tuple[str, str], ...]:
    """Return the classes that the first stage builds: every worker names its own."""
    stages = run.settings.pipeline_parallel
    if stages == 1 or run.stage_layers is not None:
        return _classes(run)
    return tuple(built_backends(run, cuts_of(run)[0])) or _classes(run)


def _all_support(backends: tuple[tuple[Backend, tuple[BlockSize, ...]], ...], size: int) -> bool:
    return all(backend.supports_block_size(sizes, size) for backend, sizes in backends)


def _nothing_in_common(run: WorkingPlan) -> None:
    sizes = {backend.name: describe(sizes) for backend, sizes in run.backend_records}
    sizes_text = "; ".join(f"{name}: {list(entries)}" for name, entries in sizes.items())
    run.problem("no_shared_block_size", operands={"supported": sizes}, sizes_text=sizes_text)


def xpu_default_block_size(run: WorkingPlan) -> None:
    """Set XPU's 64 after the mamba pages are padded, as before #37467."""
    if run.platform.name != "xpu" or run.settings.block_size is not None:
        return
    # the padding was computed for the aligned block, so the pages are not equal any more
    before, run.block_size = run.block_size, XPU_BLOCK_SIZE
    run.step(XPU_DEFAULT_BLOCK_SIZE, run.block_size, aligned_before=before)
