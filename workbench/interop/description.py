"""Read a scenario in a few words: "Qwen3-Next-80B, 4 x H100, fp8 KV" or "qwen3 next 4xH100 fp8"."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from workbench.core.devices import DEVICES, SET_BY_DEVICE, device_named
from workbench.core.errors import ScenarioError
from workbench.core.ranks import SHORT
from workbench.core.versions import RULE_SETS
from workbench.interop.named_fields import NAMED_FIELD, Named, check_values, named_field
from workbench.interop.unknown_words import (
    bits_of_weights,
    not_known,
    not_understood,
    one_of_family,
    said_twice,
)
from workbench.models.catalog import catalog_hub_id
from workbench.models.names import QUANTIZED
from workbench.models.spoken import letters_of, models_called
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.sizes import integer_value

PART = re.compile(
    r",(?!\d{3}\b)|(?<!\s)\s+(?:on|with|and|at|using|for)\s+(?:(?:an?|the)\s+)?", re.IGNORECASE
)
"""Between two parts; the comma of 32,768 is inside of one."""
CONTINUED = "\\"
"""The end of a line of a command that goes on in the next one."""
MOST_WORDS, LONGEST_SPAN = 40, 6
UNKNOWN = 100
"""Cost of a word in no span, next to 1 for a span."""
Fields = Mapping[str, Any]
HUB_ID = re.compile(r"[A-Za-z][\w.-]*/(?=[\w.]*-)(?=.*\d)[\w.-]+")
"""A model on the Hub, rather than two words with a slash."""
PATH = re.compile(r"(?:~|\.{1,2})?/\S+|\S+\.json")
"""A model in a file or a folder of this machine."""
RANKS = {word: name for name, word in SHORT.items()}
PRODUCT = re.compile(rf"(?<=\d) ?[x*\u00d7] ?(?=(?:{'|'.join(RANKS)})[ =]?\d)", re.IGNORECASE)
"""Between two ranks: TP 2 x PP 2."""


@dataclass(frozen=True)
class Description:
    """What a few words say."""

    fields: dict[str, Any] = field(default_factory=dict)
    length_tokens: int | None = None
    """Of the requests to count."""

    def instead_of(self, present: Scenario, names: Iterable[str]) -> dict[str, Any]:
        """Return these fields of the present scenario, and what is said instead.

        Another device sets its own platform; another platform has another device.
        """
        gone: tuple[str, ...] = ()
        if "device" in self.fields:
            gone = ("platform", *SET_BY_DEVICE)
        elif self.fields.get("platform", present.platform) != present.platform:
            gone = ("device", *SET_BY_DEVICE)
        return {name: getattr(present, name) for name in names if name not in gone} | self.fields


class _Spans(NamedTuple):
    """The cheapest way to cut words into spans that say something."""

    cost: int = 0
    fields: tuple[Fields, ...] = ()
    unknown: tuple[str, ...] = ()
    """Words in none of them."""


def read_description(text: str) -> Description | None:
    """Return what the words of a line say, in any order; None if it is not such a line.

    Errors: ScenarioError for words that are not understood next to others that are.
    """
    if len(text.split()) > MOST_WORDS or text.rstrip().endswith(CONTINUED):
        return None
    text = PRODUCT.sub(" ", text.strip())
    parts = [part for part in map(str.split, PART.split(text)) if part]
    found = [_cut(part) for part in parts]
    said = [fields for spans in found for fields in spans.fields]
    merged = {name: value for fields in said for name, value in fields.items()}
    for part, spans in zip(parts, found, strict=True):
        if spans.unknown:
            if _is_prose(found, said):
                return None
            raise _unknown(part, spans, merged)
    for name, value in ((name, value) for fields in said for name, value in fields.items()):
        if value != merged[name]:
            raise said_twice(name, value, merged[name])
    if (family := merged.pop(FAMILY, None)) is not None:
        raise not_understood(family) if "model" in merged else one_of_family(family)
    length = merged.pop(LENGTH, None)
    return Description(_shared_out(merged), length) if said else None


def _cut(words: Sequence[str]) -> _Spans:
    """Return the spans of a part: as few as possible, and as few words as possible in none."""
    count = len(words)
    best = {count: _Spans()}  # of the words from this one on
    for at in reversed(range(count)):
        rest = best[at + 1]
        options = [_Spans(rest.cost + UNKNOWN, rest.fields, (words[at], *rest.unknown))]
        for end in range(at + 1, min(count, at + LONGEST_SPAN) + 1):
            if (fields := _fields(" ".join(words[at:end]), DESCRIBED)) is not None:
                rest = best[end]
                cost = rest.cost + (2 if FAMILY in fields else 1)
                options.append(_Spans(cost, (fields, *rest.fields), rest.unknown))
        best[at] = min(options, key=lambda spans: spans.cost)
    return best[0]


def _is_prose(found: Iterable[_Spans], said: Iterable[Fields]) -> bool:
    """Return whether words that say nothing belong to a sentence rather than to a description.

    They do not next to a whole part that is understood, nor if each looks like a name or a size.
    """
    if any(not isinstance(one, Named) for part in found if not part.unknown for one in part.fields):
        return False
    names = any(fields.keys() & {"model", "device"} for fields in said)
    unknown = (word for spans in found for word in spans.unknown)
    return not (names and all(re.search(r"\d", word) for word in unknown))


def read_words(phrase: str) -> dict[str, Any]:
    """Return what words inside a sentence name: devices, ranks, a version, a model, MTP, KV."""
    if len(letters_of(phrase)) < SHORTEST_NAME and not re.search(r"\d", phrase):
        return {}
    found = _fields(phrase, IN_A_SENTENCE) or {}
    return _shared_out({name: one for name, one in found.items() if name in NAMED})


LENGTH, COUNT, FAMILY = "length", "count", "family"
"""Of requests, of devices, and words for several models: they are not fields of a scenario."""
CACHE_MEMORY = "kv_cache_memory_bytes"
OF_THE_CACHE = ("kv_cache_dtype", "quantization", "num_speculative_tokens", "speculative_method")
NAMED = frozenset(
    {"model", FAMILY, "device", "platform", "rules", COUNT, *RANKS.values(), *OF_THE_CACHE}
    | {CACHE_MEMORY, "enable_prefix_caching"}
)
SHORTEST_NAME = 5
"""Letters of a name without a digit that are not an English word by chance."""


def _shared_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a scenario: the devices that other ranks leave are tensor-parallel."""
    found = dict(fields)
    count = found.pop(COUNT, None)
    if count is None:
        return found
    others = prod(found.get(name, 1) for name in ("pipeline_parallel", "data_parallel"))
    size = count // others if count % others == 0 else count
    return {"tensor_parallel": size, **found}


def _devices(count: str | None, name: str) -> Fields | None:
    names = (name.strip(), name.strip().removesuffix("s"))  # two H100s
    found = next((one for one in names if device_named(one) is not None), None)
    found = found or next((one for name in names for one in DEVICES if _is_of(name, one)), None)
    return None if found is None else {"device": found, **_count(count)}


def _is_of(name: str, device: str) -> bool:
    """Return whether a name omits the memory of a device: the A100 is then that of 80 GB."""
    return device.casefold().startswith(f"{name.casefold()}-")


def _count(text: str | None) -> Fields:
    return {COUNT: NUMBERS.get(text.casefold()) or int(text)} if text else {}


def _dtype(name: str, field: str = "kv_cache_dtype") -> Fields | None:
    found = SHORT_DTYPES.get(name.casefold(), name.casefold())
    if found in FIELDS[field].kind.candidates(RULE_SETS.newest):
        return {field: found}
    if field == "quantization" and BITS.fullmatch(found):
        raise bits_of_weights(found)
    if DTYPE_LIKE.fullmatch(found) and field == "kv_cache_dtype":
        FIELDS[field].kind.check(field, found, RULE_SETS.newest)
    return None


def _quantized(model: str, name: str) -> Fields | None:
    found, how = _model(model), _dtype(name, "quantization")
    return {**found, **how} if found and how else None


def _platform(name: str) -> Fields:
    return {"platform": PLATFORMS.get(name.casefold(), name.casefold())}


def _drafts(method: str, count: str | None) -> Fields:
    return {"num_speculative_tokens": int(count or 1), "speculative_method": method.casefold()}


def _cache_memory(size: str) -> Fields:
    return {CACHE_MEMORY: FIELDS[CACHE_MEMORY].kind.parse(CACHE_MEMORY, size)}


def _no_drafter() -> Fields:
    return {"num_speculative_tokens": 0, "speculative_method": None, "draft_model": None}


def _length(text: str) -> Fields | None:
    tokens = integer_value(text.replace(",", ""))
    return {LENGTH: tokens} if isinstance(tokens, int) else None


def _version(name: str) -> Fields | None:
    release = ".".join(name.split(".")[:2])
    return {"rules": release} if release in RULE_SETS else None


def _model(text: str) -> Fields | None:
    if PATH.fullmatch(text):
        return {"model": text}
    if "/" in text:
        return {"model": text} if catalog_hub_id(text) or HUB_ID.fullmatch(text) else None
    found = models_called(text)
    if len(found) > 1:
        return {FAMILY: text}
    return {"model": found[0]} if found else None


NUMBERS = {"one": 1, "single": 1, "two": 2, "dual": 2, "four": 4, "eight": 8, "sixteen": 16}
PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}
PLATFORM_NAMES = "|".join((*PLATFORMS, *FIELDS["platform"].kind.candidates(RULE_SETS.newest)))
METHODS = FIELDS["speculative_method"].kind.candidates(RULE_SETS.newest)
DRAFTS = rf"({'|'.join(sorted(METHODS, key=len, reverse=True))})[ =]?(\d{{1,3}})?"
DTYPE_LIKE = re.compile(r"(?:u?int|nf|q)\d\w*")
BITS = re.compile(r"u?int\d\w*|q\d\w*|\d-?bits?")
SHORT_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
CACHING = r"(no |without )?prefix caching(?: (?:on|enabled)| (off|disabled))?"
HOW_MANY = rf"\d{{1,4}}|{'|'.join(NUMBERS)}"
QUANTIZED_WITH = rf"({QUANTIZED.pattern})(?: quanti[sz]\w+)?"
KV = r"kv(?:[ -]?cache)?(?: d?type)?"
CONTEXT = r"(?:max )?(?:context|ctx|seq|sequence)?[ -]?(?:len|length|window|size)|context|ctx"
DEVICE = r"(?:[a-z]\w*|(?<!\d)\d{4})(?:[ -]\w+)*"
SAID: tuple[tuple[str, Callable[..., Fields | None]], ...] = (
    (NAMED_FIELD, named_field),
    (rf"(?:({HOW_MANY}) ?[x*\u00d7]? ?)?({DEVICE}?)(?: gpus?)?", _devices),
    (rf"({DEVICE}?) ?[x*\u00d7] ?(\d{{1,4}})", lambda name, count: _devices(count, name)),
    (rf"({HOW_MANY}) gpus?", _count),
    (rf"({PLATFORM_NAMES})(?: gpus?)?", _platform),
    (rf"({'|'.join(RANKS)})[ =]?(\d{{1,4}})", lambda word, n: {RANKS[word.upper()]: int(n)}),
    (r"ep|expert parallel", lambda: {"enable_expert_parallel": True}),
    (rf"{KV}[ =](\w+)|(\w+) {KV}", lambda first, last: _dtype(first or last)),
    (
        r"(?:(?:with|using) )?([\w-]+) (?:weights|checkpoint)",
        lambda name: _dtype(name, "quantization"),
    ),
    (r"(?!bf16|fp16)(\w+)", _dtype),
    (QUANTIZED_WITH, lambda name: _dtype(name, "quantization")),
    (DRAFTS, _drafts),
    (r"(?:no|without) (?:speculat\w+(?: decoding)?|mtp|drafter|drafts?)", _no_drafter),
    (CACHING, lambda no, off: {"enable_prefix_caching": not (no or off)}),
    (r"(\d[\d.]* ?[gt]i?b)(?: of| for)?(?: the)? (?:kv[ -]?)?cache", _cache_memory),
    (r"vllm ?v?(\S+)", _version),
    (rf"([\d,.]+[km]?)(?:[ -](?:tokens?|requests?|prompts?|{CONTEXT}))?", _length),
    (rf"(?:{CONTEXT}) ([\d,.]+[km]?)", _length),
    (r"([\w./~-]+(?: [\w.-]+){0,4})", _model),
)
"""Pattern of words -> the fields that they set, None if the words inside are something else."""
WORDS_ALONE = (r"(?!bf16|fp16)(\w+)", QUANTIZED_WITH, DRAFTS, CACHING)
"""Patterns of words that a sentence has in another meaning, too: "does fp8 help?"."""
IN_A_SENTENCE: tuple[tuple[str, Callable[..., Fields | None]], ...] = (
    *((pattern, read) for pattern, read in SAID if pattern not in WORDS_ALONE),
    (DRAFTS.removesuffix("?"), _drafts),
    (r"(?:with|using) (\w+)|(\w+_e\dm\d)", lambda *names: _dtype(next(filter(None, names)))),
    (r"with(out)? prefix caching", lambda out: {"enable_prefix_caching": not out}),
    (r"(.+) (awq|gptq|autoround|bnb)", _quantized),
    (rf"(?:on|for|with) ({PLATFORM_NAMES})", _platform),
    (r"(?:in|on|under|with) v?(\d+\.\d+)", _version),
)
DESCRIBED = (*SAID, (r"v?(\d+\.\d+)", _version))
"""In a question, a version alone is one to compare with."""


def _fields(part: str, said: Iterable[tuple[str, Callable[..., Fields | None]]]) -> Fields | None:
    for pattern, read in said:
        found = re.fullmatch(pattern, part, re.IGNORECASE)
        if found and (fields := read(*found.groups())) is not None:
            return fields
    return None


def _unknown(part: Sequence[str], spans: _Spans, said: Fields) -> ScenarioError:
    """Return the error for words that say nothing: of a model's name where no other is complete."""
    words = " ".join(spans.unknown)
    check_values(words)
    if any(fields.keys() & {"model", FAMILY} for fields in spans.fields):
        return not_known(" ".join(part) if len(part) <= LONGEST_SPAN else words)
    return not_understood(words) if "model" in said else not_known(words)
