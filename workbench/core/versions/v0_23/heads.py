"""Modules whose attention has no parameter for the size of a head (`*Attention.__init__`)."""

from typing import Final

DERIVED_HEADS: Final = frozenset(
    {
        *("arctic", "bagel", "baichuan", "bamba", "bloom", "chameleon", "chatglm", "commandr"),
        *("dbrx", "deepseek_v2", "dots_ocr", "fireredasr2", "flex_olmo", "fuyu", "glm4v", "gpt2"),
        *("gpt_bigcode", "gpt_j", "gpt_neox", "granitemoe", "granitemoehybrid"),
        *("granitemoeshared", "grok1", "internlm2", "internlm2_ve", "iquest_loopcoder", "jamba"),
        *("kimi_audio", "lfm2", "lfm2_moe", "mimo", "mimo_audio", "minicpm", "molmo", "mpt"),
        *("olmo", "olmo2", "olmo_hybrid", "olmoe", "opt", "orion", "ouro", "persimmon", "phi"),
        *("qwen", "qwen2", "qwen2_5_omni_thinker", "qwen2_5_vl", "qwen2_moe", "qwen2_vl"),
        *("qwen_vl", "stablelm", "starcoder2", "step1"),
    }
)
"""`deepseek_v2` is that of the first DeepSeek, which has no latent."""
