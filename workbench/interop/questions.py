"""Read a question in a few words: which answer or lab it is about, and what it says of the setup.

Words lead to an answer that the workbench has; nothing is generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from workbench.core.versions import RULE_SETS
from workbench.interop.description import Description, read_words
from workbench.interop.glossary import Term, defined
from workbench.scenario.sizes import integer_value

ASKS = re.compile(
    r"(?:(?:and|but|so|ok|hi|hello|please)\b[ ,]*)?(?:why|what|which|how|where|when|who|will|would|"
    r"does|do|did|is|are|am|can|could|should|shall|may|must|has|have|explain|show me|compare|"
    r"list|models?|supported|smallest|shortest|largest|longest|most|fewest|best|minimum|maximum)\b.*|.*\?",
    re.IGNORECASE,
)
NO_QUESTION = re.compile(r"[\n{}=/]|:(?! )|.{161}")
"""In a log, a link, a path or a command; a colon in a sentence has a space after it."""
DEVICE = re.compile(
    r"(?:[RG]TX|TPU|Gaudi|Radeon|Quadro|Arc)[ -]?(?:[A-Z]{1,3}[ -]?)?\w*\d\w*|MI\d{2,3}\w?|"
    r"\b[A-Z]\d{3}\b|\bT4\b"
)
"""Words that look like the name of a device."""
NAME = re.compile(r"[a-z]\w*-[\w.-]*\d[\w.-]*", re.IGNORECASE)
"""A word that looks like the name of a model, such as whisper-large-v3."""
LONGEST_PHRASE = 4
"""Words of a device or a model."""


@dataclass(frozen=True)
class Topic:
    """What questions are about. words: a pattern; one of them is enough."""

    words: str
    view: str = ""
    """The explanation that answers, or that is nearest to the lab; empty: the one that is open."""
    lab: str = ""
    is_of_catalog: bool = False
    """Whether the models are listed."""


MODELS = (
    r"^(?:(?:which|what|list|show|me|all|the|of|hybrid|supported|known|available) )*models?"
    r"(?: list)?\W*$|^list (?:.* )?models\b.*|^(?:which|what|how many) (?:\w+ )?models?\b.* (?:sup"
    r"port(?:ed)?|know|there|hybrids?|catalog|have|use|choose|pick)\W*$|models? (?:is|are) (?:sup"
    r"ported|known|available)|supported models"
)
"""Words for all models of the catalog, and not for the present one."""
BYTE = r"bytes? (?:number |no\.? ?)?(\d[\d,]*)"
NUMBER = r"(?<![\w.,])\d[\d,]{1,6}\b"
CONCURRENCY = re.compile(
    r"concurren\w+.*?(?<![\w.])(\d[\d,]*(?:\.\d+)?) ?(?:x|times)\b", re.IGNORECASE
)
"""What vLLM prints of the longest requests: "Maximum concurrency ...: 1.90x"."""
BARE_WHY = (
    r"^why(?:\W+(?:is|are|was|does|do|not|so|this|that|it|these|the|my|exactly|numbers?|values?|"
    r"results?|big|large|high|much|many|small|low|few))*\W*$"
)
"""A why about what is on the screen, and not about something else in the world."""
WHY = Topic(rf"{BARE_WHY}|blocks?|sizes?|padding|page\w*|align\w*|state|{NUMBER}", "why")
BYTES = Topic(r"bytes?|address|offset", "why", "Page bytes")
VERSIONS = Topic(
    r"0\.\d\d.*0\.\d\d|(?:chang|differ)\w+ .*0\.\d\d|versions?|releases?|upgrad\w+|update[sd]?",
    "versions",
    "Versions",
)
TOPICS = (
    Topic(MODELS, is_of_catalog=True),
    BYTES,
    Topic(r"fields?|config(?:\.json)?|layers|heads?", "why", "Model fields"),
    Topic(r"backends?|kernels?|flash\w*|triton|flex\w*", "start", "Backends by TP"),
    Topic(r"lmcache\w*|chunks?", "fits", "Chunks"),
    Topic(r"offload\w*|transfer\w*|connectors?|disaggregat\w*", "fits", "Offload and transfer"),
    VERSIONS,
    Topic(r"sweeps?|sweeping|pareto|grid search", "what_if", "Sweeps"),
    Topic(r"hits?|hitting|prefix\w*|(?<!kv[ -])cach(?:e|es|ed|ing)|reus\w+", "hits", "Prefix hits"),
    Topic(r"how (?:many|much)", "fits", "Groups and capacity"),
    Topic(
        r"or|vs|versus|better|best|improve|instead|faster|cheaper|worth|costs?|overhead|benefits?|"
        r"difference between",
        "what_if",
        "Sweeps",
    ),
    Topic(
        r"start\w*|support\w*|boot\w*|launch\w*|runs?|crash\w*|oom|fails?|errors?|work\w*", "start"
    ),
    Topic(
        r"fits?|memory|concurren\w+|requests?|prompts?|users?|capacity|gpus?|batch size|context|"
        r"(?:max\w*|longest) length|max\w*[-_ ]model[-_ ]len\w*",
        "fits",
    ),
    WHY,
    Topic(r"what if|can (?:i|we|you)|enabl\w+|disabl\w+|turn|us(?:e|ing)", "what_if", "Sweeps"),
)
"""The first that fits is taken: the special ones, the four answers, then any other change."""

LENGTH = re.compile(r"(?<![\w.,])(?:(\d[\d,.]*k)\b|(\d[\d,]{2,})[ -]tokens?\b)", re.IGNORECASE)
"""A request length in a question that is not about a block; drafts are fewer tokens."""
OF_LENGTH = r"context|length|model len\w*|prompts?|requests?"
NOT_DEVICES = r"requests|prompts|tokens|users|blocks|bytes|layers"
SPECIAL = {
    "longest": rf"(?:max\w*|longest|largest|full) (?:\w+ )?(?:{OF_LENGTH})|"
    rf"max\w*[-_]model[-_]len\w*|how (?:long|large|big) (?:can|may|could) .*(?:{OF_LENGTH})",
    "devices": r"(?:how many|fewest|minimum|smallest|cheapest|least|which|what) (?:\w+ )?"
    r"(?:gpus?(?! memory)|devices?|cards?|hardware)|"
    rf"how many (?!{NOT_DEVICES})(?:\w+ ){{1,3}}(?:for|do|to|are)|"
    r"(?:memory|vram) (?:do|does|is|i|we|to) .*(?:need|run|serve)",
    "request": r"(?:memory|bytes|gib|gb|vram|size|cache) .*(?:requests?|prompts?|users?|context)|"
    r"(?:requests?|prompts?|users?) (?:use|takes?|needs?|costs?)",
}
"""Kind of question -> words for it; each has an answer of its own."""
CHOICES = {
    "tensor_parallel": r"tp|tensor|gpus?",
    "kv_cache_dtype": r"fp8|dtype|quanti\w+|8.?bit",
    "mamba_ssm_cache_dtype": r"ssm|states?|float32|bfloat16",
    "num_speculative_tokens": r"mtp|specul\w+|draft\w*|eagle",
    "enable_prefix_caching": r"caching|prefix",
    "mamba_cache_mode": r"align|modes?",
    "max_num_batched_tokens": r"budget|batch\w*",
}
"""Field -> words for a change of it, in a question about what is better."""
WEIGHED = frozenset({"kv_cache_dtype", "num_speculative_tokens", "speculative_method"})
"""Fields that a question names to compare their values."""
SETS = r"set|use|force|choose|pick|try|get|have|make|take|lower|reduce|--block-size"
"""Words for a block size that is wanted, in a question about blocks."""

OF_VLLM = r"^why (?:does|did|has|is)"
"""Words for a block size that vLLM has chosen."""
OF_MODELS = r"(?:which|what) models?"
"""Words for models with a block size: it is then not wanted of the present one."""


QUESTIONS = (
    *("why this block size?", "what is a kernel block?", "how many 32K requests fit?"),
    *("will prefixes hit?", "TP or fp8?", "which backends on B200?", "what is byte 123456?"),
    "which models are supported?",
)
"""Examples for someone whose words lead nowhere."""
ANSWERED = f"Questions that are answered: {', '.join(f'{one!r}' for one in QUESTIONS)}."


@dataclass(frozen=True)
class Question:
    """What a question is about."""

    topic: Topic
    said: Description = field(default_factory=Description)
    choices: tuple[str, ...] = ()
    """Fields whose changes are weighed against each other."""
    block_tokens: int | None = None
    """The block size in question."""
    is_wanted: bool = False
    """Whether that block size is to be set, rather than explained."""
    term: Term | None = None
    """The word whose meaning is in question."""
    unknown: str = ""
    """What looks like the name of a model or a device, and is not one that is known."""
    releases: tuple[str, ...] = ()
    """The versions of vLLM in question: those that it names, else the newest."""
    special: str = ""
    """The kind of a question that has an answer of its own; empty: the tiles answer it."""
    concurrency: float | None = None
    """What vLLM printed as the maximum concurrency, such as 1.9 for "1.9x"."""
    byte: int | None = None
    """The byte of a tensor that is in question."""
    views: tuple[str, ...] = ()
    """Explanations of all topics that the words name, the one of `topic` first."""

    @property
    def title(self) -> str:
        """Return what it is about, where that is not the scenario; else nothing."""
        if self.term is not None:
            return f"The meaning of {self.term.word}."
        return "The models that can be chosen by name." if self.topic.is_of_catalog else ""


def read_question(text: str, *, loosely: bool = False) -> Question | None:
    """Return what a line asks for; None if it is not a question, or not about any of the topics.

    loosely: also without a question mark or a word that begins a question.
    """
    if NO_QUESTION.search(text) or not (loosely or ASKS.fullmatch(text)):
        return None
    topics = [one for one in TOPICS if _has(one.words, text)]
    topic = next(iter(topics), None)
    if term := defined(text):
        return Question(topic if topic and not term.lab else Topic("", lab=term.lab), term=term)
    if topic is None:
        return None
    fields, unknown = _said(text)
    weighs = topic.view == "what_if"
    if weighs:  # what is weighed is not set
        fields = {name: value for name, value in fields.items() if name not in WEIGHED}
    said = Description(fields, None if topic == WHY else _length(text))
    is_tried = any(one.view == "what_if" for one in topics)
    choices = tuple(name for name, words in CHOICES.items() if is_tried and _has(words, text))
    numbers = [int(one.replace(",", "")) for one in re.findall(NUMBER, text) if topic == WHY]
    sizes = [one for one in numbers if one not in said.fields.values()]
    tokens = sizes[0] if sizes else None
    is_wanted = tokens is not None and _has(SETS, text) and not _has(f"{OF_MODELS}|{OF_VLLM}", text)
    return Question(
        topic,
        said=said,
        unknown=unknown,
        choices=choices,
        block_tokens=tokens,
        is_wanted=is_wanted,
        releases=_releases(text) if topic == VERSIONS else (),
        special=_special(text) if topic.view == "fits" else "",
        byte=_byte(text) if topic == BYTES else None,
        concurrency=_concurrency(text),
        views=tuple(dict.fromkeys(one.view for one in topics if one.view)),
    )


def _has(words: str, text: str) -> bool:
    return re.search(rf"(?<![\w.-])(?:{words})(?![\w-])", text, re.IGNORECASE) is not None


def _releases(text: str) -> tuple[str, ...]:
    return tuple(name for name in RULE_SETS if _has(re.escape(name), text)) or (RULE_SETS.newest,)


def _special(text: str) -> str:
    return next((kind for kind, words in SPECIAL.items() if _has(words, text)), "")


def _byte(text: str) -> int | None:
    found = re.search(BYTE, text, re.IGNORECASE)
    number = integer_value(found[1].replace(",", "")) if found else None
    return number if isinstance(number, int) else None


def _concurrency(text: str) -> float | None:
    found = CONCURRENCY.search(text)
    return float(found[1].replace(",", "")) if found else None


def _length(text: str) -> int | None:
    """Return the tokens of the requests in question: "128K requests", "of 32,000 tokens"."""
    found = LENGTH.search(text)
    tokens = integer_value("".join(found.groups("")).replace(",", "")) if found else None
    return tokens if isinstance(tokens, int) else None


def _said(text: str) -> tuple[dict[str, Any], str]:
    """Return the devices, the model and the version that the words name, and an unknown name."""
    words = re.findall(r"[\w./-]*\w", text)
    fields: dict[str, Any] = {}
    unknown = [one for one in words if NAME.fullmatch(one)]
    for phrase in _phrases(words):
        if found := read_words(phrase):
            fields = {**found, **fields}
            unknown = [one for one in unknown if one not in phrase.split()]
    if "model" in fields:
        unknown = []
    if "device" not in fields and (device := DEVICE.search(text)):
        unknown.append(device[0])
    return fields, unknown[0] if unknown else ""


def _phrases(words: list[str]) -> Iterator[str]:
    """Yield every few words in a row, the longest first."""
    for count in range(LONGEST_PHRASE, 0, -1):
        for start in range(len(words) - count + 1):
            yield " ".join(words[start : start + count])
