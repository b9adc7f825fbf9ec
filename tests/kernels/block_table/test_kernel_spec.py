"""The kernels' specifications match the kernels."""

import inspect

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.block_table import faithful_kernel, fast_apply_kernel, fast_kernel
from workbench.kernels.kernel_spec import KernelSpec

SPECS = fast_apply_kernel.INSPECTED + fast_kernel.INSPECTED + faithful_kernel.INSPECTED


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_signature_names_every_parameter_in_order(spec):
    assert list(spec.signature) == list(inspect.signature(spec.function.fn).parameters)
    pointers = [name for name in spec.signature if name.startswith("p_")]
    assert all(spec.signature[name].startswith("*") for name in pointers)
    names = list(spec.signature)
    assert tuple(names[i] for i in spec.aligned_indices) == tuple(
        name for name in names if name in spec.aligned
    )


def test_wrong_specifications_are_refused():
    with pytest.raises(ValueError, match="constexprs"):
        KernelSpec("x", None, {"BLOCK": "constexpr"}, {})
    with pytest.raises(ValueError, match="unknown"):
        KernelSpec("x", None, {"p": "*i32"}, {}, ("q",))
