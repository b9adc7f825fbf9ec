"""What the block size leads to: equal pages, and a kernel block that divides the manager block."""

from __future__ import annotations

from workbench.core.arithmetic import lcm
from workbench.core.block_sizes import (
    BlockSize,
    base_of,
    common_kernel_block,
    describe,
    smallest_base,
)
from workbench.core.groups.cache_spec import HIDDEN_SPEC
from workbench.core.groups.layer_backend import is_plain, read_blocks
from workbench.core.groups.of_plan import possible_layouts
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.packed_views import check_group_split
from workbench.core.run import Run
from workbench.core.stages.grouping import (
    cache_layout_choice,
    grouping_failure,
    hidden_states,
    refuse_grouping,
)
from workbench.core.trace import Rule

EQUAL_PAGES = Rule(
    "equal_pages",
    "Pages are equal",
    "attention page == mamba page; a smaller attention page must divide it",
    "",
    "vLLM 0.23, unify_kv_cache_spec_page_size",
)
KERNEL_BLOCK = Rule(
    "kernel_block_size",
    "Kernel block size",
    "block_size if the backend accepts it, else its largest exact size that divides it",
    "tokens",
    "vLLM 0.23, select_common_block_size (#38831)",
)


def unify_pages(run: Run) -> None:
    """Make the pages equal of layers in several groups, which share places.

    Also what else keeps groups from being built. Errors: Refused, see `hidden_states`.
    """
    hidden_states(run)
    cache_layout_choice(run)
    failure = grouping_failure(run)
    attention, own = run.attention_page_size_bytes, run.mamba_page_size_bytes
    if not run.model.is_hybrid or attention is None or not own:
        refuse_grouping(run, None if own == 0 else failure)
        return
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
        "block_size",
        message
        + (", and a mamba page does not grow with its block." if divides else " is not whole."),
        operands={"attention_page_size_bytes": attention, "mamba_page_size_bytes": mamba},
        vllm_text=None
        if divides
        else "The page size of the layer is not divisible by the maximum page size.",
        candidates=(
            {"rules": "0.23"},
            {"kv_cache_dtype": "auto"},
            {"kv_cache_dtype": "fp8"},
            {"block_size": 64},
            {"block_size": 128},
            {"block_size": 256},
        ),
    )


def kernel_block_size(run: Run) -> None:
    """Set the kernel block of the attention group; other groups need one as well."""
    if run.backend is None:
        return
    groups = _attention_groups(run)
    block, sizes = run.block_size, groups[0][1] if groups else (run.supported,)
    run.kernel_block_size = common_kernel_block(sizes, block)
    size = run.kernel_block_size
    run.step(
        KERNEL_BLOCK,
        size,
        _kernel_block_note(run, size),
        block_size=block,
        supported=[entry for entries in sizes for entry in describe(entries)],
        backend=run.backend.name,
    )
    for wanted, supported in ((block, sizes), *groups):
        if common_kernel_block(supported, wanted) is None:
            _no_common_block(run, wanted, supported)
            return


def _attention_groups(run: Run) -> list[tuple[int, tuple[tuple[BlockSize, ...], ...]]]:
    """Return block and kernel block sizes of the groups if some layers have another backend.

    The group of the other layers comes first. Nothing where all layers have one backend.
    """
    if run.plain_backend is None or grouping_failure(run) is not None:
        return []
    grouping = run.grouping
    groups = [
        group
        for group in (() if grouping.is_block_outermost else grouping.groups)
        if not (group.spec.is_mamba or group.spec.kind == HIDDEN_SPEC)
    ]
    groups.sort(key=lambda group: all(is_plain(run, spec) for spec in group.different_specs))
    return [(group.spec.block_size, read_blocks(run, group.different_specs)) for group in groups]


def packed_split(run: Run) -> None:
    """Check that blocks alongside other layers' pages are not cut into kernel blocks (0.33)."""
    if run.backend is None or grouping_failure(run) is not None:
        return
    name = run.grouping.layout
    if name is None or not run.grouping.is_block_outermost:
        return
    for group in run.grouping.groups:
        spec = group.spec
        if spec.is_mamba or spec.kind == HIDDEN_SPEC:
            continue
        sizes = read_blocks(run, group.different_specs)
        kernel = common_kernel_block(sizes, spec.block_size) or spec.block_size
        try:
            check_group_split(name, run.backend.name, spec.block_size, kernel)
        except LayoutError as error:
            apart = [order for order in possible_layouts(run) if order.startswith("L")]
            run.problem(
                "packed_block_not_split",
                "kv_cache_layout",
                error.message,
                operands=error.operands,
                vllm_text=error.vllm_text,
                candidates=(
                    *({"kv_cache_layout": order} for order in apart),
                    {"kv_cache_layout": None},
                    {"block_size": kernel},
                    {"backend": None},
                ),
            )
            return


def _kernel_block_note(run: Run, size: int | None) -> str:
    notes = [] if size is None else [f"kernel blocks in a manager block: {run.block_size // size}"]
    if run.float32_state and run.backend is not None and run.backend.with_float32_state:
        notes.append("a float32 state narrows this backend to exact sizes (vllm#36701)")
    return "; ".join(notes)


def _no_common_block(
    run: Run, block_size: int, supported: tuple[tuple[BlockSize, ...], ...]
) -> None:
    assert run.backend is not None
    sizes = dict.fromkeys(entry for entries in supported for entry in entries)
    bases = sorted({base_of(entry) for entry in sizes})
    multiple = lcm(*(smallest_base(entries) for entries in supported), run.settings.block_size or 1)
    names = dict.fromkeys(backend.name for backend in (run.backend, run.plain_backend) if backend)
    who = f"{' and '.join(names)} support" + ("s" if len(names) == 1 else "")
    run.problem(
        "no_common_block_size",
        "block_size",
        f"{who} kernel blocks {describe(tuple(sizes))}, and none of them suits the manager block "
        f"of {block_size} tokens. Type a block_size that is a multiple of {bases[0]}, or choose "
        "another backend.",
        operands={"block_size": block_size, "supported": describe(tuple(sizes))},
        vllm_text=f"No common block size for {block_size}. ",
        candidates=(
            *({"block_size": base} for base in bases),
            {"block_size": multiple},
            {"block_size": None},
            {"backend": None},
            {"kv_cache_dtype_skip_layers": None},
        ),
    )
