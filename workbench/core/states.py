"""State shapes of SSM layers: what one request keeps in one layer, per rank.

Shapes are those of vLLM's `get_mamba_state_shape_from_config` (0.23). Every size is per rank;
a dimension that the tensor-parallel size does not divide is refused, as vLLM refuses it.
"""

from dataclasses import dataclass
from math import gcd, prod
from typing import ClassVar, NamedTuple

from workbench.core.arithmetic import cdiv, next_power_of_2
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import Refused

Shape = tuple[int, ...]


def divide(dimension: int, tensor_parallel: int, what: str) -> int:
    """Return `dimension / tensor_parallel`. Errors: Refused when it is not exact."""
    if dimension % tensor_parallel:
        candidates = [
            {"tensor_parallel": tp}
            for tp in range(min(tensor_parallel, 64) - 1, 0, -1)
            # tp divides the dimension
            if gcd(dimension, tp) == tp
        ]
        raise Refused(
            "state_not_divisible",
            f"{what} = {dimension} cannot be split over tensor_parallel = {tensor_parallel} "
            f"ranks: {dimension} / {tensor_parallel} leaves {dimension % tensor_parallel}. "
            f"Choose a tensor_parallel that divides {dimension}.",
            field="tensor_parallel",
            operands={what: dimension, "tensor_parallel": tensor_parallel},
            candidates=candidates,
            vllm_text=f"{dimension} is not divisible by {tensor_parallel}",
        )
    return dimension // tensor_parallel


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Selective state space of Mamba: conv [k-1, I/tp], recurrent [I/tp, N]."""

    intermediate_size: int
    state_size: int
    conv_kernel: int

    kind: ClassVar[str] = "mamba1"
    backend: ClassVar[str] = "MAMBA1_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("conv", "recurrent")

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shapes of (conv, recurrent) state, per rank; drafts do not change them."""
        # mamba1_state_shape takes no number of drafts, unlike that of Mamba-2.
        inner = divide(self.intermediate_size, tensor_parallel, "intermediate_size")
        return (self.conv_kernel - 1, inner), (inner, self.state_size)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Mamba-2: conv [k-1+S, (I + 2*G'*N)/tp], recurrent [H/tp, P, N].

    G' replicates groups when tp does not divide them: every rank then holds one whole group.
    `checks_groups` is false for the one family whose layer has no such test (PLaMo2).
    """

    intermediate_size: int
    n_groups: int
    num_heads: int
    head_dim: int
    state_size: int
    conv_kernel: int
    checks_groups: bool = True

    kind: ClassVar[str] = "mamba2"
    backend: ClassVar[str] = "MAMBA2_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("conv", "recurrent")

    def groups(self, tensor_parallel: int) -> int:
        """Return G', the groups after replication, a multiple of `tensor_parallel`."""
        # A head needs its group on its own rank, so groups are copied until every rank has one
        # (MambaStateShapeCalculator.extra_groups_for_head_shards).
        if self.n_groups % tensor_parallel == 0:
            return self.n_groups
        return tensor_parallel

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shapes of (conv, recurrent) state, per rank."""
        # the convolution runs over x, B and C: B and C are one vector of N elements per group
        channels = self.intermediate_size + 2 * self.groups(tensor_parallel) * self.state_size
        conv = divide(channels, tensor_parallel, "conv channels")
        heads = divide(self.num_heads, tensor_parallel, "num_heads")
        return (
            # drafts: the inputs of as many more tokens are kept, to go back where one is rejected
            (self.conv_kernel - 1 + draft_tokens, conv),
            (heads, self.head_dim, self.state_size),
        )


@dataclass(frozen=True, slots=True)
class ShortConv:
    """Short convolution of LFM2: one state [k-1, D/tp].

    layer_dim: what the layers convolve, where the model's class names another width (LFM2-VL's).
    """

    conv_dim: int
    conv_kernel: int
    layer_dim: int | None = None

    kind: ClassVar[str] = "short_conv"
    backend: ClassVar[str] = "SHORT_CONV_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("conv",)

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shape of the conv state, per rank."""
        channels = divide(self.conv_dim, tensor_parallel, "conv_dim")
        return ((self.conv_kernel - 1 + draft_tokens, channels),)


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """Gated delta net: conv [k-1+S, (2*hk*nk + hv*nv)/tp], recurrent [nv/tp, hv, hk]."""

    num_key_heads: int
    num_value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int

    kind: ClassVar[str] = "gdn"
    backend: ClassVar[str] = "GDN_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("conv", "recurrent")

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shapes of (conv, recurrent) state, per rank."""
        channels = (
            # the convolution runs over queries, keys and values together
            2 * self.key_head_dim * self.num_key_heads + self.value_head_dim * self.num_value_heads
        )
        conv = divide(channels, tensor_parallel, "conv channels")
        heads = divide(self.num_value_heads, tensor_parallel, "linear_num_value_heads")
        return (
            # heads of values: several of them share a key head
            (self.conv_kernel - 1 + draft_tokens, conv),
            (heads, self.value_head_dim, self.key_head_dim),
        )


@dataclass(frozen=True, slots=True)
class KimiDeltaAttention:
    """Kimi delta attention: conv [k-1, 3*H*hd/tp], recurrent [H/tp, hd, hd].

    The recurrent state is float32 whatever the model is; 0.33 takes bfloat16 on request, too.
    """

    num_heads: int
    head_dim: int
    conv_kernel: int
    is_bounded: bool = False
    """Its gate has a lower bound, which a kernel for prefills needs."""

    kind: ClassVar[str] = "kda"
    backend: ClassVar[str] = "GDN_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("conv", "recurrent")

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shapes of (conv, recurrent) state, per rank."""
        # three convolutions of one width: queries, keys, values
        channels = divide(3 * self.num_heads * self.head_dim, tensor_parallel, "conv channels")
        heads = divide(self.num_heads, tensor_parallel, "linear_attn_config.num_heads")
        return (
            (self.conv_kernel - 1 + draft_tokens, channels),
            (heads, self.head_dim, self.head_dim),
        )


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Lightning attention of MiniMax-Text-01: one state [H/tp, hd, hd], H/tp rounded down.

    mla_head_dim: what the configuration class of Bailing's hybrids, in the Transformers that 0.33
    needs, writes over head_dim (MLA's rotary part); None elsewhere.
    norm_groups: parts of its output that are normed apart, which ranks must divide; None for one
    norm of its whole output.
    """

    num_heads: int
    head_dim: int
    mla_head_dim: int | None = None
    norm_groups: int | None = None

    kind: ClassVar[str] = "linear_attention"
    backend: ClassVar[str] = "LINEAR_ATTN"
    parts: ClassVar[tuple[str, ...]] = ("recurrent",)

    def shapes(self, tensor_parallel: int, draft_tokens: int) -> tuple[Shape, ...]:
        """Return the shape of the recurrent state, per rank."""
        # linear_attention_state_shape does not test that it divides
        return ((self.num_heads // tensor_parallel, self.head_dim, self.head_dim),)


@dataclass(frozen=True, slots=True)
class Ring:
    """A block of one request that is written over and over: tokens that are not compressed yet.

    It holds so many tokens and the drafts, which are in it before they are accepted, in whole
    units.
    """

    tokens: int
    unit_tokens: int = 1
    is_power_of_two: bool = True
    """There are 1, 2, 4, ... units."""
    least_tokens: int = 1
    fills_page: bool = False
    """It is as large as a page of the attention, in a block of as many tokens, which must then be
    large enough."""
    refusal: str = ""
    """vLLM's words where its tokens must divide the `block` of the attention, and do not."""
    positions: int = 0
    """Elements of a vector that are positions of images, which a model for text alone has not."""

    def block_size(self, draft_tokens: int) -> int:
        """Return the tokens of the block."""
        units = cdiv(self.tokens + draft_tokens, self.unit_tokens)
        if self.is_power_of_two:
            units = next_power_of_2(units)
        return max(self.least_tokens, units * self.unit_tokens)


DRAFTED_STATES = "a drafter's state"
"""How the cache names what SSM layers of a drafter keep."""


class LayerStates(NamedTuple):
    """What one SSM layer keeps of one request, per rank: states of a kind, a dtype for each."""

    kind: str
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    stored: str = ""
    """DRAFTED_STATES where the target's layers keep others."""

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all of them."""
        sized = zip(self.shapes, self.dtypes, strict=True)
        return sum([prod(shape) * FLOAT_BYTES[dtype] for shape, dtype in sized])


State = Mamba1 | Mamba2 | ShortConv | GatedDeltaNet | KimiDeltaAttention | LinearAttention
