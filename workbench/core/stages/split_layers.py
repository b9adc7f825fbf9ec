"""Merged layers of which a quantization_config excludes a part, and not all."""

from workbench.core.described import COMPRESSED, QUARK
from workbench.core.online import is_online
from workbench.core.weights import EARLIER
from workbench.core.working_plan import WorkingPlan

# should_ignore_layer of compressed_tensors/utils.py and quark/utils.py, 0.23 and 0.33
SCHEMES = frozenset({COMPRESSED, QUARK})
EARLIER_TEXT = "Found a different quantization schemes for "
LATER_TEXT = "Found different quantization schemes for the shards of "
# is_layer_skipped of quant_utils.py
SHARDS = "Detected some but not all shards of "


def split_layers(run: WorkingPlan) -> None:
    """Refuse the first merged layer that is excluded in part."""
    is_earlier = run.rules.weight_copies.get(EARLIER, 1) > 0
    layer = run.model.weights.splits[not is_earlier]
    if not layer or is_online(run.model):
        return
    text = EARLIER_TEXT if is_earlier else LATER_TEXT
    run.problem(
        "layer_excluded_in_part",
        operands={"layer": layer},
        vllm_text=text if run.model.quantization in SCHEMES else SHARDS,
    )
