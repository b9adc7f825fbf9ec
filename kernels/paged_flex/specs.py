"""The kernels as their launcher launches them, for an inspector: see `KernelSpec`."""

from typing import Any

from workbench.kernels.kernel_spec import KernelSpec
from workbench.kernels.paged_flex import mask_kernel
from workbench.kernels.paged_flex.attend_kernel import attend_kernel
from workbench.kernels.paged_flex.combine_kernel import combine_kernel
from workbench.kernels.paged_flex.settings import (
    BITWISE_ELSEWHERE,
    FAST_ELSEWHERE,
    Settings,
    Tile,
    fitted,
)
from workbench.kernels.paged_flex.shapes import padded_head_dim

_TYPES = {"float16": "*fp16", "bfloat16": "*bf16", "float32": "*fp32"}
_STATE = dict.fromkeys(("p_partial", "p_partial_state"), "*fp32")


def attend_spec(
    name: str,
    settings: Settings,
    *,
    decode: bool = False,
    dtype: str = "float16",
    head_dim: int = 128,
    group: int = 4,
    block_size: int = 64,
    ratio: int = 1,
    mask: str = "causal",
    param: int = 0,
    score: Any = None,
    score_param: float = 0.0,
) -> KernelSpec:
    """Return one specialisation of `attend_kernel`, with the model's tile from `settings`."""
    fit = fitted(settings, head_dim=head_dim, group=group, dtype=dtype)
    tile: Tile = fit.prefill
    if decode:
        assert fit.decode is not None
        tile = fit.decode
    fold = not decode and fit.one_path and fit.split_tokens > 0
    constants = {
        "HEAD_DIM": head_dim,
        "BLOCK_D": padded_head_dim(head_dim),
        "GROUP": group,
        "BLOCK_M": tile.block_m,
        "BLOCK_N": tile.block_n,
        "BLOCK_SIZE": block_size,
        "RATIO": ratio,
        "SPLIT": fit.split_tokens if decode or fold else 0,
        "FOLD": fold,
        "MASK_MOD": getattr(mask_kernel, f"{mask}_mask"),
        "SPAN": getattr(mask_kernel, f"{mask}_span"),
        "MASK_PARAM": param,
        "SCORE_MOD": score,
        "SCORE_PARAM": score_param,
        "ONE_PATH": fit.one_path,
    }
    return KernelSpec(
        name=name,
        function=attend_kernel,
        constexprs=constants,
        types={
            **dict.fromkeys(("p_query", "p_key", "p_value", "p_out"), _TYPES[dtype]),
            **_STATE,
            "p_score_aux": "*fp32",
            "scale": "fp32",
            "factor": "fp32",
        },
        aligned=(
            *("query_stride_token", "query_stride_head", "out_stride_token", "out_stride_head"),
            *("kv_stride_block", "kv_stride_token", "kv_stride_head"),
        ),
        num_warps=tile.num_warps,
    )


def combine_spec(name: str, rows: int) -> KernelSpec:
    """Return the specialisation of the combine for a decode tile of this many rows."""
    return KernelSpec(
        name=name,
        function=combine_kernel,
        constexprs={"HEAD_DIM": 128, "BLOCK_D": 128, "GROUP": 4, "BLOCK_M": rows},
        types={"p_out": "*fp16", **_STATE, "factor": "fp32"},
        aligned=("out_stride_token", "out_stride_head"),
    )


INSPECTED = (
    attend_spec("prefill, page 16", FAST_ELSEWHERE, block_size=16),
    attend_spec("prefill, float32", FAST_ELSEWHERE, dtype="float32"),
    attend_spec("decode, page 64", FAST_ELSEWHERE, decode=True),
    attend_spec("bitwise, page 64", BITWISE_ELSEWHERE),
    attend_spec("bitwise decode, page 64", BITWISE_ELSEWHERE, decode=True),
    combine_spec("combine", 16),
    combine_spec("combine, bitwise", 64),
)
"""What every target compiles without spills; `wide_specs` has the tiles of Hopper and B200."""
