"""What the block size leads to: equal pages, and a kernel block that divides the manager block."""

from math import lcm

from workbench.core.block_sizes import (
    BlockSize,
    base_of,
    common_kernel_block,
    describe,
    smallest_base,
)
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.groups.layer_backend import (
    blocks_of_layers,
    is_drafted,
    is_plain,
    layer_backend,
    read_blocks,
    read_equally,
)
from workbench.core.groups.of_plan import possible_layouts
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.packed_views import check_group_split
from workbench.core.stages.grouping import refuse_grouping
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

EQUAL_PAGES = Rule(
    "equal_pages",
    "Pages are equal",
    "attention page == mamba page; a smaller attention page must divide it",
)
KERNEL_BLOCK = Rule(
    "kernel_block_size",
    "Kernel block size",
    "block_size if the backend accepts it, else its largest exact size that divides it",
    "tokens",
)


def unify_pages(run: WorkingPlan) -> None:
    """Make the pages equal of layers in several groups, which share places."""
    failure = run.grouping_error
    attention, own = run.attention_page_size_bytes, run.layer_state_bytes
    if not run.model.is_hybrid or attention is None or not own:
        refuse_grouping(run, None if own == 0 else failure)
        return
    # Without padding a page is what the layer itself counts, which may be more than the alignment.
    mamba = run.mamba_page_size_padded or own
    equal = attention == mamba
    scales = attention < mamba and mamba % attention == 0
    padded = not equal and not scales and failure is None
    run.step(
        EQUAL_PAGES,
        equal,
        f"attention blocks are enlarged {mamba // attention} times"
        if scales
        else "the smaller page is padded to the larger one"
        if padded
        else "",
        attention_page=attention,
        mamba_page=mamba,
    )
    if equal or scales or run.rules.groups.pads_pages:
        refuse_grouping(run, failure)
        return
    large, small = max(attention, mamba), min(attention, mamba)
    divides = large % small == 0
    message = (
        f"The attention page of {attention:,} bytes and the mamba page of {mamba:,} bytes cannot "
        f"be made equal: {large:,} / {small:,} = {large / small:g}"
    )
    run.problem(
        "pages_not_equal",
        variant="unify_pages",
        operands={"attention_page_size_bytes": attention, "mamba_page_size_bytes": mamba},
        candidates=({"rules": run.rules.version},),
        vllm_text=(
            ""
            if divides
            else "The page size of the layer is not divisible by the maximum page size."
        ),
        why=message,
        end=", and a mamba page does not grow with its block." if divides else " is not whole.",
    )


def kernel_block_size(run: WorkingPlan) -> None:
    """Set the kernel block of the attention group; other groups need one as well."""
    if run.backend is None:
        return
    groups = _attention_groups(run)
    block, sizes = run.block_size, groups[0][1] if groups else (run.supported_kernel_block_sizes,)
    run.kernel_block_size = common_kernel_block(sizes, block)
    size = run.kernel_block_size
    run.step(
        KERNEL_BLOCK,
        size,
        _kernel_block_note(run, size),
        block_size=block,
        supported=[entry for entries in sizes for entry in describe(entries)],
        backend=run.backend,
    )
    for wanted, supported in ((block, sizes), *groups):
        if common_kernel_block(supported, wanted) is None:
            _no_common_block(run, wanted, supported)
            return


def _attention_groups(run: WorkingPlan) -> list[tuple[int, tuple[tuple[BlockSize, ...], ...]]]:
    """Return block and kernel block sizes of the groups if some layers have another backend."""
    # The group of the other layers comes first, without a window: the plan's backend is of those.
    # Nothing where all layers have one backend.
    grouping = run.grouping
    if read_equally(run) or grouping is None:
        return []
    groups = [
        group
        for group in (() if grouping.is_block_outermost else grouping.groups)
        if not (group.spec.is_mamba or group.spec.kind == HIDDEN_SPEC)
    ]
    groups.sort(
        key=lambda one: (
            all(is_plain(run, spec) for spec in one.layer_specs),
            one.spec.window_tokens is not None,
        )
    )
    return [(group.spec.block_size, read_blocks(run, group)) for group in groups]


def packed_split(run: WorkingPlan) -> None:
    """Check that blocks alongside other layers' pages are not cut into kernel blocks (0.33)."""
    grouping = run.grouping
    if run.backend is None or grouping is None:
        return
    name = grouping.layout
    if name is None or not grouping.is_block_outermost:
        return
    # The runner asks one layer of each spec and class; the first one that cannot is named.
    different: dict[tuple[CacheSpec, bool], str] = {}
    for layer, (_group, spec) in grouping.layers.items():
        different.setdefault((spec, is_drafted(run, layer)), layer)
    for (spec, _drafted), layer in different.items():
        # Keys of several tokens alongside whole ones are read through a view of kernel blocks.
        has_view = spec.companion and spec.tokens_per_state > 1
        if spec.is_mamba or spec.kind == HIDDEN_SPEC or has_view:
            continue
        sizes = blocks_of_layers(run, [(layer, spec)])
        kernel = common_kernel_block(sizes, spec.block_size) or spec.block_size
        reader = layer_backend(run, spec, layer) or run.backend
        try:
            check_group_split(name, reader, spec.block_size, kernel)
        except LayoutError as error:
            apart = [order for order in possible_layouts(run) if order.startswith("L")]
            run.problem(
                "packed_block_not_split",
                operands=error.operands,
                message=error.message,
                candidates=(
                    *({"kv_cache_layout": order} for order in apart),
                    {"kv_cache_layout": None},
                    {"block_size": kernel},
                ),
                vllm_text=error.vllm_text,
            )
            return


def _kernel_block_note(run: WorkingPlan, size: int | None) -> str:
    notes = [] if size is None else [f"kernel blocks in a manager block: {run.block_size // size}"]
    backend = run.backend_record
    if run.float32_state and backend is not None and backend.with_float32_state:
        notes.append("a float32 state narrows this backend to exact sizes (vllm#36701)")
    return "; ".join(notes)


def _no_common_block(
    run: WorkingPlan, block_size: int, supported: tuple[tuple[BlockSize, ...], ...]
) -> None:
    assert run.backend is not None
    sizes = dict.fromkeys(entry for entries in supported for entry in entries)
    bases = sorted({base_of(entry) for entry in sizes})
    multiple = lcm(*(smallest_base(entries) for entries in supported), run.settings.block_size or 1)
    run.problem(
        "no_common_block_size",
        operands={"block_size": block_size, "supported": describe(tuple(sizes))},
        message=_why_none_is_common(run, block_size, supported),
        candidates=(*({"block_size": base} for base in bases), {"block_size": multiple}),
    )


def _why_none_is_common(
    run: WorkingPlan, block_size: int, supported: tuple[tuple[BlockSize, ...], ...]
) -> str:
    """Return which kernel blocks are read, and that no size suits the manager block."""
    names, suited = run.attention_backends, f"suits the manager block of {block_size} tokens."
    sizes = list(dict.fromkeys(str(describe(entries)) for entries in supported))
    if len(sizes) > 1:
        return (
            f"With {' and '.join(names)}, layers of one group read kernel blocks "
            f"{' and '.join(sizes)}, and no size of all of them {suited} Choose another backend."
        )
    who = f"{' and '.join(names)} support" + ("s" if len(names) == 1 else "")
    base = min(map(base_of, supported[0]))
    return (
        f"{who} kernel blocks {sizes[0]}, and none of them {suited} Set block_size to a multiple "
        f"of {base}, or choose another backend."
    )
