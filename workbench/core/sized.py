"""What the cache layout needs of a resolution: a finished plan has it, and so has a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from workbench.core.block_sizes import BlockSize
from workbench.core.model import Layer, Model
from workbench.core.settings import Settings
from workbench.core.speculation import MTP, SpeculativeMethod

if TYPE_CHECKING:
    from workbench.core.backends import Backend
    from workbench.core.groups.grouping import Grouping
    from workbench.core.rule_set import RuleSet


def backend_name(backend: Backend | str | None) -> str | None:
    """The name of what a run holds as a record and a plan by its name."""
    return backend if isinstance(backend, str | None) else backend.name


def drafter_layers(sized: Sized) -> tuple[Layer, ...]:
    """Layers that the drafter adds to the cache; those of method mtp are the only ones known."""
    mtp = sized.model.mtp
    return mtp.layers if mtp is not None and sized.speculative_method == MTP else ()


def method_of(sized: Sized) -> SpeculativeMethod | None:
    """The record of the method that drafts; None without speculative decoding."""
    name = sized.speculative_method
    return None if name is None else sized.rules.speculation.methods[name]


class Sized(Protocol):
    """A model whose block sizes and pages are known. Sizes in tokens or bytes, per rank."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def settings(self) -> Settings:
        """What was picked."""

    @property
    def rules(self) -> RuleSet:
        """The rules of one version."""

    @property
    def backend(self) -> Backend | str | None:
        """The attention backend, or its name."""

    @property
    def plain_backend(self) -> Backend | str | None:
        """The backend of attention layers left in the model's dtype beside a quantized cache."""

    @property
    def plain_supported(self) -> tuple[BlockSize, ...]:
        """Kernel block sizes of that backend."""

    @property
    def model_dtype(self) -> str:
        """Dtype of weights and activations."""

    @property
    def kv_cache_dtype(self) -> str:
        """Dtype of stored keys and values."""

    @property
    def block_size(self) -> int:
        """Manager block of the attention layers."""

    @property
    def mamba_block_size(self) -> int | None:
        """Manager block of the SSM layers."""

    @property
    def mamba_cache_mode(self) -> str:
        """none, align or all."""

    @property
    def attention_page_size_bytes(self) -> int | None:
        """Page of an attention layer."""

    @property
    def mamba_page_size_bytes(self) -> int | None:
        """Unpadded page of an SSM layer."""

    @property
    def mamba_page_size_padded(self) -> int | None:
        """Padded page of an SSM layer, if one is recorded."""

    @property
    def skip_page_size_padded(self) -> int | None:
        """What windows in the model's dtype are padded to beside a quantized cache (0.33)."""

    @property
    def max_model_len(self) -> int:
        """Longest request."""

    @property
    def max_num_batched_tokens(self) -> int:
        """Token budget of a step."""

    @property
    def prefix_caching(self) -> bool:
        """Whether prefix caching is on."""

    @property
    def speculative_method(self) -> str | None:
        """Which method drafts tokens; None without speculative decoding."""

    @property
    def grouping(self) -> Grouping:
        """Which layers share a block table. Errors: PagesNotUnifiableError, NoSingleTypeError."""

    @property
    def supported(self) -> tuple[BlockSize, ...]:
        """Kernel block sizes of the attention backend."""
