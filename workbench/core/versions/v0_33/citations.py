"""Where vLLM 0.33 has each rule: file and function, as read in the installed 0.33.

Of a rule that is replaced in 0.33 the trace says that its place was read in 0.23 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from workbench.core.stages import (
    after_alignment,
    attention_bytes,
    backend_choice,
    batch_sizes,
    block_size,
    cache_mode,
    gdn_prefill,
    hybrid_alignment,
    memory,
    state_pages,
)
from workbench.core.trace import Citation, Rule
from workbench.core.versions.v0_23.citations import CITATIONS as CITATIONS_0_23

REPLACED = frozenset(
    {
        *(cache_mode.PREFIX_CACHING, cache_mode.CACHE_MODE),
        *(block_size.PLATFORM_BLOCK_SIZE, block_size.PREFERRED_BLOCK_SIZE),
        *(hybrid_alignment.GRANULARITY, hybrid_alignment.ALIGNED),
        hybrid_alignment.ALIGNED_TO_CHUNKS,
    }
)
"""Rules of 0.23 that 0.33 does not have."""
MOVED = {"v1/core/kv_cache_utils.py": "v1/core/kv_cache_planning.py"}


def _read(file: str, *functions: str, note: str = "") -> Citation:
    return Citation("0.33", file, functions, note)


def _read_again(old: Citation) -> Citation:
    """Return the same place in 0.33, without the pull request that brought the rule to 0.23."""
    note = "" if old.note.startswith("#") else old.note
    return _read(MOVED.get(old.file, old.file), *old.functions, note=note)


_CPU = _read("platforms/cpu.py", "CpuPlatform.check_and_update_config")
_ALIGNED = _read("platforms/interface.py", "Platform._align_hybrid_block_size")
_DEFAULTS = _read(
    "engine/arg_utils.py",
    "EngineArgs.get_batch_defaults",
    "EngineArgs._set_default_max_num_seqs_and_batched_tokens_args",
)

CITATIONS: Final[Mapping[Rule, Citation]] = {
    **{rule: _read_again(old) for rule, old in CITATIONS_0_23.items() if rule not in REPLACED},
    batch_sizes.TOKENS: _DEFAULTS,
    batch_sizes.SEQUENCES: _DEFAULTS,
    cache_mode.PREFIX_CACHING_OF_MODEL: _read(
        "config/model.py", "ModelConfig.is_prefix_caching_supported"
    ),
    cache_mode.ALIGN_MODE_ONLY: _read_again(CITATIONS_0_23[cache_mode.CACHE_MODE]),
    cache_mode.CPU_MLA_PREFIX_CACHING: _CPU,
    state_pages.CPU_STATE_DTYPE: _CPU._replace(note="processors with AVX-512 BF16"),
    gdn_prefill.GDN_PREFILL: _read(
        "model_executor/layers/mamba/gdn/qwen_gdn_linear_attn.py", "_resolve_gdn_prefill_backend"
    ),
    backend_choice.STORED_DTYPE: _read(
        "model_executor/layers/attention/mla_attention.py",
        "_canonicalize_sparse_mla_kv_cache_dtype",
    ),
    block_size.COMMON_BLOCK_SIZE: _read(
        "platforms/interface.py", "Platform._preferred_block_size_for_backends"
    ),
    attention_bytes.SHARED_PAGE: _read(
        "platforms/interface.py", "Platform._align_heterogeneous_kv_block_size"
    ),
    hybrid_alignment.GRANULARITY_FOR_ALL: _ALIGNED,
    hybrid_alignment.ALIGNED_FOR_ALL: _ALIGNED,
    after_alignment.ALIGNED_BLOCK_CHECK: _read(
        "platforms/interface.py", "Platform._check_aligned_block_size"
    ),
    memory.IN_ONE_ALLOCATION: _read_again(CITATIONS_0_23[memory.NUM_BLOCKS]),
}
