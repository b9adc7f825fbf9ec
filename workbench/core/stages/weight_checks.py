"""What the weights refuse when their layers are built: ranks that cut blocks with one scale."""

from collections.abc import Iterator
from math import gcd

from workbench.core import expert_formats
from workbench.core.described import AWQ, COMPRESSED, GPTQ, QUARK
from workbench.core.groups.built_layers import unquantized_layers
from workbench.core.missing_kernels import (
    NO_GROUPS_LINEAR,
    NO_SCALED_LINEAR,
    no_linear_kernel,
    quantized_parts,
    tower_parts,
)
from workbench.core.model import SSM
from workbench.core.online import MXFP8, NVFP4, is_online, loading_method
from workbench.core.ranks import Split, split_of
from workbench.core.rule_set import RULE_SETS
from workbench.core.stages.expert_kernels import experts_of
from workbench.core.stages.micro_scales import MICRO_METHODS, cut_micro
from workbench.core.stages.other_splits import other_splits, written
from workbench.core.weights import COLUMN, ROW, Part
from workbench.core.working_plan import WorkingPlan

FP8 = "fp8"
BLOCK_METHODS = (FP8, COMPRESSED, QUARK)
"""Methods with square blocks of weights."""
GROUP_METHODS = (AWQ, GPTQ, COMPRESSED)
"""Methods with integers whose groups of inputs share a scale."""
GPUS = frozenset({"cuda", "rocm"})
HALVING_METHODS = (AWQ, GPTQ)
"""Those that halve the groups of experts until ranks have whole ones."""
SMALLEST_HALF = 32
"""Of MoeWNA16Method.create_weights, which has the experts that Marlin's kernels do not fit."""
WITHOUT_NVFP4 = frozenset({"cpu", "xpu"})
"""Platforms that lack some kernels."""
UNGATED = frozenset({"nemotron_h"})
"""Families that may have experts without a gate."""
NO_NVFP4_LINEAR = no_linear_kernel("NVFP4")
NO_MXFP8_LINEAR = no_linear_kernel("MXFP8")
NO_UNGATED = "is_act_and_mul=False is supported only for CUDA"
CUT_GROUP = "The input size is not aligned with the quantized weight shape."
INPUTS, OUTPUTS = "Weight input_size_per_partition", "Weight output_partition_size"
WITHOUT_BACKEND = frozenset({"no_valid_backend", "backend_not_valid"})
"""Problems of `backend_choice` at which the first attention layer stops."""
Cut = tuple[Part, int, int, str]
"""A part, the size that its block does not divide, the block, and vLLM's text."""


def weight_algorithm(run: WorkingPlan) -> None:
    """Refuse an algorithm of ModelOpt that the version does not know."""
    given, known = run.model.modelopt_algorithm, run.rules.quantization.modelopt_algorithms
    if given is None or given.upper() in known:
        return
    newer = [
        name
        for name, rules in RULE_SETS.items()
        if given.upper() in rules.quantization.modelopt_algorithms
    ]
    raise run.refusal(
        "weight_algorithm_unknown",
        operands={"quant_algo": given, "known": sorted(known)},
        candidates=[{"rules": name} for name in reversed(newer)],
        names=", ".join(sorted(known)),
        end=f" Use vLLM {newer[-1]}." if newer else "",
    )


def weight_platform(run: WorkingPlan) -> None:
    """Refuse a method of quantization that the platform does not list."""
    method, platform = loading_method(run), run.platform.name
    method = "inc" if method == "auto-round" else method  # INCConfig.override_quantization_method
    if method not in run.rules.quantization.unlisted_methods.get(platform, ()):
        return
    raise run.refusal(
        "quantization_not_on_platform", operands={"quantization": method, "platform": platform}
    )


def weight_blocks(run: WorkingPlan) -> None:
    """Refuse ranks whose share of an fp8 weight has no whole blocks.

    Source: `validate_fp8_block_shape` and the `create_weights` of fp8 experts, 0.23 and 0.33.
    """
    method, split = loading_method(run), split_of(run)
    if method not in {*BLOCK_METHODS, *GROUP_METHODS, *MICRO_METHODS}:
        return
    if method in MICRO_METHODS and is_online(run.model):
        return  # `online_weights`
    parts = quantized_parts(run)
    if run.model.architecture in run.rules.model_registry.run_by_transformers:
        # MoEMixin.recursive_replace builds experts before any other layer
        parts.sort(key=lambda part: part.experts == 1)
    parts = [*_tower_parts(run, parts), *parts]
    if (cut := _first_cut(run, parts, split)) is None:
        return
    part, size, block, text = cut
    valid = other_splits(run, lambda other: _first_cut(run, parts, other) is None)
    ranks, nearest = part.ranks(split), f"Nearest valid value: {written(valid[:1])}."
    run.problem(
        "weight_block_cut",
        operands={"part": part.name, "size": size, "block": block, "ranks": ranks},
        candidates=tuple(valid),
        vllm_text=text,
        method=method,
        left=size % block,
        advice=nearest if valid else "No number of ranks avoids that.",
    )


def _tower_parts(run: WorkingPlan, parts: list[Part]) -> Iterator[Part]:
    """Yield what towers whose weights are in blocks or groups, too, divide by their inputs."""
    # Some classes keep AWQ and GPTQ from their towers (`_maybe_ignore_quant_config`).
    formats = (part.stored for part in parts if part.experts == 1 and part.stored is not None)
    stored = next(formats, None)
    if stored is not None and (stored.is_square or run.model.quantization == COMPRESSED):
        yield from tower_parts(run.model, stored, is_online=False)


def expert_split(run: WorkingPlan) -> None:
    """Refuse ranks that cannot have equal shares of every expert. Errors: Refused.

    A layer builds its attention first: where that of the first one stops, vLLM does not get here.
    Source: `FusedMoE.__init__`, 0.23, and `FusedMoEConfig.__post_init__`, 0.33.
    """
    split = split_of(run)
    if split.of_experts == 1 or split.keeps_experts or not run.model.num_experts:
        return
    if _first_layer_stops(run):
        return
    parts = experts_of(run)
    part = next((one for one in parts if not one.fits(split)), None)
    if part is None:
        return
    valid = other_splits(run, lambda other: all(one.fits(other) for one in parts))
    raise run.refusal(
        "experts_not_divisible",
        operands={"ranks": split.of_experts, "part": part.name},
        candidates=valid,
        field="data_parallel" if split.engines > 1 else "tensor_parallel",
        split=split,
        whole=part.inputs if part.shard == ROW else part.outputs[0][0],
        nearest=written(valid[:1]),
    )


def _first_layer_stops(run: WorkingPlan) -> bool:
    """Return whether the first layer is attention that takes the backend of the rest, invalid."""
    first = next(iter(run.model.layers), None)
    if first is None:
        return False  # encoders keep no cache
    takes_it = first.kind != SSM and first.number not in unquantized_layers(run)
    return takes_it and any(problem.code in WITHOUT_BACKEND for problem in run.problems)


def weight_kernels(run: WorkingPlan) -> None:
    """Refuse weights that a platform has no kernels for.

    Source: `_POSSIBLE_NVFP4_KERNELS` and `select_nvfp4_moe_backend`, 0.23 and 0.33;
    `FusedMoE.__init__`, 0.23, and `FusedMoEConfig`, 0.33.
    """
    platform, model = run.platform.name, run.model
    some_may_lack = model.quantization or model.family in UNGATED
    if platform not in WITHOUT_NVFP4 or not some_may_lack:
        return
    parts = [part for part, _ in model.unread_weights.of().parts]
    if platform == "cpu":
        _linear_on_cpu(run, parts)
    weighed = ((part, part.stored) for part in parts if part.stored is not None)
    stored = (one for one in weighed if not (one[1].is_fp4_alone or one[1].is_integer))
    small, of_it = next((pair for pair in stored if pair[1].bits == 4), (None, None))
    if small is not None and of_it is not None and of_it.block == NVFP4.block:
        if small.experts == 1:
            _no_kernel(run, small, "in NVFP4", NO_NVFP4_LINEAR)
        elif platform == "cpu":  # XPU emulates experts
            text = expert_formats.no_backend(expert_formats.NVFP4)
            _no_kernel(run, small, "in NVFP4", text)
    ungated = (part for part in parts if part.experts > 1 and part.shard == COLUMN)
    first = next((part for part in ungated if len(part.outputs) == 1), None)
    if first is not None and platform == "cpu":
        _no_kernel(run, first, "without a gate", NO_UNGATED)


def _linear_on_cpu(run: WorkingPlan, parts: list[Part]) -> None:
    """Refuse formats of linear layers that a CPU has no kernel for."""
    # _POSSIBLE_MXFP8_KERNELS, and CPUFp8BlockScaledMMKernel.can_implement, 0.23 and 0.33.
    dtype = run.model_dtype
    linear = [part for part in parts if part.experts == 1 and part.stored is not None]
    mxfp8 = (p for p in linear if p.stored and p.stored[:2] == MXFP8[:2])
    blocks = (p for p in linear if p.stored and p.stored.is_square and dtype == "float16")
    if (first := next(mxfp8, None)) is not None:
        _no_kernel(run, first, "in MXFP8", NO_MXFP8_LINEAR)
    elif (first := next(blocks, None)) is not None:
        _no_kernel(run, first, "in blocks of fp8 with float16", NO_SCALED_LINEAR)


def _no_kernel(run: WorkingPlan, part: Part, how: str, text: str) -> None:
    run.problem(
        "no_weight_kernel",
        variant="no_kernel",
        operands={"platform": run.platform.name, "part": part.name},
        vllm_text=text,
        how=how,
    )


def _cut_group_text(run: WorkingPlan, part: Part, split: Split) -> str | None:
    """Return what vLLM says to integers whose share cuts a group of inputs; None: nothing."""
    stored = part.stored
    if stored is None or stored.block is None or not stored.is_integer:
        return None
    if stored.repeats_scales and run.model.quantization == COMPRESSED and part.experts == 1:
        return None
    if _halves_too_often(run, part, split):
        return ""  # an assertion without words
    (_, inputs), group = part.share(split), stored.block[1]
    return _words_of_cut_group(run, part) if group and inputs % group else None


def _words_of_cut_group(run: WorkingPlan, part: Part) -> str | None:
    method, platform = run.model.quantization, run.platform.name
    if part.experts > 1:  # `create_weights` of CompressedTensorsWNA16MoEMethod, 0.33
        is_down = part.shard == ROW and method == COMPRESSED
        return run.rules.quantization.words_of_cut_experts if is_down else None
    # Marlin leaves such layers to AWQLinearMethod, which has all of them on ROCm.
    if method == AWQ:
        return None if platform in run.rules.quantization.awq_in_any_share else CUT_GROUP
    # Of ROCm's kernels only ExllamaLinearKernel takes them, in float16.
    needs_kernel = method in run.rules.quantization.grouped_on_rocm and run.model_dtype != "float16"
    if platform == "rocm" and needs_kernel:
        return NO_GROUPS_LINEAR
    # CompressedTensorsWNA16.create_weights counts the groups of the share.
    return run.rules.quantization.words_of_cut_groups if method == COMPRESSED else None


def _first_cut(run: WorkingPlan, parts: list[Part], split: Split) -> Cut | None:
    found = (cut for part in parts if part.fits(split) for cut in _cuts(run, part, split))
    return next(found, None)


def _cuts(run: WorkingPlan, part: Part, split: Split) -> Iterator[Cut]:
    assert part.stored is not None
    if part.stored.block is None:
        return
    high, wide = part.stored.block
    (outputs, inputs), tp = part.share(split), part.ranks(split)
    if high == 1:
        is_micro = run.model.quantization in MICRO_METHODS
        text = cut_micro(part, inputs) if is_micro else _cut_group_text(run, part, split)
        if text is not None:
            yield part, inputs, wide, text
        return
    if part.experts > 1 and can_refine(run, high, wide, outputs[0], inputs):
        return
    if part.shard == ROW and tp > 1 and inputs % wide:
        what = "The input_size of down's weight" if part.experts > 1 else INPUTS
        yield part, inputs, wide, f"{what} = {inputs} is not divisible by"
    if part.shard != ROW and part.experts > 1 and outputs[0] % high:
        text = f"The output_size of gate's and up's weight = {outputs[0]} is not divisible by"
        yield part, outputs[0], high, text
    if part.experts == 1:
        for size in _checked_outputs(run, part, part.merged(split), tp):
            if size % high:
                yield part, size, high, f"{OUTPUTS} = {size} is not divisible by"


def _halves_too_often(run: WorkingPlan, part: Part, split: Split) -> bool:
    """Return whether groups of experts would get too small for ranks to have whole ones."""
    stored, method = part.stored, run.model.quantization
    is_halved = part.experts > 1 and method in HALVING_METHODS and run.platform.name in GPUS
    if stored is None or stored.block is None or not is_halved or part.shard != ROW:
        return False
    (outputs, inputs), group = part.share(split), stored.block[1]
    while any(size % group for size in (*outputs, inputs) if group):
        group //= 2
    return 0 < group < min(SMALLEST_HALF, stored.block[1])


def can_refine(run: WorkingPlan, *sizes: int) -> bool:
    """Return whether the scales of experts are repeated for smaller blocks (0.33)."""
    # refine_fp8_moe_block_shape; compressed-tensors does not call it
    smallest = run.rules.quantization.smallest_refined_block
    return run.model.quantization == FP8 and smallest is not None and gcd(*sizes) >= smallest


def _checked_outputs(run: WorkingPlan, part: Part, outputs: list[int], tp: int) -> list[int]:
    is_split, is_merged = part.shard == COLUMN and tp > 1, len(outputs) > 1
    # ColumnParallelLinear._maybe_allow_fp8_block_shape_mismatch knows the configuration of fp8
    if is_merged and run.model.quantization == FP8:
        return []
    # the last one of merged outputs that are not split may end within a block
    return outputs if is_split else outputs[:-1]
