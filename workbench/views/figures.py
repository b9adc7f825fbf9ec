"""The figures, by the name people use: `wb.figures.page(plan)`."""

from workbench.views.hit_figure import checkpoint_table, hit_curve
from workbench.views.owner_figure import page_owners
from workbench.views.page_figure import page, page_layout, page_title, page_traces
from workbench.views.sizes_figure import block_sizes
from workbench.views.waste_figure import reserved_bytes

__all__ = [
    "block_sizes",
    "checkpoint_table",
    "hit_curve",
    "page",
    "page_layout",
    "page_owners",
    "page_title",
    "page_traces",
    "reserved_bytes",
]
