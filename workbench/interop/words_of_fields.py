"""Words that set fields of a scenario: "4 x H100", "fp8 KV", "MTP 1", "prefix caching", "32k"."""

import re
from collections.abc import Callable, Iterable

from workbench.core.versions import RULE_SETS
from workbench.interop import field_readers as readers
from workbench.interop.field_readers import (
    ADAPTERS,
    BACKENDS,
    BITS,
    BLOCK_SIZE,
    CACHE_MEMORY,
    COUNT,
    DRAFTED,
    DRAFTING,
    EAGER,
    FAMILY,
    GRAPH_MODE,
    MEMORY,
    NO_HYBRID_MANAGER,
    NUMBERS,
    ONLY_BITS,
    PLATFORMS,
    RANKS,
    SEQUENCES,
    SHARE,
    SHORT_WORDS,
    STEP_TOKENS,
    Fields,
    of_field,
)
from workbench.interop.named_fields import LABELLED, NAMED_FIELD, labelled_field, named_field
from workbench.models.names import QUANTIZED
from workbench.scenario import FIELDS

Read = Callable[..., Fields | None]
OF_THE_CACHE = ("kv_cache_dtype", "quantization", DRAFTED, "speculative_method", "draft_model")
NAMED = frozenset(
    {"model", FAMILY, BITS, "device", "platform", "rules", COUNT, *RANKS.values(), *OF_THE_CACHE}
    | {CACHE_MEMORY, "enable_prefix_caching", SHARE, STEP_TOKENS, SEQUENCES, EAGER, GRAPH_MODE}
    | {"enable_expert_parallel", ADAPTERS, NO_HYBRID_MANAGER}
)


PLATFORM_NAMES = "|".join((*PLATFORMS, *FIELDS["platform"].kind.candidates(RULE_SETS.newest)))
METHODS = FIELDS["speculative_method"].kind.candidates(RULE_SETS.newest)
METHOD = rf"(?>{'|'.join(sorted(METHODS, key=len, reverse=True))})"
"""Atomic: the 3 of eagle3 is not its number of tokens."""
WITHOUT = r"no|without|disabl\w+|remov\w+|drop\w*|turn(?:ing)? off"
DRAFTER = r"draft(?:er|ing)?(?: model)?"
DRAFTING_WORDS = rf"(?:speculat\w+(?: decoding)?|{METHOD}(?: 1)?|drafter|drafts?)"
DRAFT_TOKENS = r"(?:drafts?|(?:draft|spec(?:ulative)?) ?tokens?)"
DRAFTS = rf"({METHOD})(?:(?:[ =]| with |,? k ?= ?)?(\d{{1,3}})(?: {DRAFT_TOKENS}| tokens?)?)?"
CACHING = r"(no |without )?prefix caching(?: (?:on|enabled)| (off|disabled))?"
BACKEND = rf"(?:(?:with|using) )?({'|'.join(BACKENDS)})"
CACHE_DTYPES = FIELDS["kv_cache_dtype"].kind.all_words()
DTYPES = "|".join(sorted({*CACHE_DTYPES, *SHORT_WORDS}, key=len, reverse=True))
HOW_MANY = rf"\d{{1,4}}|{'|'.join(NUMBERS)}"
GPUS = rf"\d{{1,3}}|{'|'.join(NUMBERS)}"
"""How many devices: four digits are the name of one, 5070 Ti."""
QUANTIZED_WITH = rf"(bitsandbytes|{QUANTIZED.pattern})(?: quanti[sz]\w+)?"
USERS = r"users?|people|persons?|clients?|sessions?|conversations?"
AT_A_TIME = (
    rf"({HOW_MANY}) (?:(?:concurrent|parallel|simultaneous)(?: (?:requests?|prompts?|{USERS}))?|"
    rf"requests?|prompts?|{USERS})"
    r"(?: (?:at (?:a time|once)|in parallel|concurrently|simultaneously))?"
)
"""How many requests at a time; a length has its unit, or the K of 32K."""
WEIGHTS = "awq|gptq|fp8|bnb|autoround"
"""Methods that the names of checkpoints end with."""
ALONE = r"(?!bf16|fp16)(\w+|\d-bits?)"
SIZE, CACHE = r"\d[\d.]* ?[gt]i?b", r"(?:kv[ -]?)?cache"
KV = r"kv(?:[ -]?cache)?(?: d?type)?"
STATES = r"(?:mamba|ssm|gdn|recurrent)[ -](?:ssm[ -])?(?:states?|cache)"
CONTEXT = r"(?:max )?(?:context|ctx|seq|sequence)?[ -]?(?:len|length|window|size)|context|ctx"
OVER_NODES = rf"(?: (?:on|over|across|in) (?:{GPUS}) nodes?)?"
"""Which node a device is in changes no rank."""
OF_LENGTH = rf"tokens?|requests?|prompts?|{CONTEXT}"
DEVICE = r"(?:[a-z]\w*|(?<!\d)\d{4}(?:ti)?)(?:[ -]\w+)*"
OF_DEVICES = rf"(?:(?:{GPUS})(?: ?[x*\u00d7] ?| ))?(\d{{1,3}} ?(?:gb|gib))(?: gpus?| cards?)?"
EAGERLY = r"(?:enforce[ -])?eager(?:[ -]mode)?"
OF_ALL = r"0?\.\d+|[1-9]\d"
UTILIZATION = r"(?:gpu )?(?:mem(?:ory)? )?util(?:i[sz]ation)?"
OF_MEMORY = r"0?\.\d+|[1-9]\d ?%"
"""A share of the memory that is not called utilization: its number alone says nothing."""
GRAPHS = r"(?:cuda ?)?graphs?"
MANAGER = r"hybrid (?:kv[ -]?cache[ -]?)?manager"
BATCH = r"batch(?:[ -]size)?(?: of|=)? ?(\d{1,4})"
"""Requests at a time, as people say it who have measured a batch."""
SAID: tuple[tuple[str, Read], ...] = (
    (NAMED_FIELD, named_field),
    (LABELLED, labelled_field),
    (
        rf"(?:(?:device|gpu):? )?(?:({GPUS}) ?[x*\u00d7]? ?)?({DEVICE}?)(?: gpus?)?{OVER_NODES}",
        readers.devices,
    ),
    (rf"({DEVICE}?) ?[x*\u00d7] ?(\d{{1,4}})", lambda name, count: readers.devices(count, name)),
    (
        rf"({GPUS}) nodes?(?: of| x)? ({GPUS}) ?[x*\u00d7]? ?({DEVICE}?)(?: gpus?)?",
        readers.on_nodes,
    ),
    (rf"({GPUS}) gpus?{OVER_NODES}", readers.devices_of),
    (rf"({PLATFORM_NAMES})(?: gpus?)?", readers.platform),
    (rf"({'|'.join(RANKS)})[ =]?(\d{{1,4}})", lambda word, n: {RANKS[word.upper()]: int(n)}),
    (r"block[ -]size(?: of)? (\d[\d,]*)", of_field(BLOCK_SIZE)),
    (r"(?:ep|expert parallel(?:ism)?)(?:[ =]?(\d{1,3}))?", readers.experts_parallel),
    (rf"{KV}[ =](\w+)|(\w+) {KV}", lambda first, last: readers.dtype(first or last)),
    (rf"8-?bits? {KV}|{KV} 8-?bits?", lambda: readers.dtype("fp8")),
    (
        rf"{STATES}(?: d?type)? (\w+)|(\w+) {STATES}",
        lambda first, last: readers.dtype(first or last, "mamba_ssm_cache_dtype"),
    ),
    (r"(?:(?:with|using) )?([\w-]+) (?:weights|checkpoint)", readers.weights),
    (ALONE, readers.dtype_alone),
    (QUANTIZED_WITH, lambda name: readers.dtype(name, "quantization")),
    (DRAFTS, readers.drafts),
    (
        rf"(\d{{1,3}}) ({METHOD})(?: {DRAFT_TOKENS}| tokens?)?",
        lambda count, method: readers.drafts(method, count),
    ),
    (rf"(\d{{1,3}}) {DRAFT_TOKENS}", lambda n: {DRAFTED: int(n)}),
    (r"speculative decod\w+|speculation|drafts?", lambda: {DRAFTING: True}),
    (rf"(?:with |using )?(.+) as (?:an? |the )?{DRAFTER}", readers.draft_model),
    (rf"(?:with |using )?{DRAFTER} (.+)", readers.draft_model),
    (rf"(?:{WITHOUT}) (?:the )?{DRAFTING_WORDS}", readers.no_drafter),
    (CACHING, lambda no, off: {"enable_prefix_caching": not (no or off)}),
    (
        rf"({SIZE})(?: of| for)?(?: the)? {CACHE}|{CACHE}(?: of| size)? ({SIZE})",
        of_field(CACHE_MEMORY),
    ),
    (rf"({OF_ALL}) ?%? {UTILIZATION}|{UTILIZATION}(?: of|=)? ?({OF_ALL}) ?%?", readers.share),
    (rf"({OF_MEMORY})(?: of)?(?: the)?(?: gpu)? (?:memory|mem|vram)", readers.share),
    (
        r"([\d,.]+k?) batched[ -]tokens|batched[ -]tokens(?: of|=)? ?([\d,.]+k?)",
        of_field(STEP_TOKENS),
    ),
    (r"(?:max )?(?:num )?seqs(?: of|=)? ?(\d+)|(\d+) (?:max )?(?:num )?seqs", of_field(SEQUENCES)),
    (EAGERLY, lambda: {EAGER: True}),
    (rf"(?:{WITHOUT}) {GRAPHS}|{GRAPHS} off", lambda: {GRAPH_MODE: "NONE"}),
    (rf"(?:{WITHOUT}) (?:the )?{MANAGER}|{MANAGER} off", lambda: {NO_HYBRID_MANAGER: True}),
    (r"(?:with )?loras?(?: adapters?)?", lambda: {ADAPTERS: True}),
    (BACKEND, readers.backend),
    (OF_DEVICES, lambda size: {MEMORY: size}),
    (r"vllm ?v?(\S+)", readers.version_of_vllm),
    (AT_A_TIME, readers.requests),
    (rf"({HOW_MANY}) ?[x*\u00d7] ?([\d,.]+[km])(?:[ -](?:{OF_LENGTH}))?", readers.requests_of),
    (rf"(?:(?:of|with|and) )?([\d,.]+[km])(?:[ -](?:{OF_LENGTH}))?(?: each)?", readers.length),
    (rf"(?:(?:of|with|and) )?([\d,.]+)[ -](?:{OF_LENGTH})(?: each)?", readers.length),
    (r"(?:(?:of|with|and) )?([\d,.]+)(?: each)?", readers.length_alone),
    (rf"(?:{CONTEXT}) ([\d,.]+[km]?)", readers.length),
    (r"(?:model:? )?([\w./~-]+(?: [\w.-]+){0,4})", readers.model),
    (rf"([\w.-]+?)-({WEIGHTS})(?:-(?:u?int\d|\dbit|w\da\d+|dynamic|block))*", readers.quantized),
)
"""Pattern of words -> the fields that they set, None if the words inside are something else."""
WORDS_ALONE = (ALONE, QUANTIZED_WITH, DRAFTS, CACHING, OF_DEVICES, EAGERLY, BACKEND)
"""Patterns of words that a sentence has in another meaning, too: "does fp8 help?"."""
IN_A_SENTENCE: tuple[tuple[str, Read], ...] = (
    *((pattern, read) for pattern, read in SAID if pattern not in WORDS_ALONE),
    (DRAFTS.removesuffix("?"), readers.drafts),
    (rf"({ONLY_BITS.pattern})(?: quanti[sz]\w+| weights)?", lambda bits: {BITS: bits}),
    (r"(?:with|using) (\w+)|(\w+_e\dm\d)", lambda *names: readers.dtype(next(filter(None, names)))),
    (rf"(?:with|in|using) {EAGERLY}", lambda: {EAGER: True}),
    (r"with(out)? prefix caching", lambda out: {"enable_prefix_caching": not out}),
    (rf"(.+) ({WEIGHTS.replace('fp8|', '')})", readers.quantized),
    (r"(?:weights|checkpoint) (?:are|is|in|as) (\w+)", readers.weights),
    (rf"(?:on|for|with) ({PLATFORM_NAMES})", readers.platform),
    (r"(?:in|on|under|with) v?(\d+\.\d+)", readers.version),
    (r"(?:and|with|plus|using) (?:ep|expert parallel(?:ism)?)", readers.experts_parallel),
)
DESCRIBED: tuple[tuple[str, Read], ...] = (
    *SAID,
    (rf"({DEVICE}?) ([1-9]|16|32|64)", lambda name, count: readers.devices(count, name)),
    (rf"[x*\u00d7] ?({GPUS})|({GPUS}) ?[x*\u00d7]", readers.devices_of),
    (BATCH, readers.requests),
    (r"v?(\d+\.\d+)", readers.version),
)
"""In a question, a version alone is one to compare with, and other numbers are of other words."""


def fields_said(part: str, said: Iterable[tuple[str, Read]]) -> Fields | None:
    """Return the fields that words set by the first pattern that they are; None if by none."""
    for pattern, read in said:
        found = re.fullmatch(pattern, part, re.IGNORECASE)
        if found and (fields := read(*found.groups())) is not None:
            return fields
    return None
