"""Deliberate flex-attention mistakes: the error message, and a correct launch afterwards."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench.core.errors import ScenarioError, check_name
from workbench.core.flex.lab import ENGINE, FlexMistake, FlexRun
from workbench.core.flex.plan import FLEX, flex_plan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.kernels.inspection.targets import TARGETS
from workbench.kernels.mode import triton_mode
from workbench.labs.jobs import Job

TRIED_ON = "sm_90"
"""The device with the most shared memory, for which the too large tile is compiled."""
NEXT_BATCH = (BatchRequest(3, 20), BatchRequest(1, 33))
TOO_MANY_BYTES = 2**50
Attempt = tuple[str, str]
"""What was tried, and the resulting message."""


def make_flex_mistake(plan: Plan, *, mistake: str, job: Job | None = None) -> FlexMistake:
    """Trigger one mistake, then run a correct launch.

    Errors: ScenarioError for an unknown name; whatever the launch after the mistake raises.
    """
    check_name("failure demo", mistake, FLEX_MISTAKES, "mistake")
    job = job or Job()
    tried, message = FLEX_MISTAKES[mistake](plan)
    job.check()
    return FlexMistake(mistake, tried, message, _launch(plan, job=job))


def _launch(plan: Plan, **given: Any) -> FlexRun:
    from workbench.labs.flex.launch import launch_flex  # torch: not before a launch

    return launch_flex(plan, NEXT_BATCH, **given)


def _refused(tried: str, mistake: Callable[[], object]) -> Attempt:
    """Return the refusal's message. A mistake that is accepted is our own bug."""
    try:
        mistake()
    except ScenarioError as error:
        return tried, error.message
    raise AssertionError(f"{tried} was not refused")


def _tile(tile: str, plan: Plan) -> Attempt:
    return _refused(f"tile = {tile!r}", lambda: _launch(plan, tile=tile))


def _tile_above_mask_block(plan: Plan) -> Attempt:
    """Launch torch's path with a tile above its mask block; both sizes are legal alone."""
    flex = flex_plan(plan)
    if flex is None or flex.refusals:
        why = f"backend is not {FLEX}" if flex is None else flex.refusals[0].message
        return "torch flex over the paged mask", f"This plan fails before that: {why}"
    tile = f"{2 * flex.mask.q_block_size} x {flex.mask.kv_block_size}"
    block = f"mask block {flex.mask.q_block_size} x {flex.mask.kv_block_size}"
    wrong = {"kernel": ENGINE, "tile": tile, "dtype": "float32"}
    return _refused(f"tile = {tile!r} in {block}", lambda: _launch(plan, **wrong))


def _mask(name: str, plan: Plan) -> Attempt:
    triton_mode()  # before the import of anything with a kernel
    from workbench.kernels.paged_flex import masks
    from workbench.labs.flex import mistake_kernels

    mod: Any = getattr(mistake_kernels, name)
    own = masks.Mask(name=name, mask_mod=mod, torch_mask_mod=masks.causal().torch_mask_mod)
    source = inspect.getsource(mod.fn)
    return _refused(source, lambda: _launch(plan, custom_mask=own))


def _memory(plan: Plan) -> Attempt:
    """Allocate a cache larger than all memory: as many blocks as make a pebibyte."""
    triton_mode()
    import torch

    from workbench.kernels.paged_flex.shapes import empty_cache
    from workbench.labs.flex.inputs import kernel_errors_as_scenario_errors, shape_of

    shape = shape_of(plan)
    block_bytes = 4 * shape.block_size * shape.kv_heads * shape.head_size
    blocks = TOO_MANY_BYTES // block_bytes

    def allocate() -> None:
        with kernel_errors_as_scenario_errors(f"A cache of {blocks:,} blocks"):
            empty_cache(
                blocks, shape.block_size, shape.kv_heads, shape.head_size, dtype=torch.float16
            )

    return _refused(f"empty_cache(num_blocks={blocks:,}, ...)", allocate)


def _shared_memory(plan: Plan) -> Attempt:
    """Use 128 x 128 with a head of 256: launched on a GPU, else compiled and compared."""
    if triton_mode().mode == "gpu":
        huge = {"tile": "256 x 256", "dtype": "float16"}
        return _refused("tile = '256 x 256'", lambda: _launch(plan, **huge))
    from workbench.kernels.inspection import inspect_kernels

    (report,) = inspect_kernels("workbench.labs.flex.mistake_kernels", [TRIED_ON])
    target = TARGETS[TRIED_ON]
    verdict = "fits" if report.shared_bytes <= target.shared_memory_bytes else "does not fit"
    message = (
        f"It {verdict}: the compiled program wants {report.shared_bytes:,} bytes of shared memory, "
        f"the device gives one {target.shared_memory_bytes:,}; and {report.spill_bytes:,} "
        "bytes per thread are spilled. A launch ends with OutOfResources. Use a smaller "
        "tile, for example 64 x 32. (Compiled only: there is no GPU here.)"
    )
    return f"tile {report.kernel}, float16, compiled for {target.title}", message


FLEX_MISTAKES: Mapping[str, Callable[[Plan], Attempt]] = {
    "a tile of 8": partial(_tile, "8 x 64"),
    "a tile of 48": partial(_tile, "64 x 48"),
    "a tile larger than the mask block": _tile_above_mask_block,
    "a mask with five parameters": partial(_mask, "five_parameters"),
    "a mask with a Python if": partial(_mask, "python_if"),
    "more memory than there is": _memory,
    "more shared memory than a program has": _shared_memory,
}
"""Name -> what makes it."""
