"""The views of one raw tensor that attention and SSM layers share, as a model runner builds them.

    views = cache_views(layout, attention, states, num_blocks=3, kernel_block_size=16)
    views.attention.strides, views.rewritten, views.misplaced_attention_bytes

`plan_layout` in `workbench.core.layouts.of_plan` fills in the operands from a plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.backends import Backend
from workbench.core.layouts.error import LayoutError, require_known, require_positive
from workbench.core.layouts.hybrid_rewrite import (
    NEVER,
    REWRITE_RULES,
    RUNNER_RULES,
    interleaved,
    needs_rewrite,
)
from workbench.core.layouts.layer_views import (
    RUNNERS,
    V1,
    AttentionPages,
    StatePages,
    attention_view,
    state_views,
)
from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shapes import (
    FORCED_BY_PLATFORM,
    LAYOUT_NAMES,
    NHD,
    CacheLayout,
    LayoutName,
    Order,
)
from workbench.core.layouts.view import View, bytes_outside_their_page

USUAL_NAME = LayoutName(NHD)


def layout_name(
    backends: Sequence[Backend],
    platform: str,
    capability: tuple[int, int] | None = None,
    *,
    environment: str | None = None,
    connector: str | None = None,
) -> LayoutName:
    """Return the first layout name that is set: by code, environment, connector or NHD.

    backends: all that read the cache; one that forces a name does so for the others as well.
    environment: the variable VLLM_KV_CACHE_LAYOUT; connector: the KV connector's wish.
    Errors: LayoutError for a name that does not exist. Source: get_kv_cache_layout, 0.23.
    """
    wishes = {"VLLM_KV_CACHE_LAYOUT": environment, "wish of the KV connector": connector}
    given = [LayoutName(name, reason) for reason, name in wishes.items() if name is not None]
    for wish in given:
        require_known("layout", wish.name, LAYOUT_NAMES, "layout")
    # What a platform or a backend sets in code overrules the variable in silence.
    if (forced := FORCED_BY_PLATFORM.get(platform)) is not None:
        return LayoutName(forced, f"forced by platform {platform}")
    for backend in backends:
        on = backend.layout_on
        here = on is None or (capability is not None and on.accepts(capability))
        if backend.layout is not None and here:
            return LayoutName(backend.layout, f"forced by {backend.name}")
    return given[0] if given else LayoutName(NHD, "default")


@dataclass(frozen=True)
class CacheViews:
    """One raw int8 tensor and everything that its layers see of it."""

    runner: str
    layout: LayoutName
    raw_bytes: int
    num_blocks: int
    """Number of manager blocks."""
    attention: View | None = None
    """Its block axis counts *kernel* blocks, kernel_blocks_per_block in a manager block."""
    states: tuple[View, ...] = ()
    """One view per state, named in state_names."""
    attention_page_bytes: int | None = None
    state_page_bytes: int | None = None
    kernel_block_size: int | None = None
    kernel_blocks_per_block: int = 1
    block_dim: int | None = None
    """The block axis of `attention`, as the backend answers."""
    order: Order | None = None
    """Order of its logical dimensions in memory, before a rewrite."""
    order_is_declared: bool = False
    rewritten: bool = False
    state_names: tuple[str, ...] = ()
    attention_place: PagePlacement | None = None
    state_place: PagePlacement | None = None
    """Where pages are in the one allocation, which the views are of then (0.33), like
    `attention_place`; None where the layers of a slot have a tensor."""

    def __repr__(self) -> str:
        from workbench.views.pages.layout_text import layout_text

        return layout_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.pages.layout_text import layout_html

        return layout_html(self)

    @property
    def misplaced_attention_bytes(self) -> int:
        """Return the bytes of attention blocks that are in another block's page."""
        # Harmless while only layers with this very view share the tensor; with SSM layers as well,
        # only 0 keeps blocks apart.
        if self.attention is None or self.attention_page_bytes is None:
            return 0
        first, step = _page_of_block_0(self.attention_place, self.attention_page_bytes)
        return bytes_outside_their_page(self.attention, step, self.kernel_blocks_per_block, first)

    @property
    def misplaced_state_bytes(self) -> int:
        """Return the same for states."""
        if self.state_page_bytes is None:
            return 0
        first, step = _page_of_block_0(self.state_place, self.state_page_bytes)
        return sum(bytes_outside_their_page(view, step, first_byte=first) for view in self.states)

    @property
    def named_states(self) -> tuple[tuple[str, View], ...]:
        """Return every state with its name; states without one are numbered."""
        names = self.state_names or tuple(f"state_{n}" for n in range(len(self.states)))
        return tuple(zip(names, self.states, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the published layout: stable names, JSON-able values."""
        attention = states = None
        if self.attention is not None:
            attention = {
                **_published(self.attention),
                "page_size_bytes": self.attention_page_bytes,
                "kernel_block_size": self.kernel_block_size,
                "kernel_blocks_per_block": self.kernel_blocks_per_block,
                "block_dim": self.block_dim,
                "stride_order": None if self.order is None else list(self.order),
                "stride_order_declared": self.order_is_declared,
                "rewritten": self.rewritten,
                "misplaced_bytes": self.misplaced_attention_bytes,
                **_published_place(self.attention_place),
            }
        if self.states:
            states = {
                "page_size_bytes": self.state_page_bytes,
                "states": [{"name": name, **_published(view)} for name, view in self.named_states],
                "misplaced_bytes": self.misplaced_state_bytes,
                **_published_place(self.state_place),
            }
        return {
            "runner": self.runner,
            "layout": self.layout.name,
            "layout_reason": self.layout.reason,
            "num_blocks": self.num_blocks,
            "raw_bytes": self.raw_bytes,
            "attention": attention,
            "mamba": states,
        }


def _page_of_block_0(place: PagePlacement | None, page_bytes: int) -> tuple[int, int]:
    """Return first byte of block 0's page, and the bytes from there to the page of block 1."""
    return (0, page_bytes) if place is None else place.block_step


def _published_place(place: PagePlacement | None) -> dict[str, Any]:
    if place is None:
        return {}
    names = ("offset", "layer_stride", "block_stride", "allocation_bytes", "layers")
    return {"place": {name: getattr(place, name) for name in names}}


def _published(view: View) -> dict[str, Any]:
    return {
        "axes": list(view.axes),
        "shape": list(view.shape),
        "stride": list(view.strides),
        "storage_offset": view.offset_elements,
        "dtype": view.dtype,
        "itemsize": view.itemsize,
    }


def cache_views(
    layout: CacheLayout | None,
    attention: AttentionPages | None,
    states: StatePages | None,
    *,
    num_blocks: int,
    kernel_block_size: int | None = None,
    name: LayoutName = USUAL_NAME,
    runner: str = V1,
    rule: str | None = None,
) -> CacheViews:
    """Return the views of a raw tensor of `num_blocks` pages, in vLLM's order of construction.

    layout: of the attention backend, None without attention; kernel_block_size: the manager block
    where nothing else is said. rule: one of REWRITE_RULES instead of the runner's own.
    Errors: LayoutError, with vLLM's exception and message where vLLM raises one.
    """
    require_known("runner", runner, RUNNERS, "runner")
    if rule is not None:
        require_known("rewrite rule", rule, (*REWRITE_RULES, NEVER), "rule")
    require_positive(num_blocks, "num_blocks", "block")
    pages = [pages.page_bytes for pages in (attention, states) if pages is not None]
    if not pages:
        raise LayoutError("no_cache", "Neither attention nor SSM layers: nothing to lay out.")
    # Layers that share a tensor have equal pages; a larger one shows where that went wrong.
    raw_bytes = num_blocks * max(pages)
    built = CacheViews(runner=runner, layout=name, raw_bytes=raw_bytes, num_blocks=num_blocks)
    if attention is not None and layout is not None:
        built = _with_attention(built, layout, attention, kernel_block_size)
    if states is None:
        return built
    built = replace(
        built,
        states=state_views(states, raw_bytes=built.raw_bytes),
        state_names=states.names,
        state_page_bytes=states.page_bytes,
    )
    # Only hybrids are rewritten: without states no other group reads the tensor.
    if built.attention is None or built.block_dim is None:
        return built
    if not needs_rewrite(built.attention, built.block_dim, rule or RUNNER_RULES[runner]):
        return built
    return replace(built, attention=interleaved(built.attention), rewritten=True)


def _with_attention(
    built: CacheViews, layout: CacheLayout, pages: AttentionPages, kernel_block_size: int | None
) -> CacheViews:
    kernel = kernel_block_size or pages.geometry.block_size
    view = attention_view(
        layout,
        pages,
        raw_bytes=built.raw_bytes,
        kernel_block_size=kernel,
        layout_name=built.layout.name,
        runner=built.runner,
    )
    dim = layout.block_dim(replace(pages.geometry, block_size=kernel))
    return replace(
        built,
        attention=view,
        attention_page_bytes=pages.page_bytes,
        kernel_block_size=kernel,
        kernel_blocks_per_block=view.shape[dim] * pages.page_bytes // built.raw_bytes,
        block_dim=dim,
        order=layout.memory_order(built.layout.name),
        order_is_declared=layout.orders is not None,
    )
