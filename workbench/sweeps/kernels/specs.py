"""Read by the compiling process: the specialisations that a sweep asks for."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.kernels.kernel_spec import KernelSpec, PublicCall
from workbench.sweeps.kernels import flex, tables
from workbench.sweeps.kernels.fitting import SPECS_VARIABLE

SpecsOf = Callable[[Mapping[str, Any]], Sequence[KernelSpec | PublicCall]]
SPECS_OF: Mapping[str, SpecsOf] = {"flex": flex.specs_of, "block-table": tables.specs_of}


def _requested() -> tuple[KernelSpec | PublicCall, ...]:
    """Return every specialisation once, however many configurations have it."""
    kernel, configs = json.loads(os.environ.get(SPECS_VARIABLE, '["flex", []]'))
    found = (spec for config in configs for spec in SPECS_OF[kernel](config))
    return tuple({spec.name: spec for spec in found}.values())


INSPECTED = _requested()
