"""Why a layer refuses a backend, and which explicit backend it takes notice of."""

from workbench.core.backends import Backend, LayerQuery
from workbench.core.block_sizes import BlockSize
from workbench.core.dtypes import PACKED_DTYPES
from workbench.core.groups.cache_spec import GAP_SPEC
from workbench.core.groups.of_plan import layouts_read_by
from workbench.core.working_plan import WorkingPlan

DTYPE_REASON = ["kv_cache_dtype not supported"]


def supported_sizes(run: WorkingPlan, query: LayerQuery, backend: Backend) -> tuple[BlockSize, ...]:
    """Return the kernel block sizes of a backend for a layer with this query."""
    return backend.supported_for(
        float32_state=run.float32_state, platform=run.platform.name, query=query
    )


def sizes_of_model(run: WorkingPlan, query: LayerQuery, backend: Backend) -> tuple[BlockSize, ...]:
    """Return the kernel block sizes of a backend before it has a layer: for the model's heads."""
    # get_supported_kernel_block_sizes without a spec asks the configuration, which is the target's
    # for a drafter as well, save the dtype of the cache.
    own = run.model.attention
    if own is None or own is query.attention or query.attention.is_compressed:
        return supported_sizes(run, query, backend)
    model = LayerQuery.of(run)._replace(kv_cache_dtype=query.kv_cache_dtype)
    return supported_sizes(run, model, backend)


def reasons_against(run: WorkingPlan, query: LayerQuery, backend: Backend) -> list[str]:
    """Return every reason why `backend` is not available here; empty when it is valid."""
    if query.attention.value_head_size is not None:
        # The model sets it, and vLLM tests nothing.
        taken = backend.name in run.rules.backends_of_narrow_values(query)
        return [] if taken else ["values narrower than keys not supported"]
    named = backend.name == _of_class(run, query)
    if named or run.platform.name not in backend.platforms:
        return [] if named else [f"not available on {run.platform.title}"]
    # Platforms, or layers, that test a configuration; the others take what they know by name
    if run.platform.checks_backend or backend.compression:
        return backend.reasons_against(query, sizes_of_model(run, query, backend))
    if backend.name in run.rules.backends.on_request(query):
        checked = run.platform.name == "cpu" and run.rules.cpu_checks_kv_cache_dtype
        if checked and query.kv_cache_dtype not in backend.accepted_kv_cache_dtypes(query):
            return ["kv_cache_dtype not supported"]
        return []
    return [f"not a choice of {run.platform.title} for this layer"]


def _of_class(run: WorkingPlan, query: LayerQuery) -> str | None:
    """Return the backend that the class of the layers names on this platform, untested."""
    named = run.rules.backends_of_classes.get((run.platform.name, run.model.architecture))
    return named if query.attention.is_sparse or query.attention.own_backend == named else None


def imposed_backend(run: WorkingPlan) -> str | None:
    """Return the backend that vLLM sets for the class of the model, None for most classes."""
    attention = run.model.attention
    if attention is None or not (attention.has_mixed_head_sizes or attention.full_spec == GAP_SPEC):
        return None
    return run.rules.imposed_backend(LayerQuery.of(run))


def requested_backend(run: WorkingPlan, query: LayerQuery) -> str | None:
    """Return the explicit backend, or the one that vLLM sets for the class of the model.

    None where neither is, and where a layer with this query takes no notice of it.
    """
    return noticed_backend(run, query, run.settings.backend or imposed_backend(run))


def noticed_backend(run: WorkingPlan, query: LayerQuery, requested: str | None) -> str | None:
    """Return what a layer takes where `requested` reaches it: that, its own, or None for any."""
    if (own := query.attention.own_backend or _of_class(run, query)) is not None:
        return own
    if query.attention.value_head_size is not None:
        set_ = run.rules.backends_of_narrow_values(query)
        return requested if requested in set_ else next(iter(set_), requested)
    noticed = None if requested is None else run.rules.noticed(query, requested)
    return None if noticed is None or _gives_way(run, query, noticed) else noticed


def _gives_way(run: WorkingPlan, query: LayerQuery, name: str) -> bool:
    """Return whether a layer alongside a packed cache looks for another backend than this one."""
    # RocmPlatform.get_attn_backend_cls, 0.33: no backend reads the packed layers and the plain ones
    # at both ends, so only other reasons than the dtype or the layout of the cache count.
    packed = run.kv_cache_dtype in PACKED_DTYPES
    if not packed or run.platform.name not in run.rules.packed_layers_mix_on:
        return False
    reasons = reasons_against(run, query, run.rules.backends[name])
    return reasons == DTYPE_REASON or not (reasons or shares_packed_layout(run, name))


def shares_packed_layout(run: WorkingPlan, name: str) -> bool:
    """Return whether a backend reads a layout that what packs the cache reads as well."""
    packers = (one for one in run.rules.backends.values() if run.kv_cache_dtype in one.packs)
    read = {layout for one in packers for layout in layouts_read_by(run, one.name)}
    return not read.isdisjoint(layouts_read_by(run, name))
