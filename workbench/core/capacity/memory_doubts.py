"""What the estimate of a device's memory may be off by, and why: the parts of its margin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from workbench.core.arithmetic import GIB
from workbench.core.capacity.draft_weights import SHARE_OF_CHECKPOINT, copies_of
from workbench.core.media import takes_items
from workbench.core.platforms import HOPPER
from workbench.core.ranks import Split, split_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan

LARGER, SMALLER = 1.1, 2.2
"""Of a checkpoint, how much more or less vLLM may make of it: it adds tables, omits MTP
layers, and halves float32."""
SURE = int(0.3 * GIB)
RANKS_ELSEWHERE = int(0.27 * GIB)
"""What ranks need to talk to each other on other chips than Hopper, whose switches keep buffers of
their own (NVLS): as two RTX 5090 printed it."""
DOUBT_OF_RANKS = int(1.0 * GIB)
"""What that may be off by: four GB200 need 0.7 GiB."""
HOST = int(4.4 * GIB)
"""What the processes take of a memory that is the host's, too, where vLLM counts them
(`MemorySnapshot.measure`): one start on GB10 printed 4.64 GiB next to its weights."""
DOUBT_OF_HOST = int(2.5 * GIB)
TOWER_PER_TOKEN = 180 * 1024
"""Of a step's tokens, what the profile of images may take in addition (one start of Gemma 4)."""
SHARE_OF_ACTIVATIONS, SHARE_OF_GRAPHS = 0.35, 0.7
"""Of the estimated parts that may be wrong, in addition to `SURE`."""
COMPILED = "a copy of the vocabulary, which only a start that compiles makes"
BELOW_DRIVER = int(0.75 * GIB)
"""What torch's total may lack of the driver's: 0.35 to 0.75 GiB on the devices that have both."""
OF_PLATFORM = {
    "cuda": (0.0, ""),
    "rocm": (0.05, "constants of CUDA on ROCm, where one start was compared"),
    "xpu": (0.1, "constants of CUDA on XPU, where no start was compared"),
}
"""Platform -> what the estimate may be off by, of the device's memory, and why. Only CUDA's starts
gave the constants; ROCm and XPU run the same worker."""


class Doubt(NamedTuple):
    """One part of the margin."""

    size_bytes: int
    reason: str


class Measured(NamedTuple):
    """What vLLM measures while it starts, as the estimate has it."""

    weights: int
    activations: int
    graphs: int
    drafter_vocabulary: int
    """Not counted: the drafter takes the target's."""
    copied: int
    """What the peak of a start that compiles has in addition."""


def talking_ranks(plan: Plan) -> int:
    """Return how many ranks exchange what they compute, those of other engines too."""
    return split_of(plan).of_experts * plan.settings.pipeline_parallel


def is_unified(plan: Plan) -> bool:
    """Return whether the device has the host's memory."""
    return plan.device is not None and plan.device.is_unified


def _of_checkpoint(plan: Plan, counted: int) -> Doubt:
    """Return what the files next to config.json say against the count, if there are any."""
    weights, ranks = plan.model.weights, plan.settings.tensor_parallel
    if plan.settings.weights_bytes is not None or not weights.checkpoint_bytes:
        return Doubt(0, "")
    if weights.unknown:
        return Doubt(int(SHARE_OF_CHECKPOINT * counted), "weights by the checkpoint's size")
    whole = weights.size(Split(), plan.model_dtype, copies_of(plan)) or 0
    held = weights.checkpoint_bytes
    off = max(whole - LARGER * held, held / SMALLER - whole, 0)
    return Doubt(int(off / ranks), "the checkpoint's size differs from what config.json gives")


def doubts(plan: Plan, device_bytes: int, found: Measured) -> tuple[Doubt, ...]:
    """Return the parts of the margin, the largest first; explicit sizes are not in doubt."""
    settings = plan.settings
    of_device, platform = OF_PLATFORM[plan.platform.name]
    activations = 0 if settings.activation_bytes is not None else found.activations
    copied = 0 if settings.activation_bytes is not None else found.copied
    graphs = 0 if settings.cuda_graph_bytes is not None else found.graphs
    elsewhere = talking_ranks(plan) > 1 and plan.capability != HOPPER
    sees = plan.model.weights.has_tower and takes_items(plan)
    is_unseen = sees and plan.model.weights.image is None
    tokens = plan.max_num_batched_tokens if is_unseen else 0
    is_driver = settings.device_memory_bytes is None and not (
        plan.device is not None and plan.device.torch_bytes
    )
    parts = (
        Doubt(int(of_device * device_bytes), platform),
        Doubt(int(SHARE_OF_ACTIVATIONS * activations), "activations of the profiling run"),
        Doubt(copied, COMPILED),
        Doubt(int(SHARE_OF_GRAPHS * graphs), "CUDA graphs"),
        Doubt(BELOW_DRIVER if is_driver else 0, "the device's total, which only the driver gave"),
        Doubt(SURE, "non-torch allocations"),
        Doubt(DOUBT_OF_RANKS if elsewhere else 0, "buffers between ranks on this chip"),
        Doubt(DOUBT_OF_HOST if is_unified(plan) else 0, "the host's processes, in one memory"),
        Doubt(TOWER_PER_TOKEN * tokens, "images of the profiling run, which are not modelled"),
        Doubt(found.drafter_vocabulary, "a vocabulary of the drafter's own"),
        _of_checkpoint(plan, found.weights),
    )
    return tuple(sorted((one for one in parts if one.size_bytes), reverse=True))
