"""What vLLM 0.33 drafts with.

Source: `SpeculativeMethod`, `needs_eagle_block_drop` and `hf_config_override` in
`vllm/config/speculative.py`, 0.33.
"""

from __future__ import annotations

from types import MappingProxyType

from workbench.core.speculation import SpeculationRules, SpeculativeMethod
from workbench.core.versions.v0_23.speculation import DFLASH
from workbench.core.versions.v0_23.speculation import SPECULATION as SPECULATION_0_23

GONE = frozenset({"medusa", "mlp_speculator"})
SPECULATION = SpeculationRules(
    methods=MappingProxyType(
        {
            **{
                name: method
                for name, method in SPECULATION_0_23.methods.items()
                if name not in GONE
            },
            # Both build their keys and values from the target's hidden states alone.
            "dflash": DFLASH,
            "dspark": SpeculativeMethod(own_layers="the DSpark stages", needs_model=True),
        }
    ),
    mtp_model_types=SPECULATION_0_23.mtp_model_types
    | {"bailing_hybrid", "interns2_mobius", "qwen3_5_moe_text", "qwen3_5_text"},
    reads_nested_predictions=True,
)
