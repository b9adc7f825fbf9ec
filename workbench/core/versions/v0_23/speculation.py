"""What vLLM 0.23 drafts with.

Source: `SpeculativeMethod`, `use_eagle` and `hf_config_override` in `vllm/config/speculative.py`,
0.23.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from workbench.core.speculation import (
    HIDDEN_STATES,
    MTP,
    NGRAM,
    SUFFIX,
    SpeculationRules,
    SpeculativeMethod,
)

EAGLE_LIKE = SpeculativeMethod(
    reads_next_token=True, own_layers="the layers of the EAGLE head", needs_model=True
)
PLAIN = SpeculativeMethod()
ONE_STEP_AT_A_TIME = SpeculativeMethod(overlaps_steps=False)
DRAFT_MODEL = SpeculativeMethod(own_layers="all layers of the draft model", needs_model=True)
DFLASH = SpeculativeMethod(own_layers="the layers of the DFlash drafter", needs_model=True)
HEADS = SpeculativeMethod(needs_model=True)
"""Drafters without attention: Medusa's heads and the MLP speculator keep no cache."""

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
