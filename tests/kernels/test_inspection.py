"""Compile-only inspection: what is read is what the compiler wrote, and bad kernels are caught."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels.compiling import OF_EACH_MAKER, OTHERS
from workbench.kernels.inspection import TARGETS, InspectionError, inspect_kernels
from workbench.kernels.inspection.loops import DESCRIPTOR_COPY, Loop, inner_loops
from workbench.kernels.inspection.report import (
    KernelReport,
    amd_accesses,
    amd_resources,
    cuda_resources,
    instructions,
    matrix_instructions,
    ptx_accesses,
    wide_divisions,
)
from workbench.kernels.inspection.targets import programs_per_sm

SAMPLES = "tests.kernels.inspected_samples"


SMALL = ("copy, aligned", "copy, unknown", "division, 32 bits", "division, 64 bits")
LARGE = ("too many registers", "much shared memory")  # these compile for seconds


@cache
def small(targets):
    found = inspect_kernels(SAMPLES, targets, SMALL)
    return {(report.kernel, report.target): report for report in found}


@pytest.fixture(scope="module")
def large():
    return {report.kernel: report for report in inspect_kernels(SAMPLES, ["sm_90"], LARGE)}


every_target = pytest.mark.parametrize(
    "target",
    [*OF_EACH_MAKER, *(pytest.param(name, marks=pytest.mark.thorough) for name in OTHERS)],
)


@every_target
def test_widths_of_copies_and_divisions_are_what_the_compiler_chose(target):
    samples = small(OF_EACH_MAKER if target in OF_EACH_MAKER else OTHERS)
    aligned, unknown = samples["copy, aligned", target], samples["copy, unknown", target]
    assert aligned.widest_load_bytes == aligned.widest_store_bytes == 16
    assert unknown.widest_load_bytes == unknown.widest_store_bytes == 4
    for report in (aligned, unknown):
        assert report.spill_bytes == 0
        assert 0 < report.registers <= TARGETS[target].registers
        assert report.instructions > 10
    # a 64-bit division is counted
    assert samples["division, 64 bits", target].wide_divisions > 0
    assert samples["division, 32 bits", target].wide_divisions == 0


def test_what_does_not_fit_is_visible(large):
    assert large["too many registers"].spill_bytes > 0
    report = large["much shared memory"]
    assert report.shared_bytes > TARGETS["sm_120"].shared_memory_bytes


def test_chosen_kernels_only():
    [report] = inspect_kernels(SAMPLES, ["sm_80"], ["copy, aligned"])
    assert (report.kernel, report.target) == ("copy, aligned", "sm_80")
    assert ".target sm_80" in report.assembly


def test_an_unknown_target_names_the_nearest():
    with pytest.raises(InspectionError, match=r"Nearest: sm_90.*sm_80, sm_86"):
        inspect_kernels(SAMPLES, ["sm90"])


def test_a_kernel_that_does_not_compile_says_why():
    with pytest.raises(InspectionError, match="nothing_of_this_name"):
        inspect_kernels("tests.kernels.inspected_broken", ["sm_90"])


def test_the_texts_are_read_as_they_are_written():
    ptx = """
    ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
    @%p1 ld.global.L1::evict_last.v2.b64 { %rd3, %rd4 }, [ %rd1 + 0 ];
    ld.global.b32 %r9, [%rd2];
    ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r5];
    st.global.v4.b32 [ %rd1 + 0 ], { %r1, %r2, %r3, %r4 };
    @%p2 st.global.u16 [ %rd1 + 0 ], { %rs1 };
    """
    assert ptx_accesses(ptx) == ({16: 2, 4: 1}, {16: 1, 2: 1})
    amd = """
    global_load_dwordx4 v[2:5], v1, s[2:3]
    buffer_load_dword v1, v2, s[0:3], 0 offen
    flat_load_dwordx3 v[1:3], v[4:5]
    global_load_b128 v[2:5], v1, s[2:3]
    global_load_ubyte v1, v2, s[0:1]
    global_store_dwordx2 v0, v[2:3], s[0:1]
    global_store_short v0, v2, s[0:1]
    ds_read_b128 v[0:3], v4
    """
    assert amd_accesses(amd) == ({16: 2, 4: 1, 12: 1, 1: 1}, {8: 1, 2: 1})
    assert wide_divisions("%1 = sdiv i64 %2, %3\n%4 = urem i64 %5, 7\n%6 = sdiv i32 %7, %8") == 2
    assert cuda_resources("REG:40 STACK:16 SHARED:0 LOCAL:0 CONSTANT[0]:600") == (40, 16)
    assert cuda_resources("REG:40 STACK:16 SHARED:0 LOCAL:24") == (40, 24)
    assert cuda_resources("REG:40") == (40, 0)
    with pytest.raises(ValueError, match="no resource usage"):
        cuda_resources("nothing")
    with pytest.raises(ValueError, match="no registers"):
        amd_resources("nothing")
    spilled = ".vgpr_count: 64\n.vgpr_spill_count: 3\n.private_segment_fixed_size: {}"
    assert amd_resources(spilled.format(8)) == (64, 12)
    assert amd_resources(spilled.format(16)) == (64, 16)
    assert instructions("kernel:\n\n\ts_load_dword s0, s[2:3], 0x0\nBB0_1:\n; x\n") == 1
    assert instructions(".reg .b32 %r<3>;\n$L1:\nld.param.b32 %r1;\n@%p1 bra $L1;\n// x\n}") == 2


@pytest.mark.parametrize(
    ("assembly", "found"),
    [
        ("wgmma.fence.sync.aligned;", ()),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%f1}", ("wgmma m64n128k16",)),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}", ("mma m16n8k16",)),
        ("@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r1]", ("tcgen05.mma",)),
        ("v_mfma_f32_32x32x8_f16 a[0:15]\nv_mfma_f32_32x32x8_f16 a[0:15]", ("v_mfma 32x32x8",)),
        ("fma.rn.f32 %f1;", ()),
    ],
)
def test_matrix_instructions_are_named_with_their_shape(assembly, found):
    assert matrix_instructions(assembly) == found


def test_a_loop_may_repeat_an_instruction_for_each_address():
    sass = """
.L_x_1:
        /*0010*/  HGMMA.64x64x16.F32 R24, gdesc[UR8], R24 ;
.L_x_2:
        /*0020*/  @P2 R2UR P1, UR7, R154 ;
        /*0030*/  @P2 BRA.U.ANY `(.L_x_2) ;
        /*0040*/  FFMA R1, R2, R3, R4 ;
        /*0050*/  @P0 BRA `(.L_x_1) ;
"""
    [loop] = inner_loops(sass)
    assert (loop.instructions, loop.arithmetic) == (5, {"FFMA": 1, "HGMMA": 1})


def report_with(**fields):
    of_code = {"loads": {}, "stores": {}, "wide_divisions": 0, "instructions": 1, "assembly": ""}
    resources = {"registers": 32, "spill_bytes": 0, "shared_bytes": 0, "num_stages": 0}
    return KernelReport(kernel="k", target="sm_90", **of_code, **resources, **fields)


def test_instructions_per_score_are_those_of_all_warps_over_one_tile():
    loop = Loop(instructions=900, shortest=512)
    by_descriptors = Loop(instructions=900, shortest=512, copies={DESCRIPTOR_COPY: 1})
    assert report_with(num_warps=4).per_score(loop) == 0.0
    whole = report_with(num_warps=4, tile=(64, 128))
    assert whole.per_score(loop) == whole.per_score(by_descriptors) == 512 * 4 / (64 * 128)
    assert whole.widest_load_bytes == whole.widest_store_bytes == 0
    assert whole.shared_limit_bytes == TARGETS["sm_90"].shared_memory_bytes
    # the rest of a page is copied by pointers, in smaller tiles
    rest = report_with(num_warps=8, tile=(64, 128), rest_keys=16)
    assert rest.per_score(loop) == 512 * 8 / (64 * 16)
    assert rest.per_score(by_descriptors) == 512 * 8 / (64 * 128)


@pytest.mark.parametrize(("warps", "most"), [(4, None), (8, None), (9, 227), (16, 128), (32, 64)])
def test_many_warps_limit_the_registers_of_a_thread(warps, most):
    # 65,536 registers of a multiprocessor, at most 255 of a thread
    assert report_with(num_warps=warps).registers_by_warps == most


@pytest.mark.parametrize("name", [one.name for one in TARGETS.values() if one.backend == "cuda"])
def test_a_cuda_target_is_a_multiprocessor_as_they_are_built(name):
    """CUDA C++ programming guide, technical specifications per compute capability."""
    target = TARGETS[name]
    assert target.registers == 255
    assert target.capability == tuple(map(int, (name[3:-1], name[-1])))
    # four schedulers share the warps, and 1,024 threads are the most of one program
    assert (target.warps_per_sm % 4, target.warp_size) == (0, 32)
    assert target.warps_per_sm * target.warp_size in {1536, 2048}
    assert target.programs_per_sm in {16, 24, 32}
    # one program can have all of the shared memory but the system's share
    assert target.shared_per_sm_bytes - target.shared_memory_bytes == 1024
    assert (
        programs_per_sm(target, registers=1, shared_bytes=target.shared_memory_bytes, num_warps=1)
        == 1
    )


@pytest.mark.parametrize(
    ("name", "registers", "warps", "programs"),
    [
        ("sm_86", 16, 8, 6),
        ("sm_90", 16, 8, 8),
        ("sm_90", 64, 8, 4),
        ("sm_90", 65, 8, 3),
        ("sm_86", 0, 1, 16),
        ("gfx942", 16, 8, 0),
    ],
)
def test_warps_and_registers_limit_the_programs_of_a_multiprocessor(
    name, registers, warps, programs
):
    target = TARGETS[name]
    found = programs_per_sm(target, registers=registers, shared_bytes=0, num_warps=warps)
    assert found == programs


def test_every_program_takes_a_kib_of_shared_memory_for_the_system():
    for kib, programs in ((10, 20), (11, 19), (75, 3), (76, 2)):
        found = programs_per_sm(TARGETS["sm_90"], registers=1, shared_bytes=kib * 1024, num_warps=1)
        assert found == programs


@pytest.mark.parametrize(("name", "kib"), [("gfx942", 64), ("gfx950", 160)])
def test_an_amd_target_is_a_compute_unit_as_they_are_built(name, kib):
    """AMD Instinct MI300 and CDNA4 instruction set architecture: LDS and vector registers."""
    target = TARGETS[name]
    assert (target.arch, target.capability, target.warp_size) == (name, None, 64)
    assert (target.shared_memory_bytes, target.registers) == (kib * 1024, 512)
    # its occupancy is not computed
    assert (target.shared_per_sm_bytes, target.warps_per_sm, target.programs_per_sm) == (0, 0, 0)
