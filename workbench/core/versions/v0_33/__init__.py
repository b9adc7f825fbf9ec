"""The rule set of vLLM 0.33, whose sizes suit all attention backends; else it is as in 0.23."""

from dataclasses import replace
from itertools import product
from types import MappingProxyType

from workbench.core import drafter, speculation
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.arithmetic import GIB
from workbench.core.batch_defaults import A100, GB10, SMALL, BatchSizes, BatchTier
from workbench.core.dtypes import INT4_HEADS, ULTRAQUANT
from workbench.core.groups.group_rules import GroupRules
from workbench.core.media import MediaRules
from workbench.core.packing import NVFP4_DS
from workbench.core.prefix.sparse import PrefillRules
from workbench.core.ranks import ONE_STAGE, SHARED_EXPERT
from workbench.core.versions.citations import citations_of
from workbench.core.versions.v0_23 import MODERN_BERT, V0_23
from workbench.core.versions.v0_33 import kernels
from workbench.core.versions.v0_33.backends import BACKENDS, noticed
from workbench.core.versions.v0_33.bytes import gathered_keys, layer_token_bytes, token_bytes
from workbench.core.versions.v0_33.conditions import imposed_backend, step_lacks_heads
from workbench.core.versions.v0_33.connectors import OFFLOAD
from workbench.core.versions.v0_33.layouts import LAYOUTS, NAMES
from workbench.core.versions.v0_33.narrow_values import flash_or_triton
from workbench.core.versions.v0_33.quantization import QUANTIZATION
from workbench.core.versions.v0_33.runners import refuses
from workbench.core.versions.v0_33.stages import STAGES
from workbench.core.weights import DRAFTED, EARLIER, FOR_HEADS, ROUNDED, STREAMS, WIDE

# v1/core/kv_cache_planning.py, v1/kv_cache_layout.py and `supported_kv_cache_layouts` of the
# backends: unequal pages are padded in one allocation, or packed side by side.
GROUPS = GroupRules(
    pads_pages=True,
    merges_buckets=True,
    one_allocation=True,
    latent_alignment_bytes=512,
    compares_mla=True,
    promotes_block_size=True,
    retains_drafted_tokens=True,
    windows_choose_blocks=True,
    windows_before_own=frozenset({"cohere2", "cohere2_moe"}),
    skips_mla_layers=True,
    lists_for_mla={"KimiLinearForCausalLM": "rocm", "KimiK3ForConditionalGeneration": "rocm"},
    shares_indexers=True,
    splits_hidden_blocks=True,
    counts_null_block=True,
    joins_printed_lines=True,
    holds_batches_in_flight=True,
    hashes_by_mode=True,
    spreads_by_layer=True,
    manager_argument="needs_kv_cache_zeroing",
    checkpoint_blocks={"mamba2": 1, "gdn:flashinfer": 1, "kda:flashkda": 1},
    layouts=NAMES,
    # align_blocks_to_rows in the sparse backends' customize_spec.
    stride_rows={
        "STEP5_DSA": 8,
        **dict.fromkeys(("FLASH_ATTN_MLA_SPARSE", "FLASH_ATTN_MLA_SPARSE_FA4"), 1),
        **dict.fromkeys(("FLASHINFER_MLA_SPARSE_SM90", "FLASHMLA_SPARSE", "XPU_MLA_SPARSE"), 1),
        **dict.fromkeys(("ROCM_AITER_MLA_SPARSE", "DOTS3_NOTE_PADDED_MLA_SPARSE"), 1),
        "FLASHINFER_MLA_SPARSE": 32,
        "FLASHINFER_MLA_SPARSE_SM120": 64,
    },
    quantized_page_tokens={"FLASHMLA_SPARSE": 64},
    promotion_refused="Failed to promote local KV cache specs to one unified type.",
)
QSA, OMNI = "QWEN4_EXP_QSA_TRITON", "qwen3_omni_moe_thinker"
FLASH = list(map("For".join, product(("Inkling", "Step5"), ("CausalLM", "ConditionalGeneration"))))
_V2 = {speculation.ON_V2: speculation.OWN_OR_TARGETS}
_OLD = {
    name: replace(method, backend=_V2.get(method.backend, method.backend))
    for name, method in V0_23.speculation.methods.items()
    if name not in {"medusa", "mlp_speculator"}
}
_DFLASH = replace(
    _OLD["dflash"],
    reads_next_token=False,
    layers=drafter.flash_head,
    keeps_tokens_whole=True,
    mask_tokens=(*_OLD["dflash"].mask_tokens[1:], *speculation.DSPARK_MASKS),
    without_mask="Model config must specify `dflash_config.mask_token_id`",
)
# `SpeculativeMethod`, `needs_eagle_block_drop` and `hf_config_override` in config/speculative.py.
SPECULATION = speculation.SpeculationRules(
    # Both new ones build their keys and values from the target's hidden states alone.
    methods=MappingProxyType(
        {
            **_OLD,
            speculation.DRAFT_MODEL: replace(
                _OLD[speculation.DRAFT_MODEL], backend=speculation.TARGETS
            ),
            "dflash": _DFLASH,
            "dspark": replace(
                _DFLASH, class_name=speculation.dspark_class, without_model=_DFLASH.without_mask
            ),
        }
    ),
    mtp_model_types=V0_23.speculation.mtp_model_types
    | {
        *("BailingMoeV3VLForConditionalGeneration", "MiniMaxM3SparseForConditionalGeneration"),
        *("NemotronH_Omni_Reasoning_V3", "bailing_hybrid", "dots3_note", "glm5_next", "hy_v4"),
        *("interns2_mobius", "kimi_k3", "minimax_m3_vl", "qwen3_5_moe_text", "qwen3_5_text"),
        *("qwen4_exp", "qwen4_exp_text", "inkling_mm_model", "inkling_model", "step5", "step5_vl"),
    },
    heads=V0_23.speculation.heads
    | {
        *("Eagle3Qwen3ForCausalLM", "PeagleQwen3ForCausalLM", "Qwen3DSparkModel"),
        *("DFlash2DraftModel", "K3DSparkModel", "LiLiCorrDraftModel"),
        *("DFlashLagunaForCausalLM", "DFlashMuseGlimmerAssistantModel"),
    },
    mtp_classes=MappingProxyType(
        {
            "deepseek_v3": "DeepSeekMTPModel",
            **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), "DeepseekV32MTPModel"),
        }
    ),
    heads_for=V0_23.speculation.heads_for,
    decides={"Qwen3DSparkModel": "dspark", "DSparkDraftModel": "dspark"},
    reads_nested_predictions=True,
    finds_no_kind=step_lacks_heads,
    takes_kv_cache_dtype=True,
    limits_length=True,
    reaches_positions=True,
    mtp_without_cache_settings=frozenset({"exaone_moe"}),  # ExaoneMoeMultiTokenPredictor
    hidden_state_readers=frozenset({"eagle3", "dflash", "dspark"}),
    without_hidden_states=dict.fromkeys(("rocm", "xpu"), frozenset({"KimiLinearForCausalLM"})),
    numbers_from_stage=frozenset({"eagle"}),
    stages_wait=True,
    image_tokens=V0_23.speculation.image_tokens
    | {
        *("BailingMoeV3VLForConditionalGeneration", "KimiK3ForConditionalGeneration"),
        "NemotronH_Nano_VL_V2",
    },
    # The V2 runner, which is the default wherever Triton is, overlaps steps with every method.
    refuses=refuses,
    v1_waits=frozenset({"ngram", "suffix", "custom_class"}),
    asks_for_window=frozenset({"DFlashDraftModel", "DFlash2DraftModel", "Qwen3DSparkModel"}),
)

V0_33 = V0_23.successor(
    "0.33",
    weight_copies=dict.fromkeys((EARLIER, FOR_HEADS, WIDE, ROUNDED, DRAFTED, STREAMS), 0),
    expert_paddings=kernels.PADDINGS,
    repeated_layers=frozenset({SHARED_EXPERT, ONE_STAGE}),
    cache_modes=("none", "align"),
    noticed=noticed,
    backends_of_narrow_values=flash_or_triton,
    # `FalconAttention` passes no configuration of the cache on
    models_without_cache_settings=frozenset(
        {
            *("CLIPModel", "ColUltraVBertForRetrieval", "FalconForCausalLM", "RWForCausalLM"),
            *(f"ModernBert{name}" for name in MODERN_BERT),
        }
    ),
    imposed_backend=imposed_backend,
    gathered_keys=gathered_keys,
    batch_tiers=(
        # The largest devices get as many tokens from `vllm serve` as from `LLM(...)`.
        BatchTier(160 * GIB, BatchSizes(16384, 1024), BatchSizes(16384, 1024)),
        BatchTier(
            70 * GIB, BatchSizes(8192, 1024), BatchSizes(16384, 1024), frozenset({A100, GB10})
        ),
        SMALL,
    ),
    # Without the Octave formats of one ROCm kernel.
    kv_cache_dtypes=(*V0_23.kv_cache_dtypes, NVFP4_DS, "nvfp4_4over6", INT4_HEADS, ULTRAQUANT),
    backends=BACKENDS,
    quantization=QUANTIZATION,
    # get_attn_backend of KimiK3DeltaAttention, models/kimi_k3
    own_state_backends={
        "KimiK3ForConditionalGeneration": {"cuda": "KIMI_K3_KDA", "rocm": "KIMI_K3_KDA_ROCM"}
    },
    draft_counting=frozenset({"mamba2:*", "gdn:*", "kda:*"}),
    # ShortConv.get_state_shape counts drafts, LFM2's classes do not
    draft_keeping=frozenset({"mamba2:*", "gdn:*", "kda:*", "short_conv:*"}),
    token_bytes=token_bytes,
    layer_token_bytes=layer_token_bytes,
    all_backends=True,
    hybrid_prefix_caching=True,
    hooks_by_name=False,
    reads_cache_mode=False,
    mla_granule=128,
    prefill_checkpoint_tokens=64,
    kda_dtypes=("float32", "bfloat16"),
    # get_mamba_state_dtype_from_config; get_state_dtype of KimiGatedDeltaNetAttention, their own
    float32_states=frozenset(
        {
            *("AliceAIForCausalLM", "BailingMoeV3ForCausalLM"),
            "BailingMoeV3VLForConditionalGeneration",
        }
    ),
    float32_in_layers=frozenset({"KimiLinearForCausalLM"}),
    model_registry=MODEL_REGISTRIES["0.33"],
    cpu_checks_kv_cache_dtype=True,
    names_stored_dtype=True,
    groups=GROUPS,
    layouts=LAYOUTS,
    offload=OFFLOAD,
    prefill=PrefillRules(keeps_few_states=True, hashes_look_ahead=True),
    speculation=SPECULATION,
    # FlashAttnPrefillBackend.supports_mla_dimensions, which has all that the others have
    mla_prefill_sizes=((128, 64, 128), (192, 64, 256), (64, 64, 128), (256, 0, 256)),
    words_of_refused=MappingProxyType(
        {
            ("xpu", "FLASH_ATTN_MLA"): "FlashAttnMLA on XPU is not valid for this configuration: ",
            ("cuda", "DOTS3_NOTE_PADDED_MLA_SPARSE"): "FlashAttnMLASparseImpl currently supports",
            # Qwen4ExpQSAAttention.__init__
            **dict.fromkeys((("cuda", QSA), ("rocm", QSA)), "Qwen4Exp QSA "),
        }
    ),
    words_of_context=MappingProxyType(
        {
            "kv_heads_not_shared": "Decode context parallelism for GQA/MQA requires "
            "`--tensor-parallel-size` ({ranks}) to be greater",
            "kv_heads_shared_by_fewer": "exceeds the maximum supported value",
            "query_heads_not_shared": "The model's number of query heads per KV head ({queries}) "
            "must be divisible by",
        }
    ),
    parts_not_cut={},
    media=MediaRules(
        text_is_causal=True,
        towers_left_whole=frozenset(
            {"kimi_k25", "vllm.models.kimi_k3", "qwen3_asr", "qwen3_asr_realtime", OMNI}
        ),
        keeps_towers=frozenset({"gemma4_unified", "transformers"}),
        keeps_levels=True,
        words_of_adapters="LoRA is not supported for {name} (",
    ),
    lists_blocks=frozenset(),
    tied_on_every_stage=dict.fromkeys(V0_23.tied_on_every_stage, "tie_weights"),
    # the Transformers library runs the others
    wants_experts={
        name: V0_23.wants_experts[name]
        for name in V0_23.wants_experts.keys() - {"HunYuanMoEV1ForCausalLM", "MellumForCausalLM"}
    },
    derived_heads=V0_23.derived_heads - {"commandr"},
    whole_heads=V0_23.whole_heads
    | {
        *("canary_decoder", "cosmos3_edge_text", "esmc", "hyperclovax", "minicpm3"),
        *("muse_glimmer_text", "ultrabert", "unlimited_ocr_text"),
    },
    # QKVFuser of transformers/fusers/qkv.py
    library_fuses_heads=True,
    # transformers 5.16.1, which it requires, has MiniCPM3Config
    without_config_class=frozenset(),
    counts_empty_heads=False,
    ignores_interval=frozenset(),
    keeps_window=False,
    # KimiLinearConfig, which KimiK3Config builds, too
    completes_lengths=frozenset(
        {
            *("kimi_linear", "kimi_k3"),
            *("ernie4_5_vl_moe", "glm4v", "glm4v_moe", "glm_ocr"),
        }
    ),
    citations=citations_of("0.33", before=V0_23.citations),
    linear_state_as_mla=True,
    sm10x_kv_cache_dtypes={
        "GlmMoeDsaForCausalLM": "fp8_e4m3",
        "Glm5NextForCausalLM": "fp8",
        "Glm5NextForConditionalGeneration": "fp8",
    },
    yarn_stretches=False,
    largest_graph_sm10x=1024,
    captures_whole_decodes=True,
    profiles_graphs_on=frozenset({"cuda", "rocm", "xpu"}),
    v2_profiles_all=True,
    packed_layers_mix_on=frozenset({"rocm"}),
    # DeepseekV32MLAAttention of amd/rocm.py; get_attn_backend of InklingAttention, Step5Attention
    backends_of_classes=MappingProxyType(
        {
            **dict.fromkeys(product(("cuda", "rocm"), FLASH), "FLASH_ATTN"),
            ("rocm", "DeepseekV32ForCausalLM"): "ROCM_AITER_MLA_SPARSE",
            ("rocm", "GlmMoeDsaForCausalLM"): "ROCM_AITER_MLA_SPARSE",
        }
    ),
    flex_prunes_pages=True,
    stages=STAGES,
)
