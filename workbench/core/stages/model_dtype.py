"""The dtype of weights and activations: the checkpoint's, unless the model or the device lacks it.

Source: `_get_and_verify_dtype` and `_FLOAT16_NOT_SUPPORTED_MODELS` of config/model.py, and the
platforms' `supported_dtypes` and `check_if_supports_dtype`.
"""

from workbench.core.pooling import pools
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

MODEL_DTYPE = Rule(
    "model_dtype",
    "Model dtype",
    "the explicit dtype, else the checkpoint's; a float32 checkpoint, or one in a dtype that the "
    "model or the device does not run, becomes the platform's first, and of a model that pools "
    "float16",
)
UNSTABLE_IN_FLOAT16 = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4", "plamo2"})
POOLED_DTYPE = "float16"
AMPERE = (8, 0)


def model_dtype(run: WorkingPlan) -> None:
    """Resolve the dtype of weights and activations; some models refuse float16."""
    explicit, stored = run.settings.dtype, run.model.model_dtype
    kind = run.model.whole_model_type or run.model.model_type
    unstable = kind in UNSTABLE_IN_FLOAT16
    # _FLOAT16_NOT_SUPPORTED_MODELS of config/model.py, and the platform's supported_dtypes
    taken = [
        dtype
        for dtype in run.platform.float_dtypes
        if not (unstable and dtype == "float16") and not (dtype == "bfloat16" and _is_turing(run))
    ]
    if explicit != "auto":
        run.model_dtype = explicit
    # Checkpoints in float32 are served in half precision unless that is set (_resolve_auto_dtype).
    elif stored in taken and stored != "float32":
        run.model_dtype = stored
    else:
        is_half = pools(run.model.pooling) and POOLED_DTYPE in taken
        run.model_dtype = POOLED_DTYPE if is_half else taken[0]
    run.step(MODEL_DTYPE, run.model_dtype, explicit=explicit, checkpoint=stored)
    if unstable and run.model_dtype == "float16":
        raise run.refusal(
            "float16_not_supported", operands={"dtype": "float16", "model_type": kind}
        )


def _is_turing(run: WorkingPlan) -> bool:
    """Return whether a CUDA device is older than Ampere, which computes in bfloat16 first."""
    return run.capability is not None and run.capability < AMPERE


def dtype_of_device(run: WorkingPlan) -> None:
    """Refuse bfloat16 on a device that lacks it, which a worker finds before it loads the model."""
    if run.model_dtype != "bfloat16" or not _is_turing(run):
        return
    capability = "{}.{}".format(*run.capability or ())
    raise run.refusal(
        "bfloat16_not_supported", operands={"dtype": "bfloat16", "compute_capability": capability}
    )
