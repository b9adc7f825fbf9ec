"""The messages about what vLLM changes by itself while it starts, in the order of a start."""

from typing import Any

from workbench.interop.logs.message import Compare, Values, message


def _capability_field(values: Values) -> dict[str, Any]:
    """Return the compute capability of `sm90` or `sm103`; the last digit is the minor one."""
    digits = str(values["arch"])
    return {"compute_capability": f"{digits[:-1]}.{digits[-1]}"}


DECIDED = (
    message(
        "dtype_not_supported",
        r"doesn't support torch\.\w+\. `Falling back to torch.`(?P<dtype>\w+) for compatibility",
        "The device cannot compute with the dtype of the checkpoint.",
    ),
    message(
        "state_dtype_overridden",
        r"`specifies mamba_ssm_dtype='`(?P<configured>\w+)' in its config, but "
        r"--mamba-ssm-cache-dtype='(?P<mamba_ssm_cache_dtype>\w+)' was passed",
        "States are kept in the requested dtype, and not in the one that config.json asks for.",
        is_explicit=True,
    ),
    message(
        "state_dtype_of_the_model",
        r"`Updating mamba_ssm_cache_dtype to `'(?P<state_dtype>\w+)' for NemotronH model",
        "No dtype was requested for the states, so the model's is taken.",
        "float16 or bfloat16 states take half: --mamba-ssm-cache-dtype.",
        compares=(Compare("state_dtype", of="mamba_ssm_cache_dtype", rules=()),),
    ),
    message(
        "gemma_heads",
        r"`Gemma4 model has heterogeneous head dimensions` .{0,200}?(?:\.|\)) "
        r"(?:FA4 not available, forcing|Forcing) TRITON_ATTN backend",
        "Layers have heads of two sizes, and one backend computes all of them.",
    ),
    message(
        "budget_raised",
        r"`Raising max_num_batched_tokens from` (?P<before>\d+) to "
        r"(?P<max_num_batched_tokens>\d+) to accommodate",
        "One step must hold a whole image, audio or video, because it is not split.",
        compares=(Compare("max_num_batched_tokens", rules=(), unit="tokens"),),
    ),
    message(
        "scheduled_tokens",
        r"`max_num_scheduled_tokens is set to` (?P<scheduled_tokens>\d+) based on the speculative "
        r"decoding settings\. This may",
        "Tokens of a step that are left for requests: drafts take the others.",
        "Raise --max-num-batched-tokens, or lower num_speculative_tokens.",
        is_distinct=False,
    ),
    message(
        "hybrid_manager_of_connector",
        r"`Turning off hybrid kv cache manager` because",
        "The KV connector cannot handle several groups. Models with states then do not start, and "
        "layers with a window keep every token.",
        "Use a connector that supports hybrids.",
        fields={"disable_hybrid_kv_cache_manager": True},
    ),
    message(
        "hybrid_manager_not_used",
        r"`Hybrid KV cache manager is disabled for this` hybrid model",
        "Layers with a window keep every token, as those of full attention do.",
        "Omit --disable-hybrid-kv-cache-manager.",
        fields={"disable_hybrid_kv_cache_manager": True},
    ),
    message(
        "windows_as_full_attention",
        r"`KV cache page sizes cannot be unified; treating` sliding-window layers as full "
        r"attention",
        "Pages of layers with a window cannot be made as large as the others, so these layers keep "
        "every token.",
    ),
    message(
        "expert_parallel",
        r"`Expert parallelism is enabled`\.",
        "Ranks have whole experts, instead of a share of every expert.",
        fields={"enable_expert_parallel": True},
    ),
    message(
        "backend_layout",
        r"Using (?P<layout>[A-Z]+) `KV cache layout for` (?P<backend>\w+) backend",
        "The order of heads and tokens in a block, as this backend requires it.",
    ),
    message(
        "query_dtypes",
        r"`FlashInfer resolved query dtypes: `.{0,300}?\barch=sm(?P<arch>\d{2,3})\b",
        "FlashInfer runs the attention, on a device of this compute capability.",
        fields=_capability_field,
        is_distinct=False,
    ),
    message(
        "whole_block_hits",
        r"`Disabling fine-grained prefix-cache hits` because these KV cache managers",
        "Prefixes hit in whole blocks of every group, not in parts of them.",
    ),
)
"""Messages about what vLLM decides."""
