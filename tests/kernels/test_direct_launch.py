"""Kernels that are started without Triton's launcher, with the same parameters as by it."""

import ctypes
import struct
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.compiling import printed_there
from tests.kernels.direct_starts import STARTER
from tests.kernels.paged_flex.cases import DEVICE, Case, requests
from workbench.kernels import direct_launch
from workbench.kernels.c_module import c_module
from workbench.kernels.direct_launch import (
    POINTER_BYTES,
    SIZES,
    SOURCE,
    Starter,
    _packed,
    cuda_starter,
    direct_start,
)
from workbench.kernels.paged_flex.api import plan_attention


@pytest.fixture(scope="module")
def starts():
    return printed_there("-m", "tests.kernels.direct_starts")


def test_the_driver_is_given_what_triton_would_give_it(starts):
    assert len(starts) == 8
    for name, case in starts.items():
        if name != "another kernel":
            assert case["equal"], (name, case["first"])
            assert (case["direct"], case["launched"]) == (case["launches"], 0), name
    assert starts["both"]["launches"] == 3


def test_a_kernel_with_other_parameters_is_left_to_triton(starts):
    case = starts["another kernel"]
    assert (case["direct"], case["launched"]) == (0, case["launches"])


def prepared(start, parameters=(1, 2, 3), changing=2):
    """A kernel whose launch is a function of Python."""
    callback = STARTER(start)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    packed = struct.pack(f"<{len(parameters)}Q", *parameters)
    return callback, c_module(SOURCE).prepare(address, 77, 128, 4096, packed, changing)


def test_parameters_have_the_bytes_of_their_types():
    types = {
        **dict.fromkeys(("i1", "u1", "i8", "u8"), ctypes.c_int8),
        **dict.fromkeys(("i16", "u16"), ctypes.c_int16),
        **dict.fromkeys(("i32", "u32"), ctypes.c_int32),
        **dict.fromkeys(("i64", "u64"), ctypes.c_int64),
        "fp32": ctypes.c_float,
    }
    assert {name: ctypes.sizeof(kind) for name, kind in types.items()} == SIZES
    assert ctypes.sizeof(ctypes.c_void_p) == POINTER_BYTES


def test_a_negative_parameter_is_given_as_the_driver_reads_it():
    assert _packed("i32", -2)[:4] == struct.pack("<i", -2)
    assert _packed("i64", -(2**63)) == struct.pack("<q", -(2**63))
    assert _packed("fp32", -0.5)[:4] == struct.pack("<f", -0.5)
    assert _packed("i64", None) == bytes(8)


def test_a_start_replaces_the_first_parameters():
    seen = []

    def start(function, *rest):
        *numbers, parameters, _extra = rest
        values = [ctypes.c_uint64.from_address(parameters[i]).value for i in range(3)]
        seen.append((function, *numbers, values))
        return 0

    callback, kernel = prepared(start)
    c_module(SOURCE).start(kernel, 5, 6, 7, 99, ((2**63, None), [8]))
    c_module(SOURCE).start(kernel, 5, 6, 7, 99, (4, 5))
    c_module(SOURCE).start(kernel, 5, 0, 7, 99, (4, 5))
    numbers = (77, 5, 6, 7, 128, 1, 1, 4096, 99)
    # of an empty grid nothing is started
    assert seen == [(*numbers, [2**63, 8, 3]), (*numbers, [4, 5, 3])]
    assert callback


@pytest.mark.parametrize("given", [(), (1,), (1, 2, 3), (1, "2"), (1, (2, 3)), "12"], ids=str)
def test_a_wrong_number_of_addresses_starts_nothing(given):
    callback, kernel = prepared(lambda *_: pytest.fail("started"))
    with pytest.raises(TypeError, match="2 addresses"):
        c_module(SOURCE).start(kernel, 1, 1, 1, 0, given)
    for odd in ((-1, 2), (1, 2**64)):
        with pytest.raises(OverflowError):
            c_module(SOURCE).start(kernel, 1, 1, 1, 0, odd)
    assert callback


def test_an_error_of_the_driver_is_raised():
    callback, kernel = prepared(lambda *_: 719)
    with pytest.raises(RuntimeError, match="cuLaunchKernel: CUDA error 719"):
        c_module(SOURCE).start(kernel, 1, 1, 1, 0, (1, 2))
    assert callback


@pytest.mark.parametrize(("count", "changing"), [(65, 0), (3, 4), (3, -1)])
def test_what_does_not_fit_is_refused(count, changing):
    with pytest.raises(ValueError, match="at most 64"):
        prepared(lambda *_: 0, range(count), changing)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_the_second_run_on_a_gpu_starts_directly():
    case = Case(requests((1100, 1), (300, 300), dtype=torch.float16), 64)
    plan = plan_attention(case.batch, case.query, case.cache)
    expected = plan.run(case.query, case.cache).clone()
    (bound,) = plan._bound.values()
    launches = [*bound.attend, *bound.combine]
    kernels = [kernel for launch in launches for _, kernel in launch._compiled.values()]
    # those of Triton's launcher have none
    assert len(kernels) == len(launches) >= 3
    assert None not in kernels
    for _ in range(3):
        plan.run(case.query, case.cache).fill_(float("nan"))
        assert torch.equal(plan.run(case.query, case.cache), expected)


def test_cudas_driver_says_the_bytes_of_parameters(monkeypatch):
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    found, indices = [8, 4, 1], []

    def parameter(function, index, _offset, size):
        assert function.value == 77
        indices.append(index.value)
        if len(indices) > len(found):  # also where the index stays the same
            return 1
        size._obj.value = found[index.value]
        return 0

    driver = SimpleNamespace(cuLaunchKernel=callback, cuFuncGetParamInfo=parameter)
    monkeypatch.setattr(ctypes, "CDLL", {"libcuda.so.1": driver}.__getitem__)
    starter = cuda_starter.__wrapped__()
    assert starter.address == ctypes.cast(callback, ctypes.c_void_p).value
    assert starter.sizes(77) == found
    assert indices == [0, 1, 2, 3]
    # before CUDA 12.4, and without a driver
    del driver.cuFuncGetParamInfo
    assert cuda_starter.__wrapped__() is None

    def absent(_name):
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", absent)
    assert cuda_starter.__wrapped__() is None


MADE = {"num_ctas": 1, "launch_cooperative_grid": False, "launch_pdl": False, "num_warps": 4}
MADE |= {"profile_scratch_size": 0, "shared": 1000, "target": SimpleNamespace(warp_size=32)}
SIGNATURE = {"p_out": "*fp16", "p_mask": "constexpr", "n": "i32", "SIZE": "constexpr"}


def started(seen, sizes=(8, 4, 8, 8), signature=SIGNATURE, changing=(64, None), **metadata):
    """What starts a kernel of these parameters, without its driver."""

    def start(function, *rest):
        *numbers, parameters, _extra = rest
        values = [ctypes.c_uint64.from_address(parameters[i]).value for i in range(4)]
        seen.append((function, *numbers, values))
        return 0

    callback = STARTER(start)
    starter = Starter(ctypes.cast(callback, ctypes.c_void_p).value, lambda _function: [*sizes])
    made = SimpleNamespace(
        function=77,
        src=SimpleNamespace(signature=signature),
        metadata=SimpleNamespace(**{**MADE, **metadata}),
    )
    return callback, direct_start(starter, made, changing, [5, 16], 123)


def test_a_direct_start_has_memory_and_none_of_what_is_known_at_compile_time():
    seen = []
    callback, (start, kernel) = started(seen)
    start(kernel, 2, 3, 4, 9, [128, None])
    assert seen == [(77, 2, 3, 4, 4 * 32, 1, 1, 1000, 9, [128, 5, 123, 0])]
    assert callback


@pytest.mark.parametrize(
    "other",
    [
        {"num_ctas": 2},
        {"launch_cooperative_grid": True},
        {"launch_pdl": True},
        {"profile_scratch_size": 4},
        {"sizes": (8, 4, 8)},
        {"sizes": (8, 8, 8, 8)},
        {"changing": (64,)},
        {"changing": (64, 64)},
        {"signature": {**SIGNATURE, "p_out": "i64"}},
        {"signature": {**SIGNATURE, "n": "fp64"}},
    ],
    ids=str,
)
def test_what_a_direct_start_cannot_give_is_left_to_triton(other):
    _callback, found = started([], **other)
    assert found is None


def test_without_a_starter_or_a_compiler_of_c_triton_starts(monkeypatch):
    assert direct_start(None, SimpleNamespace(metadata=SimpleNamespace(**MADE)), (), (), 0) is None
    monkeypatch.setattr(direct_launch, "c_module", lambda _source: None)
    assert started([])[1] is None
