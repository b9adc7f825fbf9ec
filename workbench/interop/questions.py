"""Read a question in a few words: which answer or lab it is about, and what it says of the setup.

Words lead to an answer that the workbench has; nothing is generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.core.sizes import integer_value
from workbench.core.versions import RULE_SETS
from workbench.interop import change_words, chunk_words, topics
from workbench.interop.defaults import default_named
from workbench.interop.description import Description, Load
from workbench.interop.field_readers import BITS, FAMILY, backend_forms, number_of
from workbench.interop.glossary import defined, metric_named
from workbench.interop.model_words import ANY_MEMORY, MEMORY, SUPPORTING
from workbench.interop.named_fields import FIELD_NAMES, field_called
from workbench.interop.plan_values import named_value
from workbench.interop.question import Question
from workbench.interop.quoted import change_of_vllm, ignored, part_of_message, quoted
from workbench.interop.sentences import alternatives, said_in
from workbench.interop.settings import settings_in
from workbench.interop.shared_prefix import shared_prefix
from workbench.interop.topics import Topic
from workbench.interop.unknown_words import bits_alone, not_known, one_of_family
from workbench.interop.words_of_fields import AT_A_TIME, BATCH

ASKS = re.compile(
    r"(?:(?:and|but|so|ok|hi|hello|please)\b[ ,]*)?(?:why|what|which|how|where|when|who|will|would|"
    r"give me|does|do|did|is|are|am|can|could|should|shall|may|must|has|have|explain|show me|"
    r"compare|list|models?|supported|smallest|shortest|largest|longest|most|fewest|best|minimum|maximum|"
    r"cheapest|biggest)\b.*|.*\?|"
    r".{3,99}[,.;] (?:why|what|how|will|does|can|should)\b.*",
    re.IGNORECASE,
)
NO_QUESTION = re.compile(
    r"[\n{}=]|(?<!\w)/|/(?!\w)|/[\w.-]*/|(?<!vllm):(?! )|.{161}|[a-z](?:Error|Exception): "
)
"""In a log, a link, a path or a command; a colon in a sentence has a space after it.

The id of a model has one slash, as P/D and tokens/s have."""
FLAG = re.compile(r"(?<!\S)--(?!block-size)([a-z][a-z-]*)")
"""A flag of vLLM inside a sentence: its words are those of a question."""
IN_QUOTES = re.compile(r"[\"'`\u201c]([^\"'`\u201c\u201d]{8,})[\"'`\u201d]")
"""What a sentence quotes, which may be a part of a message."""
WITH_CACHING = re.compile(r" with(?:out)? prefix caching\b", re.IGNORECASE)


QUESTIONS = (
    *("why this block size?", "what is a kernel block?", "how many 32K requests fit?"),
    *("will prefixes hit?", "TP or fp8?", "which backends on B200?", "what is byte 123456?"),
    *("how many H200 for kimi-k2?", "longest context on one H100?", "which models are supported?"),
)
"""Examples for someone whose words lead nowhere."""
BEFORE = "before-"
"""The beginning of a rule set that is named by the change that ended it."""
ANSWERED = f"Questions that are answered: {', '.join(f'{one!r}' for one in QUESTIONS)}."


def read_question(text: str, *, loosely: bool = False) -> Question | None:
    """Return what a line asks for; None if it is not a question, or not about any of the topics.

    loosely: also without a question mark or a word that begins a question.
    """
    parts = () if loosely or "\n" in text else (text, *IN_QUOTES.findall(text))
    if part := next(filter(None, map(part_of_message, parts)), None):
        return Question(Topic(""), term=part)
    if NO_QUESTION.search(IN_QUOTES.sub("", text)) or not (loosely or ASKS.fullmatch(text)):
        return None
    default_of = default_named(text)
    text = FLAG.sub(lambda flag: flag[1].replace("-", " "), text)
    text = topics.CACHING.sub(_with_caching, text)
    rest = text.replace(_found(change_words.ADVICE, text) or "\n", "")
    plain = WITH_CACHING.sub("", rest)  # what a question says besides is what it is about
    about = topics_of(plain) or topics_of(rest) or topics_of(rest.replace("_", " "))
    about += [topics.WHAT_TO_CHANGE] if rest != text else []
    topic = next(iter(about), None)
    named = metric_named(text) or change_of_vllm(text) or ignored(text)
    if topic != topics.VERSIONS and (term := named):
        return Question(Topic("", lab=term.lab), term=term)
    if not loosely and (line := quoted(text)):
        return Question(Topic(""), term=line)
    value = named_value(text)
    if (term := defined(text)) and not (topic and topic.is_of_catalog):
        of_term = topic if topic and not term.lab else Topic("", lab=term.lab)
        return Question(of_term, term=term, value=value)
    if default_of or (value and not about):
        about = [Topic("")]
    found = _of_topics(text, about, default_of, value) if about else None
    is_by_number = loosely and about == [topics.WHY] and found is not None and not found.said.fields
    return None if is_by_number and not _may_be_block(text) else found


def _may_be_block(text: str) -> bool:
    """Return whether the words around a number leave it open to be that of a block."""
    plain = text.replace("_", " ")
    return _has(topics.OF_SIZES, plain) or bool(topics.PLAIN_WORDS.fullmatch(text))


def _with_caching(said: re.Match[str]) -> str:
    word = "with" if said[1].casefold() in {"on", "enabled"} else "without"
    return f" {word} prefix caching"


def topics_of(text: str) -> list[Topic]:
    """Return what a text has words of."""
    return [one for one in topics.TOPICS if _has(one.words, text)]


def _of_topics(text: str, about: Sequence[Topic], default_of: str, value: str) -> Question:
    """Return the question about the first of some topics. Errors: ScenarioError."""
    topic = about[0]
    changes = [one for one in about if one.view == "what_if"]
    is_of_one = {*changes} <= {topics.ANY_CHANGE}
    is_set = _has(SUPPORTING, text) or (topic.view == "fits" and is_of_one)
    whole = topics.DRAFTS.sub(r"\1 1", text) if is_set or changes else text
    whole = topics.DTYPES.sub(r"\1 KV", whole) if is_set else whole
    whole = chunk_words.SIZE.sub("", whole) if topic.lab == topics.OFFLOAD else whole
    phrases, unknown, rest = said_in("" if topic.is_of_catalog and topic.special else whole)
    is_why = _has("why", text)  # the value in it is the present one, not a change
    is_open = is_why or _has(change_words.SEVERAL, text)
    named = {} if is_open else settings_in(text, FIELD_NAMES)
    plain = text.replace(_found(FIELD_NAMES, text) or "\n", "") if named else text
    special = _special(plain) if topic.view == "fits" or topic.lab == topics.CAPACITY else ""
    if special != "transfer" and topic.lab not in {"", topics.CAPACITY}:
        special = ""  # of the GPU's cache
    if special == "mixed":
        phrases, unknown = [one for one in phrases if "device" not in one], ""
    if topic.lab == "Prefix hits" and _has(topics.MULTIPLES, text):
        special = "multiples"
    if _has(SUPPORTING, text):
        special = "supporting"
    special = topic.special or special
    choices = _choices(text) if changes else ()
    fields, others = alternatives(phrases)
    views = [one.view for one in about if one.view]
    if topic == topics.ANY_CHANGE and fields:  # "can I use PP 2": does it start?
        choices, views = (), [*views, "start"]
    decode = others[0] if others and special == "transfer" else {}
    if re.search(r"decod\w*\b.*\bprefill", text, re.IGNORECASE):
        fields, decode = {**fields, **decode}, {name: fields[name] for name in decode}
    if special == "transfer" or (topic == topics.VERSIONS and "rules" in fields):
        others = []  # of both engines; both versions
    _check_names(fields, unknown, refuse_bits=is_of_one and topic.view in {"fits", "start"})
    sharing = tuple(map(Description, others)) if topic == topics.CHUNKS else ()
    if others and not sharing:
        said = _described(fields, topic, text)
        return Question(
            topic, said=said, others=tuple(Description(one, said.load) for one in others)
        )
    known = {*change_words.WEIGHED} if topic.view == "what_if" else set()
    known = fields.keys() - change_words.OF_BOTH if special == "supporting" else known
    weighed = {name: value for name, value in fields.items() if name in known} | named
    fields = {name: value for name, value in fields.items() if name not in weighed}
    fields.pop("rules" if topic == topics.VERSIONS else default_of, None)
    said = _described(fields, topic, text)
    shared, of_prompt = shared_prefix(text)
    if of_prompt is not None:
        said = Description(said.fields, said.load._replace(length_tokens=of_prompt))
    settings = (*said.fields.values(), *weighed.values())
    tokens = _block_tokens(text, settings) if topic == topics.WHY else None
    is_own = not _has(f"{change_words.OF_MODELS}|{change_words.OF_VLLM}", text)
    found = Question(
        topic,
        said=said,
        decode={name: value for name, value in decode.items() if value != fields.get(name)},
        choices=choices,
        weighed=weighed,
        block_tokens=tokens,
        names_block=_has(r"blocks?", text),
        padding=_decimal(topics.PADDING, text),
        is_wanted=tokens is not None and is_own and _has(change_words.SETS, text),
        backend=_backend(text),
        releases=_releases(text) if topic == topics.VERSIONS else (),
        default_of=default_of,
        value="" if special or _backend(text) or _has(r"padd\w+", text) else value,
        limits=_limits(text),
        is_why=is_why,
        special=special,
        memory_gb=_number(ANY_MEMORY if special == "models" else MEMORY, text)
        if topic.view in {"fits", "start"} and "device" not in fields
        else None,
        host_bytes=chunk_words.size_in(text) if topic.lab == topics.OFFLOAD else None,
        sharing=sharing,
        chunk_tokens=chunk_words.chunk_in(text) if topic == topics.CHUNKS else None,
        connector=chunk_words.connector_in(text) if topic == topics.CHUNKS else "",
        goal=_goal(topic, text),
        byte=_number(topics.BYTE, text) if topic == topics.BYTES else None,
        step=_number(topics.STEP, text) if topic == topics.STEPS else None,
        shared_tokens=shared,
        concurrency=_decimal(topics.CONCURRENCY, text),
        views=tuple(dict.fromkeys(views)),
    )
    return replace(found, unused=_unused(rest, found))


def _unused(words: Sequence[str], question: Question) -> tuple[str, ...]:
    """Return the words with a number that the question has nowhere."""
    if not words:
        return ()
    # Patterns of the topic have digits, and so do names of models and devices, which are read.
    plain = replace(question, topic=Topic(""), said=replace(question.said, fields={}))
    held = {*RULE_SETS, *re.findall(r"\d+", repr(plain).replace(",", ""))}
    numbers = ((one, integer_value(one.rstrip("%").replace(",", ""))) for one in words)
    return tuple(one for one, value in numbers if str(value) not in held and one not in held)


def _block_tokens(text: str, settings: Iterable[Any]) -> int | None:
    """Return the first number that is not one of a setting, or of its name: RTX PRO 5000."""
    known = re.findall(r"\d+", " ".join(map(str, settings)))
    numbers = (one.replace(",", "") for one in re.findall(topics.NUMBER, text))
    return next((int(one) for one in numbers if str(int(one)) not in known), None)


def _check_names(fields: dict[str, Any], unknown: str, *, refuse_bits: bool) -> None:
    """Remove words for several things. Errors: ScenarioError where one of them is meant."""
    family, bits = fields.pop(FAMILY, None), fields.pop(BITS, None)
    if family is not None and "model" not in fields:
        raise one_of_family(family)
    if unknown:
        raise not_known(unknown)
    if bits is not None and refuse_bits and "quantization" not in fields:
        raise bits_alone(bits)


def _described(fields: Mapping[str, Any], topic: Topic, text: str) -> Description:
    """Return the fields with the requests that a question counts; one about a block has none."""
    if topic == topics.WHY:
        return Description(dict(fields))
    requests = re.search(rf"(?<![\w.,])(?:{AT_A_TIME}|{BATCH})(?![\w,.]*\w)", text, re.IGNORECASE)
    count = number_of(requests[1] or requests[2]) if requests else None
    return Description(dict(fields), Load(count, _number(topics.LENGTH, text)))


def is_question(text: str) -> bool:
    """Return whether a line asks for something, and has neither a flag nor a path in it."""
    return bool(ASKS.fullmatch(text)) and not NO_QUESTION.search(text) and "--" not in text


def _goal(topic: Topic, text: str) -> str:
    if topic == topics.WHY and _has(change_words.SMALLER, text) and not _has("padding", text):
        return "block"
    return change_words.GOALS.get(topic.view, "") if _has(change_words.IMPROVES, text) else ""


def _has(words: str, text: str) -> bool:
    return bool(_found(words, text))


def _found(words: str, text: str) -> str:
    found = re.search(rf"(?<![\w.-])(?:{words})(?![\w-])", text, re.IGNORECASE)
    return found[0] if found else ""


def _choices(text: str) -> tuple[str, ...]:
    """Return the field that the words name in full, and those that the other words are about."""
    name = _found(FIELD_NAMES, text)
    others = text.replace(name, "")
    named = [field_called(name)] if name else []
    said = (field for field, words in change_words.CHOICES.items() if _has(words, others))
    return tuple(dict.fromkeys((*named, *said)))


def _limits(text: str) -> str:
    """Return the field of which a sentence wants to know what vLLM requires or refuses."""
    return field_called(_found(FIELD_NAMES, text)) if topics.LIMITS.fullmatch(text) else ""


def _releases(text: str) -> tuple[str, ...]:
    named = (name for name in RULE_SETS if _has(rf"#?{re.escape(name.removeprefix(BEFORE))}", text))
    return tuple(named) or (RULE_SETS.newest,)


def _backend(text: str) -> str:
    """Return the backend of the newest version that the words name, the longest name first."""
    forms = backend_forms(RULE_SETS[RULE_SETS.newest].backends)
    return next((name for form, name in forms.items() if _has(form, text)), "")


def _special(text: str) -> str:
    return next((kind for kind, words in topics.SPECIAL.items() if _has(words, text)), "")


def _number(words: str, text: str) -> int | None:
    """Return the number in words: of a byte or a step, the GB of a device, or a length."""
    found = re.search(words, text, re.IGNORECASE)
    number = integer_value("".join(found.groups("")).replace(",", "")) if found else None
    return number if isinstance(number, int) else None


def _decimal(words: re.Pattern[str], text: str) -> float | None:
    found = words.search(text)
    return float(found[1].replace(",", "")) if found else None
