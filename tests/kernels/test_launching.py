"""A launch goes through Triton once, then starts what was compiled; kernels are stood in for."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels import launching
from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import dry_launches
from workbench.kernels.language import triton
from workbench.kernels.launching import ALIGNMENT, Launch, Place, processors, starter_of
from workbench.kernels.mode import triton_mode

pytestmark = pytest.mark.skipif(triton_mode().mode == "gpu", reason="a GPU has a driver of its own")

CPU = torch.device("cpu")


class Kernel:
    """As of Triton: it notes its launches; `made` is what it compiled."""

    arg_names = ("p_first", "p_second", "fixed", "SIZE", "DEPTH")

    def __init__(self, made=None, work=lambda: None):
        self.made, self.work, self.launches = made, work, []

    def __getitem__(self, grid):
        def launch(*arguments, **options):
            self.launches.append((grid, arguments, options))
            self.work()
            return self.made

        return launch


def compiled():
    """What Triton compiled, and the calls of its launcher."""
    calls = []
    return SimpleNamespace(
        function="function",
        packed_metadata="metadata",
        run=lambda *arguments: calls.append(arguments),
        calls=calls,
    )


@pytest.fixture
def driver():
    with dry_launches(TARGETS["sm_90"]):
        yield triton.runtime.driver.active


@pytest.mark.parametrize(
    ("grid", "whole"), [((5,), (5, 1, 1)), ((5, 6), (5, 6, 1)), ((5, 6, 7),) * 2]
)
def test_the_interpreter_is_given_all_at_every_launch(grid, whole):
    kernel, first = Kernel(), torch.zeros(2)
    launch = Launch(kernel, grid, (7,), {"SIZE": 16}, CPU)
    for _ in range(2):
        assert launch.place() is None
        assert not launch.start(launch.place(), [first.data_ptr()])
        launch.first([first, None], remember=True)
    assert kernel.launches == [(whole, (first, None, 7), {"SIZE": 16})] * 2


@pytest.mark.parametrize("direct", [True, False])
def test_what_was_compiled_is_started_with_addresses(driver, monkeypatch, direct):
    made, given, started = compiled(), [], []

    def direct_start(*arguments):
        given.append(arguments)
        return (lambda *how: started.append(how), "kernel") if direct else None

    monkeypatch.setattr(launching, "direct_start", direct_start)
    kernel = Kernel(made)
    tensors = [torch.zeros(4), torch.zeros(4)]
    launch = Launch(
        kernel, (5, 6), [(tensors[1], 8)], {"SIZE": 16, "DEPTH": 2, "num_warps": 4}, CPU
    )
    launch.first([(tensors[0], None), 9], remember=False)
    assert (launch.place(), given) == (None, [])
    launch.first([(tensors[0], None), 9], remember=True)
    first, second = (tensor.data_ptr() for tensor in tensors)
    rest = [(second, 8), 16, 2]
    assert given == [(driver.starter, made, ((first, None), 9), rest, 0)]
    place = launch.place()
    assert place == Place(driver.get_current_device(), 0)
    assert launch.start(place, ["address", None])
    assert not launch.start(Place("another device", 0), ["address", None])
    assert not launch.start(None, ["address", None])
    if direct:
        assert started == [("kernel", 5, 6, 1, 0, ["address", None])]
        assert not made.calls
    else:
        how = (5, 6, 1, 0, "function", "metadata", None, None, None)
        assert made.calls == [(*how, "address", None, *rest)]


@pytest.mark.parametrize("name", ["launch_enter_hook", "launch_exit_hook"])
@pytest.mark.usefixtures("driver")
def test_where_a_profiler_has_hooks_every_launch_goes_through_triton(monkeypatch, name):
    monkeypatch.setattr(launching, "direct_start", lambda *_given: None)
    launch = Launch(Kernel(compiled()), (1,), (), {"SIZE": 16, "DEPTH": 2}, CPU)
    launch.first([1, 2, 3], remember=True)
    assert launch.place() is not None

    def hook(_metadata):
        pytest.fail("called")

    hooks = getattr(triton.knobs.runtime, name)
    hooks.add(hook)
    try:
        assert launch.place() is None
    finally:
        hooks.remove(hook)


@pytest.mark.usefixtures("driver")
def test_descriptors_have_memory_that_stays_while_it_suffices(monkeypatch):
    """One that is too small is replaced, and what starts with its address is forgotten."""
    memories, wanted, found = [], [100], []

    def allocate():
        return triton.runtime._allocation._allocator.get()(wanted[0], 128, 0)

    made = compiled()
    made.run = lambda *_arguments: found.append(allocate())
    monkeypatch.setattr(launching, "direct_start", lambda *given: memories.append(given[-1]))
    kernel = Kernel(made, lambda: found.append(allocate()))
    launch = Launch(kernel, (1,), (), {"SIZE": 16, "DEPTH": 2}, CPU, describes=True)
    outside = triton.runtime._allocation._allocator.get()
    launch.first([1, 2, 3], remember=True)
    assert launch.start(launch.place(), [1, 2, 3])
    wanted[0] = 60
    launch.first([1, 2, 3], remember=True)
    first, again, smaller = found
    assert first is again is smaller
    assert (len(first), first.dtype) == (100, torch.int8)
    assert memories == [first.data_ptr()] * 2
    wanted[0] = 101
    assert launch.start(launch.place(), [1, 2, 3])
    assert len(found[-1]) == 101
    # the old address is nowhere started again
    assert launch.place() is None
    assert triton.runtime._allocation._allocator.get() is outside


@pytest.mark.usefixtures("driver")
def test_a_launch_without_descriptors_leaves_the_allocator(monkeypatch):
    seen = []
    kernel = Kernel(compiled(), lambda: seen.append(triton.runtime._allocation._allocator.get()))
    monkeypatch.setattr(launching, "direct_start", lambda *_given: None)
    outside = triton.runtime._allocation._allocator.get()
    Launch(kernel, (1,), (), {"SIZE": 16, "DEPTH": 2}, CPU).first([1, 2, 3], remember=True)
    assert seen == [outside]


def test_kernels_are_started_by_their_drivers_own_function_or_by_cudas(monkeypatch):
    monkeypatch.setattr(launching, "cuda_starter", lambda: "cuda's")

    def driver_of(backend, **more):
        target = SimpleNamespace(backend=backend)
        return SimpleNamespace(get_current_target=lambda: target, **more)

    assert starter_of(driver_of("cuda", starter="own")) == "own"
    assert starter_of(driver_of("cuda")) == "cuda's"
    assert starter_of(driver_of("hip")) is None


def test_a_device_has_its_multiprocessors_and_the_interpreter_one(monkeypatch):
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda _device: SimpleNamespace(multi_processor_count=7),
    )
    assert processors(torch.device("cuda")) == 7
    for mode, found in (("interpreter", 1), ("compiler", launching.DRY_PROCESSORS)):
        monkeypatch.setattr(launching, "triton_mode", lambda mode=mode: SimpleNamespace(mode=mode))
        assert processors(CPU) == found


def test_addresses_are_as_aligned_as_triton_looks_for():
    """Its binder asks whether 16 divides an address, and compiles another kernel where it does."""
    assert ALIGNMENT == 16
