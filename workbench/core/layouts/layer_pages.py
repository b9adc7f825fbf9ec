"""What a layer of a plan requests: its pages and its kernel block, or why vLLM stopped earlier."""

from dataclasses import replace

from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.layer_specs import cache_geometry, stored_as
from workbench.core.layouts.error import LayoutError, layout_error
from workbench.core.layouts.layer_views import AttentionPages, StatePages, stored_dtype
from workbench.core.plan import Plan


def _check_is_modelled(spec: CacheSpec) -> None:
    if spec.companion or (spec.is_mamba and spec.stored):
        raise layout_error("side_cache_views", what=spec.companion or spec.stored)


def attention_pages(plan: Plan, spec: CacheSpec) -> AttentionPages:
    """Return the geometry that an attention layer with this spec requests. Errors: LayoutError."""
    _check_is_modelled(spec)
    attention, backend = plan.model.attention, plan.backend_record
    if attention is not None and backend is not None and backend.is_mla != attention.use_mla:
        other = f"{backend.name} does not compute the attention of {plan.model.name}."
        raise earlier_failure(plan, "backend_not_valid", other)
    kept = stored_as(plan, spec)
    # In 0.23 the backend of a layer left in the model's dtype gets the dtype of the others.
    given = kept if plan.rules.layouts.one_view else plan.kv_cache_dtype
    return AttentionPages(
        replace(cache_geometry(plan, spec, kept), cache_dtype=given),
        stored_dtype(kept, plan.model_dtype),
        spec.content_bytes,
        spec.page_size_bytes if spec.padding_bytes else None,
        spec.tokens_per_state,
    )


def state_pages(plan: Plan, spec: CacheSpec) -> StatePages:
    """Return the states of an SSM layer. Errors: LayoutError."""
    _check_is_modelled(spec)
    assert plan.model.state is not None
    shapes, dtypes = plan.layer_state_shapes, plan.mamba_state_dtypes
    return StatePages(shapes, dtypes, spec.page_size_bytes, plan.model.state.parts)


def kernel_block(plan: Plan, group: int) -> int:
    """Return the kernel block of a group's views. Errors: LayoutError where there is none."""
    cache = plan.built_cache()
    kernel = cache.kernel_block_sizes[group]
    if kernel is None:
        block = cache.groups[group].spec.block_size
        none = f"No kernel block divides {block} tokens."
        raise earlier_failure(plan, "no_common_block_size", none)
    return kernel


def earlier_failure(plan: Plan, code: str, otherwise: str) -> LayoutError:
    """Return the plan's own problem that stops vLLM before any tensor exists."""
    problem = next((found for found in plan.errors if found.code == code), None)
    return LayoutError(
        code,
        f"{otherwise if problem is None else problem.message} vLLM stops before it builds a view.",
        field="block_size" if problem is None else problem.field,
        vllm_text=None if problem is None else problem.vllm_text,
    )
