"""The fields that a tuning session needs now and then; bytes are per rank."""

from dataclasses import dataclass
from typing import Any

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.dtypes import MODEL_DTYPES, STATE_DTYPES
from workbench.core.groups.of_plan import OLD_NAMES
from workbench.core.platforms import PLATFORMS
from workbench.core.speculation import method_named
from workbench.core.versions import RULE_SETS
from workbench.scenario import examples
from workbench.scenario.field import any_word, declare, dtype_field
from workbench.scenario.kinds import (
    Capability,
    Changes,
    Layers,
    ModelReference,
    Switch,
    Version,
    Words,
    dtype_name,
    enum_member,
)
from workbench.scenario.numbers import Bytes, Integer, Several, Tokens

AUTO_ROUND = {"auto_round": "auto-round"}
"""INCConfig takes any word for its own, and people use this one."""


def _attention_size(label: str, tip: str) -> Any:
    return declare(
        None,
        Tokens(low=-LARGEST_INT32),
        label,
        tip,
        flag="--attention-config.",
        examples=(*[None] * 9, 16, 32, 24),
    )


@dataclass(frozen=True)
class FlexFields:
    """Sizes of tiles and mask blocks; vLLM accepts any integer, the plan says what it causes."""

    batch_invariant: bool = declare(
        False,
        Switch(),
        "Batch invariant",
        "VLLM_BATCH_INVARIANT=1",
        flag="VLLM_BATCH_INVARIANT",
        also=("use_batch_invariant",),
        examples=(*[False] * 9, True),
    )
    torch_version: str | None = declare(
        None,
        Version(),
        "torch",
        "Before 2.9 the default mask block is 128 x 128",
        none="2.9 or later (vLLM's)",
        offer=lambda _settings, _model: (None, "2.8", "2.9"),
        tried=("2.8",),
    )
    flex_attn_block_m: int | None = _attention_size(
        "Tile, queries", "{flag}: BLOCK_M of the kernel"
    )
    flex_attn_block_n: int | None = _attention_size("Tile, keys", "{flag}: BLOCK_N of the kernel")
    flex_attn_q_block_size: int | None = _attention_size("Mask block, q", "{flag}, in tokens")
    flex_attn_kv_block_size: int | None = _attention_size("Mask block, kv", "{flag}, in tokens")


@dataclass(frozen=True)
class MoreFields:
    """The fields of the section for more settings."""

    compute_capability: str | None = declare(
        None,
        Capability(PLATFORMS["cuda"].capabilities),
        "Capability",
        "CUDA compute capability; other platforms do not read it",
        none=f"the device's, else {PLATFORMS['cuda'].default_capability}",
        is_read=lambda settings: settings.platform == "cuda",
        examples=examples.capabilities,
    )
    dtype: str = dtype_field(
        MODEL_DTYPES, "Model dtype", "{flag} of weights and activations; auto is the checkpoint's"
    )
    quantization: str | None = declare(
        None,
        Words(
            lambda rules: tuple(sorted(rules.quantization.methods)),
            of_any_version=True,
            normal=lambda word: AUTO_ROUND.get(word, word),
        ),
        "Quantization",
        "{flag}: fp8, mxfp8 and others quantize plain weights as they load",
        none="as the checkpoint",
        examples=(*[None] * 15, "fp8", "mxfp8", "fp8_per_block", "awq"),
    )
    mamba_cache_dtype: str = dtype_field(
        STATE_DTYPES, "Mamba conv-state dtype", "{flag} of the convolution states"
    )
    mamba_ssm_cache_dtype: str = dtype_field(
        STATE_DTYPES, "Mamba SSM-state dtype", "{flag} of the recurrent states"
    )
    mamba_block_size: int | None = declare(
        None,
        Tokens(),
        "Mamba block",
        "{flag}, in tokens",
        examples=(None, None, None, None, None, 128, 1024),
        tried=(128, 1024),
    )
    prefix_cache_retention_interval: int | None = declare(
        None,
        Tokens(low=0),
        "Checkpoint interval",
        "{flag}, in tokens (0.33): how often windows and states are kept of a prompt, in addition "
        "to its end",
        none="0, its end alone",
        is_read=lambda settings: RULE_SETS[settings.rules].prefill.keeps_few_states,
        examples=examples.intervals,
        tried=(1024,),
    )
    num_speculative_tokens: int = declare(
        0,
        Tokens(low=0, high=1024),
        "Speculative tokens",
        "{flag}; 0 switches drafting off",
        flag="--speculative-config.num_speculative_tokens",
        also=("--spec-tokens", "speculative_tokens"),
        offer=lambda _settings, _model: range(9),
        examples=(0, 0, 0, 1, 2, 3, 5, 7),
        sweep=(0, 1, 3),
        tried=range(17),
    )
    speculative_method: str | None = declare(
        None,
        Words(lambda rules: rules.speculation.names, of_any_version=True, normal=method_named),
        "Speculative method",
        "{flag}: which drafter proposes the draft tokens",
        flag="--speculative-config.method",
        also=("--spec-method",),
        none="mtp if the checkpoint has it, else ngram",
        of_drafter=True,
        examples=examples.methods,
    )
    draft_model: str | dict[str, Any] | None = declare(  # noqa: RUF009  (a field, as the others)
        None,
        ModelReference(),
        "Draft model",
        "{flag}: the second checkpoint that drafts, a head or a small model",
        flag="--speculative-config.model",
        also=("--spec-model",),
        none="none, or the target itself",
        is_read=lambda settings: settings.num_speculative_tokens > 0,
        of_drafter=True,
        of_model=True,
        examples=examples.draft_models,
    )
    draft_tensor_parallel: int | None = declare(
        None,
        Integer(high=1024),
        "Draft ranks",
        "{flag}: 1 or the target's tensor parallel size",
        flag="--speculative-config.draft_tensor_parallel_size",
        of_drafter=True,
        none="as the target",
        examples=examples.draft_ranks,
    )
    draft_attention_backend: str | None = declare(
        None,
        Words(
            lambda rules: tuple(n for n, one in rules.backends.items() if one.is_selectable),
            normal=enum_member,
        ),
        "Draft backend",
        "{flag} of the drafter's layers",
        flag="--speculative-config.attention_backend",
        of_drafter=True,
        examples=examples.backends_of_drafter,
    )
    draft_kv_cache_dtype: str | None = declare(
        None,
        Words(lambda rules: rules.draft_kv_cache_dtypes, of_any_version=True, normal=dtype_name),
        "Draft KV dtype",
        "{flag} of the drafter's layers, from 0.33 on",
        flag="--speculative-config.kv_cache_dtype",
        none="as the target's",
        is_read=lambda settings: settings.num_speculative_tokens > 0,
        of_drafter=True,
        examples=examples.dtypes_of_drafter,
    )
    num_gpu_blocks_override: int | None = declare(
        None, Integer(unit="blocks"), "GPU blocks override", "{flag}", examples=(*[None] * 9, 512)
    )
    kv_cache_memory_bytes_by_rank: tuple[int, ...] | None = declare(
        None,
        Several(Bytes(), "size per rank"),
        "Memory per rank",
        "Per-rank sizes if ranks differ, e.g. 20 GiB, 18 GiB",
        examples=examples.unequal_ranks,
        none="not set",
    )
    disable_hybrid_kv_cache_manager: bool = declare(
        False,
        Switch(),
        "Disable hybrid manager",
        "{flag}: sliding-window layers are treated as full attention",
        examples=(*[False] * 7, True),
    )
    kv_cache_layout: str | None = declare(
        None,
        Words(lambda rules: (*OLD_NAMES, *rules.groups.layouts)),
        "Cache layout",
        "VLLM_KV_CACHE_LAYOUT; affects sizes only in 0.33 and later",
        flag="VLLM_KV_CACHE_LAYOUT",
        examples=any_word,
    )
    hidden_state_layers: int = declare(
        0,
        Integer(unit="layers", low=0, high=1024),
        "Hidden-state layers (extract)",
        "--speculative-config method extract_hidden_states: number of layers whose hidden "
        "states are kept in the cache",
        flag="--speculative-config.draft_model_config",
        offer=lambda _settings, _model: range(9),
        examples=examples.hidden_states,
        tried=(1,),
    )
    kv_cache_dtype_skip_layers: tuple[str, ...] | None = declare(
        None,
        Layers(),
        "Unquantized layers",
        "{flag}: numbers, or sliding_window",
        examples=examples.unquantized_layers,
    )
    hf_overrides: dict[str, Any] | None = declare(  # noqa: RUF009  (a field, as the others)
        None,
        Changes(),
        "Changed config.json",
        "{flag}: RoPE settings, lengths, sizes and architectures, as JSON",
        none="as published",
        of_model=True,
        examples=examples.LENGTHS,
    )
    gdn_flashinfer_prefill: bool | None = declare(
        None,
        Switch(on="flashinfer", off="triton"),
        "GDN prefill",
        "Use FlashInfer for GDN prefill (default on Hopper in 0.33)",
        flag="--gdn-prefill-backend",
        examples=(None, None, True, False),
    )
    rocm_aiter: bool = declare(
        False,
        Switch(),
        "AITER",
        "{flag}=1: AITER's attention is tried on ROCm without a request, too",
        flag="VLLM_ROCM_USE_AITER",
        examples=examples.on_rocm,
    )
    trtllm_kernels: bool = declare(
        False,
        Switch(),
        "TRT-LLM kernels",
        "TRT-LLM kernels are available to FlashInfer (SM10x); enables pages above 64 "
        "tokens in 0.33",
        examples=examples.on_cuda,
    )
