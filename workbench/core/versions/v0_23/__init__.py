"""The rule set of vLLM 0.23: two-phase block size, all backends queried (#37467)."""

from dataclasses import replace
from types import MappingProxyType

from workbench.core import drafter
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.arithmetic import GIB
from workbench.core.batch_defaults import A100, SMALL, BatchSizes, BatchTier
from workbench.core.dtypes import FP8_DTYPES, PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.group_rules import GroupRules
from workbench.core.layouts.shapes import LayoutRules
from workbench.core.media import MediaRules
from workbench.core.prefix.sparse import PrefillRules
from workbench.core.rule_set import RuleSet
from workbench.core.speculation import (
    DRAFT_MODEL,
    DRAFTERS_MASKS,
    HIDDEN_STATES,
    MASK,
    MTP,
    NGRAM,
    NULL_MASK,
    ON_V2,
    SUFFIX,
    SpeculationRules,
    SpeculativeMethod,
    dflash_class,
    eagle3_class,
    eagle_class,
)
from workbench.core.versions.citations import citations_of
from workbench.core.versions.v0_23 import kernels
from workbench.core.versions.v0_23.backends import BACKENDS, noticed
from workbench.core.versions.v0_23.bytes import layer_token_bytes, token_bytes
from workbench.core.versions.v0_23.conditions import (
    WANTS_EXPERTS,
    imposed_backend,
    step_cuts_mtp_layers,
)
from workbench.core.versions.v0_23.connectors import OFFLOAD
from workbench.core.versions.v0_23.heads import BUILT_KV_HEADS, DERIVED_HEADS, WHOLE_HEADS
from workbench.core.versions.v0_23.mla import companions
from workbench.core.versions.v0_23.narrow_values import flash_alone
from workbench.core.versions.v0_23.quantization import QUANTIZATION
from workbench.core.versions.v0_23.runners import refuses
from workbench.core.versions.v0_23.stages import STAGES
from workbench.core.weights import (
    CHUNKED,
    DRAFTED,
    FOR_HEADS,
    LATER,
    MROPE,
    ROUNDED,
    STREAMS,
    TOWERS,
    WIDE,
)

EAGLE = SpeculativeMethod(
    reads_next_token=True,
    layers=drafter.head,
    class_name=eagle_class,
    needs_model=True,
    backend=ON_V2,
)
PLAIN = SpeculativeMethod()
DFLASH = SpeculativeMethod(
    reads_next_token=True,
    layers=drafter.full_head,
    class_name=dflash_class,
    needs_model=True,
    mask_tokens=(NULL_MASK, MASK, *DRAFTERS_MASKS),
    without_mask="For parallel drafting, the draft model config must have",
)
MODERN_BERT = ("Model", "ForSequenceClassification", "ForTokenClassification")
"""Ends of the names of its classes."""
HEADS = SpeculativeMethod(needs_model=True)
"""Drafters without attention: Medusa's heads and the MLP speculator keep no cache."""

# `SpeculativeMethod`, `use_eagle` and `hf_config_override` in config/speculative.py.
SPECULATION = SpeculationRules(
    embeds_on_last_stage=frozenset(),
    methods=MappingProxyType(
        {
            MTP: SpeculativeMethod(reads_next_token=True, layers=drafter.predictor, backend=ON_V2),
            "eagle": EAGLE,
            "eagle3": replace(EAGLE, class_name=eagle3_class),
            DRAFT_MODEL: SpeculativeMethod(layers=drafter.decoder, needs_model=True),
            "dflash": DFLASH,
            "medusa": HEADS,
            "mlp_speculator": replace(HEADS, has_class=False),
            NGRAM: PLAIN,
            "ngram_gpu": PLAIN,
            SUFFIX: PLAIN,
            "custom_class": SpeculativeMethod(
                unknown_layers="whatever the custom proposer keeps", needs_model=True
            ),
            HIDDEN_STATES: PLAIN,
        }
    ),
    mtp_model_types=frozenset(
        {
            *("GlmOcrForConditionalGeneration", "MiMoForCausalLM", "MiMoV2FlashForCausalLM"),
            *("MiMoV2ForCausalLM", "MiMoV2OmniForCausalLM", "MistralLarge3ForCausalLM"),
            *("NemotronH_Super_Omni_Reasoning_V3", "Step3p5ForCausalLM"),
            *("Step3p7ForConditionalGeneration", "deepseek_v3", "deepseek_v32", "deepseek_v4"),
            *("ernie4_5_moe", "exaone4_5", "exaone_moe", "glm4_moe", "glm4_moe_lite"),
            *("gemma4_assistant", "gemma4_unified_assistant"),
            *("glm_moe_dsa", "hy_v3", "intern_s2_preview", "longcat_flash", "nemotron_h"),
            *("nemotron_h_puzzle", "pangu_ultra_moe", "qwen3_5", "qwen3_5_moe", "qwen3_next"),
            *("step3p5", "step3p7"),
        }
    ),
    # The classes of transformers 5.20 have one, those of 5.12 none; the drafter reads the number.
    declared_only=frozenset({"deepseek_v3", "deepseek_v32", "deepseek_v4", "glm4_moe"}),
    asks_every_eagle3=True,
    compares_embeddings=True,
    latents_bar_windows=True,
    finds_no_kind=step_cuts_mtp_layers,
    heads=frozenset(
        {
            *("EagleLlamaForCausalLM", "EagleMistralForCausalLM", "EagleMiniCPMForCausalLM"),
            *("EagleDeepSeekMTPModel", "EagleMistralLarge3ForCausalLM"),
            *("PeagleLlamaForCausalLM", "Eagle3LlamaForCausalLM", "Eagle3MiniMaxM2ForCausalLM"),
            *("LlamaForCausalLMEagle3", "Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM"),
            *("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM", "DFlashDraftModel"),
            "PEagleDraftModel",
        }
    ),
    mtp_classes=MappingProxyType(
        dict.fromkeys(("deepseek_v3", "deepseek_v32", "glm_moe_dsa"), "DeepSeekMTPModel")
    ),
    heads_for=MappingProxyType(
        {
            "EagleCohereForCausalLM": frozenset({"cohere2"}),
            "EagleLlama4ForCausalLM": frozenset({"llama4", "llama4_text"}),
        }
    ),
    decides={"medusa": "medusa", "mlp_speculator": "mlp_speculator"},
    v2_architectures=frozenset({"LlamaForCausalLM", "MistralForCausalLM", "Qwen3ForCausalLM"}),
    cuts_drafters=True,
    # Exaone4_5MultiTokenPredictor, ExaoneMoeMultiTokenPredictor
    mtp_without_cache_settings=frozenset({"exaone4_5", "exaone_moe"}),
    mtp_with_stages=frozenset(
        {
            *("GlmOcrForConditionalGeneration", "NemotronH_Super_Omni_Reasoning_V3"),
            *("glm4_moe_lite", "nemotron_h", "nemotron_h_puzzle"),
        }
    ),
    image_tokens=frozenset(
        {
            "Cohere2VisionForConditionalGeneration",
            "Exaone4_5_ForConditionalGeneration",
            "Gemma4ForConditionalGeneration",
            "Gemma4UnifiedForConditionalGeneration",
            "GlmOcrForConditionalGeneration",
            "HunYuanVLForConditionalGeneration",
            "InternS2PreviewForConditionalGeneration",
            "KimiK25ForConditionalGeneration",
            "MiMoV2OmniForCausalLM",
            "PixtralForConditionalGeneration",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLMoeForConditionalGeneration",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForConditionalGeneration",
            "Step3p7ForConditionalGeneration",
        }
    ),
    refuses=refuses,
    v1_waits=frozenset({NGRAM, SUFFIX, DRAFT_MODEL, "medusa", "mlp_speculator", "custom_class"}),
    waits_by_default=frozenset({DRAFT_MODEL}),
    async_refusal="Currently, async scheduling is only supported",
)

ERNIE_MOE = ("Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration")
V0_23 = RuleSet(
    name="0.23",
    title="vLLM 0.23",
    cache_modes=("none", "align", "all"),
    default_block_size=16,
    # CpuPlatform.check_and_update_config sets it before any backend is known; 0.33 gives it to
    # phase 1 as the default instead.
    cpu_block_size=128,
    backends=BACKENDS,
    quantization=QUANTIZATION,
    # get_mamba_state_shape_from_config of the model's class
    draft_counting=frozenset({"mamba2:nemotron_h", "mamba2:mamba2", "gdn:*"}),
    # get_state_shape of the layer: that of MambaMixer2, which PLaMo-2 does not use
    draft_keeping=frozenset(
        {
            *("mamba2:bamba", "mamba2:falcon_h1", "mamba2:granitemoehybrid", "mamba2:mamba2"),
            *("mamba2:nemotron_h", "mamba2:zamba2", "gdn:*"),
        }
    ),
    version="0.23",
    weight_copies={TOWERS: 2, MROPE: 4, STREAMS: 1}
    | dict.fromkeys((LATER, CHUNKED, FOR_HEADS, WIDE, ROUNDED, DRAFTED), 0),
    expert_paddings=kernels.PADDINGS,
    kv_cache_dtypes=(
        "auto",
        "float16",
        "bfloat16",
        *FP8_DTYPES,
        "fp8_ds_mla",
        *TURBOQUANT_BITS,
        *PER_TOKEN_HEAD_DTYPES,
        "nvfp4",
    ),
    token_bytes=token_bytes,
    layer_token_bytes=layer_token_bytes,
    companions=companions,
    noticed=noticed,
    backends_of_narrow_values=flash_alone,
    # `MiMoV2FlashDecoderLayer` and `FalconAttention` pass no configuration of the cache on.
    models_without_cache_settings=frozenset(
        {
            *(f"MiMoV2{name}ForCausalLM" for name in ("", "Flash", "Omni")),
            *("CLIPModel", "FalconForCausalLM", "RWForCausalLM"),
            *(f"ModernBert{name}" for name in MODERN_BERT),
        }
    ),
    # `BaiChuanAttention` with ALiBi, which `BaichuanForCausalLM` takes for all but 7B
    width_with_cache_settings={"BaichuanForCausalLM": 4096},
    groups=GroupRules(aligns_index_keys=True, chunks_forget_quantization=True),
    layouts=LayoutRules(),
    offload=OFFLOAD,
    prefill=PrefillRules(),
    model_registry=MODEL_REGISTRIES["0.23"],
    speculation=SPECULATION,
    media=MediaRules(
        # `with_hf_config` in config/vllm.py makes the model's configuration again (0.33 keeps it).
        prefix_lost=frozenset(
            {
                *(f"{name}ForConditionalGeneration" for name in ("Bagel", "Cheers", "Gemma3")),
                *("Cheers", "PaliGemmaForConditionalGeneration"),
            }
        ),
        towers_left_whole=frozenset({"ultravox"}),
        keeps_towers=frozenset({"gemma4_unified", "musicflamingo"}),
        masks_pairs=True,
        asserts_no_adapters=frozenset({"mamba2", "zamba2"}),
    ),
    parts_not_cut={
        **{
            f"{name}ForConditionalGeneration": "unnamed_text_model"
            for name in ("Cosmos3", "Qwen3VL", "Qwen3VLMoe")
        },
        **dict.fromkeys(("MoonshotKimiaForCausalLM", "VoxtralForConditionalGeneration"), "encoder"),
        "VoxtralRealtimeGeneration": "encoder",
    },
    scored_by_config=frozenset({"AXK1", "deepseek_v2", "dots1", "minimax_m2"}),
    tied_on_every_stage=dict.fromkeys(ERNIE_MOE, "weight"),
    wants_experts=WANTS_EXPERTS,
    derived_heads=DERIVED_HEADS,
    built_kv_heads=BUILT_KV_HEADS,
    whole_heads=WHOLE_HEADS,
    without_config_class=frozenset({"minicpm3"}),
    # get_head_size of ModelArchConfigConvertorBase
    counts_empty_heads=True,
    ignores_interval=frozenset({"qwen3_next"}),  # Qwen3NextConfig of vLLM
    keeps_window=True,
    # Step3p5Config
    completes_lengths=frozenset({"step3p5"}),
    # FlashConfig takes num_hidden_layers, which LongcatFlashConfig of transformers 5.12 sets to 56
    lists_blocks=frozenset({"LongcatFlashForCausalLM"}),
    citations=citations_of("0.23"),
    imposed_backend=imposed_backend,
    batch_tiers=(
        BatchTier(70 * GIB, BatchSizes(8192, 1024), BatchSizes(16384, 1024), frozenset({A100})),
        SMALL,
    ),
    words_of_context=MappingProxyType(
        {
            "kv_heads_not_shared": "tensor parallel size {ranks} must be greater than total num kv "
            "heads {heads} when enable decode context parallel for GQA/MQA",
            "kv_heads_shared_by_fewer": "decode context parallel size must less than or equal to "
            "(tensor parallel size {ranks} // total num kv heads {heads})",
            "query_heads_not_shared": "Total number of q per kv attn heads ({queries}) must be "
            "divisible by dcp world size",
        }
    ),
    traits={"aligned_in": "the platform hook, after the backends are known (#37467)"},
    stages=STAGES,
)
