"""The compile targets: what Triton calls them, and what one program may use there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture."""

    name: str
    title: str
    backend: str
    arch: int | str
    warp_size: int
    shared_memory_bytes: int
    """The most that one program can be given."""
    registers: int
    """Most vector registers per thread before the compiler spills."""
    shared_per_sm_bytes: int = 0
    """Shared memory of a multiprocessor, 0 if its occupancy is not computed (AMD)."""
    warps_per_sm: int = 0
    """The most warps that a multiprocessor holds."""
    programs_per_sm: int = 0
    """The most programs that a multiprocessor holds."""

    @property
    def capability(self) -> tuple[int, int] | None:
        """Return CUDA's compute capability, None for AMD."""
        return divmod(self.arch, 10) if isinstance(self.arch, int) else None


_KIB = 1024
REGISTERS_PER_SM = 65_536
"""Of a multiprocessor, and of one program on it."""
_RESERVED_BYTES = _KIB
"""Shared memory that the system takes of every program."""
REGISTER_STEP = 8
"""Registers of a thread are given in steps of so many."""


def programs_per_sm(target: Target, *, registers: int, shared_bytes: int, num_warps: int) -> int:
    """Return how many programs one multiprocessor holds at once; 0 for AMD.

    Limits: CUDA C++ programming guide, technical specifications per compute capability.
    """
    if not target.shared_per_sm_bytes:
        return 0
    per_thread = -(-max(registers, 1) // REGISTER_STEP) * REGISTER_STEP
    return min(
        target.programs_per_sm,
        target.warps_per_sm // num_warps,
        # registers are given to whole warps
        REGISTERS_PER_SM // (per_thread * target.warp_size) // num_warps,
        target.shared_per_sm_bytes // (shared_bytes + _RESERVED_BYTES),
    )


def _cuda(name: str, title: str, shared: int, warps: int, programs: int) -> Target:
    """Build a CUDA target; shared: KiB of shared memory that a multiprocessor has."""
    return Target(
        name,
        title=title,
        backend="cuda",
        arch=int(name.removeprefix("sm_")),
        warp_size=32,
        shared_memory_bytes=shared * _KIB - _RESERVED_BYTES,
        registers=255,
        shared_per_sm_bytes=shared * _KIB,
        warps_per_sm=warps,
        programs_per_sm=programs,
    )


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _cuda("sm_80", "NVIDIA A100 (8.0)", 164, 64, 32),
        _cuda("sm_86", "NVIDIA RTX 30, A10 (8.6)", 100, 48, 16),
        _cuda("sm_89", "NVIDIA RTX 40, L4, L40 (8.9)", 100, 48, 24),
        _cuda("sm_90", "NVIDIA H100, H200 (9.0)", 228, 64, 32),
        _cuda("sm_100", "NVIDIA B200 (10.0)", 228, 64, 32),
        _cuda("sm_103", "NVIDIA B300 (10.3)", 228, 64, 32),
        _cuda("sm_120", "NVIDIA RTX 50 (12.0)", 100, 48, 32),
        Target(
            "gfx942",
            title="AMD MI300 (gfx942)",
            backend="hip",
            arch="gfx942",
            warp_size=64,
            shared_memory_bytes=64 * _KIB,
            registers=512,
        ),
        Target(
            "gfx950",
            title="AMD MI350 (gfx950)",
            backend="hip",
            arch="gfx950",
            warp_size=64,
            shared_memory_bytes=160 * _KIB,
            registers=512,
        ),
    )
}
"""Name -> target."""
