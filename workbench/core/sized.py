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
    """Return the name of a value that a run holds as a record and a plan as a name."""
    return backend if isinstance(backend, str | None) else backend.name


def drafter_layers(sized: Sized) -> tuple[Layer, ...]:
    """Return the layers that the drafter adds to the cache.

    Those of method mtp are the only ones known.
    """
    mtp = sized.model.mtp
    return mtp.layers if mtp is not None and sized.speculative_method == MTP else ()


def method_of(sized: Sized) -> SpeculativeMethod | None:
    """Return the record of the method that drafts; None without speculative decoding."""
    name = sized.speculative_method
    return None if name is None else sized.rules.speculation.methods[name]


class Sized(Protocol):
    """A model whose block sizes and pages are known. Sizes in tokens or bytes, per rank."""

    @property
    def model(self) -> Model:
        """Return the model."""

    @property
    def settings(self) -> Settings:
        """Return the settings."""

    @property
    def rules(self) -> RuleSet:
        """Return the rules of one version."""

    @property
    def backend(self) -> Backend | str | None:
        """Return the attention backend, or its name."""

    @property
    def plain_backend(self) -> Backend | str | None:
        """Return the backend of layers in the model's dtype alongside a quantized cache."""

    @property
    def plain_supported(self) -> tuple[BlockSize, ...]:
        """Return the kernel block sizes of that backend."""

    @property
    def model_dtype(self) -> str:
        """Return the dtype of weights and activations."""

    @property
    def kv_cache_dtype(self) -> str:
        """Return the dtype of stored keys and values."""

    @property
    def block_size(self) -> int:
        """Return the manager block of the attention layers."""

    @property
    def mamba_block_size(self) -> int | None:
        """Return the manager block of the SSM layers."""

    @property
    def mamba_cache_mode(self) -> str:
        """Return the cache mode: none, align or all."""

    @property
    def attention_page_size_bytes(self) -> int | None:
        """Return the page of an attention layer."""

    @property
    def mamba_page_size_bytes(self) -> int | None:
        """Return the unpadded page of an SSM layer."""

    @property
    def mamba_page_size_padded(self) -> int | None:
        """Return the padded page of an SSM layer, if one is recorded."""

    @property
    def skip_page_size_padded(self) -> int | None:
        """Return the padded page of windows in the model's dtype, if recorded (0.33)."""

    @property
    def max_model_len(self) -> int:
        """Return the longest request."""

    @property
    def max_num_batched_tokens(self) -> int:
        """Return the token budget of a step."""

    @property
    def prefix_caching(self) -> bool:
        """Return whether prefix caching is on."""

    @property
    def speculative_method(self) -> str | None:
        """Return which method drafts tokens; None without speculative decoding."""

    @property
    def grouping(self) -> Grouping:
        """Return which layers share a block table.

        Errors: PagesNotUnifiableError, NoSingleTypeError.
        """

    @property
    def supported(self) -> tuple[BlockSize, ...]:
        """Return the kernel block sizes of the attention backend."""
