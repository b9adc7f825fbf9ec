"""What refuses how the weights of a checkpoint are stored: the method, and the model's dtype.

Source: `ModelConfig._verify_quantization` and `get_supported_act_dtypes` of the methods, 0.23 and
0.33.
"""

from workbench.core.errors import Refused
from workbench.core.rule_set import RULE_SETS
from workbench.core.working_plan import WorkingPlan

QUANTIZATION_DTYPES = {
    **dict.fromkeys(("awq", "fp8", "gptq"), ("bfloat16", "float16")),
    **dict.fromkeys(("modelopt", "modelopt_fp4", "modelopt_mixed"), ("bfloat16", "float16")),
    "modelopt_mxfp8": ("bfloat16",),
    "mxfp4": ("bfloat16",),
}
"""Method -> model dtypes. Source: `get_supported_act_dtypes` of the methods, 0.23 and 0.33."""


def quantization_known(run: WorkingPlan) -> None:
    """Refuse a method of quantization that the version does not have. Errors: Refused."""
    method, known = run.model.quantization, run.rules.quantization_methods
    if method is None or method.lower() in known:
        return
    versions = [one for one, rules in RULE_SETS.items() if method in rules.quantization_methods]
    raise Refused(
        "quantization_unknown",
        f"The checkpoint is quantized with {method}, which {run.rules.title} does not have. Take "
        f"a checkpoint stored otherwise{f', or vLLM {versions[-1]}' if versions else ''}.",
        field="model",
        operands={"quantization": method, "known": sorted(known)},
        candidates=[{"rules": name} for name in reversed(versions)],
        # Raised by ModelConfig._verify_quantization
        vllm_text=f"Unknown quantization method: {method.lower()}. Must",
    )


def quantization_dtype(run: WorkingPlan) -> None:
    """Refuse model dtypes that the kernels of quantized weights do not take."""
    method, dtype = run.model.quantization, run.model_dtype
    allowed = QUANTIZATION_DTYPES.get(method or "")
    if allowed is None or dtype in allowed:
        return
    raise Refused(
        "quantization_dtype",
        f"The checkpoint is quantized with {method}, whose kernels run in {' or '.join(allowed)}; "
        f"dtype = {dtype} is neither. Nearest valid value: {allowed[0]}.",
        field="dtype",
        operands={"dtype": dtype, "quantization": method, "allowed": list(allowed)},
        candidates=[{"dtype": value} for value in ("auto", *allowed)],
        vllm_text=f"torch.{dtype} is not supported for quantization method",
    )
