"""The rule set of vLLM 0.23: two-phase block size, all backends queried (#37467)."""

from __future__ import annotations

from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.batch_defaults import A100, GIB, SMALL, BatchTier
from workbench.core.dtypes import FP8_DTYPES, PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.cache_spec import GroupRules
from workbench.core.layouts.shapes import LayoutRules
from workbench.core.offload.rules import OffloadRules
from workbench.core.prefix.rules import PrefillRules
from workbench.core.rule_set import RuleSet
from workbench.core.versions.v0_23.backends import BACKENDS
from workbench.core.versions.v0_23.bytes import layer_token_bytes, token_bytes
from workbench.core.versions.v0_23.citations import CITATIONS
from workbench.core.versions.v0_23.mla import companions
from workbench.core.versions.v0_23.speculation import SPECULATION
from workbench.core.versions.v0_23.stages import STAGES

V0_23 = RuleSet(
    name="0.23",
    title="vLLM 0.23",
    cache_modes=("none", "align", "all"),
    default_block_size=16,
    cpu_block_size=128,
    backends=BACKENDS,
    draft_counting=frozenset({"mamba2:nemotron_h", "mamba2:mamba2", "gdn:*"}),
    version="0.23",
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
    groups=GroupRules(),
    layouts=LayoutRules(),
    offload=OffloadRules(),
    prefill=PrefillRules(),
    model_registry=MODEL_REGISTRIES["0.23"],
    speculation=SPECULATION,
    citations=CITATIONS,
    batch_tiers=(BatchTier(70 * GIB, 8192, 1024, frozenset({A100})), SMALL),
    traits={
        "aligned_in": "the platform hook, after the backends are known (#37467)",
    },
    stages=STAGES,
)
