"""The rule set of vLLM 0.33: all attention backends are queried, and the result suits all of them.

What it does not name is as in 0.23: the stages are the same, written once.
"""

from __future__ import annotations

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.batch_defaults import A100, GB10, GIB, SMALL, BatchTier
from workbench.core.dtypes import INT4_HEADS, ULTRAQUANT
from workbench.core.prefix.rules import PrefillRules
from workbench.core.versions.v0_23 import V0_23
from workbench.core.versions.v0_33.backends import BACKENDS
from workbench.core.versions.v0_33.bytes import layer_token_bytes, token_bytes
from workbench.core.versions.v0_33.citations import CITATIONS
from workbench.core.versions.v0_33.groups import GROUPS
from workbench.core.versions.v0_33.layouts import LAYOUTS
from workbench.core.versions.v0_33.offload import OFFLOAD
from workbench.core.versions.v0_33.speculation import SPECULATION
from workbench.core.versions.v0_33.stages import STAGES

V0_33 = V0_23.successor(
    "0.33",
    cache_modes=("none", "align"),
    batch_tiers=(
        BatchTier(160 * GIB, 16384, 1024),
        BatchTier(70 * GIB, 8192, 1024, frozenset({A100, GB10})),
        SMALL,
    ),
    # Without the Octave formats of one ROCm kernel and DeepSeek-V4's nvfp4.
    kv_cache_dtypes=(*V0_23.kv_cache_dtypes, "nvfp4_4over6", INT4_HEADS, ULTRAQUANT),
    backends=BACKENDS,
    draft_counting=frozenset({"mamba2:*", "gdn:*", "kda:*"}),
    token_bytes=token_bytes,
    layer_token_bytes=layer_token_bytes,
    all_backends=True,
    hybrid_prefix_caching=True,
    reads_cache_mode=False,
    mla_granule=128,
    prefill_checkpoint_tokens=64,
    kda_dtypes=("float32", "bfloat16"),
    model_registry=MODEL_REGISTRIES["0.33"],
    cpu_checks_kv_cache_dtype=True,
    names_stored_dtype=True,
    groups=GROUPS,
    layouts=LAYOUTS,
    offload=OFFLOAD,
    prefill=PrefillRules(keeps_few_states=True, hashes_look_ahead=True),
    speculation=SPECULATION,
    citations=CITATIONS,
    linear_state_as_mla=True,
    sm10x_kv_cache_dtypes={"GlmMoeDsaForCausalLM": "fp8_e4m3"},
    yarn_stretches=False,
    packed_layers_mix_on=frozenset({"rocm"}),
    flex_prunes_pages=True,
    flex_small_needs_pages=True,
    stages=STAGES,
)
