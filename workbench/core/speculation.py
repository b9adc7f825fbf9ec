"""Methods of speculative decoding: what a drafter keeps in the cache, and what it costs in hits.

Source: `SpeculativeMethod`, `use_eagle`, `needs_eagle_block_drop` and `hf_config_override` in
`vllm/config/speculative.py`, `num_prefill_lookahead_tokens` and the choice of the model runner in
`vllm/config/vllm.py`, 0.23 and 0.33.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from workbench.core.drafter import Drafter
from workbench.core.groups.pipeline import layers_of_stages
from workbench.core.model import Model

MTP, NGRAM, SUFFIX, DRAFT_MODEL = "mtp", "ngram", "suffix", "draft_model"
DSPARK = "dspark"
OF_HIDDEN_STATES = frozenset({MTP, "eagle", "eagle3", "dflash", DSPARK})
"""Drafters that read the hidden states of the target: `use_eagle`."""
HIDDEN_STATES = "extract_hidden_states"
"""The method of `hidden_state_layers`, which is how a scenario requests it."""

OF_SEVERAL_LAYERS = frozenset({"eagle3", "dflash", DSPARK, HIDDEN_STATES})
"""Methods that read hidden states of several layers, which not every class of targets gives."""

OWN, OWN_OR_TARGETS, TARGETS, ON_V2 = "own", "own or the target's", "the target's", "by runner"
"""Which requested backend a drafter's layers have: `draft_backend`; that, else `backend`; `backend`
alone; by the model runner of the target, the first or the third."""


MASK, RANK = "dflash_config.mask_token_id", "markov_rank"
"""Fields of a drafter's file: the token of masked slots, and the rank of DSpark's Markov head."""
NULL_MASK = f"{MASK} = null"
DRAFTERS_MASKS = ("pard_token", "ptd_token_id")
DSPARK_MASKS = ("mask_token_id", "dspark_noise_token_id")
"""Other fields with that token, at the top of the file."""

NAMES = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""Part of a draft model's name -> the method that vLLM takes for it, in its order."""


@dataclass(frozen=True, slots=True)
class SpeculativeMethod:
    """One method of one version."""

    reads_next_token: bool = False
    """The drafter's keys and values of a position depend on the next token, so the last block of a
    shared prefix cannot be reused as it is."""
    layers: Callable[[Model], Drafter | None] | None = None
    """Builds the layers with a cache that the drafter adds; None where it adds none."""
    class_name: Callable[[str], str] | None = None
    """The class of a head, from the one that its config.json names; None for other drafters."""
    unknown_layers: str = ""
    """Layers that no config.json describes, which a plan does not count."""
    needs_model: bool = False
    """The command must name a second checkpoint, unless the target brings the layers itself."""
    without_model: str = "num_speculative_tokens was provided but without speculative model."
    """What vLLM raises otherwise, in `SpeculativeConfig.__post_init__` or the V2 runner."""
    mask_tokens: tuple[str, ...] = ()
    """Fields of a drafter's file, of which one must give the token of masked slots."""
    without_mask: str = ""
    """What vLLM raises where none does."""
    has_class: bool = True
    """The version has the drafter's model class, not its name alone."""
    backend: str = OWN
    """See `OWN`."""
    keeps_tokens_whole: bool = False
    """The V2 runner serves layers without MLA as if no ranks shared the tokens of a block."""

    @property
    def reads_model(self) -> bool:
        """Return whether a second checkpoint makes a difference."""
        return self.needs_model or self.layers is not None


def _serves_all(_plan: Any, _runner: str) -> str:
    """Return nothing: a runner serves every plan."""
    return ""


@dataclass(frozen=True, eq=False)
class SpeculationRules:
    """What one vLLM version drafts with."""

    methods: Mapping[str, SpeculativeMethod]
    """By vLLM's name."""
    mtp_model_types: frozenset[str]
    """Model types or architectures of a config.json whose checkpoint has layers for method mtp."""
    declared_only: frozenset[str] = frozenset()
    """Model types without such layers where config.json states no number: the configuration class
    that this version loads has no default for it."""
    finds_no_kind: Callable[[Model], bool] = lambda _model: False
    """Whether this version looks up MTP layers in a list that ends before them."""
    heads: frozenset[str] = frozenset()
    """Classes of drafters whose layers are all described by their config.json."""
    mtp_classes: Mapping[str, str] = field(default_factory=dict)
    """Model types whose files are read as a class of MTP layers before a method names a head."""
    heads_for: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Classes that read fields of the target's configuration, too -> the model types of target and
    drafter that have those."""
    decides: Mapping[str, str] = field(default_factory=dict)
    """Class or model type of a drafter -> the method that follows from it."""
    v2_architectures: frozenset[str] | None = None
    """Targets whose runner builds heads with the target's backend; None: all of them."""
    reads_nested_predictions: bool = False
    """The number of MTP layers counts wherever it is in the file, not outside `text_config` only.
    """
    asks_every_eagle3: bool = False
    """The V2 runner wants hidden states of several layers for EAGLE-3 heads that read none, too."""
    compares_embeddings: bool = False
    """A head's embedding is compared with the target's, so that the latter must be found; else it
    is looked for only where the head's checkpoint has none."""
    takes_kv_cache_dtype: bool = False
    """The drafter's layers may have a KV-cache dtype of their own."""
    limits_length: bool = False
    """A request is no longer than the draft model's."""
    reaches_positions: bool = False
    """The tables of a head's positions are as long as the target's requests."""
    cuts_drafters: bool = False
    """Pipeline stages are refused for drafters whose class cannot be cut, as for a target."""
    without_hidden_states: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Platform -> architectures whose class there (models/*/amd) gives none, unlike CUDA's."""
    mtp_with_stages: frozenset[str] = frozenset()
    """Model types whose class of MTP layers can."""
    mtp_without_cache_settings: frozenset[str] = frozenset()
    """Model types whose MTP layers are built without the cache's configuration: they store the
    model's dtype, whatever is set."""
    hidden_state_readers: frozenset[str] = frozenset()
    """Methods that the V2 runner gives hidden states of earlier stages, if the target hands them
    on."""
    embeds_on_last_stage: frozenset[str] = frozenset({"eagle", "eagle3", "dflash", "dspark"})
    """Methods for which some targets have their embedding on the last pipeline stage, too
    (spec_decode_needs_target_embed)."""
    numbers_from_stage: frozenset[str] = frozenset()
    """Methods whose heads number their layers from the number of layers of the last stage."""
    refuses: Callable[[Any, str], str] = _serves_all
    """What vLLM says of a plan against a runner; empty where it serves the plan."""
    stages_wait: bool = False
    """The V1 runner does not overlap steps of pipeline stages."""
    asks_for_window: frozenset[str] = frozenset()
    """Classes of heads that stop where a layer is to slide and the file has no window in use."""
    latents_bar_windows: bool = False
    """No layer slides where the target keeps latents."""
    image_tokens: frozenset[str] = frozenset()
    """Targets whose token for images the V1 runner reads under another name."""
    v1_waits: frozenset[str] = frozenset()
    """Methods whose drafts the V1 runner waits for before it schedules a step."""
    waits_by_default: frozenset[str] = frozenset()
    """Those of them that async scheduling can have if it is explicit."""
    async_refusal: str = "Async scheduling is not supported by the V1 model runner with"
    """How vLLM's words begin where it cannot."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return what the field `speculative_method` may be."""
        return tuple(name for name in self.methods if name != HIDDEN_STATES)

    def predicts(self, model: Model) -> bool:
        """Return whether this version drafts with MTP layers of the checkpoint's type, if any."""
        mtp = model.mtp
        return mtp is not None and mtp.model_type in self.mtp_model_types

    def detected(self, draft: Model, method: str) -> str:
        """Return the method that follows from a drafter's place and class, else the given one."""
        # SpeculativeConfig.__post_init__ does so whatever method is set, except for heads.
        place = draft.head.place if draft.head is not None else ""
        name = (place or draft.name).casefold()
        found = next((known for part, known in NAMES.items() if part in name), None)
        # Also where the version lacks the method that the name suggests.
        if found not in self.methods:
            found = self.decides.get(draft.architecture) or self.decides.get(draft.model_type)
        return found or (MTP if self.predicts(draft) else method)

    @lru_cache(maxsize=256)  # noqa: B019  (there are as many rules as versions)
    def drafter(
        self, model: Model, method: str, stages: int = 1, given: tuple[int, ...] | None = None
    ) -> Drafter | None:
        """Return what drafts for `model` with layers of its own; one object for equal arguments.

        stages: of the pipeline. A head is whole on the last one, a model of its own is cut.
        given: how many layers each has, of both models.
        """
        draft, source = model.drafter, self.methods[method]
        if method == DRAFT_MODEL and draft is not None and draft.architecture in self.heads:
            return self._head_alone(model, draft.architecture)
        found = None if source.layers is None else source.layers(model)
        if found is None or stages == 1 or method != DRAFT_MODEL or model.drafter is None:
            return found
        count = model.drafter.num_hidden_layers
        is_used = given is not None and (len(given), sum(given)) == (stages, count)
        last = layers_of_stages(count, stages, (given or ()) if is_used else ())[-1]
        first = model.num_hidden_layers
        kept = tuple(layer for layer in found.layers if layer.number - first in last)
        return replace(found, layers=kept)

    def _head_alone(self, model: Model, name: str) -> Drafter | None:
        """Return the layers of a head that drafts as a model of its own, without a method."""
        build = self.methods["eagle3" if is_eagle(name) else "dflash"].layers
        found = None if build is None else build(model)
        return None if found is None else found.alone()

    @lru_cache(maxsize=256)  # noqa: B019  (there are as many rules as versions)
    def cut_drafter(self, model: Model, predictions: int) -> Drafter | None:
        """Return what drafts with the first of a checkpoint's MTP layers."""
        found, end = self.drafter(model, MTP), model.num_hidden_layers + predictions
        if found is None:
            return None
        return replace(found, layers=tuple(one for one in found.layers if one.number < end))


def is_eagle(name: str) -> bool:
    """Return whether a class of heads is one of EAGLE's."""
    return "eagle" in name.casefold()


def class_of_head(draft: Model, method: SpeculativeMethod, rules: SpeculationRules) -> str:
    """Return the class that vLLM takes for a head."""
    # Files of the speculators library name theirs; hf_config_override comes before EAGLEConfig.
    if method.class_name is None or (draft.head is not None and draft.head.method is not None):
        return draft.architecture
    name = draft.architecture
    if rules.predicts(draft):
        name = rules.mtp_classes.get(draft.model_type, f"{name}MTP")
    return method.class_name(name)


def eagle_class(name: str) -> str:
    """Return the class of an EAGLE head."""
    return name if name.startswith("Eagle") else f"Eagle{name}"


def eagle3_class(name: str) -> str:
    """Return the class of an EAGLE-3 head."""
    return name if name.startswith("Eagle3") or name.endswith("Eagle3") else f"Eagle3{name}"


def dflash_class(name: str) -> str:
    """Return the class of a DFlash drafter."""
    keeps = name.startswith("DFlash") or name.endswith("DFlash") or name == "LiLiCorrDraftModel"
    return name if keeps else f"DFlash{name}"


def dspark_class(name: str) -> str:
    """Return the class of a DSpark drafter."""
    if name == "DSparkDraftModel":
        return "Qwen3DSparkModel"
    # Any other is taken for the layers that ship with DeepSeek-V4.
    return name if "DSpark" in name else "DSparkDraftModel"


MTP_ALIASES = frozenset(
    {
        *(f"{name}_mtp" for name in ("bailing_hybrid", "deepseek", "ernie", "exaone4_5")),
        *(f"{name}_mtp" for name in ("exaone_moe", "gemma4", "glm4_moe", "glm4_moe_lite")),
        *(f"{name}_mtp" for name in ("glm_ocr", "hy_v3", "longcat_flash", "mimo", "mimo_v2")),
        *(f"{name}_mtp" for name in ("nemotron_h", "pangu_ultra_moe", "qwen3_5", "qwen3_next")),
        *(f"{name}_mtp" for name in ("bailing_hybrid_v3", "dots3_note", "glm5_next", "hy_v4")),
        *(f"{name}_mtp" for name in ("inkling", "kimi_k3", "minimax_m3", "qwen4_exp")),
        *("step3p5_mtp", "step5_mtp"),
    }
)
"""Deprecated method names that vLLM reads as mtp."""


def method_named(name: str) -> str:
    """Return the method of a name: mtp for the deprecated ones, else the name itself."""
    return MTP if name in MTP_ALIASES else name
