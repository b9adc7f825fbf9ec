"""Words that set fields of a scenario: "4 x H100", "fp8 KV", "MTP 1", "prefix caching", "32k"."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.core.backends import UNQUANTIZED
from workbench.core.devices import DEVICES, device_named
from workbench.core.ranks import SHORT
from workbench.core.sizes import integer_value
from workbench.core.versions import RULE_SETS
from workbench.interop.named_fields import LABELLED, NAMED_FIELD, labelled_field, named_field
from workbench.interop.unknown_words import bits_alone
from workbench.models.catalog import catalog_hub_id, catalog_name
from workbench.models.names import QUANTIZED
from workbench.models.spoken import models_called
from workbench.scenario import FIELDS

Fields = Mapping[str, Any]
Read = Callable[..., Fields | None]
HUB_ID = re.compile(r"[A-Za-z][\w.-]*/(?=[\w.]*-)(?=.*\d)[\w.-]+")
"""A model on the Hub, rather than two words with a slash."""
PATH = re.compile(r"(?:~|\.{1,2})?/\S+|\S+\.json")
"""A model in a file or a folder of this machine; "~32k" and ".9" of a sentence are none."""
RANKS = {word: name for name, word in SHORT.items()}
LENGTH, REQUESTS, COUNT, DRAFTING = "length", "requests", "count", "drafting"
"""Tokens of a request, requests at a time, devices, and whether there are drafts of a number that
is not said: they are not fields of a scenario."""
FAMILY, MEMORY, BITS = "family", "memory", "bits"
"""Words for several models, devices or methods."""
BLOCK_SIZE = "block_size"
CACHE_MEMORY = "kv_cache_memory_bytes"
SHARE, STEP_TOKENS, EAGER = "gpu_memory_utilization", "max_num_batched_tokens", "enforce_eager"
DRAFTED = "num_speculative_tokens"
OF_THE_CACHE = ("kv_cache_dtype", "quantization", DRAFTED, "speculative_method")
NAMED = frozenset(
    {"model", FAMILY, BITS, "device", "platform", "rules", COUNT, *RANKS.values(), *OF_THE_CACHE}
    | {CACHE_MEMORY, "enable_prefix_caching", SHARE, STEP_TOKENS, EAGER}
)


def _devices(count: str | None, name: str) -> Fields | None:
    names = (name.strip(), name.strip().removesuffix("s"))  # two H100s
    found = next((one for one in names if device_named(one) is not None), None)
    found = found or next((one for name in names for one in DEVICES if _is_of(name, one)), None)
    return None if found is None else {"device": found, **_count(count)}


def _is_of(name: str, device: str) -> bool:
    """Return whether a name omits the memory of a device: the A100 is then that of 80 GB."""
    return device.casefold().startswith(f"{name.casefold()}-")


def _count(text: str | None) -> Fields:
    return {COUNT: number_of(text)} if text else {}


def _dtype(name: str, field: str = "kv_cache_dtype") -> Fields | None:
    found = SHORT_WORDS.get(name.casefold(), name.casefold())
    if found in FIELDS[field].kind.all_words():
        return {field: found}
    if field == "quantization" and ONLY_BITS.fullmatch(found):
        raise bits_alone(found)
    if DTYPE_LIKE.fullmatch(found) and field == "kv_cache_dtype":
        FIELDS[field].kind.check(field, found, RULE_SETS.newest)
    return None


def _weights(name: str) -> Fields | None:
    """Read the method of weights: a dtype that only a cache has does not name one."""
    found = _dtype(name, "quantization")
    if found is None and (_dtype(name) or {}).get("kv_cache_dtype") in SMALL_DTYPES:
        raise bits_alone(name)
    return found


def _dtype_alone(name: str) -> Fields | None:
    return {BITS: name} if ONLY_BITS.fullmatch(name) else _dtype(name)


def _quantized(model: str, name: str) -> Fields | None:
    """Read a checkpoint that the catalog does not have: its model, with weights of a method."""
    found, how = _model(model), _dtype(name, "quantization")
    return {**found, **how} if found and how else None


def _platform(name: str) -> Fields:
    return {"platform": PLATFORMS.get(name.casefold(), name.casefold())}


def _drafts(method: str, count: str | None) -> Fields:
    return {DRAFTED: int(count or 1), "speculative_method": method.casefold()}


def _parsed(field: str) -> Read:
    """Return what reads the value of a field, from the one group of a pattern that has it."""
    parse = FIELDS[field].kind.parse
    return lambda *groups: {field: parse(field, next(filter(None, groups)))}


def backend_forms(names: Iterable[str]) -> dict[str, str]:
    """Return pattern of the ways to write a backend -> its name, the longest first."""
    return {
        re.sub("_ATTN|_ATTENTION", "_ATT(?:ENTIO)?N", name.replace("HINFER", "H_INFER")).replace(
            "_", "[ _-]?"
        ): name
        for name in sorted(names, key=len, reverse=True)
    }


def _backend(written: str) -> Fields:
    forms = (name for form, name in BACKENDS.items() if re.fullmatch(form, written, re.IGNORECASE))
    return {"backend": next(forms)}


def _share(first: str, last: str) -> Fields:
    number = float(first or last)
    return {SHARE: number if number <= 1 else number / 100}


def _no_drafter() -> Fields:
    return {DRAFTED: 0, "speculative_method": None, "draft_model": None}


def _on_nodes(nodes: str, count: str, name: str) -> Fields | None:
    return _devices(f"{number_of(nodes) * number_of(count)}", name)


def _length(text: str) -> Fields | None:
    tokens = integer_value(text.replace(",", ""))
    return {LENGTH: tokens} if isinstance(tokens, int) else None


def _requests(text: str) -> Fields:
    return {REQUESTS: number_of(text)}


def _requests_of(count: str, tokens: str) -> Fields | None:
    length = _length(tokens)
    return {**length, **_requests(count)} if length else None


def number_of(text: str) -> int:
    """Return the number that digits or a word say."""
    return NUMBERS.get(text.casefold()) or int(text)


def _version(name: str) -> Fields | None:
    release = ".".join(name.split(".")[:2])
    return {"rules": release} if release in RULE_SETS else None


def _model(text: str) -> Fields | None:
    if PATH.fullmatch(text):
        return {"model": text}
    if "/" in text:
        return {"model": text} if catalog_hub_id(text) or HUB_ID.fullmatch(text) else None
    found = models_called(text) or tuple(filter(None, [catalog_name(text)]))
    if len(found) > 1:
        return {FAMILY: text}
    return {"model": found[0]} if found else None


NUMBERS = {"one": 1, "single": 1, "two": 2, "dual": 2, "four": 4, "eight": 8, "sixteen": 16}
PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}
PLATFORM_NAMES = "|".join((*PLATFORMS, *FIELDS["platform"].kind.candidates(RULE_SETS.newest)))
METHODS = FIELDS["speculative_method"].kind.candidates(RULE_SETS.newest)
METHOD = rf"(?>{'|'.join(sorted(METHODS, key=len, reverse=True))})"
"""Atomic: the 3 of eagle3 is not its number of tokens."""
WITHOUT = r"no|without|disabl\w+|remov\w+|drop\w*|turn(?:ing)? off"
DRAFTING_WORDS = rf"(?:speculat\w+(?: decoding)?|{METHOD}(?: 1)?|drafter|drafts?)"
DRAFT_TOKENS = r"(?:drafts?|(?:draft|spec(?:ulative)?) ?tokens?)"
DRAFTS = rf"({METHOD})(?:(?:[ =]| with )?(\d{{1,3}})(?: {DRAFT_TOKENS}| tokens?)?)?"
DTYPE_LIKE = re.compile(r"(?:u?int|nf|q)\d\w*")
SMALL_DTYPES = {*FIELDS["kv_cache_dtype"].kind.candidates(RULE_SETS.newest)} - {*UNQUANTIZED}
ONLY_BITS = re.compile(r"u?int\d|w\d{1,2}a\d{1,2}|q\d\w*|\d[ -]?bits?", re.IGNORECASE)
SHORT_WORDS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "bnb": "bitsandbytes"}
CACHING = r"(no |without )?prefix caching(?: (?:on|enabled)| (off|disabled))?"
BACKENDS = backend_forms(FIELDS["backend"].kind.all_words())
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
UTILIZATION = r"(?:gpu )?(?:memory )?utili[sz]ation"
SAID: tuple[tuple[str, Read], ...] = (
    (NAMED_FIELD, named_field),
    (LABELLED, labelled_field),
    (rf"(?:({GPUS}) ?[x*\u00d7]? ?)?({DEVICE}?)(?: gpus?)?{OVER_NODES}", _devices),
    (rf"({DEVICE}?) ?[x*\u00d7] ?(\d{{1,4}})", lambda name, count: _devices(count, name)),
    (
        rf"({GPUS}) nodes?(?: of| x)? ({GPUS}) ?[x*\u00d7]? ?({DEVICE}?)(?: gpus?)?",
        _on_nodes,
    ),
    (rf"({GPUS}) gpus?{OVER_NODES}", _count),
    (rf"({PLATFORM_NAMES})(?: gpus?)?", _platform),
    (rf"({'|'.join(RANKS)})[ =]?(\d{{1,4}})", lambda word, n: {RANKS[word.upper()]: int(n)}),
    (r"block[ -]size(?: of)? (\d[\d,]*)", _parsed(BLOCK_SIZE)),
    (r"ep|expert parallel", lambda: {"enable_expert_parallel": True}),
    (rf"{KV}[ =](\w+)|(\w+) {KV}", lambda first, last: _dtype(first or last)),
    (rf"8-?bits? {KV}|{KV} 8-?bits?", lambda: _dtype("fp8")),
    (
        rf"{STATES}(?: d?type)? (\w+)|(\w+) {STATES}",
        lambda first, last: _dtype(first or last, "mamba_ssm_cache_dtype"),
    ),
    (r"(?:(?:with|using) )?([\w-]+) (?:weights|checkpoint)", _weights),
    (ALONE, _dtype_alone),
    (QUANTIZED_WITH, lambda name: _dtype(name, "quantization")),
    (DRAFTS, _drafts),
    (
        rf"(\d{{1,3}}) ({METHOD})(?: {DRAFT_TOKENS}| tokens?)?",
        lambda count, method: _drafts(method, count),
    ),
    (rf"(\d{{1,3}}) {DRAFT_TOKENS}", lambda n: {DRAFTED: int(n)}),
    (r"speculative decod\w+|speculation|drafts?", lambda: {DRAFTING: True}),
    (rf"(?:{WITHOUT}) (?:the )?{DRAFTING_WORDS}", _no_drafter),
    (CACHING, lambda no, off: {"enable_prefix_caching": not (no or off)}),
    (r"(\d[\d.]* ?[gt]i?b)(?: of| for)?(?: the)? (?:kv[ -]?)?cache", _parsed(CACHE_MEMORY)),
    (rf"({OF_ALL}) ?%? {UTILIZATION}|{UTILIZATION}(?: of|=)? ?({OF_ALL}) ?%?", _share),
    (
        r"([\d,.]+k?) batched[ -]tokens|batched[ -]tokens(?: of|=)? ?([\d,.]+k?)",
        _parsed(STEP_TOKENS),
    ),
    (EAGERLY, lambda: {EAGER: True}),
    (BACKEND, _backend),
    (OF_DEVICES, lambda size: {MEMORY: size}),
    (r"vllm ?v?(\S+)", _version),
    (AT_A_TIME, _requests),
    (rf"({HOW_MANY}) ?[x*\u00d7] ?([\d,.]+[km])(?:[ -](?:{OF_LENGTH}))?", _requests_of),
    (rf"(?:(?:of|with|and) )?([\d,.]+[km]?)(?:[ -](?:{OF_LENGTH}))?(?: each)?", _length),
    (rf"(?:{CONTEXT}) ([\d,.]+[km]?)", _length),
    (r"([\w./~-]+(?: [\w.-]+){0,4})", _model),
    (rf"([\w.-]+?)-({WEIGHTS})(?:-(?:u?int\d|\dbit|w\da\d+|dynamic|block))*", _quantized),
)
"""Pattern of words -> the fields that they set, None if the words inside are something else."""
WORDS_ALONE = (ALONE, QUANTIZED_WITH, DRAFTS, CACHING, OF_DEVICES, EAGERLY, BACKEND)
"""Patterns of words that a sentence has in another meaning, too: "does fp8 help?"."""
IN_A_SENTENCE: tuple[tuple[str, Read], ...] = (
    *((pattern, read) for pattern, read in SAID if pattern not in WORDS_ALONE),
    (DRAFTS.removesuffix("?"), _drafts),
    (rf"({ONLY_BITS.pattern})(?: quanti[sz]\w+| weights)?", lambda bits: {BITS: bits}),
    (r"(?:with|using) (\w+)|(\w+_e\dm\d)", lambda *names: _dtype(next(filter(None, names)))),
    (rf"(?:with|in|using) {EAGERLY}", lambda: {EAGER: True}),
    (r"with(out)? prefix caching", lambda out: {"enable_prefix_caching": not out}),
    (rf"(.+) ({WEIGHTS.replace('fp8|', '')})", _quantized),
    (r"(?:weights|checkpoint) (?:are|is|in|as) (\w+)", _weights),
    (rf"(?:on|for|with) ({PLATFORM_NAMES})", _platform),
    (r"(?:in|on|under|with) v?(\d+\.\d+)", _version),
)
DESCRIBED = (*SAID, (r"v?(\d+\.\d+)", _version))
"""In a question, a version alone is one to compare with."""


def fields_said(part: str, said: Iterable[tuple[str, Read]]) -> Fields | None:
    """Return the fields that words set by the first pattern that they are; None if by none."""
    for pattern, read in said:
        found = re.fullmatch(pattern, part, re.IGNORECASE)
        if found and (fields := read(*found.groups())) is not None:
            return fields
    return None
