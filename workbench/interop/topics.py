"""What questions are about: the words of each topic, and of the choices and kinds inside it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from workbench.interop import change_words, chunk_words
from workbench.interop.model_words import (
    ANY_KIND,
    KINDS,
    MODELS,
    OF_MACHINES,
    SUPPORTING,
    WITH_LAYERS,
)
from workbench.interop.named_fields import FIELD_NAMES
from workbench.interop.words_of_fields import METHOD, USERS


@dataclass(frozen=True)
class Topic:
    """What questions are about. words: a pattern; one of them is enough."""

    words: str
    view: str = ""
    """The explanation that answers, or that is nearest to the lab; empty: the one that is open."""
    lab: str = ""
    is_of_catalog: bool = False
    """Whether the models are listed."""
    special: str = ""
    """Kind of all its questions; see `SPECIAL`. Of the catalog: the layers that models have."""


CAPACITY, OFFLOAD = "Groups and capacity", "Offload and transfer"
FULL = (
    r"preempt\w*|evict\w*|(?:run|runs|ran|running|am|is) out of (?:[\w-]+ ){0,2}(?:cache|blocks?)|"
    r"(?:cache|pool|blocks?) (?:is|are|gets?|becomes?|runs?) (?:\w+ )?(?:full|exhausted|used|out)|"
    r"full kv[ -]?cache|cache (?:is |usage:? )(?:at )?\d+(?:\.\d)? ?%|longer than .*cache"
)
"""Words for a cache that has no free block."""
MIXED = (
    r"mix(?:ed|ing)?(?! precision| dtype)|heterogen\w+|different (?:gpus?|cards?|devices?)|"
    r"(?:gpus?|\w+\d+) together"
)
"""Words for an engine whose devices are not equal."""
SHARED = (
    r"shar(?:e|es|ed|ing) .*(?:cache|memory|pool|tensors?)|(?:cache|memory|pool|tensors?) .*shar\w+"
)
"""Words for layers that share memory."""
OF_STATES = (
    r"(?:mamba|ssm|states?|gdn|linear) .*(?:per|of (?:a|one|each)) (?:request|sequence|user)|"
    r"(?:how much|share|part|percent\w*) of (?:\w+ ){0,2}cache .*(?:mamba|ssm|states?)|"
    r"(?:mamba|ssm|states?) .*(?:grows?|growing|depends?)"
)
"""Words for what states take of the cache."""
DRAFTS = re.compile(rf"\b({METHOD})\b(?! ?\d)", re.IGNORECASE)
"""Drafts whose number is not said."""
DTYPES = re.compile(r"\b(fp8|nvfp4)\b(?! ?(?:kv|weights|checkpoint))", re.IGNORECASE)
"""A dtype of which is not said that it is the cache's."""
CACHING = re.compile(
    r"(?<!\bis )(?<!\bturn )(?:(?:and |with |, ?)(?:the )?)?"
    r"prefix caching (on|enabled|off|disabled)"
    r"(?=\W*$|[,:;?]| (?:and|for|with|at|in)\b)",
    re.IGNORECASE,
)
"""A setting, in a question about something else or about hits."""
MULTIPLES = r"multiples? of|granularit\w+"
"""Words for the unit of hits."""
LIMITS = re.compile(
    r"what (?:happens|if) .*(?:than|above|below|exceed\w*|too|over|off|without)\b.*|"
    r"why .*(?:needs?|requires?|must)\b.*|.*\blimits?\b.*",
    re.IGNORECASE,
)
"""Questions about what vLLM checks of a field."""
BYTE = r"bytes? (?:number |no\.? ?)?(\d[\d,]*)"
NUMBER = r"(?<![\w.,])\d[\d,]{1,11}\b(?! ?(?:[kKmMgG]i?[bB]|bytes?)\b)"
CONCURRENCY = re.compile(
    r"concurren\w+.*?(?<![\w.])(\d[\d,]*(?:\.\d+)?) ?(?:x|times)\b", re.IGNORECASE
)
"""What vLLM prints of the longest requests: "Maximum concurrency ...: 1.90x"."""
PADDING = re.compile(r"(?<![\w.])(\d{1,2}(?:\.\d+)?) ?%")
"""How much of a page is padding."""
TERMS = r"weights?|parameters|activations?|(?:cuda[ -]?)?graphs?|(?:non|outside)[ -]torch"
"""Words for what takes memory besides the cache."""
BARE_WHY = (
    r"^why(?:\W+(?:is|are|was|does|do|not|so|this|that|it|these|the|my|exactly|numbers?|values?|"
    r"results?|big|large|high|much|many|small|low|few))*\W*$"
)
"""A why about what is on the screen, and not about something else in the world."""
CHUNKS = Topic(chunk_words.STORED, "fits", "Chunks")
OF_SIZES = rf"{BARE_WHY}|blocks?|sizes?|padding|waste\w*|page\w*|align\w*|states?|--block-size"
WHY = Topic(rf"{OF_SIZES}|{NUMBER}|\d[\d.]* ?[kmg]i?b", "why")
PLAIN_WORDS = re.compile(
    r"(?:(?:why|my|the|its?|is|an?|so|got|i|see|vllm|log|it|now|says?|said|shows?|prints?|gives?|"
    r"number|value|of|tokens?)\b|\W|\d)+",
    re.IGNORECASE,
)
"""Words around a number that can be a block size, although nothing says of what it is."""
OF_BYTES = r"bytes?(?! per )|address|offset|where is (?:a |the )?(?:\w+ )?(?:token|head|block)"
BYTES = Topic(OF_BYTES, "why", "Page bytes")
VERSIONS = Topic(
    r"0\.\d\d.*0\.\d\d|(?:chang|differ)\w+ .*0\.\d\d|versions?|releases?|upgrad\w+|update[sd]?|"
    r"#?37467.* chang\w+|chang\w+ .*#?37467|0\.\d\d (?:better|help|fix|solve|improve|chang)\w*",
    "versions",
    "Versions",
)
OF_REQUESTS = (
    r"(?:cache|memory|gi?b|bytes) (?:for|of|do(?:es)?|are|is) [\d,.]+[km]? (?:tokens?|context)|"
    rf"footprint|(?:requests?|prompts?|{USERS}) (?:(?:of|with) (?:\S+ ){{1,2}}(?:tokens? )?)?"
    r"(?:costs?|takes?|uses?|needs?)|how (?:big|large) is (?:an?|one|each) (?:request|prompt)|"
    r"costs? (?:of )?(?:a|one|each) (?:\S+ ){0,3}(?:request|prompt)"
)
"""Words for what one request takes."""
OF_DRAFTER = (
    r"(?:drafters?|draft models?|drafting|speculative decoding|speculation) (?:costs?|takes?|uses?|"
    r"needs?|eats?)|costs? of (?:the |my |a )?(?:drafter|draft model|drafting)"
)
"""Words for what the drafter takes, of whatever method it is."""
OF_TOKENS = r"per (?:one |single )?token|(?:one|a|each|every|single) (?:more |new )?token"
"""Words for what one token takes."""
TRANSFER = (
    r"transfer\w*|disaggregat\w*|prefill\w*\W.*\bdecod\w*|decod\w*\W.*\bprefill\w*|nixl(?!.*chunk)"
)
SIZE_OF_CACHE = (
    r"(?:size|left|leave\w*|remain\w*|room|space|memory) (?:[\w']+ ){0,3}cache|cache size|"
    r"tokens? (?:\w+ ){0,2}(?:fits?|in|into) (?:[\w-]+ ){0,3}cache|how much (?:kv )?cache fits?"
)
"""Words for how large the cache is, rather than for what it holds again."""
HOW_LONG = (
    r"how (?:long|large|big) (?:an? |the )?(?:contexts?|prompts?|requests?)(?! (?:is|takes?)\b)"
)
STEPS = Topic(r"(?:all|which|show|the|explain) (?:the )?steps?|step \d+(?!\.\d)", "why")
STEP = r"\bstep (\d{1,3})\b"
STATES = (
    r"(?:conv|recurrent|ssm|mamba\d?|gdn|kda|delta|layer) states?|states? (?:size|dtype|bytes)|"
    r"(?:size|dtype|bytes) of (?:\w+ )*states?|how (?:big|large|small) .*states?"
)
"""Words for the state of one layer."""
METRICS = (
    r"metrics?|prometheus|grafana|monitor\w*|vllm:\w+|"
    r"(?:see|check|measure|watch|observe) .*(?:rate|usage|used|utili[sz]ation)"
)
"""Words for what a running server reports."""
ANY_CHANGE = Topic(
    rf"what if|what changes|can (?:i|we|you)|enabl\w+|disabl\w+|turn|us(?:e|ing)|{FIELD_NAMES}",
    "what_if",
    "Sweeps",
)
TOPICS = (
    *(
        Topic(rf"{WITH_LAYERS} (?:[\w-]+ )*(?:{words})", is_of_catalog=True, special=kind)
        for kind, words in KINDS.items()
    ),
    Topic(MODELS, is_of_catalog=True),
    Topic(f"{OF_MACHINES}|{HOW_LONG}", "fits"),
    Topic(FULL, "fits", CAPACITY),
    Topic(MIXED, "fits", CAPACITY),
    Topic(SUPPORTING, "start"),
    Topic(METRICS, special="metrics"),
    Topic(r"lessons?|learn\w*|tutorials?|exercises?", special="lessons"),
    STEPS,
    Topic(r"block tables?|slot mappings?", "", "Block tables"),
    Topic(
        r"kernels? (?:is |are |still )?(?:right|correct|wrong|exact)|run .*kernels?|"
        r"batch[- ]invarian\w+|bitwise",
        "",
        "Flex attention",
    ),
    Topic(r"(?:my|own|real|installed) vllm|live check|verif\w+", "", "Live check"),
    BYTES,
    Topic(rf"offload\w*|connectors?|{TRANSFER}", "fits", OFFLOAD),
    Topic(f"{OF_STATES}|{OF_DRAFTER}", "fits", CAPACITY),
    Topic(
        rf"groups?|padding layers?|{SHARED}|num_gpu_blocks|(?:number of|how many) blocks",
        "",
        CAPACITY,
    ),
    Topic(
        r"fields?|config(?:\.json)?|layers|heads?|windows?|sliding\w*|"
        rf"^(?:is|are|does|do|has|have) (?:\S+ ){{1,4}}"
        rf"(?:(?:an?|use|have|keep|any) )*(?:hybrids?|{ANY_KIND})",
        "why",
        "Model fields",
    ),
    Topic(
        r"backends?|kernels?|flash\w+|flash[ -]att\w+|triton|flex\w*|\w+_(?:attn|mla)\w*",
        "start",
        "Backends by TP",
    ),
    CHUNKS,
    VERSIONS,
    Topic(
        r"(?:vllm|serve|full|whole|the|what|which) (?:command|flags|yaml)|compose|export\w*",
        "",
        "Export",
    ),
    Topic(
        r"tokens? per second|tok/s|tps|throughput|latency|ttft|tpot|speed|"
        r"how (?:fast|quick|slow)|how long (?:is|are|does|do|will) .*(?:prefill|decode|takes?)",
        "",
        "Kernel sweeps",
    ),
    Topic(r"sweeps?|sweeping|pareto|grid search", "what_if", "Sweeps"),
    Topic(SIZE_OF_CACHE, "fits", CAPACITY),
    Topic(
        r"tensors?(?![ -]parallel)|shapes?|strides?|(?:cache|memory|page) layouts?|layouts? of|"
        r"(?:is|are) (?:in|inside) (?:a|one|the|each) (?:block|page)",
        "why",
        "Page bytes",
    ),
    Topic(
        r"hits?(?! (?:a |the )?block (?:size )?(?:of )?\d)|hitting|prefix\w*|reus\w+|"
        r"(?<!kv[ -])cach(?:e|es|ed|ing)",
        "hits",
        "Prefix hits",
    ),
    Topic(
        rf"how (?:many|much)|{OF_REQUESTS}|kv[ -]cache (?:size|memory)|{OF_TOKENS}|"
        r"tokens? of (?:the )?(?:kv[ -]?)?cache",
        "fits",
        CAPACITY,
    ),
    Topic(
        r"or|vs|versus|better|best|optimal|efficient|improve|instead|faster|cheaper|worth|"
        r"costs?|eats?|hurts?|"
        r"affects?|impacts?|benefits?|brings?|doubl\w+|halv\w+|"
        r"needs? (?:more|extra|additional)|"
        r"gains?|saves?|helps?|(?:which|what) (?:tp|tensor[ -]parallel\w*) .*(?:padd\w+|blocks?)|"
        r"difference between|(?:do|does|will|would|can|could) .*(?:chang|influenc|enlarg|rais)\w+|"
        r"^(?:does|will|would) (?!i |we |vllm ).*(?:reduc|lower|shrink|increas|cut)\w*",
        "what_if",
        "Sweeps",
    ),
    Topic(
        r"start\w*|support\w*|possible|allowed|valid|legal|boot\w*|launch\w*|runs?|"
        r"(?:i|we|you|it) serve|crash\w*|oom|fails?|errors?|work\w*",
        "start",
    ),
    Topic(
        rf"{TERMS}|fits?|memory|vram|concurren\w+|requests?|prompts?|{USERS}|capacity|enough|gpus?|cards?|cheapest|"
        r"(?:full|small|out of) kv[ -]?cache|kv[ -]?cache (?:is |too )*(?:full|small)|"
        r"batch size|max\w* batch|"
        r"(?:which|what) (?:tp|tensor[ -]parallel\w*)|context|(?:max\w*|longest) length|"
        r"max\w*[-_ ]model[-_ ]len\w*",
        "fits",
    ),
    Topic(STATES, "why", "Page bytes", special="state"),
    WHY,
    ANY_CHANGE,
    Topic(r"kv[ -]?cache", "fits", CAPACITY),
)
"""The first that fits is taken: the special ones, the four answers, then any other change."""

LENGTH = (
    r"(?<![\w.,])(?:(\d[\d,.]*[km])\b|(\d[\d,]{2,})[ -]tokens?\b|"
    rf"(?:request|prompt)s? (?:of|with) (\d[\d,]*)\b(?! ?gi?b| (?:{USERS}|requests|at a time))|"
    r"(\d[\d,]*)[ -]tokens? (?:request|prompt))"
)
"""A request length in a question that is not about a block; drafts are fewer tokens."""
OF_LENGTH = r"context|length|model len\w*|prompts?|requests?"
NOT_DEVICES = r"requests|prompts|tokens|users|blocks|bytes|layers"
SPECIAL = {
    "models": OF_MACHINES,
    "full": FULL,
    "mixed": MIXED,
    "states": OF_STATES,
    "drafter": OF_DRAFTER,
    "terms": r"(?:size|memory|bytes|gib|gb|(?:how|what) (?:is|are|big|large|much|many)) .*"
    rf"(?:{TERMS})|(?:{TERMS}) (?:of|takes?|uses?|needs?|size|memory|bytes)|"
    rf"(?:{TERMS}) per (?:gpu|rank|device)|"
    rf"^(?:{TERMS})\W*$",
    "transfer": TRANSFER,
    "concurrency": r"concurren\w+ .*(?:times|x|\*|length|len).*cache|cache .*concurren\w+",
    "groups": rf"groups?|padding layers?|{SHARED}",
    "token": OF_TOKENS,
    "cache": rf"(?!.*(?:{OF_REQUESTS}))"
    r"(?:how (?:much|big|large)|size of|tokens? of|little|small) .*cache|"
    rf"{SIZE_OF_CACHE}|cache (?:is )?(?:so |too |very )*(?:small|little)|cache (?:size|memory)|"
    r"how many tokens|num_gpu_blocks|(?:number of|how many) blocks(?! .*(?:request|prompt))",
    "longest": rf"{HOW_LONG}|max\w*[-_]model[-_]len\w*|"
    rf"how (?:long|large|big) (?:can|may|could) .*(?:{OF_LENGTH})|"
    rf"(?:max\w*|longest|largest|biggest|full) (?!concurr)(?:\w+ )?(?:{OF_LENGTH})",
    "any device": r"cheapest|(?:smallest|which|what) (?:kind of |type of |(?!number)\w+ )?"
    r"(?:gpus?(?! memory)|devices?|cards?|hardware)",
    "devices": r"(?:how many|fewest|minimum|least|what number of) (?:number of |\w+ )?"
    r"(?:gpus?(?! memory)|devices?|cards?)|(?:which|what) (?:tp|tensor[ -]parallel\w*)|"
    rf"how many (?!(?:\w+ ){{0,2}}(?:{NOT_DEVICES}))(?:\w+ ){{1,3}}(?:for|do|to|are)",
    "needs": rf"(?!.*(?:{OF_REQUESTS}|{OF_TOKENS}|cache|states?))(?:memory|vram) "
    r"(?:(?:is |are )?(?:need|requir)\w*|for|(?:do|does|i|we|to) .*(?:need|requir|run|serv)\w*)",
    "request": r"(?:memory|bytes|gib|gb|vram|size|cache|blocks) .*"
    r"(?:requests?|prompts?|users?|context)|" + OF_REQUESTS,
}
"""Kind of question -> words for it; each has an answer of its own."""
WHAT_TO_CHANGE = Topic(change_words.ADVICE, "fits")
"""Words for changes of any kind, next to whatever else is in question."""
