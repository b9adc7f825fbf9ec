"""Equal pages: layers of several groups share places, so their pages must have one size.

Source: `unify_kv_cache_spec_page_size` of 0.23 and 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping

from workbench.core.groups.cache_spec import MLA_KINDS, CacheSpec, GroupingError
from workbench.core.groups.rules import GroupRules


class PagesNotUnifiableError(GroupingError):
    """Layers whose pages cannot be made equal; the plan reports the same as a problem.

    vllm_text: the beginning of vLLM's message; None for an assertion without text.
    """

    def __init__(self, message: str, vllm_text: str | None = None) -> None:
        super().__init__(message)
        self.vllm_text = vllm_text


def unified_pages(specs: Mapping[str, CacheSpec], rules: GroupRules) -> dict[str, CacheSpec]:
    """Enlarge the blocks of small pages, or pad them, until all pages are equal.

    Errors: PagesNotUnifiableError names the layer.
    """
    target = max((spec.page_size_bytes for spec in specs.values()), default=0)
    return {name: _unified(name, spec, target, rules) for name, spec in specs.items()}


def _unified(name: str, spec: CacheSpec, target: int, rules: GroupRules) -> CacheSpec:
    page = spec.page_size_bytes
    if page == target:
        return spec
    if rules.pads_pages and spec.is_mamba:
        return spec.padded(target)
    if not page:
        raise PagesNotUnifiableError(f"{name}: its page has 0 bytes")
    if target % page:
        if rules.pads_pages and spec.kind not in MLA_KINDS:
            return spec.padded(target)
        raise _not_divisible(name, page, target, rules)
    if spec.is_mamba:
        raise PagesNotUnifiableError(f"{name}: a mamba page does not grow with its block")
    if spec.padding_bytes:
        raise PagesNotUnifiableError(f"{name}: a padded page does not grow with its block")
    return spec.with_block(spec.block_size * (target // page))


def _not_divisible(name: str, page: int, target: int, rules: GroupRules) -> PagesNotUnifiableError:
    message = (
        f"{name}: its page of {page:,} bytes does not divide the largest page of {target:,} bytes"
    )
    if not rules.pads_pages:
        text = "The page size of the layer is not divisible by the maximum page size."
    else:
        message += ", and the rows of an MLA page cannot be padded"
        text = (
            f"Layer {name}: page size is not divisible by the maximum page size and cannot be "
            "padded."
        )
    return PagesNotUnifiableError(message, text)
