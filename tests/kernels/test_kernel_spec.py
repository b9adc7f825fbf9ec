"""Specifications of kernels that no public function launches match the kernels."""

import inspect

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from tests.kernels.inspected_samples import INSPECTED as SPECS
from workbench.kernels.kernel_spec import KernelSpec


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_specification_has_a_value_or_a_type_for_every_parameter(spec):
    parameters = inspect.signature(spec.function.fn).parameters
    assert [*spec.signature] == [*parameters]
    for name, parameter in parameters.items():
        kind = spec.signature[name]
        is_constant = parameter.annotation is not inspect.Parameter.empty
        assert (kind == "constexpr") == is_constant
        assert kind.startswith("*") == name.startswith("p_")
    pointers = {name for name in parameters if name.startswith("p_")}
    assert set(spec.multiples_of_16) == (set() if spec.unaligned else pointers | set(spec.aligned))


@pytest.mark.parametrize("wrong", [{"types": {"p": "*i32"}}, {"aligned": ("q",)}])
def test_wrong_specifications_are_refused(wrong):
    with pytest.raises(ValueError, match="has no parameters"):
        KernelSpec("x", SPECS[0].function, dict(SPECS[0].constexprs), **wrong)
    with pytest.raises(ValueError, match="has no parameters"):
        KernelSpec("x", SPECS[0].function, {"OTHER": 1})
