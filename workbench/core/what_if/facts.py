"""What versions are compared by: numbers of a plan, traits of a rule set, and their words."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from workbench.core.offload.rules import CONCATENATED, LAST
from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, smallest_prefix
from workbench.core.rule_set import RuleSet

FINAL_BLOCK = ("xpu_default_block_size", "xpu_gdn_block_size", "block_size", "preferred_block_size")
"""The steps that may decide the block size, the last word first."""
MODE = ("mamba_cache_mode",)
SIZES = (*FINAL_BLOCK, "mamba_page_size_padded", *MODE)


@dataclass(frozen=True)
class Fact:
    """A number to compare: its published name, what a change of it means, how it is written."""

    name: str
    means: str
    called: str = ""
    """What people call a number that is not a value of the plan."""
    unit: str = ""
    steps: tuple[str, ...] = ()
    """Those that may decide it, by default the one of its name; the first whose result differs is
    followed to its operands."""
    appears: str = ""
    """What it means that there was no such number before, if that is something else."""
    vanishes: str = ""

    @property
    def label(self) -> str:
        """Return what people call it."""
        return self.called or Plan.label_of(self.name)

    def read(self, plan: Plan) -> Any:
        """Return the number of a plan or of its cache, None where there is none."""
        if self.name in READERS:
            return READERS[self.name](plan)
        return getattr(plan if hasattr(plan, self.name) else plan.cache, self.name, None)

    def meaning(self, old: Any, new: Any, caching: bool = True) -> str:
        """Return what it means for an upgrade that the number goes from `old` to `new`."""
        # Hashes that did not exist cannot become useless.
        means = self.means if caching or self.name != "hash_block_size" else FIRST_HASHES
        means = (self.appears if old is None else self.vanishes if new is None else "") or means
        on = "on" if new else "off"
        return means.format(old=_text(old), new=_text(new), on=on, percent=_percent(old, new))


def _smallest_prefix(plan: Plan) -> int | None:
    """Return the tokens that two prompts must share before anything of them is found again."""
    if not plan.enable_prefix_caching or plan.cache is None or plan.model.attention is None:
        return None
    return smallest_prefix(caching_of(plan))


READERS: dict[str, Callable[[Plan], Any]] = {
    "page_size_bytes": attrgetter("attention_page_size_bytes"),
    "smallest_prefix": _smallest_prefix,
}
PREFIX = "smallest cacheable prefix"
FIRST_HASHES = "Nothing was hashed before; hashes cover {new} tokens now."
FACTS = (
    Fact(
        "enable_prefix_caching",
        means="Prefix caching is {on} by default; set the flag to keep it as it was.",
    ),
    Fact(
        "mamba_cache_mode",
        means="States are kept in another way, which changes blocks of a request.",
    ),
    Fact(
        "speculative_method",
        means="{new} drafts instead of {old}: set the method to keep it as it was.",
    ),
    Fact(
        "backend",
        means="Another kernel runs; measure it again.",
    ),
    Fact(
        "mamba_page_size_bytes",
        unit="bytes",
        means="A state takes {percent} bytes.",
    ),
    Fact(
        "attention_bytes_per_token",
        unit="bytes",
        means="A token takes {percent} bytes in every attention layer.",
    ),
    Fact(
        "block_size",
        unit="tokens",
        means="Cached prefixes, offloaded blocks and external stores keyed by {old} tokens do not "
        "match {new}.",
        steps=FINAL_BLOCK,
    ),
    Fact(
        "mamba_block_size",
        unit="tokens",
        means="States are kept every {new} tokens instead of every {old}.",
        steps=(*MODE, *FINAL_BLOCK),
    ),
    Fact(
        "page_size_bytes",
        called="page",
        unit="bytes",
        means="A page takes {percent} bytes; transfers move other sizes.",
        steps=SIZES,
    ),
    Fact(
        "padding_percent",
        unit="%",
        means="Padding goes from {old} to {new} percent of a state.",
        steps=SIZES,
    ),
    Fact(
        "kernel_block_size",
        unit="tokens",
        means="The kernel sees blocks of {new} tokens instead of {old}: other tables, other speed.",
        steps=(*FINAL_BLOCK, "kernel_block_size"),
    ),
    Fact(
        "max_num_batched_tokens",
        unit="tokens",
        means="A step takes up to {new} tokens instead of {old} by default.",
    ),
    Fact(
        "max_num_seqs",
        means="Up to {new} requests run together by default, instead of {old}.",
    ),
    Fact("num_blocks", means="The pool holds {percent} blocks.", steps=SIZES),
    Fact(
        "blocks_per_request",
        means="A request of full length takes {new} blocks instead of {old}.",
        steps=SIZES,
    ),
    Fact(
        "max_concurrency",
        unit="x",
        means="{percent} requests of full length fit.",
        steps=SIZES,
    ),
    Fact(
        "smallest_prefix",
        called=PREFIX,
        unit="tokens",
        means="Prompts must share {new} tokens instead of {old} to get a prefix hit.",
        steps=("enable_prefix_caching", *SIZES),
        appears="Prompts that share {new} tokens can get a prefix hit; none could before.",
        vanishes="No prompt can get a prefix hit; {old} shared tokens were enough before.",
    ),
    Fact(
        "scheduler_block_size",
        unit="tokens",
        means="Requests are scheduled in steps of {new} tokens.",
        steps=(*MODE, *FINAL_BLOCK),
    ),
    Fact(
        "hash_block_size",
        unit="tokens",
        means="Hashes cover {new} tokens instead of {old}: old hashes are useless.",
        steps=(*MODE, *FINAL_BLOCK),
    ),
)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _percent(old: Any, new: Any) -> str:
    if not isinstance(old, int | float) or not isinstance(new, int | float) or not old:
        return "other"
    change = 100 * (new - old) / old
    return f"{abs(change):.1f} % {'more' if change > 0 else 'fewer'}"


@dataclass(frozen=True)
class Trait:
    """What a version does whatever the scenario is, and what a change of it means.

    read: the text, or whether `yes` or `no` is it.
    """

    label: str
    means: str
    read: Callable[[RuleSet], Any]
    yes: str = ""
    no: str = ""

    def of(self, rules: RuleSet) -> str:
        """Return what a rule set does, read from its data."""
        found = self.read(rules)
        return str({True: self.yes, False: self.no}.get(found, found))


BIG_HASHES = {
    CONCATENATED: "the hashes of its small blocks, concatenated",
    LAST: "the hash of its last small block",
}
TRAITS = {
    "aligned_in": Trait(
        "aligned in",
        "The alignment granularity comes from the backend, so other backends give other blocks.",
        lambda rules: rules.traits["aligned_in"],
    ),
    "backends_asked": Trait(
        "backends queried",
        "Models that mix backends get a block that suits all of them, or stop.",
        attrgetter("all_backends"),
        "all attention backends, and the result must suit them all",
        "the first attention backend",
    ),
    "cache_view": Trait(
        "cache view",
        "Connectors and kernels that index the cache by dimension need a new version.",
        attrgetter("layouts.one_view"),
        "[B, H, N, C] for every backend, keys and values packed in C",
        "a shape of its own for every backend, mostly [B, 2, N, H, D]",
    ),
    "stride_rewrite": Trait(
        "stride rewrite",
        "Code that expects rewritten strides must read the layout instead.",
        attrgetter("layouts.rewrites_strides"),
        "ROCM_ATTN only, by asking for the block dimension (#37236)",
        "none: blocks come first in every view",
    ),
    "table_holds": Trait(
        "block tables hold",
        "Code that reads tables must split ids, or stop splitting them.",
        attrgetter("layouts.tables_hold_manager_blocks"),
        "manager block ids, split where the kernel reads them",
        "kernel block ids (#38831)",
    ),
    "allocations": Trait(
        "allocations",
        "Addresses follow from offset and strides, not from one tensor per layer.",
        attrgetter("groups.one_allocation"),
        "one allocation; every group starts at its first byte",
        "one tensor for the i-th layer of every group",
    ),
    "unequal_pages": Trait(
        "unequal pages",
        "Models with mixed pages start that did not, and pay with padding.",
        attrgetter("groups.pads_pages"),
        "mamba and attention pages are padded to the largest",
        "a mamba page that does not fit stops the start",
    ),
    "null_block": Trait(
        "null block",
        "A pool with exactly the needed blocks is refused instead of hanging later.",
        attrgetter("groups.counts_null_block"),
        "counted when the memory is checked",
        "not counted when the memory is checked",
    ),
    "big_hash": Trait(
        "hash of a large block",
        "Hashes of the two versions never match: an external KV store starts empty.",
        lambda rules: BIG_HASHES[rules.offload.large_block_hash],
    ),
    "hash_option": Trait(
        "option for the hash block", "Rename the option.", attrgetter("offload.hash_option")
    ),
    "offload_unit": Trait(
        "offloaded block",
        "Chunks may be given in blocks.",
        attrgetter("offload.takes_blocks_per_chunk"),
        "block_size in tokens, or blocks_per_chunk",
        "block_size of the connector, in tokens",
    ),
}
"""Trait by name, in the order in which they are shown; the words of `RuleSet.traits` come first."""


def traits_of(rules: RuleSet) -> dict[str, str]:
    """Return what a rule set does whatever the scenario is: trait -> words."""
    return {name: rules.traits.get(name) or trait.of(rules) for name, trait in TRAITS.items()}
