"""A model as the rules see it: which layers it has, and the geometry of their caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

from workbench.core.states import Ring, State
from workbench.core.weights import NO_WEIGHTS, UnreadWeights, Weights

FULL = "full_attention"
SLIDING = "sliding_attention"
CHUNKED = "chunked_attention"
SSM = "ssm"
LAYER_KINDS = (FULL, SLIDING, CHUNKED, SSM)
DEFAULT_MAX_MODEL_LEN = 2048
"""Tokens of the longest request where no field gives them, and no length is requested."""


V4, V41 = "deepseek_v4", "deepseek_v41"
"""The kinds of compressed attention."""
LATENT, FLOAT32_STATE, INDEX_KEY = "latent", "float32", "uint8"
"""How a `CompressedCache` stores a vector: as the KV-cache dtype says, in float32, in bytes."""


@dataclass(frozen=True, slots=True)
class CompressedCache:
    """One of the caches that a layer keeps alongside its attention, or of compressed attention."""

    part: str
    """Its place in the layer, as vLLM's name of it ends, such as "swa_cache"."""
    elements: int
    """Of one vector; bytes, scales included, of the key of an indexer."""
    stored: str = LATENT
    """LATENT, FLOAT32_STATE, INDEX_KEY, or the dtype of a float."""
    tokens_per_state: int = 1
    """Tokens in one vector."""
    window_tokens: int | None = None
    """Tokens that are kept, None for all."""
    block_size: int | None = None
    """Tokens of a block, None for the manager block of the model."""
    backend: str = ""
    """What reads it; empty where that is as `RuleSet.companions` says."""
    ring: Ring | None = None
    """Its block, of which a request has one; None for blocks of tokens."""
    num_heads: int = 1
    """Heads of a token, each of so many elements."""


class Layer(NamedTuple):
    """One cache-keeping part of a layer.

    A layer that has both attention and a state space gives two entries, attention first; a layer
    of compressed attention one for each cache.
    """

    number: int
    """From 0."""
    kind: str
    """One of LAYER_KINDS."""
    num_kv_heads: int | None = None
    """Of this layer alone, None where it is as `Attention` says."""
    head_size: int | None = None
    """Of this layer alone, None where it is as `Attention` says."""
    drafted: str = ""
    """How the name of a drafter's layer begins in vLLM; empty for the model's own."""
    cache: CompressedCache | None = None
    """Of compressed attention, or kept alongside the attention; else None."""
    state: State | None = None
    """Of this SSM layer alone, whole on every rank; None where it is as `Model.state` says."""


@dataclass(frozen=True, slots=True)
class Mtp:
    """The layers for multi-token prediction that a checkpoint brings: the drafter of method mtp."""

    model_type: str
    """model_type of the whole config.json, which shows vLLM that there are such layers."""
    layers: tuple[Layer, ...]
    """Those that keep a cache, numbered after the model's own; none where config.json says that
    there are none."""
    first_index: int
    """Number in vLLM's name of the first of these layers."""
    predictions: int | None
    """How many of them the file declares, None where it does not say; more draft tokens must be a
    multiple of it."""
    is_nested: bool = False
    """The declaration is in a part of the file, not at its top."""
    max_predictions: int | None = None
    """The most that vLLM's drafter of this family runs, None without a limit."""
    chained: int = 1
    """How many of them draft one after the other, each a token further
    (`num_nextn_predict_layers`)."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """The indexer of sparse attention, which keeps one key of each token in addition to the latent.

    head_dim: elements of that key. followers: numbers of the layers that take the token choice of
    an earlier layer.
    """

    head_dim: int
    followers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Attention:
    """Geometry of the attention layers, of the whole model (not per rank)."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    """Elements of one cached head; for MLA kv_lora_rank + qk_rope_head_dim."""
    use_mla: bool = False
    is_sparse: bool = False
    compression: str = ""
    """Which compressed attention it is, V4 or V41, empty for none; its layers keep several caches,
    in `Layer.cache`: windows, compressed tokens, states."""
    output_groups: int | None = None
    """Groups of heads that the output of compressed attention is projected in."""
    has_sinks: bool = False
    has_mm_prefix: bool = False
    """Images are seen whole."""
    logits_soft_cap: float | None = None
    """Soft cap of attention scores, None without."""
    window_tokens: int | None = None
    """Window of sliding layers, None without any."""
    has_mixed_head_sizes: bool = False
    """Some layers have heads of another size; vLLM may then choose one backend for all."""
    shares_caches: bool = False
    """The last layers keep no cache and read that of an earlier one."""
    qk_nope_head_dim: int | None = None
    qk_rope_head_dim: int | None = None
    v_head_dim: int | None = None
    value_head_size: int | None = None
    """Elements of one cached value, None where it is as wide as a key."""
    indexer: Indexer | None = None
    """The token choice of sparse attention, else None."""
    own_backend: str | None = None
    """What its layers always take, whichever backend is requested."""
    side_backends: tuple[str, ...] = ()
    """What reads the caches that layers keep alongside their attention."""

    @property
    def pair_elements(self) -> int:
        """Return the elements of a key and its value, of one head and token."""
        return self.head_size + (self.value_head_size or self.head_size)

    @property
    def is_compressed(self) -> bool:
        """Return whether its layers compress tokens, or read those that others compressed."""
        return bool(self.compression)

    def of_layer(self, layer: Layer) -> Attention:
        """Return the geometry of one layer, which may have heads of its own."""
        if layer.num_kv_heads is None and layer.head_size is None:
            return self
        return _with_heads(self, layer.num_kv_heads, layer.head_size)

    def kv_heads_per_rank(self, tensor_parallel: int) -> int:
        """Return KV heads that one rank stores: 1 for MLA, else rounded down and at least 1."""
        if self.use_mla:
            return 1
        # fewer KV heads than ranks are replicated: ModelConfig.get_num_kv_heads
        return max(1, self.num_kv_heads // tensor_parallel)


@lru_cache(maxsize=1024)
def _with_heads(attention: Attention, kv_heads: int | None, head_size: int | None) -> Attention:
    return replace(
        attention,
        num_kv_heads=kv_heads or attention.num_kv_heads,
        head_size=head_size or attention.head_size,
    )


@dataclass(frozen=True, slots=True)
class Head:
    """What the config.json of a drafter says of layers that only a drafter has."""

    kinds: tuple[str, ...]
    """The kind of every layer as listed; full attention where nothing is listed."""
    window_tokens: int | None = None
    """Of its sliding layers, None without any."""
    is_causal: bool | None = None
    """Set for all layers, None where it follows from their kinds."""
    has_sinks: bool = False
    method: str | None = None
    """The method that the file itself names."""


@dataclass(frozen=True)
class Model:
    """What the rules need to know of a model; every number comes from its config.json."""

    name: str
    family: str
    model_type: str
    architecture: str
    layers: tuple[Layer, ...]
    attention: Attention | None
    state: State | None
    is_hybrid: bool
    """vLLM treats it as attention with SSM layers (chapter "cache modes" applies)."""
    is_attention_free: bool
    """A pure mamba model."""
    supports_all_mode: bool
    total_num_attention_heads: int
    model_dtype: str | None
    """The checkpoint's dtype, or None when config.json names none."""
    kv_cache_dtype: str
    """What the checkpoint's quantization requests when the user says "auto"."""
    ssm_cache_dtype: str | None
    """What vLLM writes over an "auto" `mamba_ssm_cache_dtype`, or None."""
    derived_max_model_len: int | None
    """Tokens, or None when config.json limits nothing."""
    chunk_size: int
    """Chunk of the state-space scan; 2048 is vLLM's value when config.json has none."""
    yarn_as_written: int | None = None
    """`derived_max_model_len` where yarn's factor is taken to be in the length already."""
    default_max_model_len: int | None = None
    """The length without a requested one, where it differs (longrope)."""
    hidden_size: int | None = None
    """Elements of the vector between layers, None when config.json names none."""
    num_hidden_layers: int = 0
    """All layers, also those that keep no cache: pipeline stages are cut of them."""
    quantization: str | None = None
    """The method that the checkpoint's weights are stored with, or None."""
    largest_item_tokens: int | None = None
    """Tokens of the largest image or video, where one must fit into a step; else None."""
    names_attention_layers: bool = True
    """Its per-layer list has entries that mean attention (TurboQuant needs one)."""
    mtp: Mtp | None = None
    """The layers of its MTP drafter, None where vLLM knows of none."""
    dspark: tuple[Layer, ...] = ()
    """The layers of the DSpark drafter that the checkpoint brings, none where it has none."""
    unread_weights: UnreadWeights = field(default=NO_WEIGHTS, repr=False, compare=False)
    """What reads `weights`."""
    whole_model_type: str = ""
    """model_type of the whole config.json, "" where that of the text model is the only one."""
    vocab_size: int | None = None
    """Of its input, None when config.json names none."""
    head: Head | None = None
    """What only a drafter's config.json says."""
    drafter: Model | None = None
    """The second checkpoint that drafts for it, as its config.json describes it."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Field -> where in config.json it came from."""
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.name, self.architecture))  # enough to find a model, and quick

    @property
    def weights(self) -> Weights:
        """Return its parameters, or why they are not known."""
        return self.unread_weights.of()

    @property
    def largest_attention(self) -> Attention | None:
        """Return the most KV heads and the largest head of any layer: what vLLM has for all."""
        # ModelArchitectureConfig does not know the heads of MiMo-V2's windows.
        if self.attention is None or self.attention.value_head_size is not None:
            return self.attention
        found = {self.attention.of_layer(layer) for layer in self.layers if layer.kind != SSM}
        return _with_heads(
            self.attention,
            max(one.num_kv_heads for one in found),
            max(one.head_size for one in found),
        )

    @property
    def draft_head(self) -> Head | None:
        """Return what the file of the second checkpoint says of layers that only a drafter has."""
        return None if self.drafter is None else self.drafter.head

    @property
    def attention_layers(self) -> int:
        """Return the number of attention layers."""
        return sum(layer.kind != SSM for layer in self.layers)

    @property
    def ssm_layers(self) -> int:
        """Return the number of SSM layers."""
        return sum(layer.kind == SSM for layer in self.layers)

    def origin(self, name: str) -> str:
        """Return one field's sentence: `num_kv_heads = 2 from text_config.num_key_value_heads`."""
        return self.origins[name]
