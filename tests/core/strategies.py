"""Random but legal models and scenarios for property tests."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from tests.models.configs import (
    Config,
    bailing_hybrid,
    bamba,
    deepseek_v3,
    falcon_h1,
    jamba,
    kimi_linear,
    lfm2,
    llama,
    mamba,
    mamba2,
    minimax_text_01,
    nemotron_h,
    plamo2,
    qwen3_5,
    qwen3_next,
    zamba2,
)
from workbench.core.devices import DEVICES
from workbench.core.dtypes import MODEL_DTYPES, STATE_DTYPES
from workbench.core.platforms import PLATFORMS
from workbench.core.rule_set import RuleSet
from workbench.core.versions import DEFAULT, RULE_SETS
from workbench.models.attention import MLA_MODEL_TYPES
from workbench.models.mtp import READERS
from workbench.scenario import FIELDS, Scenario

Draw = Callable[[st.SearchStrategy[Any]], Any]
HEAD_SIZES = st.sampled_from([32, 64, 80, 96, 128, 192, 256])
STATE_SIZES = st.sampled_from([16, 32, 48, 64, 128, 256])
BYTES = st.sampled_from([0, 2**20, 2**30, 20 * 2**30])
BOOLEANS = st.booleans()
RULES = st.sampled_from([RULE_SETS[name] for name in (DEFAULT, *RULE_SETS.releases)])
CAPABILITIES = st.sampled_from(PLATFORMS["cuda"].capabilities)
TENSOR_PARALLEL = st.sampled_from([1, 2, 4, 8])


# Hypothesis checks and labels every new strategy, which costs more than a draw from it.
integers = cache(st.integers)


@cache
def among(*values: Any) -> st.SearchStrategy[Any]:
    """Any of these values."""
    return st.sampled_from(values)


def _attention(draw: Draw, tensor_parallel: int) -> Config:
    """Heads that split evenly, an integer number of them per KV head."""
    kv_heads = draw(among(1, 2, 4, 8, 16))
    per_rank = draw(integers(1, 4))
    head_size = draw(HEAD_SIZES)
    heads = kv_heads * tensor_parallel * per_rank
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "hidden_size": heads * head_size,
    }


def _mamba2_heads(draw: Draw, tensor_parallel: int) -> tuple[int, int]:
    return tensor_parallel * draw(integers(1, 64)), draw(among(32, 64, 80, 128))


def _nemotron_h(draw: Draw, tensor_parallel: int) -> Config:
    heads, head_dim = _mamba2_heads(draw, tensor_parallel)
    return nemotron_h(
        **_attention(draw, tensor_parallel),
        mamba_num_heads=heads,
        mamba_head_dim=head_dim,
        n_groups=draw(among(1, 2, 8, tensor_parallel, 2 * tensor_parallel)),
        ssm_state_size=draw(STATE_SIZES),
        conv_kernel=draw(integers(1, 8)),
        chunk_size=draw(among(64, 128, 200, 256)),
    )


def _bamba_words(draw: Draw, tensor_parallel: int) -> Config:
    heads, head_dim = _mamba2_heads(draw, tensor_parallel)
    return {
        "mamba_n_heads": heads,
        "mamba_d_head": head_dim,
        "mamba_n_groups": 1,
        "mamba_d_state": draw(STATE_SIZES),
        "mamba_d_conv": draw(integers(1, 8)),
        "mamba_chunk_size": draw(among(64, 128, 200, 256)),
    }


def _bamba(draw: Draw, tensor_parallel: int) -> Config:
    words = _bamba_words(draw, tensor_parallel)
    hidden = words["mamba_n_heads"] * words["mamba_d_head"]
    attention = {**_attention(draw, tensor_parallel), "hidden_size": hidden}
    return bamba(**attention, **words, mamba_expand=1)


def _falcon_h1(draw: Draw, tensor_parallel: int) -> Config:
    words = _bamba_words(draw, tensor_parallel)
    width = words["mamba_n_heads"] * words["mamba_d_head"]
    return falcon_h1(**_attention(draw, tensor_parallel), **words, mamba_d_ssm=width)


def _zamba2(draw: Draw, tensor_parallel: int) -> Config:
    heads = tensor_parallel * draw(integers(1, 8))
    return zamba2(
        num_attention_heads=heads,
        num_key_value_heads=heads,
        hidden_size=heads * draw(among(64, 80, 128)),
        n_mamba_heads=heads * draw(integers(1, 4)),
        mamba_ngroups=1,
        mamba_d_state=draw(STATE_SIZES),
    )


def _plamo2(draw: Draw, tensor_parallel: int) -> Config:
    attention = _attention(draw, tensor_parallel)
    del attention["head_dim"]
    return plamo2(
        **attention,
        mamba_num_heads=tensor_parallel * draw(integers(1, 32)),
        mamba_d_state=draw(STATE_SIZES),
    )


def _jamba(draw: Draw, tensor_parallel: int) -> Config:
    return jamba(**_attention(draw, tensor_parallel), mamba_d_state=draw(STATE_SIZES))


def _lfm2(draw: Draw, tensor_parallel: int) -> Config:
    return lfm2(
        **_attention(draw, tensor_parallel),
        conv_dim=tensor_parallel * draw(integers(1, 4096)),
        conv_L_cache=draw(integers(2, 9)),
    )


def _delta_net(draw: Draw, tensor_parallel: int) -> Config:
    key_heads = tensor_parallel * draw(integers(1, 8))
    return {
        **_attention(draw, tensor_parallel),
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": key_heads * draw(integers(1, 4)),
        "linear_key_head_dim": draw(among(64, 96, 128)),
        "linear_value_head_dim": draw(among(64, 128, 192)),
        "linear_conv_kernel_dim": draw(integers(2, 5)),
    }


def _qwen3_next(draw: Draw, tensor_parallel: int) -> Config:
    return qwen3_next(**_delta_net(draw, tensor_parallel))


def _qwen3_5(draw: Draw, tensor_parallel: int) -> Config:
    stored = draw(among(None, "float32", "bfloat16"))
    return qwen3_5(**_delta_net(draw, tensor_parallel), mamba_ssm_dtype=stored)


def _kimi_linear(draw: Draw, tensor_parallel: int) -> Config:
    heads = tensor_parallel * draw(integers(1, 8))
    linear = {
        **kimi_linear()["linear_attn_config"],
        "num_heads": heads,
        "head_dim": draw(among(64, 128)),
    }
    return kimi_linear(
        num_attention_heads=heads,
        num_key_value_heads=heads,
        kv_lora_rank=draw(among(256, 512)),
        linear_attn_config=linear,
    )


def _minimax(draw: Draw, tensor_parallel: int) -> Config:
    return minimax_text_01(**_attention(draw, tensor_parallel))


def _bailing(draw: Draw, tensor_parallel: int) -> Config:
    heads = tensor_parallel * draw(integers(1, 8))
    return bailing_hybrid(num_attention_heads=heads, num_key_value_heads=heads)


def _llama(draw: Draw, tensor_parallel: int) -> Config:
    return llama(**_attention(draw, tensor_parallel))


def _deepseek(draw: Draw, tensor_parallel: int) -> Config:
    heads = tensor_parallel * draw(integers(1, 8))
    return deepseek_v3(num_attention_heads=heads, num_key_value_heads=heads)


def _mamba(draw: Draw, tensor_parallel: int) -> Config:
    return mamba(intermediate_size=tensor_parallel * draw(integers(1, 4096)))


def _mamba2(draw: Draw, tensor_parallel: int) -> Config:
    heads = tensor_parallel * draw(integers(1, 32))
    return mamba2(num_heads=heads, hidden_size=heads * 64, expand=1, n_groups=1)


HYBRID = (
    _nemotron_h,
    _bamba,
    _falcon_h1,
    _zamba2,
    _plamo2,
    _jamba,
    _lfm2,
    _qwen3_next,
    _qwen3_5,
    _kimi_linear,
    _minimax,
    _bailing,
)
OTHER = (_llama, _deepseek, _mamba, _mamba2)


def _is_mla(config: Config) -> bool:
    return "kv_lora_rank" in config and config["model_type"] in MLA_MODEL_TYPES


@cache
def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


BUDGETS = st.fixed_dictionaries(
    {},
    optional={
        "device_memory_bytes": st.integers(10**6, 2**38),
        "gpu_memory_utilization": st.floats(0.01, 1.0),
        "weights_bytes": st.integers(0, 2**37),
        "activation_bytes": st.integers(0, 2**32),
        "cuda_graph_bytes": st.integers(0, 2**31),
        "max_num_seqs": st.integers(1, 2048),
    },
)

FLEX_SIZES = st.sampled_from([-16, 0, 1, 8, 16, 24, 32, 64, 128])
FLEX = st.fixed_dictionaries(
    {},
    optional={
        "batch_invariant": st.booleans(),
        "torch_version": st.sampled_from([None, "2.8.0", "2.9", "2.9.0.dev20250901", "2.11.0"]),
        "flex_attn_block_m": _maybe(FLEX_SIZES),
        "flex_attn_block_n": _maybe(FLEX_SIZES),
        "flex_attn_q_block_size": _maybe(FLEX_SIZES),
        "flex_attn_kv_block_size": _maybe(FLEX_SIZES),
    },
)

RARE = {
    "disable_hybrid_kv_cache_manager": st.booleans(),
    "hidden_state_layers": st.integers(1, 4),
    "kv_cache_dtype_skip_layers": st.lists(
        st.sampled_from(["0", "1", "3", "99", "sliding_window"]), min_size=1, max_size=3
    ).map(tuple),
}
"""What few people type, and what changes the groups of a cache."""


MTP_PERIOD = st.sampled_from((1, 2, 4))


def _drafting(draw: Draw, model: dict[str, Any]) -> dict[str, Any]:
    """The model with layers for multi-token prediction, or an indexer, where its type has such."""
    found = dict(model)
    if found.get("model_type") in READERS and draw(BOOLEANS):
        found["num_nextn_predict_layers"] = draw(integers(0, 2))
    if _is_mla(model) and draw(integers(0, 3)) == 0 and found["model_type"].startswith("deep"):
        found |= {"index_topk": 64, "index_head_dim": 128, "index_topk_freq": draw(MTP_PERIOD)}
    return found


def _rare(draw: Draw, rules: RuleSet, tensor_parallel: int, *, memory: bool) -> dict[str, Any]:
    layouts = FIELDS["kv_cache_layout"].kind.candidates(rules.name) or ()
    ranks = st.lists(BYTES, min_size=1, max_size=tensor_parallel).map(tuple)
    possible = {**RARE, "kv_cache_layout": among(*layouts)}
    if memory:
        possible["kv_cache_memory_bytes_by_rank"] = ranks
    return draw(st.fixed_dictionaries({}, optional=possible))


@st.composite
def scenarios(
    draw: Draw, families: tuple[Any, ...] = (*HYBRID, *OTHER), *, memory: bool = False
) -> Scenario:
    """Any legal scenario; some of them vLLM refuses, some have problems.

    memory: also how much there is, of the device or in other fields.
    """
    tensor_parallel = draw(TENSOR_PARALLEL)
    model = _drafting(draw, draw(among(*families))(draw, tensor_parallel))
    platform = draw(among(*PLATFORMS))
    rules = draw(RULES)
    backends = [
        name
        for name, backend in rules.backends.items()
        if platform in backend.platforms
        and backend.is_selectable
        and backend.is_mla == _is_mla(model)
    ]
    kv_cache_dtypes = draw(among(("auto", "fp8"), rules.kv_cache_dtypes))
    devices = [name for name, one in DEVICES.items() if one.platform == platform]
    device = draw(_maybe(among(*devices))) if memory and devices else None
    return Scenario(
        model=model,
        rules=rules.name,
        gdn_flashinfer_prefill=draw(_maybe(BOOLEANS)),
        trtllm_kernels=draw(BOOLEANS),
        platform=platform,
        device=device,
        compute_capability=None if device else draw(_maybe(CAPABILITIES)),
        backend=draw(_maybe(among(*backends))) if backends else None,
        tensor_parallel=tensor_parallel,
        dtype=draw(among(*MODEL_DTYPES)),
        kv_cache_dtype=draw(among(*kv_cache_dtypes)),
        mamba_cache_dtype=draw(among(*STATE_DTYPES)),
        mamba_ssm_cache_dtype=draw(among(*STATE_DTYPES)),
        enable_prefix_caching=draw(among(None, True, True, False)),
        mamba_cache_mode=draw(_maybe(among(*rules.cache_modes))),
        block_size=draw(_maybe(among(8, 16, 24, 32, 48, 64, 96, 128, 528, 1024))),
        mamba_block_size=draw(_maybe(among(8, 24, 64, 100, 128, 256, 1000))),
        max_model_len=draw(among(None, -1, 2048, 4096)),
        max_num_batched_tokens=draw(_maybe(among(512, 2048, 8192, 65536))),
        num_speculative_tokens=draw(integers(0, 7)),
        speculative_method=draw(_maybe(among(*rules.speculation.names))),
        kv_cache_memory_bytes=draw(_maybe(BYTES)) if memory else None,
        num_gpu_blocks_override=draw(_maybe(among(1, 2, 1000))) if memory else None,
        **(draw(BUDGETS) if memory else {}),
        **(draw(FLEX) if draw(integers(0, 3)) == 0 else {}),
        **(_rare(draw, rules, tensor_parallel, memory=memory) if draw(integers(0, 3)) == 0 else {}),
    )
