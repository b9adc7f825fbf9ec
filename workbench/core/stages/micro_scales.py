"""Weights whose few inputs share a scale (MXFP8, NVFP4 of ModelOpt), and ranks that cut them."""

from workbench.core.weights import ROW, Part

MICRO_METHODS = ("modelopt_fp4", "modelopt_mxfp8", "mxfp8")
"""Methods whose layers have a scale for every 16 or 32 inputs, and for no less."""


def cut_micro(part: Part, inputs: int) -> str | None:
    """Return what vLLM says to a share of inputs that does not fill its scales; None: nothing."""
    # `create_weights` of the classes of modelopt.py, 0.23 and 0.33; experts in NVFP4 say nothing
    stored = part.stored
    if stored is None or stored.block is None or inputs % stored.block[1] == 0:
        return None
    if not stored.is_micro:
        return None if part.experts > 1 else "Unsupported model when in features size is not "
    if part.experts == 1:
        return "MXFP8 requires input "
    size = "intermediate_size_per_partition" if part.shard == ROW else "hidden_size"
    return f"MXFP8 MoE requires {size} divisible by"
