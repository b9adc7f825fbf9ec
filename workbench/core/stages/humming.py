"""What `--quantization humming` refuses: it reads the weights of a checkpoint by itself.

Source: `from_config` of `BaseWeightSchema` and `ModeloptWeightSchema`, humming-kernels 0.1.19.
"""

from workbench.core.described import MODELOPT
from workbench.core.online import HUMMING, as_stored
from workbench.core.working_plan import WorkingPlan

READ = frozenset(
    {
        *("auto-round", "awq", "bitnet", "compressed-tensors", "fp8", "gptq", "mxfp4", "quark"),
        *("modelopt_fp4", "modelopt_mxfp8"),
    }
)
"""Methods of checkpoints that it reads."""


def humming_reads(run: WorkingPlan) -> None:
    """Refuse humming for a checkpoint whose method it does not read."""
    method = as_stored(run.model).quantization
    if run.settings.quantization != HUMMING or method is None or method in READ:
        return
    is_modelopt = method.startswith(MODELOPT)
    run.problem(
        "humming_reads_other_methods",
        operands={"quantization": method, "allowed": sorted(READ)},
        vllm_text=(
            "unsupported modelopt algo: "
            if is_modelopt
            else f"unsupported weight quant_method: {method}"
        ),
        humming=HUMMING,
        known=", ".join(sorted(READ)),
    )
