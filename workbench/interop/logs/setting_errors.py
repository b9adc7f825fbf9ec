"""The messages of fatal errors about one setting; see `MESSAGES` in `find`."""

from workbench.interop.logs.facts import entries, logged_fields
from workbench.interop.logs.message import fatal

FLEX = {"backend": "FLEX_ATTENTION"}

SETTING_ERRORS = (
    fatal(
        "flex_power_of_two",
        r"flex_attn_(?P<side>q|kv)`_block_size must be a power of 2`",
        "Flex attention's mask blocks must be powers of two; an aligned block of a hybrid is "
        "not one.",
        "Set --attention-config.flex_attn_kv_block_size 16, or a power of two as --block-size.",
        fields=FLEX,
        codes=("flex_block_not_power_of_2", "flex_block_not_divisible"),
    ),
    fatal(
        "flex_tile_too_large",
        r"flex_attn_block_(?P<side>[mn]) \((?P<tile>\d+)\) `must be <= cache block size` "
        r"\((?P<block_size>\d+)\)",
        "Batch invariance ties the tile to the cache block, which is checked before it grows.",
        "Use a tile of at most --block-size.",
        fields=lambda values: {
            **FLEX,
            f"flex_attn_block_{values['side']}": values["tile"],
            "batch_invariant": True,
        },
        codes=("flex_tile_exceeds_cache_block",),
    ),
    fatal(
        "flex_cache_block",
        r"`FlexAttention currently requires the cache block size`",
        "The direct build of the mask takes one cache block per mask block.",
        "Set --attention-config.flex_attn_kv_block_size equal to the cache block, or 16.",
        fields=FLEX,
    ),
    fatal(
        "layout_unknown",
        r"`Cannot determine layout for tensor of shape` (?P<shape>torch\.Size\(\[[\d, ]*\]\))",
        "A runner guesses from the shape which dimension counts blocks; with two both could.",
        "Give the pool more than two blocks (vllm#37236).",
    ),
    fatal(
        "backend_not_valid",
        r"Selected backend (?:AttentionBackendEnum\.)?(?P<backend>\w+) "
        r"`is not valid for this configuration`\. Reason: (?P<reasons>\[[^\]]*\])",
        "The requested backend does not support this model, dtype or device.",
        "Omit --attention-backend, or choose one that the reasons do not exclude.",
        fields=lambda values: {"backend": values["backend"]},
        codes=("backend_not_valid",),
    ),
    fatal(
        "no_valid_backend",
        r"`No valid attention backend found` for (?P<device>\w+) with "
        r"(?:AttentionSelectorConfig\((?P<selector>[^()]*)\)|head_size)",
        "Every backend of the platform has a reason against it.",
        "Change what most reasons name: KV dtype, head size, block size or device.",
        fields=lambda values: logged_fields(
            {"device_config": values["device"], **entries(values.get("selector", ""))}
        ),
        codes=("no_valid_backend",),
    ),
    fatal(
        "too_long",
        r"max_model_len \((?P<max_model_len>\d+)\) `is greater than the derived max_model_len` "
        r"\(\w+=(?P<derived>[\d.]+|None) or",
        "The requested length is above the limit in config.json.",
        "Use the derived length, or VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 at your own risk.",
        codes=("max_model_len_too_long",),
        is_distinct=False,
    ),
    fatal(
        "heads_not_divisible",
        r"`Total number of attention heads` \((?P<heads>\d+)\) must be divisible by tensor "
        r"parallel size \((?P<tensor_parallel>\d+)\)",
        "Attention heads are spread evenly over the ranks.",
        "Use a --tensor-parallel-size that divides the heads.",
        codes=("heads_not_divisible",),
    ),
    fatal(
        "mamba_block_without_caching",
        r"`--mamba-block-size can only be set with` --enable-prefix-caching",
        "Without prefix caching a state block spans the longest request.",
        "Add --enable-prefix-caching, or omit --mamba-block-size.",
        fields={"enable_prefix_caching": False},
        codes=("mamba_block_size_without_prefix_caching",),
    ),
    fatal(
        "nvfp4_with_mla",
        r"`nvfp4 KV cache is not supported with MLA`",
        "MLA keeps one latent vector per token, which has no nvfp4 form.",
        "Use --kv-cache-dtype fp8 or auto.",
        fields={"kv_cache_dtype": "nvfp4"},
        codes=("nvfp4_with_mla",),
    ),
)
"""Errors of single settings, in the order of a start."""
