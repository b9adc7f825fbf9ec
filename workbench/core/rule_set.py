"""A rule set: what one vLLM version decides, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.core.architectures import ModelRegistry
from workbench.core.backend_table import BackendTable
from workbench.core.backends import LayerQuery
from workbench.core.batch_defaults import BatchTier
from workbench.core.groups.group_rules import GroupRules
from workbench.core.layouts.shapes import LayoutRules
from workbench.core.media import MediaRules
from workbench.core.model import Attention, Model
from workbench.core.offload.rules import OffloadRules
from workbench.core.prefix.sparse import PrefillRules
from workbench.core.quantization_rules import QuantizationRules
from workbench.core.ranks import SHARED_EXPERT, Padding
from workbench.core.registry import Registry
from workbench.core.speculation import SpeculationRules
from workbench.core.trace import Citation, Rule

Stage = Callable[[Any], None]
"""Takes the `WorkingPlan`, which knows the rules and so is not known here."""
TokenBytes = Callable[[Attention, int, str, str, str | None], tuple[int, str]]
"""(attention, KV heads per rank, KV dtype, model dtype, backend) -> (bytes of a token, formula)."""


def never_imposed(_query: LayerQuery) -> None:
    """Return None: the layers choose."""


def none_named(_query: LayerQuery) -> tuple[str, ...]:
    """Return no name."""
    return ()


def as_requested(_query: LayerQuery, name: str) -> str | None:
    """Return the name: every one counts."""
    return name


@dataclass(frozen=True, eq=False)
class RuleSet:
    """The rules of one version: tables, small functions, and the order of the stages.

    The order is part of the rules: before #37467 the very same alignment ran too early.
    """

    name: str
    title: str
    cache_modes: tuple[str, ...]
    default_block_size: int
    cpu_block_size: int
    backends: BackendTable
    draft_counting: frozenset[str]
    """SSM kinds and families for which the alignment counts draft tokens in the state shapes
    ("mamba2:nemotron_h", "gdn:*")."""
    draft_keeping: frozenset[str]
    """The same of the layers themselves, whose states may be larger than the alignment counts."""
    stages: tuple[Stage, ...]
    version: str
    """The version that sources name."""
    ignores_interval: frozenset[str]  # families whose every fourth layer is full without a list
    keeps_window: bool  # a list of one kind of layers does not undo the window of a file
    counts_empty_heads: bool
    """A head_dim of 0 is what it says, not one that the class lacks."""
    kv_cache_dtypes: tuple[str, ...]
    token_bytes: TokenBytes
    """What the alignment counts for one token."""
    layer_token_bytes: TokenBytes
    """What the layer's page has of one token."""
    companions: Callable[[Attention], Mapping[str, str]]
    """Kind of a cache alongside the attention, built before it -> its backend: INDEX_KEY,
    FLOAT32_STATE, or SLIDING for windows of compressed attention."""
    groups: GroupRules
    """How layers are grouped."""
    layouts: LayoutRules
    """How caches are laid out and tables filled."""
    offload: OffloadRules
    """How blocks are hashed and offloaded."""
    prefill: PrefillRules
    """Which states of a prompt are kept and found again."""
    model_registry: ModelRegistry
    """The model classes that the version has."""
    media: MediaRules
    """What models make of images, videos, sound and adapters."""
    quantization: QuantizationRules
    """What is read of quantized checkpoints, and which kernels there are for them."""
    speculation: SpeculationRules
    """Which methods draft tokens, and what they keep."""
    citations: Mapping[Rule, Citation]
    batch_tiers: tuple[BatchTier, ...]
    """Default token budgets and numbers of sequences by device, largest memory first."""
    mla_prefill_sizes: tuple[tuple[int, int, int], ...] = ()
    """Sizes (qk_nope, qk_rope, v) that a prefill kernel of latents has; empty: none is refused."""
    words_of_refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(platform, requested backend) -> how its own refusal begins, where it has one."""
    parts_not_cut: Mapping[str, str] = field(default_factory=dict)
    """Wrappers with a part that refuses pipeline stages -> the variant of the problem."""
    scored_by_config: frozenset[str] = frozenset()
    """Modules whose routers weigh experts by the function that config.json names."""
    tied_on_every_stage: Mapping[str, str] = field(default_factory=dict)
    """Classes that tie the vocabularies on every pipeline stage -> what a missing one lacks."""
    wants_experts: Mapping[str, str] = field(default_factory=dict)
    """Classes that stop without routed experts in the layers of a stage -> with which text."""
    derived_heads: frozenset[str] = frozenset()
    """Modules whose layers have heads of hidden_size // num_attention_heads, not of head_dim."""
    built_kv_heads: Mapping[str, int] = field(default_factory=dict)
    """Module -> the KV heads of its layers, whatever the file says; 0: as many as query heads."""
    whole_heads: frozenset[str] = frozenset()
    """model_types whose configuration class wants a hidden_size that its heads divide."""
    library_fuses_heads: bool = False
    """Whether layers of the Transformers library get vLLM's one of queries, keys and values."""
    without_config_class: frozenset[str] = frozenset()
    """model_types without the configuration class of later releases: heads as of any model."""
    packed_layers_mix_on: frozenset[str] = frozenset()
    """Platforms where plain layers of a packed cache get a backend that reads the same layout."""
    imposed_backend: Callable[[LayerQuery], str | None] = never_imposed
    """The backend of all layers that the class of a model sets where none is explicit."""
    backends_of_narrow_values: Callable[[LayerQuery], tuple[str, ...]] = none_named
    """The backends of layers with values narrower than keys, the one that the model sets first."""
    backends_of_classes: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(platform, architecture) -> what its layers, sparse ones if any, name: nothing tests it."""
    models_without_cache_settings: frozenset[str] = frozenset()
    """Architectures whose layers keep the model's dtype, whatever the KV-cache dtype is."""
    width_with_cache_settings: Mapping[str, int] = field(default_factory=dict)
    """Those of which only models of this hidden_size do not."""
    noticed: Callable[[LayerQuery, str], str | None] = as_requested
    """What a layer takes for its explicit backend where this one is; None: it takes no notice."""
    all_backends: bool = False
    """Phase 1 queries all backends and the result suits all of them, instead of the first."""
    hybrid_prefix_caching: bool = False
    hooks_by_name: bool = True  # a class that pools has none of the class that generates
    lists_blocks: frozenset[str] = frozenset()
    """Architectures with two layers in a block that are built of `Model.listed_blocks`."""
    linear_state_as_mla: bool = False
    """Linear attention combined with MLA has states of the heads that MLA rotates."""
    sm10x_kv_cache_dtypes: Mapping[str, str] = field(default_factory=dict)
    """Architecture -> KV dtype instead of auto on capability 10.x."""
    completes_lengths: frozenset[str] = frozenset()
    """model_types of whole files whose class, or that of their text, completes a length."""
    yarn_stretches: bool = True
    """The longest request is yarn's original length times its factor, whatever config.json has."""
    flex_prunes_pages: bool = False
    """The direct build of flex attention omits pages past a request's own, and later ones."""
    reads_cache_mode: bool = True
    """Whether an explicit mode reaches models without states."""
    mla_granule: int = 1
    """Smallest alignment granularity of MLA models."""
    prefill_checkpoint_tokens: int = 1
    """What align mode keeps states at where FlashInfer runs the prefill of gated delta nets."""
    own_state_backends: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Architecture -> platform -> the backend of its SSM layers, where it is its own."""
    kda_dtypes: tuple[str, ...] = ("float32",)
    """Dtypes of the recurrent state of Kimi delta attention, the default first."""
    float32_states: frozenset[str] = frozenset()
    """Architectures with Kimi delta attention whose recurrent state is always float32."""
    float32_in_layers: frozenset[str] = frozenset()
    """Those whose layers keep float32, whatever the class of the model makes pages for."""
    cpu_checks_kv_cache_dtype: bool = False
    """Whether the CPU backend is tested for the KV dtype, too."""
    names_stored_dtype: bool = False
    """The log names the packed format of a sparse backend and the backend."""
    weight_copies: Mapping[str, int] = field(default_factory=dict)
    """Kind of a part of the weights -> how many a model keeps, where that is not one."""
    repeated_layers: frozenset[str] = frozenset({SHARED_EXPERT})
    """Layers that ranks have whole where each has tokens of its own: see `Split.repeated`."""
    expert_paddings: tuple[Padding, ...] = ()
    """The kernels of routed experts that round sizes up; the first that a device has is used."""
    words_of_context: Mapping[str, str] = field(default_factory=dict)
    """Problem of decode context parallelism -> how vLLM's text begins, with {ranks} and {heads}."""
    gathered_keys: Callable[[int], int] = lambda length: 40 * length
    """Tokens of the longest request -> keys in the workspace of a sparse indexer."""
    largest_graph_sm10x: int = 512
    """Tokens of the largest batch with a graph on SM10x; elsewhere it is 512."""
    captures_whole_decodes: bool = False
    """Batches of whole decoding requests have graphs of their own; else sizes are rounded up."""
    profiles_graphs_on: frozenset[str] = frozenset({"cuda"})
    """Platforms where the profiling run subtracts what graphs will take."""
    v2_profiles_all: bool = False
    """The V2 runner's profile has graphs and every parameter of sampling."""
    traits: Mapping[str, str] = field(default_factory=dict)
    """What no scenario changes and no other field shows, in words (`what_if.facts.traits_of`)."""

    def state_backend(self, model: Model, platform: str) -> str | None:
        """Return what computes the SSM layers of a model, as the log names it; None without any."""
        if model.state is None:
            return None
        own = self.own_state_backends.get(model.architecture, {})
        name = own.get(platform, model.state.backend)
        record = self.backends.get(name)
        return name if record is None else record.log_name

    def keeps_model_dtype(self, model: Model) -> bool:
        """Return whether the layers are built without the cache's configuration."""
        name = model.architecture
        width = self.width_with_cache_settings.get(name, model.hidden_size)
        return name in self.models_without_cache_settings or width != model.hidden_size

    @property
    def draft_kv_cache_dtypes(self) -> tuple[str, ...]:
        """Return what a drafter's own KV-cache dtype may be, none where it has the target's."""
        return self.kv_cache_dtypes if self.speculation.takes_kv_cache_dtype else ()

    @property
    def is_release(self) -> bool:
        """Return whether these are the rules of a release, not a variant of one."""
        return self.name == self.version

    def successor(self, version: str, **changes: Any) -> RuleSet:
        """Return the rules of a later release: these with what changed, by field.

        citations: of what was read again; the others say in which version they were read.
        """
        inherited = {
            rule: citation._replace(version=version) for rule, citation in self.citations.items()
        }
        read = changes.pop("citations", {})
        return replace(
            self,
            name=version,
            title=f"vLLM {version}",
            version=version,
            citations={**inherited, **read},
            **changes,
        )

    def __reduce__(self) -> tuple[Callable[[str], RuleSet], tuple[str]]:
        """Return how another process finds the same rules: by their name."""
        from workbench.core.versions import registered

        return registered, (self.name,)

    def drafts_in_states(self, kind: str, family: str) -> tuple[bool, bool]:
        """Return whether draft tokens enlarge a conv state for the alignment, and in its layer."""
        names = {f"{kind}:*", f"{kind}:{family}"}
        return not names.isdisjoint(self.draft_counting), not names.isdisjoint(self.draft_keeping)


class RuleSets(Registry[RuleSet]):
    """The rule sets by name, oldest first."""

    @property
    def releases(self) -> tuple[str, ...]:
        """Return the releases, oldest first: what an upgrade goes from and to."""
        return tuple(name for name, rules in self.items() if rules.is_release)

    @property
    def newest(self) -> str:
        """Return the newest release."""
        return self.releases[-1]

    @property
    def previous(self) -> str:
        """Return the release before the newest one."""
        return self.releases[-2]


RULE_SETS = RuleSets("rule set", "rules")
