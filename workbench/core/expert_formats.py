"""Formats of routed experts, as vLLM calls the modules that choose their kernels."""

PLAIN_EXPERTS, FP8, MXFP4, NVFP4, WNA16 = "plain", "fp8", "mxfp4", "nvfp4", "wna16"
INT8 = "int8"
NVFP4_ALONE = "nvfp4 with plain inputs"
NAMES = {
    PLAIN_EXPERTS: "Unquantized",
    FP8: "FP8",
    INT8: "Int8",
    MXFP4: "MXFP4",
    **dict.fromkeys((NVFP4, NVFP4_ALONE), "NvFp4"),
    WNA16: "WNA16",
}


def no_backend(kind: str) -> str:
    """Return the beginning of what vLLM says where no kernel suits experts of a format.

    Source: the selection in `layers/fused_moe/oracle`, 0.23 and 0.33.
    """
    return f"No {NAMES[kind]} MoE backend supports the deployment configuration."
