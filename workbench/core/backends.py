"""What an attention backend is: a record of what it supports, and why it may refuse a layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from workbench.core.block_sizes import BlockSize, MultipleOf, smallest_base, supports_block_size
from workbench.core.dtypes import FP8_DTYPES
from workbench.core.layouts.shapes import CacheLayout
from workbench.core.model import Attention

UNQUANTIZED = ("auto", "float16", "bfloat16")
FP8_ANY = ("fp8", "fp8_e4m3", "fp8_e5m2")
FP8_E4M3 = ("fp8", "fp8_e4m3")


@dataclass(frozen=True, slots=True)
class HeadSizes:
    """Which head sizes a kernel can take: an explicit list, or a range with a step."""

    exact: tuple[int, ...] = ()
    multiple_of: int = 1
    at_least: int = 1
    at_most: int | None = None

    def accepts(self, head_size: int) -> bool:
        """Return whether a head of `head_size` elements is supported."""
        if self.exact:
            return head_size in self.exact
        fits = self.at_most is None or head_size <= self.at_most
        return head_size % self.multiple_of == 0 and head_size >= self.at_least and fits

    def __str__(self) -> str:
        if self.exact:
            return ", ".join(map(str, self.exact))
        parts = [f"multiple of {self.multiple_of}"] if self.multiple_of > 1 else []
        if self.at_least > 1:
            parts.append(f">= {self.at_least}")
        if self.at_most is not None:
            parts.append(f"<= {self.at_most}")
        return ", ".join(parts) or "any"


class LayerQuery(NamedTuple):
    """What a layer requires of a backend. `capability` is None outside CUDA.

    trtllm_kernels: FlashInfer can load TRT-LLM's kernels here, and may: they are not
    batch-invariant.
    """

    platform: str
    capability: tuple[int, int] | None
    attention: Attention
    heads_per_rank: int
    model_dtype: str
    kv_cache_dtype: str
    block_size: int | None
    batch_invariant: bool = False
    trtllm_kernels: bool = False

    @property
    def major(self) -> int:
        """Return the first number of the capability, 0 outside CUDA."""
        return (self.capability or (0, 0))[0]


Condition = Callable[[LayerQuery], bool]


def always(_query: LayerQuery) -> bool:
    """Return True: the condition holds everywhere."""
    return True


def never(_query: LayerQuery) -> bool:
    """Return False: the condition holds nowhere."""
    return False


@dataclass(frozen=True, slots=True)
class Backend:
    """One attention backend, as data.

    supported: kernel block sizes; with_float32_state: the list that replaces it for hybrid models
    whose SSM state is configured as float32 (None: no difference); supported_on: platform -> list
    that replaces it there; supported_when: lists that replace it where their condition holds, the
    first one wins. exact_block_size: the manager block must be one of the sizes, a multiple will
    not do; preferred: the block that phase 1 takes if the default is refused (None: the smallest).
    is_helper: keeps a cache alongside another backend's, never chosen itself.
    preferred_at_least: platform -> smallest preferred block in tokens.
    kv_cache_dtypes: accepted values; extra_kv_cache_dtypes: accepted where the condition holds.
    capabilities: accepts a (major, minor); cache: shape and order of one layer's cache.
    cuda_graphs: level of graph support; cuda_graphs_where: another one where the condition holds.
    layout: forced cache layout name or None; layout_on: the capabilities where it is forced (None:
    everywhere).
    own_reason: a refusal that only this backend has, or None.
    stored_kv_cache_dtypes: KV-cache dtype -> the packed format that its layers keep instead.
    """

    name: str
    platforms: tuple[str, ...]
    supported: tuple[BlockSize, ...]
    with_float32_state: tuple[BlockSize, ...] | None = None
    preferred_at_least: Mapping[str, int] = field(default_factory=dict)
    is_mla: bool = False
    is_ssm: bool = False
    is_sparse: bool = False
    is_helper: bool = False
    supported_on: Mapping[str, tuple[BlockSize, ...]] = field(default_factory=dict)
    supported_when: tuple[tuple[Condition, tuple[BlockSize, ...]], ...] = ()
    exact_block_size: bool = False
    preferred: int | None = None
    batch_invariant: bool = False
    head_sizes: HeadSizes = HeadSizes()
    large_head_sizes: tuple[HeadSizes, Condition] | None = None
    dtypes: tuple[str, ...] = ("bfloat16", "float16")
    kv_cache_dtypes: tuple[str, ...] = UNQUANTIZED
    extra_kv_cache_dtypes: tuple[tuple[str, ...], Condition] | None = None
    accepts_capability: Callable[[tuple[int, int]], bool] | None = None
    supports_sinks: Condition = never
    supports_mm_prefix: Condition = never
    cuda_graphs: str = "NEVER"
    cuda_graphs_where: tuple[str, Condition] | None = None
    cache: CacheLayout | None = None
    layout: str | None = None
    layout_on: Callable[[tuple[int, int]], bool] | None = None
    own_reason: Callable[[LayerQuery], str | None] | None = None
    reported_name: str | None = None
    stored_kv_cache_dtypes: Mapping[str, str] = field(default_factory=dict)

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
        if platform in self.supported_on:
            return self.supported_on[platform]
        for condition, sizes in self.supported_when:
            if query is not None and condition(query):
                return sizes
        if float32_state and self.with_float32_state is not None:
            return self.with_float32_state
        return self.supported

    def preferred_block_size(
        self, default: int, platform: str, supported: tuple[BlockSize, ...]
    ) -> int:
        """Return the block size that phase 1 takes: `default` if supported, else the smallest base.

        Source: AttentionBackend.get_preferred_block_size, 0.23 (#37467).
        """
        if platform in self.preferred_at_least:
            return max(default, self.preferred_at_least[platform])
        if self.supports_block_size(supported, default):
            return default
        return self.preferred or smallest_base(supported)

    def supports_block_size(self, supported: tuple[BlockSize, ...], block_size: int | None) -> bool:
        """Return whether a manager block of `block_size` tokens can be cut into supported sizes.

        Source: AttentionBackend.supports_block_size; B12X, CPU_MLA (0.33) take exact sizes only.
        """
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

    def reasons_against(self, query: LayerQuery, supported: tuple[BlockSize, ...]) -> list[str]:
        """Return every reason to refuse `query`, in vLLM's words; empty when the backend is valid.

        `supported` is the list that holds for the model (see `supported_for`).
        """
        attention = query.attention
        tests = (
            (self.accepts_head_size(query), "head_size not supported"),
            (query.model_dtype in self.dtypes, "dtype not supported"),
            (
                query.kv_cache_dtype in self.accepted_kv_cache_dtypes(query),
                "kv_cache_dtype not supported",
            ),
            (self.supports_block_size(supported, query.block_size), "block_size not supported"),
            (self.is_mla or not attention.use_mla, "MLA not supported"),
            (attention.use_mla or not self.is_mla, "non-MLA not supported"),
            (
                not attention.has_sinks or self.supports_sinks(query),
                "attention sinks not supported",
            ),
            (
                not attention.has_mm_prefix or self.supports_mm_prefix(query),
                "partial multimodal token full attention not supported",
            ),
            (self.is_sparse or not attention.is_sparse, "sparse not supported"),
            (attention.is_sparse or not self.is_sparse, "non-sparse not supported"),
            (self._accepts(query.capability), "compute capability not supported"),
            (
                self.batch_invariant or not query.batch_invariant,
                "batch invariance not supported",
            ),
        )
        reasons = [reason for passed, reason in tests if not passed]
        if self.own_reason is not None and (own := self.own_reason(query)) is not None:
            reasons.append(own)
        return reasons

    def _accepts(self, capability: tuple[int, int] | None) -> bool:
        if capability is None or self.accepts_capability is None:
            return True
        return self.accepts_capability(capability)


__all__ = [
    "FP8_ANY",
    "FP8_DTYPES",
    "FP8_E4M3",
    "UNQUANTIZED",
    "Backend",
    "Condition",
    "HeadSizes",
    "LayerQuery",
    "MultipleOf",
    "always",
    "never",
]
