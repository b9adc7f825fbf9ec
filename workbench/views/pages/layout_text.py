"""A layout as text for terminals, and as a table."""

from workbench.core.layouts.placed import PagePlacement
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.layouts.view import View
from workbench.views.html import Html, code_block, document, fold, note, wide_table


def layout_text(views: CacheViews) -> str:
    """Return both kinds of views, one fact per line."""
    one = views.attention_place or views.state_place
    what = "raw tensor    " if one is None else "one allocation"
    lines = [
        f"{what}           {views.raw_bytes:,} bytes: {views.num_blocks:,} blocks",
        f"runner, layout           {views.runner}, {views.layout.name} ({views.layout.reason})",
    ]
    if views.attention is not None:
        lines += ["", "attention", *_view_lines(views.attention), *_attention_lines(views)]
    for name, view in views.named_states:
        lines += ["", f"mamba: {name}", *_view_lines(view)]
    if views.state_place is not None:
        lines += ["", *_place_lines(views.state_place)]
    if views.states:
        lines += ["", f"misplaced state bytes    {views.misplaced_state_bytes:,}"]
    return "\n".join(lines)


def layout_html(views: CacheViews) -> Html:
    """Return a row per view; the rest of the text is folded."""
    attention = () if views.attention is None else (("attention", views.attention),)
    rows = [
        (
            name,
            ", ".join(view.axes),
            str(view.shape),
            str(view.strides),
            view.offset_bytes,
            view.dtype,
        )
        for name, view in (*attention, *views.named_states)
    ]
    header = ("view", "dimensions", "shape", "strides in elements", "first byte", "dtype")
    return document(
        note(f"{views.num_blocks:,} blocks in {views.raw_bytes:,} bytes"),
        wide_table(header, rows),
        fold("All of the layout", code_block(layout_text(views))),
    )


def _view_lines(view: View) -> list[str]:
    return [
        f"  dimensions             {', '.join(view.axes)}",
        f"  shape                  {view.shape} {view.dtype}",
        f"  strides                {view.strides} elements",
        f"  offset                 {view.offset_elements} elements, byte {view.offset_bytes}",
    ]


def _attention_lines(views: CacheViews) -> list[str]:
    declared = "" if views.order_is_declared else " (the backend declares none)"
    shared = "" if views.states or not views.misplaced_attention_bytes else " (no other reader)"
    split = f"{views.kernel_block_size} tokens, {views.kernel_blocks_per_block} in a manager block"
    if views.attention_place is not None:
        declared, rewritten = "", "no: every view counts blocks first"
    else:
        rewritten = "yes (#37236)" if views.rewritten else "no"
    return [
        *([] if views.attention_place is None else _place_lines(views.attention_place)),
        f"  order in memory        {views.order}{declared}",
        f"  block dimension        {views.block_dim}",
        f"  kernel block           {split}",
        f"  strides rewritten      {rewritten}",
        f"  misplaced bytes        {views.misplaced_attention_bytes:,}{shared}",
    ]


def _place_lines(place: PagePlacement) -> list[str]:
    """Return where block b of layer l starts, for the layers that are placed together."""
    layers = f"{place.layers} layer{'s' * (place.layers > 1)}"
    start = f"{place.offset:,} + l * {place.layer_stride:,} + b * {place.block_stride:,}"
    return [f"  block b of layer l     byte {start} ({layers})"]
