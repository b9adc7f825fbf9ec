"""Words for changes and for blocks that are wanted, in a question about any topic."""

SMALLER = r"(?:smaller|shrink|reduce|lower|shorten) .*blocks?|blocks? .*(?:smaller|shorter)"
"""Words for a smaller block, which other padding does not need."""
ADVICE = r"what (?:can|could|should|must|to|do)(?: i| we)? (?:chang|tun|improv)e(?=\W*$|,)"
IMPROVES = (
    r"reduc\w+|lower|remove|get rid|eliminate|minimi[sz]e|less|smaller|avoid|shrink|more|"
    r"increas\w+|improv\w+|raise|higher|shorten|make it|won't|doesn't|why not|prevent|stop|"
    r"what (?:can|could|should|do) (?:i|we) do|" + ADVICE
)
"""Words for a goal: what changes serve it?"""
GOALS = {"fits": "requests", "hits": "hits", "why": "padding", "start": "starts"}
"""Answer -> the goal by which it gets better."""
CHOICES = {
    "tensor_parallel": r"tp|tensor|gpus?",
    "pipeline_parallel": r"pp|pipeline\w*",
    "data_parallel": r"dp|data[ -]parallel\w*",
    "decode_context_parallel": r"dcp",
    "enable_expert_parallel": r"ep|expert[ -]parallel\w*",
    "kv_cache_dtype": r"fp8|dtype|quanti\w+|8.?bit",
    "mamba_ssm_cache_dtype": r"ssm|states?|float32|bfloat16",
    "num_speculative_tokens": r"mtp|specul\w+|draft\w*|eagle",
    "enable_prefix_caching": r"caching|prefix",
    "mamba_cache_mode": r"align|modes?",
    "max_num_batched_tokens": r"budget|batch\w*",
    "disable_hybrid_kv_cache_manager": r"hybrid (?:kv[ -]?cache[ -]?)?manager|hma",
}
"""Field -> words for a change of it, in a question about what is better."""
WEIGHED = frozenset(
    {"kv_cache_dtype", "num_speculative_tokens", "speculative_method", "draft_model"}
)
"""Fields that a question names to compare their values."""
SEVERAL = r"or|vs|versus|and|between|compare[ds]?"
"""Words for more than one value."""
OF_BOTH = frozenset({"model", "device", "platform", "rules"})
"""Fields of which no values are weighed: they say where."""
SETS = (
    r"happens (?:with|if)|what if|set|use|force|choose|pick|try|get|have|make|take|lower|reduce|"
    r"--block-size"
)
"""Words for a block size that is wanted, in a question about blocks."""

OF_VLLM = r"^why (?:does|did|has|is)"
"""Words for a block size that vLLM has chosen."""
OF_MODELS = r"(?:which|what) models?"
"""Words for models with a block size: it is then not wanted of the present one."""
