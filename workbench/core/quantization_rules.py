"""What one vLLM version reads of quantized checkpoints, and which kernels it has for them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from workbench.core.described import UnreadDescription
from workbench.core.missing_kernels import MissingKernel, Stored, lacks_no_kernel, lacks_none
from workbench.core.online import OnlineMethod


@dataclass(frozen=True)
class QuantizationRules:
    """What one version makes of quantized weights: methods, refusals and kernels."""

    methods: frozenset[str] = frozenset()
    """What checkpoints may be stored with, and what `--quantization` may say."""
    online_methods: Mapping[str, OnlineMethod] = field(default_factory=dict)
    """Word of `--quantization` -> what it makes of a checkpoint with plain weights."""
    has_plain_awq: bool = False
    """AWQ without Marlin's kernels is a method of its own, which takes float16 only."""
    min_capabilities: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Method -> the compute capability that it needs, where that is above 7.5."""
    unlisted_methods: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Platform -> methods that it does not list."""
    modelopt_algorithms: frozenset[str] = frozenset()
    """What ModelOpt may name in a file that it wrote itself."""
    unread_descriptions: tuple[UnreadDescription, ...] = ()
    """Descriptions of quantized weights that it does not read."""
    tests_merged_path: bool = False
    """A list that names a merged layer itself excludes all of it, whatever it says of its parts."""
    words_of_split_layer: str = ""
    """What methods with schemes of their own say to a merged layer excluded in part."""
    kv_scale_methods: frozenset[str] = frozenset()
    """Methods of checkpoints whose attention layers have scales for the cache."""
    layers_without_scales: frozenset[str] = frozenset()
    """Modules that build attention layers without the quantization: none has such scales."""
    plain_experts: Mapping[str, str] = field(default_factory=dict)
    """Platform where AutoRound's experts stay plain -> how the names of such packings end."""
    reads_joined_weights: bool = False
    """Mamba-2 reads the weight of a projection whose outputs ranks do not divide as groups."""
    missing_kernels: tuple[MissingKernel, ...] = ()
    """Formats of checkpoints that some devices have no kernel for."""
    grouped_on_rocm: frozenset[str] = frozenset({"compressed-tensors", "gptq"})
    """Methods whose layers of grouped integers need one of ROCm's kernels."""
    awq_in_any_share: frozenset[str] = frozenset()
    """Platforms whose kernel of AWQ takes shares that cut a group of inputs."""
    words_of_cut_groups: str = ""
    """What compressed-tensors says to a share that cuts a group of integers; no words in 0.23."""
    words_of_cut_experts: str | None = None
    """The same of experts, None where such a share is not refused."""
    lacks_packed_experts: Callable[..., bool] = lacks_none
    """Whether an assertion stops experts of compressed-tensors whose inputs stay as they are."""
    asks_no_kernel: Callable[[Stored], bool] = lacks_no_kernel
    """Whether the method of experts in packed integers takes no kernel from the list of them."""
    smallest_refined_block: int | None = None
    """To what blocks of fp8 experts are cut at least where no rank has whole ones; None: not."""
    fp8_on_gfx: tuple[str, ...] = ("gfx",)
    """Beginnings of the AMD devices that have kernels for experts in fp8."""
    clamped_nvfp4: frozenset[str] = frozenset()
    """Architectures whose experts in NVFP4 need a kernel that clamps, which SM10x alone has."""
    amx_experts: frozenset[str] = frozenset()
    """Formats of experts that a CPU has kernels for, if it has AMX tiles."""
    no_invariant_experts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Format of experts -> platform without a batch-invariant kernel for it -> vLLM's text."""
    unadapted_experts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(platform, format of experts) whose one kernel takes no adapters -> vLLM's text."""
