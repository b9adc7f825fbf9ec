"""What drafts with layers of its own: which layers those are, and the geometry of their caches.

Source: `SpeculativeConfig` for a drafter's class, and the drafters' model files, 0.23 and 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.model import FULL, SLIDING, SSM, Attention, Layer, Model

KEEP_WHOLE = frozenset({"LagunaForCausalLM"})
"""Architectures of DFlash drafters that compute in windows and keep everything: `DFlashLagunaModel`
takes the window from the layers."""
HEAD, DECODER = "model", "draft_model"
"""How the name of a drafter's layer begins: a head continues the numbers of the target."""


@dataclass(frozen=True, eq=False, slots=True)
class Drafter:
    """The layers of a drafter that keep a cache, numbered after the model's own.

    first_index: the number in vLLM's name of the first of them. is_causal: false where tokens see
    later ones, which not every backend computes.
    """

    # Compared by identity: `SpeculationRules.drafter` builds one of each model and method.
    layers: tuple[Layer, ...]
    attention: Attention
    first_index: int
    is_causal: bool = True

    def alone(self) -> Drafter:
        """Return a head that vLLM builds as a model of its own, with the masks of a decoder."""
        layers = tuple(layer._replace(drafted=DECODER) for layer in self.layers)
        attention = replace(self.attention, seen_whole=frozenset())
        return replace(self, layers=layers, attention=attention, is_causal=True)


def predictor(model: Model) -> Drafter | None:
    """Return the layers for multi-token prediction, of the draft checkpoint if there is one."""
    source = model.drafter or model
    if source.mtp is not None and source.mtp.targets:
        source = model
    if source.mtp is None or source.attention is None or not source.mtp.layers:
        return None
    shift = model.num_hidden_layers - source.num_hidden_layers
    layers = [one._replace(number=one.number + shift, drafted=HEAD) for one in source.mtp.layers]
    return Drafter(tuple(layers), source.attention, source.mtp.first_index)


def decoder(model: Model) -> Drafter | None:
    """Return all layers of a small decoder, which counts them from 0."""
    draft = model.drafter
    if draft is None or draft.attention is None:
        return None
    layers = tuple(
        layer._replace(number=model.num_hidden_layers + layer.number, drafted=DECODER)
        for layer in draft.layers
    )
    # One window for all layers is a field of the whole engine's cache, which is the target's
    # (EngineArgs.create_engine_config); only layers with a kind of their own bring theirs.
    listed = draft.head is not None and SLIDING in draft.head.kinds
    if not listed and all(layer.kind in {SLIDING, SSM} for layer in layers):
        layers = _of_kind(layers, FULL)
    return _windowed(model, Drafter(layers, draft.attention, 0))


def head(model: Model) -> Drafter | None:
    """Return the layers of a head such as EAGLE's; sliding ones are those that its file lists.

    Without a window in use they keep everything.
    """
    if (file := model.draft_head) is None:
        return None
    kinds = file.kinds if file.window_tokens is not None else [FULL for _kind in file.kinds]
    return _head(model, kinds)


def full_head(model: Model) -> Drafter | None:
    """Return the layers of DFlash in 0.23: full attention, causal only where its file says so."""
    if (file := model.draft_head) is None:
        return None
    return _head(model, [FULL for _kind in file.kinds], is_causal=file.is_causal is True)


def flash_head(model: Model) -> Drafter | None:
    """Return the layers of DFlash or DSpark from 0.33 on: windows are causal, others are not."""
    if model.drafter is None and model.dspark and model.attention is not None:
        # Its layers know their backend, whatever their masks are.
        return Drafter(_after(model, model.dspark), model.attention, model.num_hidden_layers)
    if (file := model.draft_head) is None:
        return None
    # _dflash_layer_causal: one layer that is not causal decides for the backend of all.
    by_kind = all(kind == SLIDING for kind in file.kinds)
    is_causal = by_kind if file.is_causal is None else file.is_causal
    whole = model.drafter is not None and model.drafter.architecture in KEEP_WHOLE
    kinds = [FULL for _kind in file.kinds] if whole else file.kinds
    return _head(model, kinds, has_sinks=file.has_sinks, is_causal=is_causal)


def _head(
    model: Model, kinds: Sequence[str], *, has_sinks: bool = False, is_causal: bool = True
) -> Drafter | None:
    draft, own = model.drafter, model.attention
    if draft is None or draft.attention is None or draft.head is None:
        return None
    # A head is built with the target's configuration: Attention.__init__ asks that for images, and
    # a version of FlashAttention that Gemma4Config sets for the target's heads is the head's, too.
    attention = replace(
        _as_target_reads(draft, own),
        has_sinks=has_sinks,
        has_mixed_head_sizes=own is not None and own.has_mixed_head_sizes,
        seen_whole=frozenset() if own is None else own.seen_whole,
        window_tokens=draft.head.window_tokens,
    )
    if draft.attention.use_mla:  # its layers have no windows, whatever kinds the file lists
        kinds = [FULL for _kind in kinds]
    layers = _after(model, [Layer(number=0, kind=kind) for kind in kinds])
    return _windowed(model, Drafter(layers, attention, model.num_hidden_layers, is_causal))


def _as_target_reads(draft: Model, own: Attention | None) -> Attention:
    """Return a head's attention: EAGLE of DeepSeek expands latents where the target has none."""
    # DeepseekV2DecoderLayer asks the configuration of the target; EAGLE-3 has a layer of its own.
    found = draft.attention
    assert found is not None
    parts = sum(filter(None, (found.qk_nope_head_dim, found.qk_rope_head_dim)))
    is_plain = own is None or not own.use_mla
    if not (found.use_mla and is_plain and parts) or draft.architecture.startswith("Eagle3"):
        return found
    return replace(found, use_mla=False, num_kv_heads=found.num_heads, head_size=parts)


def _after(model: Model, layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Return the layers of a head, numbered after the target's."""
    first = model.num_hidden_layers
    return tuple(layer._replace(number=first + at, drafted=HEAD) for at, layer in enumerate(layers))


def _windowed(model: Model, drafter: Drafter) -> Drafter:
    """Return the drafter with the target's window, where that is one for the whole cache."""
    own = model.attention
    if own is None or own.window_tokens is None or own.use_mla:
        return drafter
    others = (layer.kind for layer in model.layers if layer.kind not in {SLIDING, SSM})
    kinds = (layer.kind for layer in drafter.layers if layer.kind not in {FULL, SSM})
    if drafter.attention.use_mla or any(others) or any(kinds):
        return drafter
    window = replace(drafter.attention, window_tokens=own.window_tokens)
    return replace(drafter, layers=_of_kind(drafter.layers, SLIDING), attention=window)


def _of_kind(layers: tuple[Layer, ...], kind: str) -> tuple[Layer, ...]:
    """Return the layers with attention of this kind."""
    return tuple(one if one.kind == SSM else one._replace(kind=kind) for one in layers)
