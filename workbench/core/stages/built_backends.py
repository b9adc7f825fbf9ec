"""The backends of all attention layers, in the order in which vLLM builds the layers.

Source: `update_block_size_for_backend` of 0.23, which takes the first layer, and
`Platform._find_non_ssm_backends` of 0.33, which takes every class of backend once.
"""

from collections.abc import Iterable

from workbench.core.groups.built_layers import (
    cache_classes,
    cache_layers,
    chooser,
    unquantized_layers,
)
from workbench.core.groups.layer_backend import CACHE_ONLY
from workbench.core.groups.layer_classes import INDEXER, LayerVariant
from workbench.core.groups.layer_specs import backend_of
from workbench.core.model import CHUNKED, CROSS, FULL, INDEX_KEY, SLIDING, SSM, V4, Layer
from workbench.core.working_plan import WorkingPlan


def backends_as_built(run: WorkingPlan) -> None:
    """Keep the backends of the attention layers that a stage has, the first one built first."""
    if run.is_uncached:
        return
    if all(layer.kind == SSM for layer in cache_layers(run)):
        run.backend, run.backends = None, ()
    elif len(run.backends) > 1:
        names = list(dict.fromkeys(name for name, _own in built_backends(run)))
        others = [one for one in run.backends if one[0] not in names and run.stage_layers is None]
        built = (one for name in names for one in run.backends if one[0] == name)
        run.backends = (*others, *built)


def chooser_of_tokens(run: WorkingPlan) -> None:
    """Name what reads the first layer without a window, where that chooses its tokens.

    The reasons that vLLM may have against the backend are those of the layers with windows.
    """
    layers = [one for one in cache_layers(run) if one.cache is None and not one.drafted]
    first = next((one for one in layers if one.kind == FULL), None)
    own = run.model.attention
    name = "" if first is None or own is None else chooser(run, first.number, own)
    if not name or run.backend is None:
        return
    others = {
        LayerVariant.of(run, one, is_plain=is_plain)
        for one in layers
        if one.kind not in {FULL, SSM}
        for is_plain in (False, True)
    }
    sizes = run.supported_kernel_block_sizes
    run.layer_backends = tuple((one, run.backend, sizes) for one in sorted(others))
    run.backend = name


def built_backends(run: WorkingPlan, part: range | None = None) -> dict[tuple[str, str], None]:
    """Return the backends of all layers with a cache of tokens, or of `part`, as they are built.

    Each with the kind of layer that has a class of its own of it, empty for the others.
    """
    # _find_non_ssm_backends compares classes: those of chunked and of cross attention derive from
    # that of the other layers and have its name (0.33).
    found: dict[tuple[str, str], None] = {}
    for layer, is_plain in _built_differently(run, part):
        if layer.kind == SSM:
            continue
        own = layer.kind if layer.kind in {CHUNKED, CROSS} else ""
        for name in _of_layer(run, layer, is_plain=is_plain):
            if name is not None:
                found[name, own] = None
    if run.settings.hidden_state_layers:
        found[CACHE_ONLY, ""] = None
    return found


def _built_differently(run: WorkingPlan, part: range | None) -> Iterable[tuple[Layer, bool]]:
    """Return one layer of each kind, or all of them where the number of a layer decides as well.

    Each with whether it is unquantized; the first layer of every kind, in the order of the layers.
    """
    unquantized, drafter = unquantized_layers(run), run.drafter
    attentions = (run.model.attention, None if drafter is None else drafter.attention)
    if part is not None or any(one is not None and one.side_backends for one in attentions):
        layers = (one for one in cache_layers(run) if part is None or one.number in part)
        return ((layer, layer.number in unquantized) for layer in layers)
    return cache_classes(run, unquantized).kinds


def _of_layer(run: WorkingPlan, layer: Layer, *, is_plain: bool) -> tuple[str | None, ...]:
    """Return what reads the cache of one layer, and of an attention that is built with it."""
    drafter = run.drafter if layer.drafted else None
    attention = run.model.attention if drafter is None else drafter.attention
    assert attention is not None
    companions, cache = run.rules.companions(attention), layer.cache
    if layer.kind == INDEXER:
        return (companions[INDEX_KEY],)
    main = run.draft_backend
    if drafter is None:
        main = backend_of(run, LayerVariant.of(run, layer, is_plain=is_plain))[0]
    if cache is None:
        return (chooser(run, layer.number, attention) or main,)
    if cache.backend:
        return (cache.backend,)
    if cache.stored in companions:
        return (companions[cache.stored],)
    # Each layer of compressed attention is one, also where it keeps the last tokens alone.
    both = (companions.get(SLIDING, main), main) if layer.kind == SLIDING else (main,)
    return both if attention.compression == V4 else both[::-1]
