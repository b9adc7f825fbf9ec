"""What an attention layer requires of the backend that is to read its cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.media import sees_whole
from workbench.core.model import Attention
from workbench.core.platforms import gfx_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan


class LayerQuery(NamedTuple):
    """What a layer requires of a backend. `capability` is None outside CUDA."""

    platform: str
    capability: tuple[int, int] | None
    attention: Attention
    heads_per_rank: int
    model_dtype: str
    kv_cache_dtype: str
    block_size: int | None
    batch_invariant: bool
    trtllm_kernels: bool
    """FlashInfer can load TRT-LLM's kernels here, and may: they are not batch-invariant."""
    gfx: str
    """Architecture of an AMD device, empty elsewhere."""
    non_causal: bool
    """Tokens see later ones, as in some drafters."""
    encoder_decoder: bool
    """The model has an encoder, whichever layer it is."""
    context_ranks: int
    """Ranks that share the tokens of a block."""
    tests_context: bool
    """The choice of a backend takes notice of them."""
    requests: bool
    """The scenario names a backend."""
    kv_connector: bool
    """A KV connector reads the cache, too."""
    aiter: bool
    """AITER's kernels are tried without a request."""
    slides: bool
    """The layer reads a window, which `of` leaves to the caller."""
    turboquant: bool
    """The cache's dtype is one of TurboQuant's, whichever this layer has."""

    @classmethod
    def of(cls, plan: Plan, attention: Attention | None = None) -> LayerQuery:
        """Return what an attention layer of a plan requires; only an explicit block size counts.

        attention: of another layer than the model's own.
        """
        attention, settings = attention or plan.model.attention, plan.settings
        assert attention is not None
        is_lost = plan.model.architecture in plan.rules.media.prefix_lost
        if attention.seen_whole and (is_lost or not sees_whole(plan, attention)):
            attention = replace(attention, seen_whole=frozenset())
        return cls(
            platform=plan.platform.name,
            capability=plan.capability,
            attention=attention,
            heads_per_rank=attention.num_heads // settings.tensor_parallel,
            model_dtype=plan.model_dtype,
            # Such layers are built without the cache's configuration, and so in the model's dtype.
            kv_cache_dtype="auto"
            if plan.rules.keeps_model_dtype(plan.model)
            else plan.kv_cache_dtype,
            # get_attn_backend passes on only what the user set, so that no default rules a backend
            # out; layers of compressed attention choose among their own classes without it.
            block_size=None if attention.is_compressed else settings.block_size,
            batch_invariant=settings.batch_invariant,
            # TRT-LLM kernels are not batch-invariant, so FlashInfer does not load them then
            trtllm_kernels=settings.trtllm_kernels and not settings.batch_invariant,
            gfx=gfx_of(settings),
            non_causal=attention.canvas_tokens is not None,
            encoder_decoder=plan.model.is_encoder_decoder,
            context_ranks=settings.decode_context_parallel,
            tests_context=plan.rules.groups.spreads_by_layer
            and settings.decode_context_parallel > 1
            and not attention.is_compressed,
            requests=settings.backend is not None,
            kv_connector=settings.kv_connector is not None,
            aiter=settings.rocm_aiter,
            slides=False,
            turboquant=plan.kv_cache_dtype.startswith("turboquant_"),
        )

    @property
    def major(self) -> int:
        """Return the first number of the capability, 0 outside CUDA."""
        return (self.capability or (0, 0))[0]
