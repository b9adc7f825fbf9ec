"""Modules whose attention layers have other heads than config.json says, in vLLM 0.23."""

from types import MappingProxyType

DERIVED_HEADS = frozenset(
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
"""Modules whose attention has no parameter for the size of a head (`*Attention.__init__`);
`deepseek_v2` is that of the first DeepSeek, which has no latent."""

BUILT_KV_HEADS = MappingProxyType(
    {
        "step3_text": 1,
        **dict.fromkeys(("baichuan", "bloom", "gpt2", "gpt_j", "gpt_neox", "olmo", "opt"), 0),
        **dict.fromkeys(("persimmon", "phi", "qwen", "zamba2"), 0),
    }
)
"""Module -> the KV heads that its layers pass to `Attention`; 0: none, so one per query head."""

WHOLE_HEADS = frozenset(
    {
        *("arcee", "aria_text", "cwm", "deepseek_ocr2_text", "deepseek_v2", "eurobert", "gemma2"),
        *("gemma3_text", "gemma3n_text", "gpt_neox", "higgs_audio_v2", "hrm_text", "jais2"),
        *("llama", "t5gemma2_text", "vaultgemma"),
    }
)
"""Types of text whose `validate_architecture` (transformers) wants a hidden_size that the heads
divide, also where the size of a head is stated."""
