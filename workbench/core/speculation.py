"""Methods of speculative decoding: what a drafter keeps in the cache, and what it costs in hits.

Source: `SpeculativeMethod`, `use_eagle`, `needs_eagle_block_drop` and `hf_config_override` in
`vllm/config/speculative.py`, `num_prefill_lookahead_tokens` and the choice of the model runner in
`vllm/config/vllm.py`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MTP, NGRAM, SUFFIX = "mtp", "ngram", "suffix"
HIDDEN_STATES = "extract_hidden_states"
"""The method of `hidden_state_layers`, which is how a scenario requests it."""


@dataclass(frozen=True, slots=True)
class SpeculativeMethod:
    """One method of one version.

    reads_next_token: the drafter's keys and values of a position depend on the next token, so the
    last block of a shared prefix cannot be reused as it is. own_layers: the layers with a cache
    that its checkpoint adds and that a plan does not count; empty where there are none.
    needs_model: whether the command must name a second checkpoint. overlaps_steps: whether a step
    is scheduled before the last one has ended (async scheduling).
    """

    reads_next_token: bool = False
    own_layers: str = ""
    needs_model: bool = False
    overlaps_steps: bool = True


@dataclass(frozen=True, eq=False)
class SpeculationRules:
    """What one vLLM version drafts with.

    methods: by vLLM's name. mtp_model_types: model types of a config.json whose checkpoint has
    layers for method mtp. reads_nested_predictions: the number of MTP layers counts wherever it is
    in the file; else only outside `text_config`.
    """

    methods: Mapping[str, SpeculativeMethod]
    mtp_model_types: frozenset[str]
    reads_nested_predictions: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Return what the field `speculative_method` may be."""
        return tuple(name for name in self.methods if name != HIDDEN_STATES)


MTP_ALIASES = frozenset(
    {
        *(f"{name}_mtp" for name in ("bailing_hybrid", "deepseek", "ernie", "exaone4_5")),
        *(f"{name}_mtp" for name in ("exaone_moe", "gemma4", "glm4_moe", "glm4_moe_lite")),
        *(f"{name}_mtp" for name in ("glm_ocr", "hy_v3", "longcat_flash", "mimo", "mimo_v2")),
        *(f"{name}_mtp" for name in ("nemotron_h", "pangu_ultra_moe", "qwen3_5", "qwen3_next")),
        "step3p5_mtp",
    }
)
"""Deprecated method names that vLLM reads as mtp."""
