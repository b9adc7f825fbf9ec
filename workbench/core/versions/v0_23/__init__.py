"""The rule set of vLLM 0.23: two-phase block size, all backends queried (#37467)."""

from dataclasses import replace
from types import MappingProxyType

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.batch_defaults import A100, GIB, SMALL, BatchSizes, BatchTier
from workbench.core.dtypes import FP8_DTYPES, PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.cache_spec import GroupRules
from workbench.core.layouts.shapes import LayoutRules
from workbench.core.offload.rules import OffloadRules
from workbench.core.prefix.sparse import PrefillRules
from workbench.core.rule_set import RuleSet
from workbench.core.speculation import (
    HIDDEN_STATES,
    MTP,
    NGRAM,
    SUFFIX,
    SpeculationRules,
    SpeculativeMethod,
)
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.core.versions.v0_23.bytes import layer_token_bytes, token_bytes
from workbench.core.versions.v0_23.citations import CITATIONS
from workbench.core.versions.v0_23.compressed import ignored_for_compressed
from workbench.core.versions.v0_23.conditions import backend_for_mixed_heads
from workbench.core.versions.v0_23.mla import companions
from workbench.core.versions.v0_23.stages import STAGES
from workbench.core.weights import MROPE, OLMO

EAGLE_LIKE = SpeculativeMethod(
    reads_next_token=True, own_layers="the layers of the EAGLE head", needs_model=True
)
PLAIN = SpeculativeMethod()
ONE_STEP_AT_A_TIME = SpeculativeMethod(overlaps_steps=False)
DRAFT_MODEL = SpeculativeMethod(own_layers="all layers of the draft model", needs_model=True)
DFLASH = SpeculativeMethod(own_layers="the layers of the DFlash drafter", needs_model=True)
HEADS = SpeculativeMethod(needs_model=True)
"""Drafters without attention: Medusa's heads and the MLP speculator keep no cache."""

# `SpeculativeMethod`, `use_eagle` and `hf_config_override` in config/speculative.py.
SPECULATION = SpeculationRules(
    methods=MappingProxyType(
        {
            MTP: SpeculativeMethod(reads_next_token=True),
            "eagle": EAGLE_LIKE,
            "eagle3": EAGLE_LIKE,
            "draft_model": DRAFT_MODEL,
            "dflash": replace(DFLASH, reads_next_token=True),
            "medusa": HEADS,
            "mlp_speculator": HEADS,
            NGRAM: PLAIN,
            "ngram_gpu": PLAIN,
            SUFFIX: ONE_STEP_AT_A_TIME,
            "custom_class": SpeculativeMethod(
                own_layers="whatever the custom proposer keeps",
                needs_model=True,
                overlaps_steps=False,
            ),
            HIDDEN_STATES: PLAIN,
        }
    ),
    mtp_model_types=frozenset(
        {
            "deepseek_v3",
            "deepseek_v32",
            "ernie4_5_moe",
            "glm4_moe",
            "glm4_moe_lite",
            "glm_moe_dsa",
            "intern_s2_preview",
            "longcat_flash",
            "nemotron_h",
            "nemotron_h_puzzle",
            "pangu_ultra_moe",
            "qwen3_5",
            "qwen3_5_moe",
            "qwen3_next",
        }
    ),
)

V0_23 = RuleSet(
    name="0.23",
    title="vLLM 0.23",
    cache_modes=("none", "align", "all"),
    default_block_size=16,
    cpu_block_size=128,
    backends=BACKENDS,
    draft_counting=frozenset({"mamba2:nemotron_h", "mamba2:mamba2", "gdn:*"}),
    version="0.23",
    weight_copies={MROPE: 4, OLMO: 0},
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
    ignored_for_compressed=ignored_for_compressed,
    groups=GroupRules(aligns_index_keys=True),
    layouts=LayoutRules(),
    offload=OffloadRules(),
    prefill=PrefillRules(),
    model_registry=MODEL_REGISTRIES["0.23"],
    speculation=SPECULATION,
    citations=CITATIONS,
    backend_for_mixed_heads=backend_for_mixed_heads,
    batch_tiers=(
        BatchTier(70 * GIB, BatchSizes(8192, 1024), BatchSizes(16384, 1024), frozenset({A100})),
        SMALL,
    ),
    traits={"aligned_in": "the platform hook, after the backends are known (#37467)"},
    stages=STAGES,
)
