"""What the weights refuse when their layers are built: ranks that cut blocks with one scale."""

from collections.abc import Iterator
from math import gcd

from workbench.core.errors import Refused
from workbench.core.weights import COLUMN, ROW, Part
from workbench.core.working_plan import WorkingPlan

FP8 = "fp8"
BLOCK_METHODS = (FP8, "compressed-tensors")
"""Methods with square blocks of weights."""
LARGEST_TRIED = 64
WITHOUT_NVFP4 = frozenset({"cpu", "xpu"})
UNGATED = frozenset({"nemotron_h"})
"""Families that may have experts without a gate."""
NVFP4_BLOCK = (1, 16)
NO_NVFP4_LINEAR = "Failed to find a kernel that can implement the NVFP4 linear layer."
NO_NVFP4_EXPERTS = "No NvFp4 MoE backend supports the deployment configuration."
NO_UNGATED = "is_act_and_mul=False is supported only for CUDA"
INPUTS, OUTPUTS = "Weight input_size_per_partition", "Weight output_partition_size"
Cut = tuple[Part, int, int, str]
"""A part, the size that its block does not divide, the block, and vLLM's text."""


def weight_platform(run: WorkingPlan) -> None:
    """Refuse a method of quantization that the platform does not list."""
    method, platform = run.model.quantization, run.platform.name
    if method not in run.rules.unlisted_methods.get(platform, ()):
        return
    raise Refused(
        "quantization_not_on_platform",
        f"The checkpoint is quantized with {method}, which vLLM {run.rules.version} does not run "
        f"on {run.platform.title}. Use another platform, or a checkpoint stored otherwise.",
        field="platform",
        operands={"quantization": method, "platform": platform},
        candidates=[{"platform": "cuda"}, {"platform": "rocm"}],
        # Raised by Platform.verify_quantization
        vllm_text=f"{method} quantization is currently not supported in {platform}.",
    )


def weight_blocks(run: WorkingPlan) -> None:
    """Refuse ranks whose share of an fp8 weight has no whole blocks.

    Source: `validate_fp8_block_shape` and the `create_weights` of fp8 experts, 0.23 and 0.33.
    """
    method, tp = run.model.quantization, run.settings.tensor_parallel
    if method not in BLOCK_METHODS:
        return
    parts = [part for part, _ in run.model.unread_weights.of().parts if _has_blocks(part)]
    if (cut := _first_cut(run, parts, tp)) is None:
        return
    part, size, block, text = cut
    heads = run.model.total_num_attention_heads
    tried = [n for n in range(min(tp, LARGEST_TRIED) - 1, 0, -1) if heads % n == 0]
    valid = [n for n in tried if _first_cut(run, parts, n) is None]
    run.problem(
        "weight_block_cut",
        "tensor_parallel",
        f"With tensor_parallel = {tp} a rank has {size:,} of {part.name}, and the {method} weights "
        f"have one scale per block of {block}: {size:,} / {block} leaves {size % block}. "
        + (f"Nearest valid value: {valid[0]}." if valid else "No number of ranks avoids that."),
        operands={"part": part.name, "size": size, "block": block, "tensor_parallel": tp},
        candidates=tuple({"tensor_parallel": n} for n in valid),
        vllm_text=text,
    )


def weight_kernels(run: WorkingPlan) -> None:
    """Refuse weights that a platform has no kernels for.

    Source: `_POSSIBLE_NVFP4_KERNELS` and `select_nvfp4_moe_backend`, 0.23 and 0.33;
    `FusedMoE.__init__`, 0.23, and `FusedMoEConfig`, 0.33.
    """
    platform, model = run.platform.name, run.model
    if platform not in WITHOUT_NVFP4 or not (model.quantization or model.family in UNGATED):
        return
    parts = [part for part, _ in model.unread_weights.of().parts]
    stored = ((part, part.stored) for part in parts if part.stored is not None)
    small, of_it = next((pair for pair in stored if pair[1].bits == 4), (None, None))
    if small is not None and of_it is not None and of_it.block == NVFP4_BLOCK:
        if small.experts == 1:
            _no_kernel(run, small, "in NVFP4", NO_NVFP4_LINEAR)
        elif platform == "cpu":  # XPU emulates experts
            _no_kernel(run, small, "in NVFP4", NO_NVFP4_EXPERTS)
    ungated = (part for part in parts if part.experts > 1 and part.shard == COLUMN)
    first = next((part for part in ungated if len(part.outputs) == 1), None)
    if first is not None and platform == "cpu":
        _no_kernel(run, first, "without a gate", NO_UNGATED)


def _no_kernel(run: WorkingPlan, part: Part, how: str, text: str) -> None:
    run.problem(
        "no_weight_kernel",
        "platform",
        f"{run.platform.title} has no kernel for {part.name} {how} in vLLM {run.rules.version}. "
        "Use another platform, or a checkpoint that stores its weights otherwise.",
        operands={"platform": run.platform.name, "part": part.name},
        candidates=({"platform": "cuda"}, {"platform": "rocm"}),
        vllm_text=text,
    )


def _has_blocks(part: Part) -> bool:
    stored = part.stored
    return stored is not None and stored.block is not None and stored.block[0] > 1


def _first_cut(run: WorkingPlan, parts: list[Part], tp: int) -> Cut | None:
    found = (cut for part in parts if part.fits(tp) for cut in _cuts(run, part, tp))
    return next(found, None)


def _cuts(run: WorkingPlan, part: Part, tp: int) -> Iterator[Cut]:
    assert part.stored is not None
    assert part.stored.block is not None
    high, wide = part.stored.block
    outputs, inputs = part.share(tp)
    if part.experts > 1 and _can_refine(run, high, wide, outputs[0], inputs):
        return
    if part.shard == ROW and tp > 1 and inputs % wide:
        what = "The input_size of down's weight" if part.experts > 1 else INPUTS
        yield part, inputs, wide, f"{what} = {inputs} is not divisible by"
    if part.shard != ROW and part.experts > 1 and outputs[0] % high:
        text = f"The output_size of gate's and up's weight = {outputs[0]} is not divisible by"
        yield part, outputs[0], high, text
    if part.experts == 1:
        for size in _checked_outputs(run, part, outputs, tp):
            if size % high:
                yield part, size, high, f"{OUTPUTS} = {size} is not divisible by"


def _can_refine(run: WorkingPlan, *sizes: int) -> bool:
    """Return whether the scales of experts are repeated for smaller blocks (0.33)."""
    # refine_fp8_moe_block_shape; compressed-tensors does not call it
    smallest = run.rules.smallest_refined_block
    return run.model.quantization == FP8 and smallest is not None and gcd(*sizes) >= smallest


def _checked_outputs(run: WorkingPlan, part: Part, outputs: list[int], tp: int) -> list[int]:
    is_split, is_merged = part.shard == COLUMN and tp > 1, len(outputs) > 1
    # ColumnParallelLinear._maybe_allow_fp8_block_shape_mismatch knows the configuration of fp8
    if is_merged and run.model.quantization == FP8:
        return []
    # the last one of merged outputs that are not split may end within a block
    return outputs if is_split else outputs[:-1]
