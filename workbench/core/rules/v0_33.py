"""The rule set of vLLM 0.33: all attention backends are queried, and the result suits all of them.

What it does not name is as in 0.23: the stages are the same, written once.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.core import speculation as drafting
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.batch_defaults import TIERS_0_33
from workbench.core.dtypes import KV_CACHE_DTYPES_0_33
from workbench.core.prefix.rules import PrefillRules
from workbench.core.rules.v0_23 import V0_23
from workbench.core.rules.v0_33_backends import BACKENDS
from workbench.core.rules.v0_33_bytes import layer_token_bytes, token_bytes
from workbench.core.rules.v0_33_groups import GROUPS
from workbench.core.rules.v0_33_layouts import LAYOUTS
from workbench.core.rules.v0_33_offload import OFFLOAD
from workbench.core.rules.v0_33_selection import choices_without_test, selection_order
from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    cache_mode,
    flex,
    gdn_prefill,
    hybrid_alignment,
    layer_checks,
    memory,
    mixed_dtypes,
    pages,
    plain_backend,
    prefix_hits,
    refusals,
    speculation,
    state_pages,
)

STAGES = (
    refusals.served_architecture,
    refusals.model_dtype,
    refusals.max_model_len,
    batch_sizes.token_budget,
    refusals.kv_cache_dtype,
    speculation.speculative_method,
    cache_mode.prefix_caching,
    state_pages.state_dtype_field,
    cache_mode.cache_mode,
    refusals.float_kv_cache_dtype,
    refusals.tensor_parallel,
    refusals.quantization_dtype,
    refusals.xpu_batch_invariance,
    state_pages.cpu_state_dtype,
    cache_mode.cpu_mla_prefix_caching,
    batch_sizes.cpu_mla_token_budget,
    gdn_prefill.gdn_prefill,
    refusals.nvfp4_with_mla,
    refusals.mamba_block_size,
    refusals.native_architecture,
    state_pages.states,
    backend_choice.backend_choice,
    plain_backend.plain_backend,
    flex.flex_construction,
    block_size.common_block_size,
    attention_bytes.attention_token_bytes,
    mixed_dtypes.common_token_bytes,
    hybrid_alignment.hybrid_alignment,
    mixed_dtypes.shared_page,
    after_alignment.xpu_gdn_rounding,
    after_alignment.aligned_block_check,
    flex.batch_invariance,
    attention_bytes.attention_page,
    pages.unify_pages,
    pages.kernel_block_size,
    pages.packed_split,
    flex.flex_mask_block,
    layer_checks.group_replication,
    layer_checks.kv_head_split,
    layer_checks.mamba_block_advice,
    memory.auto_fit,
    prefix_hits.inert_prefix_caching,
    memory.budget,
    memory.memory,
)

V0_33 = replace(
    V0_23,
    name="0.33",
    title="vLLM 0.33",
    version="0.33",
    cache_modes=("none", "align"),
    batch_tiers=TIERS_0_33,
    kv_cache_dtypes=KV_CACHE_DTYPES_0_33,
    backends=BACKENDS,
    selection_order=selection_order,
    choices_without_test=choices_without_test,
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
    speculation=drafting.V0_33,
    linear_state_as_mla=True,
    sm10x_kv_cache_dtypes={"GlmMoeDsaForCausalLM": "fp8_e4m3"},
    yarn_stretches=False,
    packed_layers_mix_on=frozenset({"rocm"}),
    flex_prunes_pages=True,
    flex_small_needs_pages=True,
    stages=STAGES,
)
