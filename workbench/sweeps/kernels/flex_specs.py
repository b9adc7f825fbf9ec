"""Read by the compiling process: the flex specialisations that a sweep asks for."""

from __future__ import annotations

from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.paged_flex.specs import attend_spec
from workbench.sweeps.kernels.fitting import requested_configs
from workbench.sweeps.kernels.flex_kernels import settings_of, spec_name


def _requested() -> tuple[KernelSpec, ...]:
    found: dict[str, KernelSpec] = {}
    for config in requested_configs():
        for decode in (False, True):
            name = spec_name(config, decode=decode)
            if name not in found:
                found[name] = attend_spec(
                    name,
                    settings_of(config),
                    decode=decode,
                    dtype=config["dtype"],
                    head_dim=config["head_dim"],
                    group=config["group"],
                    block_size=config["block_size"],
                )
    return tuple(found.values())


INSPECTED = _requested()
