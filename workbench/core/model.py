"""A model as the rules see it: which layers it has, and the geometry of their caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from workbench.core.described import Description
from workbench.core.draft_parts import Head, Mtp
from workbench.core.model_text import ModelText
from workbench.core.pooling import Pooling
from workbench.core.published import OUTSIDE_DIGEST
from workbench.core.ranks import Tower
from workbench.core.states import Ring, State
from workbench.core.trace import Origin
from workbench.core.weights import NO_WEIGHTS, UnreadWeights, Weights

FULL, SLIDING = "full_attention", "sliding_attention"
CHUNKED, CROSS, SSM = "chunked_attention", "cross_attention", "ssm"
DECODER, ENCODER_DECODER, ENCODER_ONLY = "decoder", "encoder_decoder", "encoder_only"
OUTSIDE = {OUTSIDE_DIGEST: True}
DEFAULT_MAX_MODEL_LEN = 2048
"""Tokens of the longest request where no field gives them, and no length is requested."""
V4, V41 = "deepseek_v4", "deepseek_v41"
LATENT, FLOAT32_STATE, INDEX_KEY = "latent", "float32", "uint8"
"""How a `CompressedCache` stores a vector: as the KV-cache dtype says, in float32, in bytes."""
INDEXER_KEYS = ".indexer.k_cache"
"""The `CompressedCache.part` of an indexer's keys."""


@dataclass(frozen=True, slots=True)
class CompressedCache:
    """One of the caches that a layer keeps alongside its attention, or of compressed attention."""

    part: str
    """Its place in the layer, as vLLM's name of it ends, such as "swa_cache"."""
    elements: int
    """Of one vector; bytes, scales included, of the key of an indexer."""
    stored: str = LATENT
    """LATENT, FLOAT32_STATE, INDEX_KEY, or the dtype of a float."""
    tokens_per_state: int | Fraction = 1
    """Tokens in one vector, or the share of one."""
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
    splits_heads: bool = False
    """Its heads are dealt out to the ranks; those of other caches are whole on every rank."""
    is_plain: bool = False
    """vLLM's class of it is one of ordinary attention, not of MLA."""


class Layer(NamedTuple):
    """A part of a layer that keeps a cache: attention, states after it, or compressed tokens."""

    number: int
    """From 0."""
    kind: str
    """FULL, SLIDING, CHUNKED, CROSS or SSM."""
    num_kv_heads: int | None = None
    head_size: int | None = None
    """Both of this layer alone, None where they are as `Attention` says."""
    drafted: str = ""
    """How the name of a drafter's layer begins in vLLM; empty for the model's own."""
    cache: CompressedCache | None = None
    """Of compressed attention, or kept alongside the attention; else None."""
    state: State | None = None
    """Of this SSM layer alone, whole on every rank; None where it is as `Model.state` says."""
    makes_spec: bool = False
    """Its class makes its spec: neither lists of layers to skip nor packed formats change it."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """The indexer of sparse attention: one key of each token, in addition to the latent."""

    head_dim: int
    """Elements of that key."""
    followers: frozenset[int] = frozenset()
    """Layers that take the token choice of an earlier one."""


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
    """V4 or V41, empty for none: attention whose layers keep several caches, in `Layer.cache`."""
    output_groups: int | None = None
    """Groups of heads that the output of compressed attention is projected in."""
    has_sinks: bool = False
    seen_whole: frozenset[str] = frozenset()
    """What the model takes besides text, if tokens of an image see each other; else empty."""
    has_alibi: bool = field(default=False, metadata=OUTSIDE)
    logits_soft_cap: float | None = None
    window_tokens: int | None = None
    """Window of sliding layers, None without any."""
    has_mixed_head_sizes: bool = False
    """Some layers have heads of another size; vLLM may then choose one backend for all."""
    shares_caches: bool = False
    """The last layers keep no cache and read that of an earlier one."""
    rope_sections: tuple[int, int] | None = None
    """Pairs that sections of the rotary embedding cover, and that are rotated."""
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
    key_tokens: int = 1
    """Tokens of one key in the cache by which layers choose tokens."""
    chosen_tokens: int | None = None
    """How many tokens sparse attention chooses, None for all."""
    full_spec: str = ""
    """vLLM's class of a cache of all tokens, where it is another than for most models."""
    canvas_tokens: int | None = None
    """Of a diffusion model: tokens that see each other while they are drawn, None for others."""
    type: str = DECODER
    """AttentionType of vLLM: keys and values are of the tokens, of an encoder, or not kept."""
    hides_own_heads: bool = False
    """vLLM knows the heads of single layers only when it builds them."""

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
        own = self if layer.kind != CROSS else _replaced(self, type=ENCODER_DECODER)
        if layer.num_kv_heads is None and layer.head_size is None:
            return own
        return _replaced(own, num_kv_heads=layer.num_kv_heads, head_size=layer.head_size)

    def kv_heads_per_rank(self, tensor_parallel: int) -> int:
        """Return KV heads that one rank stores: 1 for MLA, else rounded down and at least 1."""
        if self.use_mla:
            return 1
        # fewer KV heads than ranks are replicated: ModelConfig.get_num_kv_heads
        return max(1, self.num_kv_heads // tensor_parallel)


@lru_cache(maxsize=1024)
def _replaced(attention: Attention, **more: Any) -> Attention:
    return replace(attention, **{key: one for key, one in more.items() if one is not None})


@dataclass(frozen=True, repr=False)
class Model(ModelText):
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
    class_max_model_len: int | None = None
    """`derived_max_model_len` with a field of `RuleSet.completes_lengths`."""
    hidden_size: int | None = None
    """Elements of the vector between layers, None when config.json names none."""
    num_hidden_layers: int = 0
    """All layers, also those that keep no cache: pipeline stages are cut of them."""
    listed_blocks: int | None = None
    """What its class has for `num_hidden_layers`, where that counts both layers of its blocks."""
    quantization: str | None = None
    """The method that the checkpoint's weights are stored with, or None."""
    states_quantization: bool | None = None
    """Whether config.json has a `quantization_config`; None: if and only if it names a method."""
    online: tuple[str, Model] | None = field(default=None, metadata=OUTSIDE)
    """The word of `--quantization` that its weights are loaded with, and the model without it."""
    modelopt_algorithm: str | None = None
    """The algorithm of a file that ModelOpt wrote itself, None of others."""
    described: Description = field(default=Description(), metadata=OUTSIDE)
    pooling: Pooling | None = field(default=None, metadata=OUTSIDE)
    largest_item_tokens: int | None = None
    """Tokens of the largest image or video, where one must fit into a step; else None."""
    is_encoder_decoder: bool = False
    """An encoder reads the input whole: a step is never a part of a prompt."""
    names_attention_layers: bool = True
    """Its per-layer list has entries that mean attention (TurboQuant needs one)."""
    stated: Attention | None = None
    """The attention as vLLM counts it, where the layers are built otherwise."""
    mtp: Mtp | None = None
    """The layers of its MTP drafter, None where vLLM knows of none."""
    dspark: tuple[Layer, ...] = ()
    """The layers of the DSpark drafter that the checkpoint brings, none where it has none."""
    unread_weights: UnreadWeights = field(default=NO_WEIGHTS, compare=False)
    """What reads `weights`."""
    whole_model_type: str = ""
    """model_type of the whole config.json, "" where that of the text model is the only one."""
    towers: tuple[Tower, ...] = ()
    """For sound and images as they are built, where their heads are known."""
    vocab_size: int | None = None
    """Of its input, None when config.json names none."""
    num_experts: int = field(default=0, metadata=OUTSIDE)
    """As vLLM counts them: above 0 it treats the model as a mixture of experts."""
    build_errors: Mapping[str, str] = field(default_factory=dict, metadata=OUTSIDE)
    """Module of its class, "" any -> how the text begins that it raises of this config.json."""
    layer_class: str = field(default="", metadata=OUTSIDE)
    """The architecture that builds the attention layers: of a wrapper, what it wraps."""
    derived_head_size: int | None = None
    """hidden_size // num_attention_heads, where that is not the size of a head that is stated."""
    head: Head | None = None
    """What only a drafter's config.json says."""
    drafter: Model | None = None
    """The second checkpoint that drafts for it, as its config.json describes it."""
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """Field -> where in config.json it came from."""
    state_fields: tuple[str, ...] = field(default=(), compare=False)
    """Names among `origins` that the shapes of its states follow from."""
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.name, self.architecture))  # enough to find a model, and quick

    @property
    def weights(self) -> Weights:
        """Return its parameters, or why they are not known."""
        return self.unread_weights.of()

    @property
    def is_quantized(self) -> bool:
        """Return whether config.json says how weights are quantized, with or without a method."""
        return bool(self.quantization if (own := self.states_quantization) is None else own)

    @property
    def counted(self) -> Attention | None:
        """Return the attention as vLLM counts it for the whole model."""
        return self.stated or self.attention

    @cached_property
    def largest_attention(self) -> Attention | None:
        """Return the most KV heads and the largest head of any layer (ModelArchitectureConfig)."""
        if self.attention is None or self.attention.hides_own_heads or not self.layers:
            return self.attention
        found = [self.attention.of_layer(layer) for layer in self.layers if layer.kind != SSM]
        heads, size = max(one.num_kv_heads for one in found), max(one.head_size for one in found)
        return _replaced(self.attention, num_kv_heads=heads, head_size=size)

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
