"""What is read from compiled code: registers, spills, shared memory, widths of loads and stores."""

import re
from collections import Counter
from dataclasses import dataclass

from workbench.kernels.inspection.loops import Loop
from workbench.kernels.inspection.targets import REGISTERS_PER_SM, TARGETS, programs_per_sm

# ld.global.L1::evict_last.v4.b32 {...}: a vector length, if any, then the element's bits
_PTX_ACCESS = re.compile(
    r"\b(ld|st)(?:\.\w+)*?\.global(?:[.:]+(?!v[248]\b|[busf]\d)[\w:]+)*(?:\.v([248]))?\.[busf](\d+)"
)
_AMD_ACCESS = re.compile(
    r"\b(?:global|buffer|flat)_(load|store)_(?:(dwordx?\d?)|[us]?(byte|short|b\d+)\w*)"
)
_AMD_BYTES = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}
# wgmma.mma_async.sync.aligned.m64n128k16.f32..., v_mfma_f32_32x32x8_f16: name, then shape
_MATRIX = re.compile(
    r"\b(wgmma(?=\.mma_async)|mma(?=\.sync)|tcgen05\.mma|v_mfma)"
    r"(?:[.\w:]*?[._](m\d+n\d+k\d+|\d+x\d+x\d+))?"
)
_WIDE_DIVISION = re.compile(r"\b[su](?:div|rem) i64\b")
_RESOURCES = re.compile(r"\b(REG|STACK|SHARED|LOCAL):(\d+)")
_AMD_RESOURCES = {
    "registers": re.compile(r"\.vgpr_count:\s*(\d+)"),
    "spilled": re.compile(r"\.vgpr_spill_count:\s*(\d+)"),
    "private": re.compile(r"\.private_segment_fixed_size:\s*(\d+)"),
}
BITS = 8


@dataclass(frozen=True, slots=True)
class KernelReport:
    """One kernel for one target."""

    kernel: str
    target: str
    registers: int
    """Of one thread (AMD: VGPRs)."""
    spill_bytes: int
    """Local memory of one thread, 0 without spills."""
    shared_bytes: int
    loads: dict[int, int]
    stores: dict[int, int]
    """Bytes of one thread's access to global memory -> how many instructions."""
    wide_divisions: int
    """64-bit divisions and remainders in the optimised LLVM IR."""
    instructions: int
    """Lines of the final assembly."""
    assembly: str
    """PTX or AMDGCN."""
    num_warps: int
    num_stages: int
    """Of the compiler's pipeline, 0 if the launcher leaves it to the compiler."""
    tile: tuple[int, int] | None = None
    """Rows and keys of an attention tile, None for other kernels."""
    rest_keys: int | None = None
    """Keys of a tile that is copied by pointers where others are by descriptors; None: as `tile`.
    """
    loops: tuple[Loop, ...] = ()
    """Inner loops with matrix instructions, in the order of the code; CUDA only."""

    @property
    def matrix_instructions(self) -> tuple[str, ...]:
        """List `wgmma m64n128k16`, `mma m16n8k16`, `mfma 32x32x8` ... once each, sorted."""
        return matrix_instructions(self.assembly)

    @property
    def shared_limit_bytes(self) -> int:
        """Return the most shared memory that the target gives a program."""
        return TARGETS[self.target].shared_memory_bytes

    @property
    def programs_per_sm(self) -> int:
        """Return the occupancy: programs of one multiprocessor at once, 0 for AMD."""
        return programs_per_sm(
            TARGETS[self.target],
            registers=self.registers,
            shared_bytes=self.shared_bytes,
            num_warps=self.num_warps,
        )

    @property
    def registers_by_warps(self) -> int | None:
        """Return the most registers of a thread where its program's warps limit them, else None."""
        target = TARGETS[self.target]
        most = REGISTERS_PER_SM // (self.num_warps * target.warp_size)
        return most if target.backend == "cuda" and most < target.registers else None

    def per_score(self, loop: Loop) -> float:
        """Return a warp's instructions per score in a tile without a mask; 0 without a tile."""
        if self.tile is None:
            return 0.0
        rows, keys = self.tile
        if self.rest_keys and not loop.by_descriptors:
            keys = self.rest_keys
        return loop.shortest * self.num_warps / (rows * keys)

    @property
    def widest_load_bytes(self) -> int:
        """Return the widest load, 0 without loads."""
        return max(self.loads, default=0)

    @property
    def widest_store_bytes(self) -> int:
        """Return the widest store, 0 without stores."""
        return max(self.stores, default=0)


def ptx_accesses(ptx: str) -> tuple[dict[int, int], dict[int, int]]:
    """Count loads from and stores to global memory: bytes -> instructions."""
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    for kind, vector, bits in _PTX_ACCESS.findall(ptx):
        size = int(vector or 1) * int(bits) // BITS
        (loads if kind == "ld" else stores)[size] += 1
    return dict(loads), dict(stores)


def amd_accesses(assembly: str) -> tuple[dict[int, int], dict[int, int]]:
    """Count the same in AMDGCN."""
    loads: Counter[int] = Counter()
    stores: Counter[int] = Counter()
    for kind, dwords, small in _AMD_ACCESS.findall(assembly):
        size = _AMD_BYTES.get(dwords or small) or int(small[1:]) // BITS
        (loads if kind == "load" else stores)[size] += 1
    return dict(loads), dict(stores)


def matrix_instructions(assembly: str) -> tuple[str, ...]:
    """List `wgmma m64n128k16`, `mma m16n8k16`, `mfma 32x32x8` ... once each, sorted."""
    found = {
        " ".join(part for part in (match.group(1), match.group(2)) if part)
        for match in _MATRIX.finditer(assembly)
    }
    return tuple(sorted(found))


def wide_divisions(llvm_ir: str) -> int:
    """Count 64-bit divisions and remainders; each costs tens of instructions per thread."""
    return len(_WIDE_DIVISION.findall(llvm_ir))


def cuda_resources(resource_usage: str) -> tuple[int, int]:
    """Return registers and bytes of local memory from `cuobjdump --dump-resource-usage`."""
    found = {name: int(value) for name, value in _RESOURCES.findall(resource_usage)}
    if "REG" not in found:
        raise ValueError(f"no resource usage in {resource_usage[:200]!r}")
    # spilled registers appear as stack or as local memory
    return found["REG"], max(found.get("STACK", 0), found.get("LOCAL", 0))


def amd_resources(assembly: str) -> tuple[int, int]:
    """Return VGPRs and bytes of private memory (with spills) from AMDGCN's metadata."""
    values = {}
    for name, pattern in _AMD_RESOURCES.items():
        found = pattern.search(assembly)
        if found is None:
            raise ValueError(f"no {name} in the kernel's metadata")
        values[name] = int(found.group(1))
    # private memory also holds arrays; spills are counted in registers of 4 bytes
    return values["registers"], max(values["private"], 4 * values["spilled"])


def instructions(assembly: str) -> int:
    """Count instruction lines of PTX or AMDGCN, not labels, directives, comments, braces."""
    lines = (line.strip() for line in assembly.splitlines())
    return sum(
        bool(line) and line[0].isalpha() | (line[0] == "@") and not line.endswith(":")
        for line in lines
    )
