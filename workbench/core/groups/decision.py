"""KV-cache groups: which layers share a block table, by the decision list of one version."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace

from workbench.core.arithmetic import cdiv
from workbench.core.groups.cache_spec import (
    ATTENTION_SPECS,
    FULL_KINDS,
    HIDDEN_SPEC,
    MLA_KINDS,
    PROMOTED,
    CacheSpec,
    NoSingleTypeError,
    are_one_type,
    promoted,
    share_one_spec,
)
from workbench.core.groups.group_rules import GroupRules
from workbench.core.groups.grouping import Group, Grouping, group_of
from workbench.core.groups.several_pages import buckets_of, layer_tuple_groups, packed_groups
from workbench.core.groups.unification import (
    PagesNotUnifiableError,
    unified_pages,
    with_hidden_groups,
)
from workbench.core.model import SLIDING

LARGE_GROUP_RATIO = 1.5
PLAIN = GroupRules()
Decision = tuple[tuple[Group, ...], str, tuple[str, ...]]
"""Groups, why they are what they are, and what vLLM logs."""


def group_layers(
    specs: Mapping[str, CacheSpec],
    rules: GroupRules = PLAIN,
    *,
    layout: str | None = None,
    hybrid_manager: bool = True,
) -> Grouping:
    """Return the groups for layers with these specs, in the order of construction.

    layout: the order of the one allocation, where `rules` has one. hybrid_manager: false for
    `--disable-hybrid-kv-cache-manager`. Errors: PagesNotUnifiableError, NoSingleTypeError.
    """
    if not hybrid_manager:
        specs = _promoted_by_kind(specs, rules)
    groups, reason, notes = _decided(specs, rules, layout)
    if layout is not None:
        largest = max((len(group.layers) for group in groups), default=0)
        return Grouping(groups, largest, reason, layout, notes)
    slots = sum(count for _page, count in Grouping(groups, 0, reason).slots_by_page)
    padded = []
    for group in groups:
        # Groups of layers with a spec each are filled up here; `_split` has filled the others
        # already.
        missing = 0 if group.padding_layers else slots - len(group.layers)
        padded.append(replace(group, padding_layers=missing) if missing else group)
    return Grouping(tuple(padded), slots, reason, None, notes)


def _promoted_by_kind(specs: Mapping[str, CacheSpec], rules: GroupRules) -> dict[str, CacheSpec]:
    """Treat windows as full attention: those that ranks share apart from those that each has."""
    # unify_hybrid_kv_cache_specs, 0.33: a state counts with the layers that are shared.
    if not rules.spreads_by_layer or all(spec.context_ranks == 1 for spec in specs.values()):
        return promoted(specs, rules)
    changed: dict[str, CacheSpec] = {}
    for whole in (False, True):
        same = {
            name: spec
            for name, spec in specs.items()
            if whole == (spec.context_ranks == 1 and not spec.is_mamba)
        }
        changed |= promoted(same, rules)
    return {name: changed[name] for name in specs}


def _decided(specs: Mapping[str, CacheSpec], rules: GroupRules, layout: str | None) -> Decision:
    """Return the groups by the first case that holds, in vLLM's order."""
    # As get_kv_cache_groups does, in v1/core/kv_cache_utils.py (0.23) and kv_cache_planning.py
    # (0.33); what differs is in GroupRules.
    if not specs:
        return (), "no layer keeps a cache", ()
    # Models have few different specs and many layers: the tests look at each spec once.
    once = tuple(dict.fromkeys(specs.values()))
    if share_one_spec(once, rules):
        return (Group(_shared(once), tuple(specs)),), "all layers have one spec: one group", ()
    if are_one_type(once, rules):
        sizes = len({spec.page_size_bytes for spec in once})
        reason = f"one type of layer with pages of {sizes} sizes: one group, a page for each layer"
        return (group_of(specs),), reason, ()
    if not rules.one_allocation and (tuples := layer_tuple_groups(specs)):
        reason = "compressed layers: groups of equally many tuples, one layer of each page in each"
        return tuples, reason, ()
    return _of_several_types(specs, rules, layout)


def _of_several_types(
    specs: Mapping[str, CacheSpec], rules: GroupRules, layout: str | None
) -> Decision:
    # Hidden states are taken out while the others are made equal, and get a group each afterwards.
    hidden = {name: spec for name, spec in specs.items() if spec.kind == HIDDEN_SPEC}
    others = {name: spec for name, spec in specs.items() if spec.kind != HIDDEN_SPEC}
    order = layout or ""
    if order.startswith("B") and (packed := packed_groups(others, rules)):
        # Blocks are as wide as the widest group, so pages of hidden states need no alignment.
        alone = (Group(spec, (name,)) for name, spec in hidden.items())
        reason = f"pages packed within a block ({layout}); group size differs per layer type"
        return (*packed, *alone), reason, ()
    try:
        # The manager hands out blocks of one size only, so that pages have to be equal first.
        unified = unified_pages(others, rules)
    except PagesNotUnifiableError:
        # Windows stay windows wherever pages can be made equal; this is the last way out (0.33).
        whole = _windows_kept_whole(specs, rules)
        if whole is None:
            raise
        reason = "pages cannot be made equal: windows are treated as full attention, one group"
        return (whole,), reason, (FALLBACK_WARNING,)
    groups, reason, notes = _split(unified, rules)
    if hidden:
        groups, more = with_hidden_groups(groups, hidden, rules)
        notes += more
    # Pages of several sizes have no common step from layer to layer (validate_kv_cache_layout,
    # 0.33).
    if order.startswith("L") and not Grouping(groups, 0, reason).has_equal_pages:
        raise PagesNotUnifiableError(
            f"the layout {order} keeps every layer by itself, so all pages must be equal",
            mixed_pages_text(order),
        )
    return groups, reason, notes


def mixed_pages_text(layout: str) -> str:
    """Return how vLLM refuses an order of the allocation in which pages are not whole (0.33)."""
    return f"KV cache layout {layout} cannot express this model's mixed page sizes"


FALLBACK_WARNING = (
    "KV cache page sizes cannot be unified; treating sliding-window layers as full attention for "
    "cache allocation. Sliding-window attention compute is unchanged."
)


def _windows_kept_whole(specs: Mapping[str, CacheSpec], rules: GroupRules) -> Group | None:
    """Return one group in which every token is kept, for MLA with windowed layers (0.33)."""
    kinds, window = {spec.kind for spec in specs.values()}, ATTENTION_SPECS[SLIDING]
    refused = {HIDDEN_SPEC, *(set(PROMOTED) - {window})}
    if not rules.pads_pages or kinds & refused or not kinds & MLA_KINDS or window not in kinds:
        return None
    try:
        whole = promoted(specs, rules)
    except NoSingleTypeError:
        return None
    return group_of(whole) if are_one_type(whole.values(), rules) else None


def _shared(specs: Collection[CacheSpec]) -> CacheSpec:
    """Return the spec of all: the first one's, with the window that any of them computes with."""
    windows = [spec.computed_window_tokens for spec in specs if spec.computed_window_tokens]
    first = next(iter(specs))
    if first.kind not in FULL_KINDS:
        return first
    return first._replace(computed_window_tokens=windows[0] if windows else None)


def _split(specs: Mapping[str, CacheSpec], rules: GroupRules) -> Decision:
    """Return equal groups: each bucket of equal specs is dealt out in strides."""
    buckets = _buckets(specs, rules)
    sizes = [len(names) for names in buckets]
    smallest, largest = min(sizes), max(sizes)
    # Most hybrids have n layers of one kind per layer of another, so the rarer kind sets the size.
    # With nearly equal counts (12 and 13 of gpt-oss with EAGLE) that would pad a kind to twice its
    # layers, so the larger one does (_get_kv_cache_groups_uniform_page_size).
    size = largest if largest < LARGE_GROUP_RATIO * smallest else smallest
    groups: list[Group] = []
    notes = []
    for names in buckets:
        count = cdiv(len(names), size)
        if padding := -len(names) % size:
            notes.append(
                f"Add {padding} padding layers, may waste at most "
                f"{100 * padding / len(names):.2f}% KV cache memory"
            )
        for first in range(count):
            # In strides, so that every pipeline stage has layers of every group; runs of neighbours
            # would leave groups empty on a stage, and pad them there (same function).
            layers = names[first::count]
            spec = _shared([specs[name] for name in layers])
            groups.append(Group(spec, tuple(layers), size - len(layers)))
    reason = (
        f"{len(buckets)} kinds of layers ({', '.join(map(str, sizes))}): groups of {size}, "
        f"{'the largest' if size == largest and size != smallest else 'the smallest'} kind"
    )
    return tuple(groups), reason, tuple(notes)


def _buckets(specs: Mapping[str, CacheSpec], rules: GroupRules) -> list[list[str]]:
    """Return the names of layers with equal specs, in the order of first appearance."""
    equal: dict[CacheSpec, list[str]] = defaultdict(list)
    for name, spec in specs.items():
        equal[spec].append(name)
    if not rules.merges_buckets:
        return list(equal.values())
    # 0.33 wants few groups: what a merge can reconcile does not take two.
    merged = buckets_of(equal, lambda found: share_one_spec(found, rules))
    return [[name for spec in members for name in equal[spec]] for members in merged]
