"""What the driver that starts nothing says of a device and of a launch; nothing is compiled."""

import sys
from contextvars import copy_context
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.inspection import TARGETS, dry_driver
from workbench.kernels.inspection.dry_driver import (
    LARGEST_GRID,
    Binary,
    DryLaunch,
    DryLaunchError,
    _Launcher,
    dry_launches,
    parameter_bytes,
)
from workbench.kernels.language import triton
from workbench.kernels.mode import triton_mode

pytestmark = pytest.mark.skipif(triton_mode().mode == "gpu", reason="a GPU has a driver of its own")

HOPPER, AMD = TARGETS["sm_90"], TARGETS["gfx942"]


def launcher(**metadata):
    """Of a kernel with two arguments and a constant, and one in a bundle."""
    signature = {"p_out": "*i32", "count": "i32", "SIZE": "constexpr"}
    source = SimpleNamespace(signature=signature, constants={(2,): 64, (0, 1): 5})
    return _Launcher(source, SimpleNamespace(**metadata))


BINARY = Binary("kernel", b"")


def launch(made, grid, arguments=(1, 2, 64)):
    made(*grid, 0, BINARY, *[None] * 4, *arguments)


def test_a_launch_is_listed_with_its_constants():
    made = launcher(num_warps=4)
    with dry_launches(HOPPER) as launches:
        launch(made, (3, 2, 1))
    assert launches == [DryLaunch(BINARY, {"SIZE": 64}, made.metadata, (3, 2, 1))]


def test_a_launch_with_other_arguments_is_refused():
    with dry_launches(HOPPER), pytest.raises(DryLaunchError, match="takes 3 arguments, not 2"):
        launch(launcher(), (1, 1, 1), (1, 2))


def test_grids_are_as_large_as_cuda_allows():
    """CUDA C++ programming guide, technical specifications per compute capability."""
    assert LARGEST_GRID == (2_147_483_647, 65_535, 65_535)
    with dry_launches(HOPPER) as launches:
        launch(launcher(), LARGEST_GRID)
        launch(launcher(), (0, 0, 0))
        for axis, name in enumerate("xyz"):
            for odd in (-1, LARGEST_GRID[axis] + 1):
                grid = [1, 1, 1]
                grid[axis] = odd
                with pytest.raises(DryLaunchError, match=f"{odd:,} programs along {name}; "):
                    launch(launcher(), grid)
    assert [one.grid for one in launches] == [LARGEST_GRID, (0, 0, 0)]


def test_scratch_is_requested_of_the_allocator_for_every_program():
    wanted = []

    def launched():
        triton.set_allocator(lambda *size: wanted.append(size))
        with dry_launches(HOPPER):
            made = launcher(global_scratch_size=16, global_scratch_align=128)
            for grid in ((2, 3, 4), (2, 0, 4)):
                launch(made, grid)
            launch(launcher(), (2, 3, 4))
            launch(launcher(global_scratch_size=0), (2, 3, 4))

    copy_context().run(launched)  # the allocator is that of a context
    assert wanted == [(2 * 3 * 4 * 16, 128, 0)]


@pytest.mark.parametrize(
    ("target", "limited", "registers", "found"),
    [
        (HOPPER, True, 40, (40, 8, 1024)),
        (HOPPER, True, 65, (65, 8, 65_536 // 72)),
        (HOPPER, True, 255, (255, 8, 256)),
        (HOPPER, False, 255, (0, 0, 1024)),
        (AMD, True, 255, (0, 0, 1024)),
    ],
)
def test_registers_allow_so_many_threads(monkeypatch, target, limited, registers, found):
    monkeypatch.setattr(dry_driver, "cuda_resources", lambda _code: (registers, 8))
    with dry_launches(target, limited=limited):
        utils = triton.runtime.driver.active.utils
        module, function, *resources = utils.load_binary("kernel", b"code", 0, "")
    assert module is function
    assert (function.name, function.code) == ("kernel", b"code")
    assert tuple(resources) == found


@pytest.mark.parametrize("limited", [True, False])
def test_a_device_has_the_limits_of_its_target_or_none(limited):
    with dry_launches(HOPPER, limited=limited):
        driver = triton.runtime.driver.active
        device = driver.get_current_device()
        found = driver.utils.get_device_properties(device)["max_shared_mem"]
        target = driver.get_current_target()
    assert found == (HOPPER.shared_memory_bytes if limited else sys.maxsize)
    assert device == f"sm_90, limited: {limited}"
    assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32)
    assert driver.get_active_torch_device() == torch.device("cpu")


def test_launches_are_limited_and_recorded_unless_said_otherwise():
    with dry_launches(HOPPER):
        driver = triton.runtime.driver.active
    assert driver.utils.limited
    assert driver.launcher_cls is _Launcher
    assert driver.starter is None
    with dry_launches(AMD, recorded=False):
        driver = triton.runtime.driver.active
    assert driver.starter is None
    assert driver.launcher_cls(None, None)(1, 1, 1) is None
    with dry_launches(HOPPER, recorded=False):
        assert triton.runtime.driver.active.starter.sizes is parameter_bytes


def test_nothing_is_left_of_a_driver_that_is_closed():
    hooks = triton.knobs.runtime.kernel_load_end_hook
    before = [*hooks.calls]
    with pytest.raises(DryLaunchError), dry_launches(HOPPER):
        launch(launcher(), (-1, 1, 1))
    with dry_launches(HOPPER):
        assert hooks.calls == [*before, dry_driver._remember_files]
    assert hooks.calls == before
    assert not isinstance(triton.runtime.driver._active, dry_driver.DryDriver)


def test_parameters_have_the_bytes_that_the_assembly_text_says(tmp_path):
    file = tmp_path / "kernel.ptx"
    file.write_text(
        ".func (.param .b64 r) helper(.param .b32 x) { }\n"
        ".visible .entry kernel(\n"
        "    .param .u64 .ptr .global .align 16 kernel_param_0,\n"
        "    .param .u32 kernel_param_1,\n"
        "    .param .f32 kernel_param_2\n"
        ") .reqntid 128 {\n  .param .b16 local; }\n",
        encoding="utf-8",
    )
    binary = Binary("kernel", b"")
    dry_driver._remember_files(None, binary, "", {"kernel.ptx": str(file)}, "")
    assert parameter_bytes(binary) == [8, 4, 4]
    file.rename(tmp_path / "kernel.cubin")
    dry_driver._remember_files(None, binary, "", {"kernel.cubin": tmp_path / "kernel.cubin"}, "")
    assert isinstance(binary["cubin"], bytes)
