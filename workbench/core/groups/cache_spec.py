"""What a layer requests that the engine keep for it, and which layers may share a block table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from workbench.core.arithmetic import round_up
from workbench.core.dtypes import FLOAT_BYTES, PER_TOKEN_HEAD_DTYPES
from workbench.core.groups.group_rules import GroupRules
from workbench.core.model import CHUNKED, CROSS, FULL, SLIDING
from workbench.core.packing import SCALE_BYTES

MAMBA_SPEC = "MambaSpec"
MLA_SPEC = "MLAAttentionSpec"
TURBOQUANT_SPEC = "TQFullAttentionSpec"
HIDDEN_SPEC, SINK_SPEC, GAP_SPEC = "HiddenStateCacheSpec", "SinkFullAttentionSpec", "RSWASpec"
SLIDING_MLA_SPEC = "SlidingWindowMLASpec"
RING_SPEC = "CircularBufferSpec"
ATTENTION_SPECS = {
    FULL: "FullAttentionSpec",
    SLIDING: "SlidingWindowSpec",
    CHUNKED: "ChunkedLocalAttentionSpec",
    CROSS: "CrossAttentionSpec",
}
"""Layer kind -> vLLM's class name; MLA layers have a class of their own."""

MLA_KINDS = frozenset({MLA_SPEC, HIDDEN_SPEC})
FULL_KINDS = MLA_KINDS | {ATTENTION_SPECS[FULL], TURBOQUANT_SPEC, SINK_SPEC, GAP_SPEC}
"""Classes for which room is made for every token of a request; they count as one type."""
SLIDING_KINDS = frozenset({ATTENTION_SPECS[SLIDING], SLIDING_MLA_SPEC})
PROMOTED = {
    SLIDING_MLA_SPEC: MLA_SPEC,
    ATTENTION_SPECS[SLIDING]: ATTENTION_SPECS[FULL],
    ATTENTION_SPECS[CHUNKED]: ATTENTION_SPECS[FULL],
}
"""Class that drops tokens -> the class that keeps them all."""
INDEX_KEYS = "uint8"
"""How an indexer stores its keys: fp8 and float32 scales side by side, whatever the KV dtype is."""


class CacheSpec(NamedTuple):
    """What makes layers identical: layers with equal specs may share a group."""

    kind: str
    """vLLM's class name."""
    block_size: int
    """In tokens."""
    page_size_bytes: int
    """Of one block, padding included."""
    window_tokens: int | None = None
    num_kv_heads: int = 0
    """Of one rank; 0 where it does not matter."""
    head_size: int = 0
    """In elements; 0 where it does not matter."""
    stored: str = ""
    """What else must agree, such as the dtype."""
    padding_bytes: int = 0
    sets_page: bool = False
    """The layer sets the page, which then does not grow with the block (0.33)."""
    computed_window_tokens: int | None = None
    """A window of the computation whose tokens are all kept."""
    tokens_per_state: int = 1
    """Tokens in one stored vector."""
    forgets_quantization: bool = False
    """It is not the spec of the same layer that says how it is quantized."""
    alignment_bytes: int = 1
    """What the page is a multiple of, whatever its block is."""
    stride_bytes: int = 1
    """What the bytes from one block to the next are a multiple of."""
    fixed_kernel_block: int | None = None
    """The largest kernel block of a backend that takes no multiples, in tokens (0.33)."""
    is_found_again: bool = True
    """Prefix caching keeps its blocks."""
    num_head_slots: int | None = None
    """Parts into which a page is cut, if not one per KV head (0.33)."""
    companion: str = ""
    """What reads it, by its name in `RuleSet.companions`; empty for the attention's backend."""
    context_ranks: int = 1
    """Ranks over which the tokens of a block are spread (decode context parallelism)."""

    @property
    def span_tokens(self) -> int:
        """Return the tokens of one block id, over all ranks that share them."""
        return self.block_size * self.context_ranks

    @property
    def num_heads(self) -> int:
        """Return the places in the dimension of heads of a view of 0.33; a state has one."""
        return self.num_head_slots or max(self.num_kv_heads, 1)

    @property
    def is_mamba(self) -> bool:
        """Return whether a block holds a state instead of tokens."""
        return self.kind == MAMBA_SPEC

    @property
    def reads_encoder(self) -> bool:
        """Return whether a block holds what an encoder read (cross attention)."""
        return self.kind == ATTENTION_SPECS[CROSS]

    @property
    def is_indexer(self) -> bool:
        """Return whether a block holds keys of an indexer, alongside those of the attention."""
        return self.stored == INDEX_KEYS or bool(self.companion)

    @property
    def content_bytes(self) -> int:
        """Return the bytes of a page that hold something."""
        return self.page_size_bytes - self.padding_bytes

    @property
    def token_bytes(self) -> int:
        """Return the bytes of one token, without padding."""
        return self.content_bytes // self.block_size

    @property
    def view_shape(self) -> tuple[int, int, int]:
        """Return (heads, vectors, content in bytes) of one unpadded block in a view of 0.33."""
        if self.is_mamba:
            return 1, 1, self.page_size_bytes
        vectors = max(self.block_size // self.tokens_per_state, 1)
        return self.num_heads, vectors, self.content_bytes // (self.num_heads * vectors)

    def padded(self, page_size_bytes: int) -> CacheSpec:
        """Return the same content in a larger page."""
        padding = page_size_bytes - self.content_bytes
        return self._replace(page_size_bytes=page_size_bytes, padding_bytes=padding)

    def with_block(self, block_size: int) -> CacheSpec:
        """Return the same tokens in blocks of another size, without padding."""
        page = self.content_bytes * block_size // self.block_size
        return self._replace(block_size=block_size, page_size_bytes=page, padding_bytes=0)


class GroupingError(ValueError):
    """Why no groups can be built; the plan reports the same as a problem."""


class NoSingleTypeError(GroupingError):
    """Specs that stay of several types; the plan reports the same as a problem."""


def share_one_spec(specs: Collection[CacheSpec], rules: GroupRules) -> bool:
    """Return whether vLLM merges the specs into one; the first one then speaks for all."""
    # `merge` of the specs in v1/kv_cache_interface.py, 0.23 and 0.33.
    first = next(iter(specs))
    if first.kind == SLIDING_MLA_SPEC or (first.kind in MLA_KINDS and not rules.compares_mla):
        # `merge` of the MLA classes looks at what is stored and at the window, not at sizes.
        kinds = {SLIDING_MLA_SPEC} if first.kind == SLIDING_MLA_SPEC else MLA_KINDS
        stored = {(s.stored, s.window_tokens, s.tokens_per_state, s.context_ranks) for s in specs}
        return len(stored) == 1 and all(spec.kind in kinds for spec in specs)
    # A window of the computation alone may be missing in some layers, but not differ.
    windows = {spec.computed_window_tokens for spec in specs} - {None}
    plain = first._replace(computed_window_tokens=None)
    same = all(spec._replace(computed_window_tokens=None) == plain for spec in specs)
    return same and len(windows) <= 1


def are_one_type(specs: Collection[CacheSpec], rules: GroupRules) -> bool:
    """Return whether the layers always need the same number of blocks, whatever their pages are."""
    # `is_uniform_type` in the same file.
    first = next(iter(specs))
    if len({(spec.block_size, spec.context_ranks) for spec in specs}) > 1:
        return False
    if first.kind in FULL_KINDS:
        return all(spec.kind in FULL_KINDS for spec in specs)
    # A plain window that comes first takes sliding MLA, too; sliding MLA takes its own kind only.
    kinds = SLIDING_KINDS if first.kind == ATTENTION_SPECS[SLIDING] else {first.kind}
    if not all(spec.kind in kinds and spec.window_tokens == first.window_tokens for spec in specs):
        return False
    # 0.33 keeps states of several sizes apart; in 0.23 they may share a block table.
    if not (first.is_mamba and rules.pads_pages):
        return True
    kept = (first.page_size_bytes, first.stored)
    return all((spec.page_size_bytes, spec.stored) == kept for spec in specs)


def promoted(specs: Mapping[str, CacheSpec], rules: GroupRules) -> dict[str, CacheSpec]:
    """Treat windows as full attention, without the hybrid manager. Errors: NoSingleTypeError."""
    # Only the cache changes, not the computation.
    if not specs or share_one_spec(specs.values(), rules) or are_one_type(specs.values(), rules):
        return dict(specs)
    changed = dict(specs)
    if full := [spec.block_size for spec in specs.values() if spec.kind in FULL_KINDS]:
        # A promoted layer takes the block of full attention; in 0.33 not where that has several.
        block = None if rules.promotes_block_size and len(set(full)) > 1 else full[0]
        for name, spec in specs.items():
            takes_block = rules.promotes_block_size or spec.kind == SLIDING_MLA_SPEC
            changed[name] = _promoted(spec, block if takes_block else None)
            if rules.chunks_forget_quantization and spec.kind == ATTENTION_SPECS[CHUNKED]:
                changed[name] = _without_mode(changed[name])
        _check_windows(specs, changed, rules)
    if not share_one_spec(changed.values(), rules) and not are_one_type(changed.values(), rules):
        raise NoSingleTypeError(rules.promotion_refused)
    return changed


def _check_windows(
    specs: Mapping[str, CacheSpec], changed: Mapping[str, CacheSpec], rules: GroupRules
) -> None:
    """Check what stops vLLM while it merges the promoted specs, whatever their pages are."""
    kinds = {spec.kind for spec in specs.values()}
    if SLIDING_MLA_SPEC in kinds and rules.promotes_block_size:
        # 0.33 builds the promoted spec of the fields of the sliding one, and MLA lacks one of them.
        raise NoSingleTypeError(
            "MLAAttentionSpec.__init__() got an unexpected keyword argument 'bounded_replay'"
        )
    if {spec.kind for spec in changed.values()} - (FULL_KINDS - MLA_KINDS):
        return
    # Its ValueError is not caught where vLLM tries the merge (is_kv_cache_spec_uniform).
    for kind in PROMOTED:
        if len({spec.window_tokens for spec in specs.values() if spec.kind == kind}) > 1:
            raise NoSingleTypeError(
                "All attention layers in the same KV cache group must have the same window size."
            )


def _without_mode(spec: CacheSpec) -> CacheSpec:
    """Return a spec as if its cache were stored without scales; floats have no mode to lose."""
    # unify_hybrid_kv_cache_specs of 0.23 does not pass kv_quant_mode on for chunks.
    if spec.stored == "auto" or spec.stored in FLOAT_BYTES:
        return spec
    scaled = spec.stored in PER_TOKEN_HEAD_DTYPES
    scales = 2 * SCALE_BYTES * spec.num_kv_heads * spec.block_size if scaled else 0
    return spec._replace(page_size_bytes=spec.page_size_bytes - scales, forgets_quantization=True)


def _promoted(spec: CacheSpec, block_size: int | None) -> CacheSpec:
    if spec.kind not in PROMOTED:
        return spec
    window = spec.window_tokens
    found = spec._replace(
        kind=PROMOTED[spec.kind], window_tokens=None, computed_window_tokens=window
    )
    if block_size is None or block_size == spec.block_size:
        return found
    grown, page = found.with_block(block_size), spec.page_size_bytes
    if spec.alignment_bytes > 1:
        return grown.padded(round_up(grown.page_size_bytes, spec.alignment_bytes))
    return grown.padded(max(page, grown.page_size_bytes)) if spec.padding_bytes else grown
