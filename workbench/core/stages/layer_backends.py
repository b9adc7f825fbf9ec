"""The backends of layers that differ from the rest: in the dtype of their cache or in their heads.

Every layer requests a backend with its own head size and the dtype of its own cache, so not all
layers of a model may get the same one. Source: `Attention.__init__` of 0.23 and 0.33,
`RocmPlatform.get_attn_backend_cls` of 0.33.
"""

from workbench.core.backends import Backend, LayerQuery
from workbench.core.block_sizes import BlockSize
from workbench.core.dtypes import TURBOQUANT_BITS
from workbench.core.groups.built_layers import cache_classes, unquantized_layers
from workbench.core.groups.layer_classes import AS_THE_MODEL, INDEXER, LayerVariant
from workbench.core.model import CHUNKED, CROSS, ENCODER_DECODER, SLIDING, SSM, Attention
from workbench.core.stages.backend_choice import not_valid_text, said
from workbench.core.stages.backend_requests import (
    reasons_against,
    requested_backend,
    shares_packed_layout,
    supported_sizes,
)
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

PLAIN_BACKEND = Rule(
    "plain_backend",
    "Backend of the unquantized layers",
    "the same choice, made with the model's dtype",
)
OTHER_HEADS_BACKEND = Rule(
    "other_heads_backend",
    "Backend of the layers with other heads or windows",
    "the same choice, made with the heads and the window of those layers",
)
CROSS_BACKEND = Rule(
    "cross_attention_backend",
    "Backend of cross attention",
    "the same choice among those that read keys and values of an encoder",
)
AS_CACHED = frozenset({CHUNKED, CROSS})
"""Kinds that choose with the dtype of the cache, before the list of layers to skip is read
(ChunkedLocalAttention.__init__, CrossAttention.__init__)."""
Chosen = tuple[str, tuple[BlockSize, ...]]
"""A backend and its kernel block sizes."""


def layer_backends(run: WorkingPlan) -> None:
    """Set the backends of the layers that are unquantized or have different heads from the rest."""
    main = run.backend_record
    if main is None or run.model.attention is None:
        return
    query = LayerQuery.of(run)
    attention, unquantized = query.attention, _own_unquantized(run)
    classes = cache_classes(run, unquantized).kinds
    kept = {SSM, INDEXER}
    layers = [
        (layer, plain)
        for layer, plain in classes
        if not (layer.kind in kept or layer.drafted or layer.cache)
    ]
    usual = attention, False, False
    keys = [
        (attention.of_layer(layer), plain and layer.kind not in AS_CACHED, layer.kind == SLIDING)
        for layer, plain in layers
    ]
    if any(slides for *_, slides in keys) and not _refuses_windows(run, main):
        keys = [(own, plain, False) for own, plain, _slides in keys]
    if not keys or (not unquantized and all(key == usual for key in keys)):
        return
    chosen: dict[tuple[Attention, bool, bool], Chosen] = {
        usual: (main.name, run.supported_kernel_block_sizes)
    }
    found = {}
    for (layer, plain), key in zip(layers, keys, strict=True):
        if key not in chosen:
            chosen[key] = _chosen(run, main, *key)
        found[LayerVariant.of(run, layer, is_plain=plain)] = chosen[key]
    run.layer_backends = tuple((variant, *one) for variant, one in found.items())
    # Layers of compressed attention have backends of their own, also where the list names them.
    plain_ones = [one for (_, is_plain, _), one in chosen.items() if is_plain]
    if plain_ones:
        run.plain_backend = chosen.get((attention, True, False), plain_ones[0])[0]
    used = {chosen[key] for key in keys}
    if usual not in keys and len(used) == 1:
        ((run.backend, run.supported_kernel_block_sizes),) = used
    # Phase 1 reads the sizes for the largest heads of the model, not for those of the layer.
    companions = [name for name, _sizes in run.backends if name != main.name]
    names = [*companions, *(chosen[key][0] for key in keys)]
    run.backends = tuple(
        (name, supported_sizes(run, query, run.rules.backends[name]))
        for name in dict.fromkeys(names)
    )


def _refuses_windows(run: WorkingPlan, main: Backend) -> bool:
    """Return whether a window is one more reason against the backend of the other layers."""
    query = LayerQuery.of(run)
    slides = query._replace(slides=True)
    return reasons_against(run, slides, main) != reasons_against(run, query, main)


def _chosen(
    run: WorkingPlan, main: Backend, attention: Attention, is_plain: bool, slides: bool
) -> Chosen:
    """Return the backend of such layers, with a problem where there is none."""
    # Attention.__init__ asks anew for every layer, with its own heads and the dtype of its own
    # cache.
    query = LayerQuery.of(run)._replace(attention=attention, slides=slides)
    if is_plain:
        query = query._replace(kv_cache_dtype=AS_THE_MODEL)
    explicit = requested_backend(run, query)
    wanted = main if explicit is None else run.rules.backends[explicit]
    reasons = reasons_against(run, query, wanted) if explicit is not None else []
    chosen = _first_valid(run, query) if explicit is None else wanted
    found = chosen or main
    dtype = AS_THE_MODEL if is_plain else run.kv_cache_dtype
    numbers = _numbers(run, query, is_plain)
    other = CROSS_BACKEND if attention.type == ENCODER_DECODER else OTHER_HEADS_BACKEND
    run.step(
        PLAIN_BACKEND if is_plain else other,
        found.name,
        "" if explicit is None else "requested",
        layers=numbers,
        head_size=attention.head_size,
        kv_cache_dtype=dtype,
        backend_of_the_others=main.name,
    )
    if chosen is None or reasons:
        _refused(run, query, wanted, reasons, numbers, dtype if is_plain else None)
    return found.name, supported_sizes(run, query, found)


def _own_unquantized(run: WorkingPlan) -> frozenset[int]:
    """Return the unquantized layers of the model; a drafter chooses its backend by itself."""
    own = run.stage_layers or range(run.model.num_hidden_layers)
    own = range(own.start, min(own.stop, run.model.num_hidden_layers))
    return frozenset(number for number in unquantized_layers(run) if number in own)


def _numbers(run: WorkingPlan, query: LayerQuery, is_plain: bool) -> list[int]:
    unquantized, attention = _own_unquantized(run), LayerQuery.of(run).attention
    return sorted(
        layer.number
        for layer in run.model.layers
        if layer.kind != SSM
        and (layer.number in unquantized and layer.kind not in AS_CACHED) == is_plain
        and attention.of_layer(layer) == query.attention
        and (layer.kind == SLIDING or not query.slides)
    )


def _first_valid(run: WorkingPlan, query: LayerQuery) -> Backend | None:
    """Return the first of the platform's list without a reason against it."""
    # RocmPlatform.get_valid_backends, 0.33, looks at the layout with TurboQuant alone.
    mixes = run.platform.name in run.rules.packed_layers_mix_on
    shared = mixes and run.kv_cache_dtype in TURBOQUANT_BITS
    for name in run.rules.backends.order(query):
        backend = run.rules.backends[name]
        if shared and not shares_packed_layout(run, name):
            continue
        if not reasons_against(run, query, backend):
            return backend
    return None


def _refused(
    run: WorkingPlan,
    query: LayerQuery,
    main: Backend,
    reasons: list[str],
    numbers: list[int],
    plain_dtype: str | None,
) -> None:
    refusal, way_out = f"no backend of {run.platform.title} supports them", ""
    if reasons:
        refusal = f"{main.name} does not support them: {', '.join(reasons)}"
        way_out = " Leave the backend to the engine: then every layer gets one of its own."
    differ = (
        f"keep the model's dtype alongside kv_cache_dtype = {run.kv_cache_dtype}"
        if plain_dtype
        else "read keys and values of an encoder"
        if query.attention.type == ENCODER_DECODER
        else "read a window"
        if query.slides
        else "have different heads from the rest"
    )
    run.problem(
        "plain_layers_refused" if plain_dtype else "other_heads_refused",
        operands={"backend": main.name, "layers": numbers, "reasons": reasons},
        numbers=", ".join(map(str, numbers)),
        differ=differ,
        refusal=refusal,
        way_out=way_out,
        vllm_text=not_valid_text(run, query, main.name) if reasons else said(run, query),
    )


def layers_built(run: WorkingPlan) -> None:
    """Refuse what the chosen backend only finds when its layers are built."""
    if run.model.attention is None:
        return
    query = LayerQuery.of(run)
    if run.plain_backend is not None:
        plain = run.rules.backends[run.plain_backend]
        refuse_unbuilt(run, plain, query._replace(kv_cache_dtype=AS_THE_MODEL))
    if (main := run.backend_record) is None:
        return
    refuse_unbuilt(run, main, query)
    if run.kv_cache_dtype not in TURBOQUANT_BITS:
        return
    unquantized, layers = _own_unquantized(run), run.model.layers
    if any(layer.kind in AS_CACHED and layer.number in unquantized for layer in layers):
        # They keep the backend of the others; TurboQuantConfig.from_cache_dtype stops.
        text = f"Unknown TurboQuant cache dtype: '{AS_THE_MODEL}'."
        _unbuilt(run, main, query._replace(kv_cache_dtype=AS_THE_MODEL), text)


def refuse_unbuilt(run: WorkingPlan, backend: Backend, query: LayerQuery) -> None:
    """Refuse what a backend finds when layers with this query are built."""
    text = None if backend.fails_when_built is None else backend.fails_when_built(query)
    if text is not None:
        _unbuilt(run, backend, query, text)


def _unbuilt(run: WorkingPlan, backend: Backend, query: LayerQuery, text: str) -> None:
    capability = None if run.capability is None else ".".join(map(str, run.capability))
    run.problem(
        "layers_cannot_be_built",
        operands={"backend": backend.name, "compute_capability": capability},
        vllm_text=text,
        text=text.rstrip("."),
        query=query,
    )
