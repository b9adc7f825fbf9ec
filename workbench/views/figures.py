"""The figures by their public names.

>>> wb.figures.page(plan, theme="dark").layout.title.text
'<b>...'
"""

from typing import TYPE_CHECKING, Any

from workbench.views.bytes.map import page_map
from workbench.views.bytes.owner_figure import owners_side_by_side, page_owners
from workbench.views.capacity.figure import capacity, gain_of_fp8, shared_or_separate
from workbench.views.capacity.group_figure import groups
from workbench.views.capacity.memory_figure import memory_bar, reserved_bytes
from workbench.views.flex.figure import legal_pairs, mask_memory_figure, nested_grids
from workbench.views.flex.mask_figure import logical_mask, physical_mask, visit_order
from workbench.views.hits.figure import hit_curve
from workbench.views.hits.html import checkpoint_table
from workbench.views.offload.figure import host_block_figure, offload_figure
from workbench.views.pages.figure import page, page_layout, page_title, page_traces
from workbench.views.pages.sizes_figure import block_sizes
from workbench.views.tables.figure import block_tables, slot_map
from workbench.views.versions.figure import timeline, upgrade_matrix, versions

if TYPE_CHECKING:
    from workbench.views.capacity.pool_raster import pool_raster

__all__ = [
    "block_sizes",
    "block_tables",
    "capacity",
    "checkpoint_table",
    "gain_of_fp8",
    "groups",
    "hit_curve",
    "host_block_figure",
    "legal_pairs",
    "logical_mask",
    "mask_memory_figure",
    "memory_bar",
    "nested_grids",
    "offload_figure",
    "owners_side_by_side",
    "page",
    "page_layout",
    "page_map",
    "page_owners",
    "page_title",
    "page_traces",
    "physical_mask",
    "pool_raster",
    "reserved_bytes",
    "shared_or_separate",
    "slot_map",
    "timeline",
    "upgrade_matrix",
    "versions",
    "visit_order",
]


def __getattr__(name: str) -> Any:
    # The one figure that needs numpy: the others are drawn in a browser, too, which has none.
    if name != "pool_raster":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.views.capacity.pool_raster import pool_raster

    return pool_raster
