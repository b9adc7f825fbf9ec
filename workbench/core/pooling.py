"""Classes of models that pool: rewards, scores, embeddings from the layers of one that generates.

Source: `_EMBEDDING_MODELS`, `_REWARD_MODELS` and `_normalize_arch` of models/registry.py, and
`_SUFFIX_TO_DEFAULTS` of config/model.py, 0.23 and 0.33.
"""

from typing import NamedTuple

from workbench.core.architectures import MODEL_REGISTRIES, is_encoder, only_pools, versions_with

GENERATES = {
    "Gemma2Model": "Gemma2ForCausalLM",
    "LlamaModel": "LlamaForCausalLM",
    "MistralModel": "MistralForCausalLM",
    "Qwen2Model": "Qwen2ForCausalLM",
}
"""Names of embedding models whose class also generates, which vLLM then does by default."""
SCORES_STEPS = "Qwen2ForProcessRewardModel"
GRIT = "GritLM"
"""The class whose tokens see later ones where it pools, which it does by default."""
VOYAGE = "VoyageQwen3BidirectionalEmbedModel"
COLPALI = "ColPaliForRetrieval"
COLQWEN3 = ("ColQwen3", "OpsColQwen3Model", "Qwen3VLNemotronEmbedModel")
"""Names of ColQwen3Model."""
COLQWEN3_5 = "ColQwen3_5"
LATE_INTERACTION = (COLPALI, *COLQWEN3, COLQWEN3_5)
"""Classes that give every token a vector."""
STATELESS = "Lfm2BidirectionalModel"
"""The class whose convolutions see later tokens, too: vLLM takes it for no hybrid."""
DEEPSEEK = "DeepseekV3BidirectionalModel"
"""The class of 0.33 alone whose file says whether tokens see later ones, without latents then."""
NEMOTRON_VL = ("LlamaNemotronVLModel", "LlamaNemotronVLForSequenceClassification")
OWN = {
    SCORES_STEPS: "Qwen2ForCausalLM",
    "InternLM2ForRewardModel": "InternLM2ForCausalLM",
    "Gemma3TextModel": "Gemma3ForCausalLM",
    # the Transformers library has this one, and vLLM its layers
    "Gemma3TextForSequenceClassification": "Gemma3ForCausalLM",
    "JambaForSequenceClassification": "JambaForCausalLM",
    "Qwen2ForRewardModel": "Qwen2ForCausalLM",
    "JinaEmbeddingsV5Model": "Qwen3ForCausalLM",
    "JinaForRanking": "Qwen3ForCausalLM",
    "JinaVLForRanking": "Qwen2VLForConditionalGeneration",
    COLPALI: "PaliGemmaForConditionalGeneration",
    **dict.fromkeys(COLQWEN3, "Qwen3VLForConditionalGeneration"),
    **dict.fromkeys(
        (COLQWEN3_5, "ClefFlashForJointSchema", "D3ForSequenceClassification"),
        "Qwen3_5ForConditionalGeneration",
    ),
    "ClefOmniForJointSchema": "Qwen3OmniMoeForConditionalGeneration",
    **dict.fromkeys(("ColBERTLfm2Model", STATELESS), "Lfm2ForCausalLM"),
    DEEPSEEK: "DeepseekV3ForCausalLM",
    **dict.fromkeys(NEMOTRON_VL, "Llama_Nemotron_Nano_VL"),
    "Qwen3ASRForcedAlignerForTokenClassification": "Qwen3ASRForConditionalGeneration",
    VOYAGE: "Qwen3ForCausalLM",
    "LlamaBidirectionalForSequenceClassification": "LlamaForCausalLM",
    "LlamaBidirectionalModel": "LlamaForCausalLM",
    GRIT: "LlamaForCausalLM",
}
"""Classes of their own -> one with equal layers."""
WHOLE_PROMPTS = frozenset({SCORES_STEPS, "ColBERTLfm2Model", *LATE_INTERACTION})
"""Classes that pool by steps or, for a sequence, by its first token (`default_pooling_type`)."""
SEES_LATER = "LlamaBidirectional"
"""How the names of those begin whose tokens see later ones (`LlamaBidirectionalConfig`)."""
ENDINGS = (
    *("EmbeddingModel", "ForSequenceClassification", "ForTokenClassification"),
    *("ForRewardModeling", "RewardModel", "Model"),
)
BASES = ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel")
"""Ends of names that a class is looked up under where none has its own."""


class Pooling(NamedTuple):
    """A class that pools, and the one that generates with the same layers."""

    name: str
    base: str
    is_assumed: bool = False
    """config.json names no class: it is that of the model_type (`RuleSet.model_registry`)."""
    sees_later: bool = False
    """Tokens see later ones, so that no layer keeps keys and values."""

    @property
    def generates(self) -> bool:
        """Return whether it generates by default, all the same."""
        return self.name in GENERATES

    @property
    def takes_steps(self) -> bool:
        """Return whether a prompt may take several steps, or begin with a cached prefix."""
        # is_chunked_prefill_supported and is_prefix_caching_supported of ModelConfig
        return self.generates or not (self.sees_later or self.name in WHOLE_PROMPTS)


def pools(pooling: Pooling | None) -> bool:
    """Return whether a model pools by default, and generates nothing."""
    return pooling is not None and not pooling.generates


def pooling_of(architecture: str) -> Pooling | None:
    """Return what a class pools with; None for one that generates, or is not known."""
    later = is_encoder(architecture) or architecture in {GRIT, VOYAGE, *NEMOTRON_VL}
    if base := GENERATES.get(architecture) or OWN.get(architecture):
        later |= architecture.startswith(SEES_LATER)
        return Pooling(architecture, base, sees_later=later)
    if later:
        return Pooling(architecture, architecture, sees_later=True)
    if versions_with(architecture) and not only_pools(architecture):
        return None
    base = next((name for name in _bases(architecture) if versions_with(name)), None)
    if base is None and only_pools(architecture):
        base = architecture
    return None if base is None else Pooling(architecture, base)


def newest_base(architecture: str) -> str | None:
    """Return what the newest version builds of a class without layers of its own."""
    served = [*MODEL_REGISTRIES.values()][-1].served
    return next((name for name in _bases(architecture) if name in served), None)


def _bases(architecture: str) -> list[str]:
    """Return the names under which a class without its own is looked up, in their order."""
    ending = next((one for one in ENDINGS if architecture.endswith(one)), None)
    stem = None if ending is None else architecture.removesuffix(ending)
    return [] if stem is None else [stem + base for base in BASES]
