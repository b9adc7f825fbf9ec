"""The rule set of vLLM 0.23: two-phase block size, all backends queried (#37467)."""

from __future__ import annotations

from workbench.core import speculation as drafting
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.dtypes import KV_CACHE_DTYPES
from workbench.core.layouts.rules import LayoutRules
from workbench.core.offload.rules import OffloadRules
from workbench.core.prefix.rules import PrefillRules
from workbench.core.rule_set import RuleSet
from workbench.core.rules.v0_23_backends import BACKENDS
from workbench.core.rules.v0_23_groups import GROUPS
from workbench.core.selection import choices_without_test, companions, selection_order
from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    cache_mode,
    flex,
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

RESOLVE_CONFIGURATION = (
    refusals.served_architecture,
    refusals.model_dtype,
    refusals.max_model_len,
    batch_sizes.token_budget,
    refusals.kv_cache_dtype,
    refusals.tensor_parallel,
    refusals.quantization_dtype,
    refusals.nvfp4_with_mla,
    speculation.speculative_method,
    cache_mode.prefix_caching,
    state_pages.state_dtype_field,
    cache_mode.cache_mode,
    refusals.mamba_block_size,
    refusals.native_architecture,
    state_pages.states,
    batch_sizes.cpu_mla_token_budget,
)
"""Steps 1 and 2 of the start: arguments, then the model-specific verification."""

CHECK_RESULT = (
    backend_choice.nvfp4_generation,
    flex.batch_invariance,
    layer_checks.align_budget,
    attention_bytes.attention_page,
    pages.unify_pages,
    pages.kernel_block_size,
    flex.flex_mask_block,
    layer_checks.group_replication,
    layer_checks.kv_head_split,
    layer_checks.mamba_block_advice,
    layer_checks.cpu_prefix_caching,
    memory.auto_fit,
    prefix_hits.inert_prefix_caching,
    memory.budget,
    memory.memory,
)
"""From `validate_block_size` to the runner's kernel blocks."""

V0_23 = RuleSet(
    name="0.23",
    title="vLLM 0.23",
    cache_modes=("none", "align", "all"),
    default_block_size=16,
    cpu_block_size=128,
    backends=BACKENDS,
    selection_order=selection_order,
    choices_without_test=choices_without_test,
    draft_counting=frozenset({"mamba2:nemotron_h", "mamba2:mamba2", "gdn:*"}),
    version="0.23",
    kv_cache_dtypes=KV_CACHE_DTYPES,
    token_bytes=attention_bytes.token_bytes,
    layer_token_bytes=attention_bytes.layer_token_bytes,
    companions=companions,
    groups=GROUPS,
    layouts=LayoutRules(),
    offload=OffloadRules(version="0.23"),
    prefill=PrefillRules(),
    model_registry=MODEL_REGISTRIES["0.23"],
    speculation=drafting.V0_23,
    traits={
        "aligned_in": "the platform hook, after the backends are known (#37467)",
    },
    stages=(
        *RESOLVE_CONFIGURATION,
        block_size.cpu_block_size,
        backend_choice.backend_choice,
        plain_backend.plain_backend,
        flex.flex_construction,
        block_size.preferred_block_size,
        attention_bytes.attention_token_bytes,
        mixed_dtypes.common_token_bytes,
        hybrid_alignment.hybrid_alignment,
        after_alignment.xpu_gdn_rounding,
        *CHECK_RESULT,
    ),
)
