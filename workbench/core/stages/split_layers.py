"""Merged layers of which a quantization_config excludes a part, and not all."""

from workbench.core.described import COMPRESSED, QUARK
from workbench.core.online import is_online
from workbench.core.working_plan import WorkingPlan

SCHEMES = frozenset({COMPRESSED, QUARK})
"""Methods with schemes of their own for parts of a layer."""
# is_layer_skipped of quant_utils.py, 0.23 and 0.33
SHARDS = "Detected some but not all shards of "
# CompressedTensorsMoEMethod.get_moe_method, 0.23 and 0.33
PROJECTIONS = "All MoE projections need to have same quantization scheme but found multiple"


def split_layers(run: WorkingPlan) -> None:
    """Refuse the first merged layer that is excluded in part."""
    if not (run.model.is_quantized or run.model.quantization):
        return  # nothing is excluded, and reading the weights of a model takes milliseconds
    rules, copies = run.rules.quantization, run.rules.weight_copies
    known = (one for one in run.model.weights.split_layers if copies.get(one.kind, 1))
    layer = next((one for one in known if not (one.is_named and rules.tests_merged_path)), None)
    if layer is None or is_online(run.model):
        return
    by_scheme = run.model.quantization in SCHEMES
    run.problem(
        "layer_excluded_in_part",
        operands={"layer": layer.path},
        vllm_text=PROJECTIONS
        if layer.is_experts
        else rules.words_of_split_layer
        if by_scheme
        else SHARDS,
    )
