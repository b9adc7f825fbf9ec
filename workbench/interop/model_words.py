"""Words for models of the catalog: all of them, those with some layers, those of a machine."""

KINDS = {
    "mamba1": r"mamba[- ]?1",
    "mamba2": r"mamba[- ]?2",
    "gdn": r"gdn|gated[ -]delta\w*|delta ?nets?",
    "kda": r"kda|kimi[ -]delta\w*",
    "short_conv": r"short[ -]?conv\w*",
    "linear_attention": r"lightning\w*",
    "sliding_attention": r"sliding\w*|windows?|windowed|swa",
    "chunked_attention": r"chunked[ -]attention|attention chunks?",
    "mla": r"mla|latent\w*",
    "ssm": r"mamba|ssm|states?|recurren\w+|linear",
}
"""Kind of a layer or its state -> words for it; "mla": whatever the layers are."""
ANY_KIND = "|".join(KINDS.values())
WITH_LAYERS = (
    r"^(?:(?:which|what|list|show|all|the|me) )*models? (?:that )?(?:have|has|use|with|are|keep)"
)
"""The beginning of a question about models with some layers."""
MODELS = (
    r"^(?:(?:which|what|list|show|me|all|the|of|hybrid|supported|known|available) )*models?"
    r"(?: list)?\W*$|^list (?:.* )?models\b.*|^(?:which|what|how many) (?:\w+ )?models?\b.* (?:sup"
    r"port(?:ed)?|know|there|hybrids?|catalog|have|use|choose|pick)\W*$|models? (?:is|are) (?:sup"
    r"ported|known|available)|supported models"
)
"""Words for all models of the catalog, and not for the present one."""
OF_MACHINES = (
    r"(?:biggest|largest|best|strongest) (?:[\w-]+ )?(?:models?|llms?)\b|"
    r"(?:which|what) (?:[\w-]+ )?(?:models?|llms?) (?:[\w-]+ ){0,3}"
    r"(?:fits?|runs?|starts?|serve|host|load)|"
    r"what (?:can|could|should) (?:i|we) (?:run|serve|host|fit|load)|what (?:fits|runs) (?:on|in)"
)
"""Words for models that a machine has room for."""
SUPPORTING = (
    r"^(?:which|what) (?:[\w-]+ )?models? (?:[\w-]+ )*?"
    r"(?:supports?|works? with|runs? with|starts? with|can use|allows?|accepts?)"
)
"""Words for models with which a setting is possible."""
MEMORY = (
    r"(?<![\w.])(\d{1,3}) ?(?:gb|gib|g)\b(?= .*\b(?:gpus?|cards?|vram|devices?|enough)\b)|"
    r"\bon (?:an? |one )?(\d{1,3}) ?(?:gb|gib)\b(?! (?:of )?(?:the )?(?:kv|cache))"
)
"""The memory of a device that is named by nothing else: "a 24GB GPU", "on 24 GB"."""
ANY_MEMORY = r"(?<![\w.])(\d{1,3}) ?(?:gb|gib)\b"
"""The same, where nothing else can have it: "what can I run on 24 GB?"."""
