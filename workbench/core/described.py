"""What a quantization_config says of the weights, and what a version refuses to read of it.

Source: `from_config` and `__init__` of the configuration classes in layers/quantization.
"""

from collections.abc import Callable
from typing import NamedTuple

from workbench.core.errors import cut

AWQ, GPTQ, COMPRESSED = "awq", "gptq", "compressed-tensors"
AUTO_ROUND = "auto-round"
QUARK = "quark"
MODELOPT = "modelopt"
"""What ModelOpt's FP8 is called; names of its other methods begin with it."""


class Numbers(NamedTuple):
    """How numbers are stored: weights of compressed-tensors, or their inputs."""

    kind: str
    """"int" or "float"."""
    bits: int
    strategy: str
    """What shares a scale: "tensor", "channel", "group", "block", "token"."""
    group: int | None = None
    is_dynamic: bool = False
    is_symmetric: bool = True


class Compressed(NamedTuple):
    """What compressed-tensors says of linear layers, where it says the same of all."""

    weights: Numbers
    inputs: Numbers | None
    """None where they stay as they are."""
    format: str


class Description(NamedTuple):
    """What a quantization_config says, past its method."""

    bits: int | None = None
    """Of an integer."""
    is_symmetric: bool = True
    follows_activations: str = ""
    """How the order of groups follows the activations; empty where it does not."""
    is_for_marlin: bool = True
    """Marlin's kernels take the groups of a file of AWQ, under the keys of AutoAWQ."""
    packing: str = ""
    """Of AutoRound: how a file packs its integers."""
    layers: tuple[tuple[int, bool], ...] = ()
    """Of AutoRound: bits of the layers that a file excepts, and whether they are symmetric."""
    algorithm: str = ""
    """Of ModelOpt, where a file names its method; what ModelOpt wrote alone is read elsewhere."""
    missing: str = ""
    """The first key that the method needs and the file lacks, empty if none."""
    compressed: Compressed | None = None
    """Of compressed-tensors; None where its groups differ or say too little."""
    is_stated: bool = False
    """A file has one, and names its method."""

    @property
    def integers(self) -> str:
        """Return the kind of its integers in words."""
        return _integers(self.bits, is_symmetric=self.is_symmetric)

    @property
    def every(self) -> tuple[tuple[int | None, bool], ...]:
        """Return bits of its integers and whether they are symmetric, of excepted layers too."""
        return ((self.bits, self.is_symmetric), *self.layers)

    @property
    def every_integer(self) -> str:
        """Return the kinds of its integers in words."""
        kinds = dict.fromkeys(_integers(bits, is_symmetric=one) for bits, one in self.every)
        return " and ".join(kinds)


def _integers(bits: int | None, *, is_symmetric: bool) -> str:
    known = "an unknown number of" if bits is None else bits
    return f"{'' if is_symmetric else 'a'}symmetric integers of {known} bits"


class SplitLayer(NamedTuple):
    """A merged layer of which a list excludes some parts, and not all."""

    path: str
    is_named: bool
    """The list excludes the layer itself, too."""
    is_experts: bool = False
    """It is routed experts, of which names of the first one are looked up."""
    kind: str = ""
    """A key of `RuleSet.weight_copies`, where releases look up other names."""


class UnreadDescription(NamedTuple):
    """A description that a version does not read."""

    methods: frozenset[str]
    what: Callable[[Description], str]
    """What the file says and what is read, in words."""
    refuses: Callable[[Description], bool]
    vllm_text: Callable[[Description], str]
    platforms: tuple[str, ...] = ()
    """Where; empty for everywhere."""


MISSING_KEY = UnreadDescription(
    methods=frozenset({AWQ, GPTQ}),
    what=lambda given: f"without the key {given.missing.replace(', ', ' or ')}",
    refuses=lambda given: given.missing != "",
    # QuantizationConfig.get_from_keys
    vllm_text=lambda given: f"Cannot find any of [{given.missing}] in the model's quantization",
)
GPTQ_INTEGERS = UnreadDescription(
    methods=frozenset({GPTQ}),
    what=lambda given: f"in {given.integers}, only in symmetric ones of 4 or 8 bits",
    refuses=lambda given: given.bits not in {4, 8} or not given.is_symmetric,
    vllm_text=lambda given: (
        f"Unsupported quantization config: bits={given.bits}, sym={given.is_symmetric}"
    ),
)
AUTO_ROUND_INTEGERS = UnreadDescription(
    methods=frozenset({AUTO_ROUND}),
    what=lambda given: f"in {given.every_integer} packed as by GPTQ, only in symmetric ones",
    # INCConfig.apply_gptq_quant_layer, 0.23, and INCWNA16LinearScheme, 0.33; XPU says more
    refuses=lambda given: (
        given.packing.endswith("gptq") and not all(symmetric for _bits, symmetric in given.every)
    ),
    vllm_text=lambda _given: "INC ",
)
EARLIER_AUTO_ROUND = AUTO_ROUND_INTEGERS._replace(
    what=lambda given: f"{AUTO_ROUND_INTEGERS.what(given)} of 4 or 8 bits",
    # INCConfig.apply_gptq_quant_layer; Humming has the others in 0.33, on CUDA
    refuses=lambda given: (
        given.packing.endswith("gptq") and not {*given.every} <= {(4, True), (8, True)}
    ),
)
ON_XPU = AUTO_ROUND_INTEGERS._replace(
    what=lambda given: f"in {given.every_integer}, on XPU and CPU only in symmetric ones of 4 bits",
    # apply_xpu_w4a16_quant_layer and apply_cpu_w4a16_quant_layer, 0.23; get_linear_method, 0.33
    refuses=lambda given: not {*given.every} <= {(4, True)},
    platforms=("xpu",),
)
AUTO_ROUND_ELSEWHERE = (
    ON_XPU,
    ON_XPU._replace(
        refuses=lambda given: given.packing.endswith("gptq") and ON_XPU.refuses(given),
        platforms=("cpu",),
    ),
)
MODELOPT_ALGORITHMS = frozenset(
    {
        *("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "W4A16_NVFP4", "MXFP8"),
        "MIXED_PRECISION",
    }
)
"""QUANT_ALGOS of modelopt.py, 0.23 and 0.33."""
UNREAD_ALGORITHM = UnreadDescription(
    methods=frozenset(MODELOPT + end for end in ("", "_fp4", "_mixed", "_mxfp8")),
    what=lambda given: f"in {cut(given.algorithm)}",
    refuses=lambda given: given.algorithm.upper() not in {"", *MODELOPT_ALGORITHMS},
    vllm_text=lambda _given: "ModelOpt currently only supports: ",
)


def awq_integers(words: str, *taken: tuple[int, bool]) -> tuple[UnreadDescription, ...]:
    """Return the refusals of AWQ with a number of bits other than 4, of AutoRound packed so, too.

    taken: bits of AutoRound that have a kernel as well, and whether they are symmetric.
    """
    own = UnreadDescription(
        methods=frozenset({AWQ}),
        what=lambda given: f"in {given.integers}, only in those of 4 bits",
        refuses=lambda given: given.bits != 4,
        vllm_text=lambda _given: words,
    )
    packed = own._replace(
        methods=frozenset({AUTO_ROUND}),
        what=lambda given: f"in {given.every_integer} packed as by AWQ, only in those of 4 bits",
        refuses=lambda given: (
            given.packing.endswith("awq")
            and any(one[0] != 4 and one not in taken for one in given.every)
        ),
    )
    return own, packed


def ordered_groups(method: str, words: str) -> UnreadDescription:
    """Return the refusal of groups whose order follows the activations."""
    return UnreadDescription(
        methods=frozenset({method}),
        what=lambda given: f"in groups that follow the activations ({given.follows_activations})",
        refuses=lambda given: given.follows_activations != "",
        vllm_text=lambda given: words.format(order=given.follows_activations),
    )


GPTQ_ORDER = ordered_groups(GPTQ, "GPTQ group activation ordering (desc_act=True) is no longer")
COMPRESSED_ORDER = ordered_groups(COMPRESSED, "actorder={order}")
"""vLLM's words from 0.33 on; newer releases of compressed-tensors than it asks for have others."""


def loading_words(*words: str) -> UnreadDescription:
    """Return the refusal of files whose method is a word for `--quantization` alone."""
    return UnreadDescription(
        methods=frozenset(words),
        what=lambda _given: "by a file, only as they load",
        refuses=lambda given: given.is_stated,
        # OnlineQuantizationConfig.from_config
        vllm_text=lambda _given: "OnlineQuantizationConfig does not support loading from a",
    )


LOADING_WORDS = ("fp8_per_tensor", "fp8_per_block", "int8_per_channel_weight_only", "online")
"""Of 0.23 and 0.33 (`_ONLINE_SHORTHANDS`)."""
