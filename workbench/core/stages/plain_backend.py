"""The backend of the layers that keep the model's dtype alongside a quantized cache.

Every layer requests a backend with the dtype of its own cache, so the layers that are excluded from
the quantization may get another one than the rest. Source: `Attention.__init__` of 0.23 and 0.33,
`RocmPlatform.get_attn_backend_cls` of 0.33.
"""

from workbench.core.backends import Backend, LayerQuery
from workbench.core.block_sizes import BlockSize
from workbench.core.dtypes import PACKED_DTYPES
from workbench.core.groups.built_layers import AS_THE_MODEL, unquantized_layers
from workbench.core.groups.of_plan import layouts_read_by
from workbench.core.model import SSM
from workbench.core.stages.backend_choice import reasons_against, supported_sizes
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

PLAIN_BACKEND = Rule(
    "plain_backend",
    "Backend of the unquantized layers",
    "the same choice, made with the model's dtype",
)


def plain_backend(run: WorkingPlan) -> None:
    """Set `run.plain_backend` where some layers are excluded from the quantization."""
    main, own = run.backend_record, run.model.num_hidden_layers
    numbers = sorted(number for number in unquantized_layers(run) if number < own)
    if main is None or not numbers:
        return
    query = LayerQuery.of(run)._replace(kv_cache_dtype=AS_THE_MODEL)
    explicit = run.settings.backend
    packed = run.kv_cache_dtype in PACKED_DTYPES
    mixes = packed and run.platform.name in run.rules.packed_layers_mix_on
    reasons = reasons_against(run, query, main) if explicit is not None else []
    if explicit is not None and (not reasons or not mixes):
        chosen: Backend | None = main
    else:
        chosen = _first_valid(run, query, main if mixes else None)
    plain = chosen or main
    run.plain_backend = plain.name
    run.plain_supported = supported_sizes(run, query, plain)
    run.backends = _in_layer_order(run, frozenset(numbers))
    run.step(
        PLAIN_BACKEND,
        run.plain_backend,
        "" if chosen is not main or explicit is None else "requested",
        layers=numbers,
        kv_cache_dtype=AS_THE_MODEL,
        quantized_layers=main.name,
    )
    if chosen is None or (reasons and chosen is main):
        _refused(run, main, reasons, numbers)


def _in_layer_order(
    run: WorkingPlan, numbers: frozenset[int]
) -> tuple[tuple[str, tuple[BlockSize, ...]], ...]:
    """Return every backend with its sizes, as the layers are built; phase 1 takes the first."""
    # Those of caches alongside the attention come before it.
    assert run.backend is not None
    assert run.plain_backend is not None
    main = run.backend, run.supported_kernel_block_sizes
    other = run.plain_backend, run.plain_supported
    companions = [entry for entry in run.backends if entry[0] != run.backend]
    layers = (layer for layer in run.model.layers if layer.kind != SSM)
    used = [other if layer.number in numbers else main for layer in layers]
    return tuple(dict((*companions, *used)).items())


def _first_valid(run: WorkingPlan, query: LayerQuery, companion: Backend | None) -> Backend | None:
    """Return the first of the platform's list without a reason against it.

    companion: a backend whose cache layout it must read as well, where the platform looks at that.
    """
    for name in run.rules.backends.order(query):
        backend = run.rules.backends[name]
        shares = companion is None or set(layouts_read_by(run, backend.name)) & set(
            layouts_read_by(run, companion.name)
        )
        if shares and not reasons_against(run, query, backend):
            return backend
    return None


def _refused(run: WorkingPlan, main: Backend, reasons: list[str], numbers: list[int]) -> None:
    refusal, way_out = f"no backend of {run.platform.title} takes them", ""
    if reasons:
        refusal = f"{main.name} does not take them: {', '.join(reasons)}"
        way_out = " Leave the backend to the engine: then every layer gets one of its own."
    run.problem(
        "plain_layers_refused",
        "backend",
        f"The layers {', '.join(map(str, numbers))} keep the model's dtype alongside "
        f"kv_cache_dtype = {run.kv_cache_dtype}, and {refusal}.{way_out}",
        operands={"backend": main.name, "layers": numbers, "reasons": reasons},
        # Raised by get_attn_backend_cls of the platform
        vllm_text=f"Selected backend {main.name} is not valid for this configuration. Reason:"
        if reasons
        else "No valid attention backend found for",
        candidates=(
            {"backend": None},
            {"kv_cache_dtype_skip_layers": None},
            {"kv_cache_dtype": "fp8"},
            {"kv_cache_dtype": "auto"},
        ),
    )
