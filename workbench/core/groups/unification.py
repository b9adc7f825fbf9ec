"""Equal pages: layers of several groups share places, so their pages must have one size."""

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from workbench.core.arithmetic import cdiv, divisors
from workbench.core.groups.cache_spec import MLA_KINDS, CacheSpec, GroupingError
from workbench.core.groups.group_rules import GroupRules
from workbench.core.groups.grouping import Group


class PagesNotUnifiableError(GroupingError):
    """Layers whose pages cannot be made equal; the plan reports the same as a problem.

    vllm_text: the beginning of vLLM's message; empty for an assertion without text.
    """

    def __init__(self, message: str, vllm_text: str = "") -> None:
        super().__init__(message)
        self.vllm_text = vllm_text


def unified_pages(specs: Mapping[str, CacheSpec], rules: GroupRules) -> dict[str, CacheSpec]:
    """Enlarge small pages, or pad them, until all are equal. Errors: PagesNotUnifiableError."""
    # unify_kv_cache_spec_page_size, 0.23 and 0.33.
    target = max((spec.page_size_bytes for spec in specs.values()), default=0)
    return {name: _unified(name, spec, target, rules) for name, spec in specs.items()}


def _unified(name: str, spec: CacheSpec, target: int, rules: GroupRules) -> CacheSpec:
    page = spec.page_size_bytes
    if page == target:
        return spec
    # A state's page follows from its shapes: a larger block would not make it larger.
    if rules.pads_pages and spec.is_mamba:
        return spec.padded(target)
    if not page:
        raise PagesNotUnifiableError(f"{name}: its page has 0 bytes")
    if target % page:
        # Sparse MLA reads whole rows of tokens, which padding to any size would cut.
        if rules.pads_pages and spec.kind not in MLA_KINDS:
            return spec.padded(target)
        raise _not_divisible(name, page, target, rules)
    if spec.is_mamba:
        # A bare assertion in vLLM, as with a draft model of larger pages (#43626, #45207).
        raise PagesNotUnifiableError(f"{name}: a mamba page does not grow with its block")
    if spec.padding_bytes or spec.sets_page:
        raise PagesNotUnifiableError(f"{name}: a padded page does not grow with its block")
    return spec.with_block(spec.block_size * (target // page))


def _not_divisible(name: str, page: int, target: int, rules: GroupRules) -> PagesNotUnifiableError:
    message = (
        f"{name}: its page of {page:,} bytes does not divide the largest page of {target:,} bytes"
    )
    if not rules.pads_pages:
        return PagesNotUnifiableError(
            message, "The page size of the layer is not divisible by the maximum page size."
        )
    # The layer is named first, as its class and what is around it name it.
    return PagesNotUnifiableError(
        f"{message}, and the rows of an MLA page cannot be padded",
        "page size is not divisible by the maximum page size and cannot be padded",
    )


def with_hidden_groups(
    groups: tuple[Group, ...], hidden: Mapping[str, CacheSpec], rules: GroupRules
) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the groups and one for every hidden-state layer, and what vLLM logs about it."""
    # Hidden states (extract_hidden_states) get the page of the others, with as many tokens as fit.
    # The end of get_kv_cache_groups, 0.23; _ensure_min_page_size, 0.33.
    page = groups[0].spec.page_size_bytes
    if rules.splits_hidden_blocks:
        # Blocks grow until a page holds a token of every hidden-state layer. A state without
        # padding keeps its page; the pages then differ, which the layout refuses.
        # Ranks divide KV heads but not hidden states, so one vector may be larger than a page.
        scale = cdiv(max(spec.token_bytes for spec in hidden.values()), page)
        groups = tuple(replace(group, spec=_scaled(group.spec, scale)) for group in groups)
        page *= scale
    common = gcd(*(group.spec.block_size for group in groups))
    added, notes = [], []
    for name, spec in hidden.items():
        block = max(page // spec.token_bytes, 1)
        if rules.splits_hidden_blocks:
            # Only a number of tokens that divides the other blocks, whatever else would fit.
            block = max((size for size in divisors(common) if size <= block), default=1)
            wasted = page - block * spec.token_bytes
            notes.append(
                f"Using block size {block} for hidden-state cache layer {name}; page alignment "
                f"wastes {wasted} bytes ({wasted / page * 100:.2f}%) per block"
            )
        sized = spec.with_block(block)
        added.append(Group(sized.padded(max(page, sized.page_size_bytes)), (name,)))
    return (*groups, *added), tuple(notes)


def _scaled(spec: CacheSpec, scale: int) -> CacheSpec:
    if scale == 1:
        return spec
    block = spec.block_size * scale
    grown = spec._replace(block_size=block) if spec.is_mamba else spec.with_block(block)
    return grown.padded(spec.page_size_bytes * scale) if spec.padding_bytes else grown
