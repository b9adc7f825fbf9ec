"""The compile targets: what Triton calls them, and what one program may use there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One architecture. shared_memory_bytes: the most that one program can be given.

    registers: most vector registers per thread before the compiler spills.
    """

    name: str
    title: str
    backend: str
    arch: int | str
    warp_size: int
    shared_memory_bytes: int
    registers: int


_KIB = 1024

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("sm_80", "NVIDIA A100 (8.0)", "cuda", 80, 32, 163 * _KIB, 255),
        Target("sm_90", "NVIDIA H100, H200 (9.0)", "cuda", 90, 32, 227 * _KIB, 255),
        Target("sm_100", "NVIDIA B200 (10.0)", "cuda", 100, 32, 227 * _KIB, 255),
        Target("sm_120", "NVIDIA RTX 50 (12.0)", "cuda", 120, 32, 99 * _KIB, 255),
        Target("gfx942", "AMD MI300 (gfx942)", "hip", "gfx942", 64, 64 * _KIB, 512),
        Target("gfx950", "AMD MI350 (gfx950)", "hip", "gfx950", 64, 160 * _KIB, 512),
    )
}
"""Name -> target."""
