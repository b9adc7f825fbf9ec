"""The KV-cache spec of every layer: what the layer asks the engine to keep for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from workbench.core.model import CHUNKED, FULL, SLIDING, SSM, Layer
from workbench.core.sized import Sized

MAMBA_SPEC = "MambaSpec"
MLA_SPEC = "MLAAttentionSpec"
ATTENTION_SPECS = {
    FULL: "FullAttentionSpec",
    SLIDING: "SlidingWindowSpec",
    CHUNKED: "ChunkedLocalAttentionSpec",
}
"""Layer kind -> vLLM's class name; MLA layers have a class of their own."""


@dataclass(frozen=True, slots=True)
class CacheSpec:
    """What makes layers alike: layers with equal specs may share a group.

    kind: vLLM's class name. block_size in tokens, page_size_bytes of one block, padding included.
    """

    kind: str
    block_size: int
    page_size_bytes: int
    window_tokens: int | None = None

    @property
    def is_mamba(self) -> bool:
        """Whether a block holds a state instead of tokens."""
        return self.kind == MAMBA_SPEC


def layer_name(layer: Layer) -> str:
    """The name that vLLM's tables would show: `model.layers.3.mixer`, `model.layers.4.attn`."""
    return f"model.layers.{layer.number}.{'mixer' if layer.kind == SSM else 'attn'}"


def specs_by_kind(sized: Sized) -> dict[str, CacheSpec]:
    """Layer kind -> spec, for the kinds that the model has."""
    kinds = dict.fromkeys(layer.kind for layer in sized.model.layers)
    return {kind: _spec(sized, kind) for kind in kinds}


def layer_specs(layers: tuple[Layer, ...], specs: Mapping[str, CacheSpec]) -> dict[str, CacheSpec]:
    """Layer name -> spec, in the order in which layers are built (attention before mamba)."""
    return {layer_name(layer): specs[layer.kind] for layer in layers}


def _spec(sized: Sized, kind: str) -> CacheSpec:
    if kind == SSM:
        assert sized.mamba_block_size is not None
        page = sized.mamba_page_size_padded or sized.mamba_page_size_bytes
        assert page is not None
        return CacheSpec(MAMBA_SPEC, sized.mamba_block_size, page)
    assert sized.model.attention is not None
    assert sized.attention_page_size_bytes is not None
    name = MLA_SPEC if sized.model.attention.use_mla else ATTENTION_SPECS[kind]
    window = None if kind == FULL else sized.model.attention.window_tokens
    return CacheSpec(name, sized.block_size, sized.attention_page_size_bytes, window)
