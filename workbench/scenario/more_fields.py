"""The fields that a tuning session needs now and then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.core.dtypes import MODEL_DTYPES, STATE_DTYPES
from workbench.core.groups.of_plan import OLD_NAMES
from workbench.core.platforms import PLATFORMS
from workbench.core.versions import RuleSet
from workbench.scenario.field import Field, any_word, declare, mostly
from workbench.scenario.kinds import Capability, Layers, Switch, Words, dtype_name
from workbench.scenario.numbers import BytesPerRank, Integer

TOKENS = "tokens"
NEEDS_MORE = frozenset({"custom_class", "suffix"})
"""Speculative methods that need a class or a package of their own."""


def _layouts(rules: RuleSet) -> tuple[str, ...]:
    return (*OLD_NAMES, *rules.groups.layouts)


def _drafted(_field: Field, chosen: Mapping[str, Any], rules: RuleSet) -> Sequence[Any]:
    """Return methods that need nothing else, where tokens are drafted."""
    names = [name for name in rules.speculation.names if name not in NEEDS_MORE]
    return mostly(None, names) if chosen["num_speculative_tokens"] else ()


@dataclass(frozen=True)
class MoreFields:
    """The fields of the section for more settings."""

    compute_capability: str | None = declare(
        None,
        Capability(PLATFORMS["cuda"].capabilities),
        "Capability",
        "CUDA compute capability; other platforms do not read it",
        none=f"{PLATFORMS['cuda'].default_capability} (default)",
        is_read=lambda settings: settings.platform == "cuda",
        examples=lambda _field, chosen, _rules: (
            ("9.0", "10.0", "8.0", "12.0") if chosen["platform"] == "cuda" else ()
        ),
    )
    dtype: str = declare(
        "auto",
        Words(MODEL_DTYPES, normal=dtype_name),
        "Model dtype",
        "--dtype of weights and activations; auto is the checkpoint's",
        flag="--dtype",
        only_legal=True,
        examples=any_word,
    )
    mamba_cache_dtype: str = declare(
        "auto",
        Words(STATE_DTYPES, normal=dtype_name),
        "Conv dtype",
        "--mamba-cache-dtype of the convolution states",
        flag="--mamba-cache-dtype",
        only_legal=True,
        examples=any_word,
    )
    mamba_ssm_cache_dtype: str = declare(
        "auto",
        Words(STATE_DTYPES, normal=dtype_name),
        "State dtype",
        "--mamba-ssm-cache-dtype of the recurrent states",
        flag="--mamba-ssm-cache-dtype",
        only_legal=True,
        examples=any_word,
    )
    mamba_block_size: int | None = declare(
        None,
        Integer(),
        "Mamba block",
        "--mamba-block-size, in tokens",
        unit=TOKENS,
        flag="--mamba-block-size",
        examples=(None, None, None, None, None, 128, 1024),
    )
    max_num_batched_tokens: int | None = declare(
        None,
        Integer(),
        "Token budget",
        "--max-num-batched-tokens of one scheduler step",
        unit=TOKENS,
        flag="--max-num-batched-tokens",
        examples=(None, None, 2048, 4096, 8192),
    )
    max_num_seqs: int | None = declare(
        None,
        Integer(),
        "Max sequences",
        "--max-num-seqs of one scheduler step",
        unit="sequences",
        flag="--max-num-seqs",
        examples=(None, None, 64, 512),
    )
    num_speculative_tokens: int = declare(
        0,
        Integer(low=0, high=1024),
        "Draft tokens",
        "--speculative-config num_speculative_tokens; 0 switches drafting off",
        unit=TOKENS,
        flag="--speculative-config.num_speculative_tokens",
        also=("--spec-tokens", "speculative_tokens"),
        offer=lambda _settings, _model: range(9),
        examples=(0, 0, 0, 1, 2, 3, 5),
        sweep=(0, 1, 3),
    )
    speculative_method: str | None = declare(
        None,
        Words(lambda rules: rules.speculation.names, of_any_version=True),
        "Draft method",
        "--speculative-config method: which drafter proposes the draft tokens",
        flag="--speculative-config.method",
        also=("--spec-method",),
        none="mtp if the checkpoint has it, else ngram",
        examples=_drafted,
    )
    num_gpu_blocks_override: int | None = declare(
        None,
        Integer(),
        "GPU blocks override",
        "--num-gpu-blocks-override",
        unit="blocks",
        flag="--num-gpu-blocks-override",
    )
    kv_cache_memory_bytes_by_rank: tuple[int, ...] | None = declare(
        None,
        BytesPerRank(),
        "Memory per rank",
        "Per-rank sizes if ranks differ, e.g. 20 GiB, 18 GiB",
    )
    disable_hybrid_kv_cache_manager: bool = declare(
        False,
        Switch(),
        "Disable hybrid manager",
        "--disable-hybrid-kv-cache-manager: sliding-window layers are treated as full attention",
        flag="--disable-hybrid-kv-cache-manager",
    )
    kv_cache_layout: str | None = declare(
        None,
        Words(_layouts),
        "Cache layout",
        "VLLM_KV_CACHE_LAYOUT; affects sizes only in 0.33 and later",
        flag="VLLM_KV_CACHE_LAYOUT",
    )
    hidden_state_layers: int = declare(
        0,
        Integer(low=0, high=1024),
        "Hidden states",
        "--speculative-config method extract_hidden_states: number of layers whose hidden "
        "states are kept in the cache",
        unit="layers",
        flag="--speculative-config.draft_model_config",
        offer=lambda _settings, _model: range(9),
    )
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = declare(
        None,
        Layers(),
        "Unquantized layers",
        "--kv-cache-dtype-skip-layers: numbers, or sliding_window",
        flag="--kv-cache-dtype-skip-layers",
    )
    gdn_flashinfer_prefill: bool | None = declare(
        None,
        Switch(on="flashinfer", off="triton"),
        "GDN prefill",
        "Use FlashInfer for GDN prefill (default on Hopper in 0.33)",
        flag="--gdn-prefill-backend",
        examples=(None, None, True, False),
    )
    trtllm_kernels: bool = declare(
        False,
        Switch(),
        "TRT-LLM kernels",
        "TRT-LLM kernels are available to FlashInfer (SM10x); enables pages above 64 "
        "tokens in 0.33",
    )
