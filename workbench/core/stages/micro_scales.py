"""Weights whose few inputs share a scale (MXFP8, MXFP4, NVFP4), and ranks that cut them.

What vLLM says depends on whether a checkpoint is stored so or is quantized as it loads.
"""

from workbench.core.formats import MX_BLOCK, Format
from workbench.core.missing_kernels import quantized_parts, tower_parts
from workbench.core.online import MXFP8
from workbench.core.ranks import split_of
from workbench.core.weights import ROW, Part
from workbench.core.working_plan import WorkingPlan

MICRO_METHODS = ("modelopt_fp4", "modelopt_mxfp8", "mxfp8")
"""Methods whose layers have a scale for every 16 or 32 inputs, and for no less."""


def cut_micro(part: Part, inputs: int) -> str | None:
    """Return what vLLM says to a share of inputs that does not fill its scales; None: nothing."""
    # `create_weights` of the classes of modelopt.py, 0.23 and 0.33; experts in NVFP4 say nothing
    stored = part.stored
    if stored is None or stored.block is None:
        return None
    wide = stored.block[1] or 1  # without a width a row has one scale (`fp8_per_channel`)
    if inputs % wide == 0:
        return None
    if not stored.is_micro:
        return None if part.experts > 1 else "Unsupported model when in features size is not "
    if part.experts == 1:
        return "MXFP8 requires input "
    size = "intermediate_size_per_partition" if part.shard == ROW else "hidden_size"
    return f"MXFP8 MoE requires {size} divisible by"


def online_cut(run: WorkingPlan, linear: Format | None) -> None:
    """Refuse ranks whose inputs do not fill whole blocks of MXFP8 or MXFP4.

    linear: how the word stores linear layers; those of towers are built first.
    """
    split, parts = split_of(run), quantized_parts(run)
    if linear is not None:
        parts = [*tower_parts(run.model, linear, is_online=True), *parts]
    for part in parts:
        if part.stored is None or part.stored.block != (1, MX_BLOCK) or not part.fits(split):
            continue
        inputs = part.share(split)[1]
        if inputs % MX_BLOCK:
            name = "MXFP8" if part.stored.bits == MXFP8.bits else "MXFP4"
            run.problem(
                "online_block_cut",
                operands={"part": part.name, "inputs": inputs, "block": MX_BLOCK},
                vllm_text=(
                    f"Online {name} MoE requires hidden/intermediate sizes divisible"
                    if part.experts > 1
                    else f"{name} requires input_size_per_partition ({inputs}) to be divisible"
                ),
                name=name,
                left=inputs % MX_BLOCK,
            )
            return
