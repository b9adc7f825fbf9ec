"""Errors for words that name nothing, several models or two values: what they can have meant."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from workbench.core.devices import DEVICES, device_named, devices_with
from workbench.core.errors import NEAREST, PHRASE, ScenarioError, cut, nearest_names, shown
from workbench.core.ranks import SHORT
from workbench.core.versions import RULE_SETS
from workbench.models import catalog_names
from workbench.models.spoken import models_called
from workbench.scenario import FIELDS

EXAMPLE = "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, prefix caching, 32K"
METHODS = ("awq", "gptq", "bitsandbytes")
"""Methods with 4 bits that most checkpoints have."""
ELSEWHERE = (
    r"TPU(?:[ -]?v?\d\w*)?|Gaudi[ -]?\d|"
    r"M\d (?:Max|Pro|Ultra)|MacBook|Mac (?:Mini|Pro|Studio)"
)
"""Devices of platforms that vLLM has as plugins."""
DEVICE_LIKE = re.compile(
    rf"\b(?:{ELSEWHERE}|(?:[RG]TX|Radeon|Quadro|Arc)[ -]?(?:[A-Z]{{1,3}}[ -]?)?\w*\d\w*"
    r"(?: (?:Ti|XTX?))?|MI\d{2,3}\w?|[A-Z]\d{3}|T4)\b|"
    r"(?:(?<=\bon )|(?<=\ba )|(?<=\bmany )|(?<=\bx ))(?:10|16|20|30|40|50)[5-9]0(?: ?Ti)?\b",
    re.IGNORECASE,
)
"""Words that look like the name of a device."""
MISSPELLED = 0.6
"""Likeness of a word to the name that it is taken for."""
LISTED, MOST_DEVICES = 4, 8
"""Models and devices that a message names."""


def unknown_device(text: str) -> str:
    """Return the first words that look like the name of a device and are none; "" for nothing."""
    found = DEVICE_LIKE.search(text)
    return "" if found is None or device_named(found[0]) else found[0]


def is_misspelled(text: str, name: str) -> bool:
    """Return whether a word begins as a name does, or is most of it: unlike a greeting."""
    given = text.casefold()
    return given[:1] == name[:1] or SequenceMatcher(a=given, b=name).ratio() >= MISSPELLED


def one_of_family(phrase: str) -> ScenarioError:
    """Return the error for words that several models have in their names."""
    names = models_called(phrase)
    count = len(names)
    some = "all" if count <= LISTED else f"{LISTED} of {count}"
    message = f"{shown(phrase)} can be more than one model ({some}: {', '.join(names[:LISTED])})."
    return ScenarioError("several_models", message, operands={PHRASE: phrase, NEAREST: names})


def not_known(name: str) -> ScenarioError:
    """Return the error for what looks like the name of a model or a device."""
    if re.fullmatch(ELSEWHERE, name, re.IGNORECASE):
        return _no_platform(name)
    is_like_one = bool(DEVICE_LIKE.fullmatch(name))
    near = _nearest(name)
    is_device = is_like_one or (any(map(str.isdigit, name)) and bool(near) and near[0] in DEVICES)
    if is_device:
        near = nearest_names(f"rtx {name}" if name[0].isdigit() else name.casefold(), DEVICES)
    what, other = (
        ("device", "For another device, set its compute capability and its memory.")
        if is_device
        else ("model", "For another model, enter its Hub id (owner/name) or paste its config.json.")
    )
    message = f"The {what} {shown(name)} is not known here.{_listed(near)} {other}"
    return ScenarioError("unknown_name", message, operands={PHRASE: name, NEAREST: near})


def _no_platform(name: str) -> ScenarioError:
    """Return the error for a device that only a plugin of vLLM runs on."""
    known = FIELDS["platform"].kind.candidates(RULE_SETS.newest)
    message = (
        f"{shown(name)} is of none of the platforms that are known here: {', '.join(known)}. "
        "Expected a device of one of them, for example H100 or MI300X, or the platform cpu."
    )
    return ScenarioError("unknown_name", message, operands={PHRASE: name})


def not_understood(words: str) -> ScenarioError:
    """Return the error for words that say nothing about a scenario."""
    near, ranks = _nearest(words), ", ".join(SHORT.values())
    message = (
        f"{shown(words)} is not understood.{_listed(near)} Expected a model, devices, a KV-cache "
        f"dtype, MTP, {ranks}, EP, prefix caching, a vLLM version or a request length, "
        f"for example: {EXAMPLE}."
    )
    return ScenarioError("unknown_name", message, operands={PHRASE: words, NEAREST: near})


def said_twice(name: str, first: object, last: object) -> ScenarioError:
    """Return the error for a description with two values of one field."""
    label = FIELDS[name].label.lower() if name in FIELDS else name
    first, last = cut(str(first)), cut(str(last))
    message = (
        f"The {label} is said twice: {first} and {last}. Expected one, for all ranks. To compare "
        f"them, write: {first} or {last}?"
    )
    return ScenarioError("said_twice", message, field=name)


def bits_alone(bits: str) -> ScenarioError:
    """Return the error for numbers of which only the bits are said, such as int4."""
    known = FIELDS["kv_cache_dtype"].kind.candidates(RULE_SETS.newest)
    found = next((one for one in known if one.startswith(bits.casefold())), None)
    cache = f" Of the cache: {found} KV." if found else ""
    message = (
        f"{shown(bits)} does not say how the weights are quantized. Expected the method, for "
        f"example {', '.join(METHODS)}, or a model whose checkpoint is quantized.{cache}"
    )
    return ScenarioError("unknown_name", message, operands={PHRASE: bits, NEAREST: METHODS})


def gigabytes_of(size: str) -> int:
    """Return the number in the size of a memory, such as "24 GB"."""
    return int(size.rstrip("gGiIbB "))


def memory_alone(size: str) -> ScenarioError:
    """Return the error for a device of which only the memory is said, such as 24 GB."""
    known = devices_with(gigabytes_of(size)) or tuple(DEVICES)
    message = (
        f"{gigabytes_of(size)} GB does not name a device. Expected one, for example "
        f"{', '.join(known[:MOST_DEVICES])}."
    )
    operands = {PHRASE: size, NEAREST: known}
    return ScenarioError("unknown_name", message, field="device", operands=operands)


def _nearest(words: str) -> tuple[str, ...]:
    """Return the models or the devices whose names are most like some words."""
    near = nearest_names(words.casefold(), (*DEVICES, *catalog_names()))
    return tuple(one for one in near if (one in DEVICES) == (near[0] in DEVICES))


def _listed(near: Sequence[str]) -> str:
    return f" Nearest: {', '.join(near)}." if near else ""
