"""Read a scenario in a few words: "Qwen3-Next-80B, 4 x H100, fp8 KV" or "qwen3 next 4xH100 fp8"."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from workbench.core.devices import SET_BY_DEVICE, device_named, devices_with
from workbench.core.errors import ScenarioError
from workbench.interop.field_readers import (
    BITS,
    COUNT,
    DRAFTED,
    DRAFTING,
    FAMILY,
    LENGTH,
    MEMORY,
    RANKS,
    REQUESTS,
    Fields,
)
from workbench.interop.named_fields import Named, check_values
from workbench.interop.settings import checked_settings
from workbench.interop.unknown_words import (
    bits_alone,
    gigabytes_of,
    memory_alone,
    not_known,
    not_understood,
    one_of_family,
    said_twice,
    unknown_device,
)
from workbench.interop.words_of_fields import DESCRIBED, IN_A_SENTENCE, NAMED, fields_said
from workbench.models.spoken import letters_of
from workbench.scenario import Scenario
from workbench.sweeps.language import LABELS

OF_A_LABEL = "|".join(label.partition(", ")[2] for label in LABELS if ", " in label)
PART = re.compile(
    rf",(?!\d{{3}}\b|\s+(?:{OF_A_LABEL})[ =]+\d)"
    r"|(?<!\s)\s+(?:on|with|and|at(?! once| a time)|using|for)"
    r"(?!\s+(?:\d{1,3} (?:\w+ )?tokens?|(?:the )?(?:kv[ -]?)?cache)\b)\s+(?:(?:an?|the)\s+)?",
    re.IGNORECASE,
)
"""Between two parts; the comma of 32,768 is inside of one, as "with 2 tokens" is after a method,
and "kv" in the label "Mask block, kv"."""
CONTINUED = "\\"
"""The end of a line of a command that goes on in the next one."""
MOST_WORDS, LONGEST_SPAN = 40, 6
MOST_LINES, LONGEST_LINE = 6, 60
"""Of a description: a log has longer ones."""
UNKNOWN = 100
"""Cost of a word in no span, next to 1 for a span."""
DRAFTER, MOST_DRAFTS = {DRAFTING, "speculative_method", "draft_model"}, 32
"""What says that there is a drafter; fewer tokens next to it are its own, not a request's."""
NUMBER = re.compile(r"[\d.]+")
SHORTEST_NAME = 5
"""Letters of a name without a digit that are not an English word by chance."""
COMMAND = "command"
"""The beginning of Cohere's names, which a question has in another meaning."""
VAGUE = {
    FAMILY: ("model", one_of_family),
    MEMORY: ("device", memory_alone),
    BITS: ("quantization", bits_alone),
}
"""What words leave open -> the field that would say it, and the error."""
PRODUCT = re.compile(rf"(?<=\d) ?[x*\u00d7] ?(?=(?:{'|'.join(RANKS)})[ =]?\d)", re.IGNORECASE)
"""Between two ranks: TP 2 x PP 2."""
OF_TOKENS = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d{4,}) (?=tokens?\b)", re.IGNORECASE)
"""A number of tokens; elsewhere a comma may stand between two things that are said."""


class Load(NamedTuple):
    """The requests that a text speaks of."""

    requests: int | None = None
    """At a time."""
    length_tokens: int | None = None
    """Of each."""


@dataclass(frozen=True)
class Description:
    """What a few words say."""

    fields: dict[str, Any] = field(default_factory=dict)
    load: Load = field(default=Load())

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


def with_lengths(text: str) -> str:
    """Return a text in which a number of tokens is one word: "a 5,000 token prompt" has 5,000."""
    return OF_TOKENS.sub(lambda number: f"{number[1].replace(',', '')}-", text)


def one_line(text: str) -> str:
    """Return a text of a few short lines as one, with commas; any other one as it is."""
    lines = text.strip().splitlines()
    if len(lines) > MOST_LINES or max(map(len, lines), default=0) > LONGEST_LINE:
        return text
    return ", ".join(one.strip().rstrip(",") for one in lines if one.strip())


def read_description(text: str) -> Description | None:
    """Return what the words of a line say, in any order; None if it is not such a line.

    Errors: ScenarioError for words that are not understood next to others that are.
    """
    if "\n" in text or len(text.split()) > MOST_WORDS or text.rstrip().endswith(CONTINUED):
        return None
    parts = _parts(with_lengths(text))
    found = [_read(part) for part in parts]
    said = [fields for spans in found for fields in spans.fields]
    merged = {name: value for fields in said for name, value in fields.items()}
    for part, spans in zip(parts, found, strict=True):
        if spans.unknown:
            if _is_prose(found, said) and not (
                len(part) <= LONGEST_SPAN and _device_in(part, spans)
            ):
                return None
            raise _unknown(part, spans, merged)
    for name, value in ((name, value) for fields in said for name, value in fields.items()):
        if value != merged[name]:
            raise said_twice(name, value, merged[name])
    for vague, (name, error) in VAGUE.items():
        words = merged.pop(vague, None)
        if words is not None and name not in merged:
            raise error(words)
        if words is not None and not (vague == MEMORY and _has(merged["device"], words)):
            raise not_understood(words)
    return _described(merged) if said else None


def _described(said: dict[str, Any]) -> Description:
    """Return what words say, with what of it is of the requests, of the drafter, of the ranks."""
    length, requests = said.pop(LENGTH, None), said.pop(REQUESTS, None)
    if said.keys() & DRAFTER and length is not None and length <= MOST_DRAFTS:
        said[DRAFTED], length = length, None
    if said.pop(DRAFTING, False):
        said.setdefault(DRAFTED, 1)
    return Description(shared_out(said), Load(requests, length))


def _parts(text: str) -> list[list[str]]:
    """Return the words of every part; no part where commas alone are between too many words."""
    parts = map(str.split, PART.split(PRODUCT.sub(" ", text.strip().rstrip("?! "))))
    found = [part for part in parts if part]
    return found if sum(map(len, found)) <= MOST_WORDS else []


def _has(device: str, size: str) -> bool:
    found = device_named(device)
    return found is not None and found.name in devices_with(gigabytes_of(size))


def _read(part: Sequence[str]) -> _Spans:
    """Return what a part says: a setting by its label, or any other words."""
    fields = checked_settings(" ".join(part))
    if fields and "draft_model" not in fields:  # next to it stays what drafts
        return _Spans(1, (Named(fields),))
    found, plain = _cut(part), [word.rstrip(":") for word in part]
    if found.unknown and plain != list(part) and not (other := _cut(plain)).unknown:
        return other  # qwen3-next: TP 2
    return found


def _cut(words: Sequence[str]) -> _Spans:
    """Return the spans of a part: as few as possible, and as few words as possible in none."""
    count = len(words)
    best = {count: _Spans()}  # of the words from this one on
    for at in reversed(range(count)):
        rest = best[at + 1]
        options = [_Spans(rest.cost + UNKNOWN, rest.fields, (words[at], *rest.unknown))]
        for end in range(at + 1, min(count, at + LONGEST_SPAN) + 1):
            if (fields := fields_said(" ".join(words[at:end]), DESCRIBED)) is not None:
                rest = best[end]
                cost = rest.cost + (2 if fields.keys() & VAGUE.keys() else 1)
                options.append(_Spans(cost, (fields, *rest.fields), rest.unknown))
        # of equal ones the longest first span: "mtp 2 b200" drafts 2 tokens
        best[at] = min(reversed(options), key=lambda spans: spans.cost)
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
    """Return what words inside a sentence name: devices, ranks, a version, a model, MTP, KV.

    With COUNT where devices are counted, for `shared_out`.
    """
    is_short = len(letters_of(phrase)) < SHORTEST_NAME or phrase.casefold() == COMMAND
    if is_short and not re.search(r"\d", phrase):
        return {}
    found = fields_said(phrase, IN_A_SENTENCE) or {}
    return {name: one for name, one in found.items() if name in NAMED}


def shared_out(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a scenario: the devices that other ranks leave are tensor-parallel."""
    found = dict(fields)
    count = found.pop(COUNT, None)
    if count is None:
        return found
    others = prod(found.get(name, 1) for name in ("pipeline_parallel", "data_parallel"))
    size = count // others if count % others == 0 else count
    return {"tensor_parallel": size, **found}


def _device_in(part: Sequence[str], spans: _Spans) -> str:
    """Return unknown words that look like the name of a device; "" for none.

    Its number can have been taken for tokens: rtx 2060.
    """
    name = unknown_device(" ".join(part))
    begins = name.partition(" ")[0]
    return name if begins in spans.unknown or begins.isdigit() else ""


def _unknown(part: Sequence[str], spans: _Spans, said: Fields) -> ScenarioError:
    """Return the error for words that say nothing: of a model's name where no other is complete."""
    words = " ".join(spans.unknown)
    check_values(words)
    if device := _device_in(part, spans):
        return not_known(device)
    is_named = any(fields.keys() & {"model", FAMILY} for fields in spans.fields)
    if is_named and ("model" not in said or NUMBER.fullmatch(words)):  # jamba 1.7
        return not_known(" ".join(part) if len(part) <= LONGEST_SPAN else words)
    is_name = "model" not in said and re.search(r"\d", words)
    return not_known(words) if is_name else not_understood(words)
