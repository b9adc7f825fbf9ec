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


_KIB = 1024

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target(
            "sm_80",
            title="NVIDIA A100 (8.0)",
            backend="cuda",
            arch=80,
            warp_size=32,
            shared_memory_bytes=163 * _KIB,
            registers=255,
        ),
        Target(
            "sm_90",
            title="NVIDIA H100, H200 (9.0)",
            backend="cuda",
            arch=90,
            warp_size=32,
            shared_memory_bytes=227 * _KIB,
            registers=255,
        ),
        Target(
            "sm_100",
            title="NVIDIA B200 (10.0)",
            backend="cuda",
            arch=100,
            warp_size=32,
            shared_memory_bytes=227 * _KIB,
            registers=255,
        ),
        Target(
            "sm_120",
            title="NVIDIA RTX 50 (12.0)",
            backend="cuda",
            arch=120,
            warp_size=32,
            shared_memory_bytes=99 * _KIB,
            registers=255,
        ),
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
