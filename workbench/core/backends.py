"""What an attention backend is: a record of what it supports, and why it may refuse a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.core.backend_limits import ANY_DEVICE, ANY_HEAD, Capabilities, HeadSizes
from workbench.core.block_sizes import (
    BlockSize,
    MultipleOf,
    scaled,
    smallest_base,
    supports_block_size,
)
from workbench.core.dtypes import FP8_DTYPES
from workbench.core.layer_query import LayerQuery
from workbench.core.layouts.shapes import CacheLayout
from workbench.core.model import DECODER
from workbench.core.packing import Packing

UNQUANTIZED = ("auto", "float16", "bfloat16")
FP8_ANY = ("fp8", "fp8_e4m3", "fp8_e5m2")
FP8_E4M3 = ("fp8", "fp8_e4m3")


Condition = Callable[[LayerQuery], bool]


def always(_query: LayerQuery) -> bool:
    """Return True: the condition holds everywhere."""
    return True


def never(_query: LayerQuery) -> bool:
    """Return False: the condition holds nowhere."""
    return False


class Rank(NamedTuple):
    """A place in a platform's order of choice: the smallest number is tried first.

    where: what must hold of the layer besides; mla: for which kind of attention, None for the
    backend's own.
    """

    platform: str
    number: int
    where: Condition = always
    mla: bool | None = None


@dataclass(frozen=True, slots=True)
class Backend:
    """One attention backend, whole: all that a version says about it."""

    name: str
    platforms: tuple[str, ...]
    supported: tuple[BlockSize, ...]
    """Kernel block sizes in tokens."""
    with_float32_state: tuple[BlockSize, ...] | None = None
    """Those for hybrid models whose SSM state is set to float32; None: no difference."""
    supported_on: Mapping[str, tuple[BlockSize, ...]] = field(default_factory=dict)
    """Platform -> the kernel block sizes there."""
    supported_when: tuple[tuple[Condition, tuple[BlockSize, ...]], ...] = ()
    """Kernel block sizes where a condition holds; the first one wins."""
    counts_keys: bool = False
    """These sizes count keys of `Attention.key_tokens` tokens each."""
    exact_block_size: bool = False
    """The manager block must be one of the sizes; a multiple is refused."""
    preferred: int | None = None
    """The block that phase 1 takes if the default is refused; None: the smallest."""
    preferred_at_least: Mapping[str, int] = field(default_factory=dict)
    """Platform -> the smallest block that phase 1 takes, in tokens."""

    is_mla: bool = False
    is_ssm: bool = False
    is_sparse: bool = False
    compression: str = ""
    """The compressed attention that it reads, and nothing else; empty for other attention."""
    is_helper: bool = False
    """Keeps a cache alongside another backend's and is never chosen itself."""
    ranks: tuple[Rank, ...] = ()
    """Where it is in the order of choice of each platform; the first that holds counts."""
    on_request: Condition = never
    """Where it may be requested besides, on platforms that test nothing."""

    batch_invariant: bool = False
    non_causal: bool = False
    """It computes attention in which tokens see later ones."""
    suits_connectors: bool = True
    """A KV connector can read its cache."""
    returns_lse: bool = False
    """It returns the softmax LSE of a decode, so that ranks can share the tokens of a block."""
    types: tuple[str, ...] = (DECODER,)
    """Kinds of attention that it computes, as vLLM calls them."""
    head_sizes: HeadSizes = ANY_HEAD
    large_head_sizes: tuple[HeadSizes, Condition] | None = None
    """More head sizes where a condition holds."""
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    """Dtypes of the model."""
    kv_cache_dtypes: tuple[str, ...] = UNQUANTIZED
    extra_kv_cache_dtypes: tuple[tuple[str, ...], Condition] | None = None
    """More KV-cache dtypes where a condition holds."""
    capabilities: Capabilities = ANY_DEVICE
    tests_device: bool = True
    """vLLM tests compute capability and batch invariance; False: it starts without, and the kernels
    fail or vary later."""
    supports_sinks: Condition = never
    supports_mm_prefix: Condition = never
    own_reason: Callable[[LayerQuery], str | None] | None = None
    """A refusal that only this backend has."""
    fails_when_built: Callable[[LayerQuery], str | None] | None = None
    """Why its layers cannot be built although it is chosen: the beginning of vLLM's text."""
    cuda_graphs: str = "NEVER"
    """Level of support for CUDA graphs."""
    cuda_graphs_where: tuple[str, Condition] | None = None
    """Another level where a condition holds."""

    cache: CacheLayout | None = None
    """Shape and order of the cache of one layer."""
    layout: str | None = None
    """The layout name that it forces on all layers."""
    layout_on: Capabilities | None = None
    """Where it forces that name; None: everywhere."""
    orders: tuple[str, ...] | None = None
    """Orders of one allocation that it reads, best first; None: as the version prefers."""
    orders_on: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Major compute capability -> the orders that it reads there."""
    packs: Mapping[str, Packing] = field(default_factory=dict)
    """KV-cache dtype -> bytes of one token's keys, values and scales of one head."""
    stored_kv_cache_dtypes: Mapping[str, str] = field(default_factory=dict)
    """KV-cache dtype -> the packed format that its layers keep instead."""
    stored_where: Condition = always
    """Where they do."""
    reported_name: str | None = None
    """The name in vLLM's log, where it differs."""

    @property
    def is_selectable(self) -> bool:
        """Return whether the name is a choice of `--attention-backend`."""
        return not (self.is_ssm or self.is_helper)

    @property
    def log_name(self) -> str:
        """Return the name that vLLM's log shows."""
        return self.reported_name or self.name

    def supported_for(
        self, *, float32_state: bool = False, platform: str = "", query: LayerQuery | None = None
    ) -> tuple[BlockSize, ...]:
        """Return the supported kernel block sizes, given the hybrid's state, platform and layer."""
        sizes = self._sizes(float32_state, platform, query)
        if query is None or not self.counts_keys:
            return sizes
        return scaled(sizes, query.attention.key_tokens)

    def _sizes(
        self, float32_state: bool, platform: str, query: LayerQuery | None
    ) -> tuple[BlockSize, ...]:
        # a platform's sizes win over what the device or the model says
        if platform in self.supported_on:
            return self.supported_on[platform]
        for condition, sizes in self.supported_when:
            if query is not None and condition(query):
                return sizes
        if float32_state and self.with_float32_state is not None:
            return self.with_float32_state
        return self.supported

    def orders_for(self, capability: tuple[int, int] | None) -> tuple[str, ...] | None:
        """Return the orders of one allocation that it reads on a device, best first."""
        return self.orders if capability is None else self.orders_on.get(capability[0], self.orders)

    def rank(self, query: LayerQuery) -> int | None:
        """Return its number in the order of choice for `query`; None: it is not tried."""
        mla = query.attention.use_mla
        for platform, number, where, kind in self.ranks:
            fits = platform == query.platform and mla == (self.is_mla if kind is None else kind)
            if fits and where(query):
                return number
        return None

    def preferred_block_size(
        self, default: int, platform: str, supported: tuple[BlockSize, ...]
    ) -> int:
        """Return the block size of phase 1: `default` if supported, else the smallest base."""
        # AttentionBackend.get_preferred_block_size, 0.23 (#37467)
        # such a backend returns max(default, its smallest) without looking at what it supports
        if platform in self.preferred_at_least:
            return max(default, self.preferred_at_least[platform])
        if self.supports_block_size(supported, default):
            return default
        return self.preferred or smallest_base(supported)

    def supports_block_size(self, supported: tuple[BlockSize, ...], block_size: int | None) -> bool:
        """Return whether a manager block of `block_size` tokens can be cut into supported sizes."""
        # Source: AttentionBackend.supports_block_size; B12X, CPU_MLA (0.33) take exact sizes only.
        if self.exact_block_size:
            return block_size is None or block_size in supported
        return supports_block_size(supported, block_size)

    def accepted_kv_cache_dtypes(self, query: LayerQuery) -> tuple[str, ...]:
        """Return the KV-cache dtypes that this backend takes for `query`'s platform."""
        if self.extra_kv_cache_dtypes is None:
            return self.kv_cache_dtypes
        extra, condition = self.extra_kv_cache_dtypes
        return (*self.kv_cache_dtypes, *extra) if condition(query) else self.kv_cache_dtypes

    def accepts_head_size(self, query: LayerQuery) -> bool:
        """Return whether the query's head size is supported where the query runs."""
        if self.head_sizes.accepts(query.attention.head_size):
            return True
        if self.large_head_sizes is None:
            return False
        sizes, condition = self.large_head_sizes
        return condition(query) and sizes.accepts(query.attention.head_size)

    def runs_on(self, query: LayerQuery) -> bool:
        """Return whether its kernels run on the query's device."""
        return query.capability is None or self.capabilities.accepts(query.capability)

    def reasons_against(self, query: LayerQuery, supported: tuple[BlockSize, ...]) -> list[str]:
        """Return every reason to refuse `query`, in vLLM's words; empty when the backend is valid.

        `supported` is the list that holds for the model (see `supported_for`).
        """
        attention = query.attention
        # All of them, as validate_configuration collects them: vLLM warns of an explicit block size
        # only where that is a backend's one reason.
        tests = (
            (self.accepts_head_size(query), "head_size not supported"),
            (query.model_dtype in self.dtypes, "dtype not supported"),
            (
                query.kv_cache_dtype in self.accepted_kv_cache_dtypes(query),
                "kv_cache_dtype not supported",
            ),
            # None, no explicit size, is supported by every backend
            (self.supports_block_size(supported, query.block_size), "block_size not supported"),
            (self.is_mla or not attention.use_mla, "MLA not supported"),
            (attention.use_mla or not self.is_mla, "non-MLA not supported"),
            (
                not attention.has_sinks or self.supports_sinks(query),
                "attention sinks not supported",
            ),
            (
                not attention.seen_whole or self.supports_mm_prefix(query),
                "partial multimodal token full attention not supported",
            ),
            (self.is_sparse or not attention.is_sparse, "sparse not supported"),
            (attention.is_sparse or not self.is_sparse, "non-sparse not supported"),
            (self.compression == attention.compression, "compressed attention, or only that"),
            (not self.tests_device or self.runs_on(query), "compute capability not supported"),
            (
                self.batch_invariant or not (query.batch_invariant and self.tests_device),
                "batch invariance not supported",
            ),
            (self.non_causal or not query.non_causal, "non-causal attention not supported"),
            (self.suits_connectors or not query.kv_connector, "KV connector not supported"),
            (self.returns_lse or not query.tests_context, "DCP not supported"),
            (attention.type in self.types, f"attention type {attention.type} not supported"),
        )
        reasons = [reason for passed, reason in tests if not passed]
        if self.own_reason is not None and (own := self.own_reason(query)) is not None:
            reasons.append(own)
        return reasons


__all__ = [
    "ANY_HEAD",
    "FP8_ANY",
    "FP8_DTYPES",
    "FP8_E4M3",
    "UNQUANTIZED",
    "Backend",
    "Capabilities",
    "Condition",
    "HeadSizes",
    "LayerQuery",
    "MultipleOf",
    "Rank",
    "always",
    "never",
]
