"""The kernels' specifications match the kernels; and what a compiler makes of them."""

import inspect
import re

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.paged_flex.cases import Case, requests
from workbench.kernels.inspection import TARGETS, inspect_kernels
from workbench.kernels.paged_flex import hopper_specs, specs, wide_specs
from workbench.kernels.paged_flex.settings import BITWISE, FAST

INSTRUCTION = {
    "sm_80": r"\bmma\.sync",
    "sm_90": r"\bwgmma\.mma_async|\bmma\.sync",
    "sm_100": r"\btcgen05\.mma|\bmma\.sync",
    "sm_120": r"\bmma\.sync",
    "gfx942": r"\bv_mfma_",
    "gfx950": r"\bv_mfma_",
}


SHIPPED = (*specs.INSPECTED, *wide_specs.INSPECTED, *hopper_specs.INSPECTED)


@pytest.mark.parametrize("spec", SHIPPED, ids=lambda spec: spec.name)
def test_a_specification_has_a_value_or_a_type_for_every_parameter(spec):
    for name, parameter in inspect.signature(spec.function.fn).parameters.items():
        kind = spec.signature[name]
        assert (kind == "constexpr") == (parameter.annotation is not inspect.Parameter.empty)
        assert kind.startswith("*") == name.startswith("p_")


def test_what_is_inspected_is_what_is_launched():
    case = Case(requests((40, 3), (100, 1), (70, 40), heads=4, dim=128), 64)
    launches = [
        launch for how in (FAST, BITWISE) for launch in case.prepared(settings=how).launches
    ]
    expected = [
        specs.attend_spec("prefill", FAST, dtype="float32"),
        specs.attend_spec("decode", FAST, decode=True, dtype="float32"),
        specs.combine_spec("combine", 16),
        specs.attend_spec("prefill", BITWISE, dtype="float32"),
        specs.attend_spec("decode", BITWISE, decode=True, dtype="float32"),
        specs.combine_spec("combine", 32),
    ]
    for launch, spec in zip(launches, expected, strict=True):
        constants = {
            name: value
            for name, value in launch.options.items()
            if name not in {"num_warps", "num_stages"}
        }
        assert constants == dict(spec.constexprs)
        assert launch.options["num_warps"] == spec.num_warps
        assert len(launch.arguments) + len(constants) == len(spec.signature)
        # the inspector compiles with three stages
        assert launch.options.get("num_stages", 3) == 3
    assert [launch.options.get("FOLD") for launch in launches[3:]] == [True, False, None]
    assert [launch.options.get("SPLIT") for launch in launches[3:]] == [512, 512, None]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "targets"),
    [
        ("specs", ("sm_80", "sm_90", "sm_100", "sm_120")),
        ("specs", ("gfx942", "gfx950")),
        ("wide_specs", ("sm_90", "sm_100")),
        ("hopper_specs", ("sm_90",)),
    ],
)
def test_shipped_tiles_fit_use_matrix_instructions_and_do_not_spill(module, targets):
    for report in inspect_kernels(f"workbench.kernels.paged_flex.{module}", targets):
        target = report.target
        place = f"{report.kernel} for {target}"
        assert report.spill_bytes == 0, place
        assert report.shared_bytes <= TARGETS[target].shared_memory_bytes, place
        assert report.wide_divisions == 0, place
        if not report.kernel.startswith(("combine", "prefill, float32")):
            assert re.search(INSTRUCTION[target], report.assembly), place
        if module != "specs" and not report.kernel.startswith("decode"):
            wide = {"sm_90": "wgmma.mma_async", "sm_100": "tcgen05.mma"}[target]
            assert wide in report.assembly, place
