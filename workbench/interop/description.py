"""Read a scenario in a few words: "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, 32K"."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from workbench.core.devices import device_named
from workbench.core.errors import ScenarioError, nearest_names, shown
from workbench.core.ranks import SHORT
from workbench.core.versions import RULE_SETS
from workbench.models import catalog_names
from workbench.scenario import FIELDS
from workbench.scenario.sizes import integer_value

EXAMPLE = "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, prefix caching, 32K"
PART = re.compile(
    r",(?!\d{3}\b)|(?<!\s)\s+(?:on|with|and|at|using)\s+(?:an?\s+)?"
    r"|(?<!\s)\s+(?=\d{1,4} ?[x*\u00d7] ?[a-z])",
    re.IGNORECASE,
)
"""Between two parts; the comma of 32,768 is inside of one, and "4 x H100" begins one."""
Fields = Mapping[str, Any]
RANKS = {word: name for name, word in SHORT.items()}


@dataclass(frozen=True)
class Description:
    """What a few words say."""

    fields: dict[str, Any] = field(default_factory=dict)
    length_tokens: int | None = None
    """Of the requests to count."""


def read_description(text: str) -> Description | None:
    """Return what parts between commas or words such as "on" say; None if it is not such a line.

    Errors: ScenarioError for a part that is not understood where another one is.
    """
    parts = [part for part in map(str.strip, PART.split(text.strip())) if part]
    found = [(part, _fields(part)) for part in parts]
    if not any(fields for _part, fields in found):
        return None
    fields: dict[str, Any] = {}
    for part, said in found:
        if said is None:
            raise not_understood(part)
        fields |= said
    length = fields.pop(LENGTH, None)
    return Description(_shared_out(fields), length)


def read_words(phrase: str) -> dict[str, Any]:
    """Return what words inside a sentence name: devices, ranks, a version, or a model."""
    if len(_letters(phrase)) < SHORTEST_NAME and not re.search(r"\d", phrase):
        return {}
    found = _fields(phrase) or {}
    return _shared_out({name: one for name, one in found.items() if name in NAMED})


LENGTH, COUNT = "length", "count"
"""Of requests, and of devices: they are not fields of a scenario."""
NAMED = frozenset({"model", "device", "rules", COUNT, *RANKS.values()})
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
    if device_named(name) is None:
        return None
    return {"device": name.strip(), **({COUNT: int(count)} if count else {})}


def _dtype(name: str) -> Fields | None:
    allowed = FIELDS["kv_cache_dtype"].kind.candidates(RULE_SETS.newest)
    return {"kv_cache_dtype": name.casefold()} if name.casefold() in allowed else None


def _mtp(count: str | None) -> Fields:
    return {"num_speculative_tokens": int(count or 1), "speculative_method": "mtp"}


def _caching(no: str | None, off: str | None) -> Fields:
    return {"enable_prefix_caching": not (no or off)}


def _length(text: str) -> Fields | None:
    tokens = integer_value(text.replace(",", ""))
    return {LENGTH: tokens} if isinstance(tokens, int) else None


def _version(name: str) -> Fields | None:
    return {"rules": name} if name in RULE_SETS else None


def _model(text: str) -> Fields | None:
    words = _letters(text)
    names = [name for name in catalog_names() if _letters(name).startswith(words)]
    exact = [name for name in names if _letters(name) == words]
    found = exact or names
    return {"model": found[0]} if len(found) == 1 else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9.]", "", name.rpartition("/")[2].casefold())


SAID: tuple[tuple[str, Callable[..., Fields | None]], ...] = (
    (r"(?:(\d{1,4}) ?[x*\u00d7]? ?)?([a-z]\w*(?:[ -]\w+)*)", _devices),
    (rf"({'|'.join(RANKS)}) ?(\d{{1,4}})", lambda word, n: {RANKS[word.upper()]: int(n)}),
    (r"ep|expert parallel", lambda: {"enable_expert_parallel": True}),
    (r"(?:kv )?(\w+)(?: kv)?", _dtype),
    (r"mtp ?(\d{1,3})?", _mtp),
    (r"(no )?prefix caching(?: on| (off))?", _caching),
    (r"vllm ?(\S+)", _version),
    (r"([\d,.]+k?)(?: tokens?| requests?| prompts?| context)?", _length),
    (r"([\w./-]+(?: [\w.-]+){0,4})", _model),
)
"""Pattern of a part -> the fields that it sets, None if the words inside are something else."""


def _fields(part: str) -> Fields | None:
    for pattern, read in SAID:
        found = re.fullmatch(pattern, part, re.IGNORECASE)
        if found and (fields := read(*found.groups())) is not None:
            return fields
    return None


def not_understood(part: str) -> ScenarioError:
    """Return the error for words that say nothing about a scenario, with the nearest model."""
    near = nearest_names(part.casefold(), catalog_names())
    hint = f" Nearest model: {near[0]}." if near else ""
    message = (
        f"{shown(part)} is not understood. Expected a model, devices, a KV-cache dtype, MTP, "
        f"{', '.join(RANKS)}, EP, prefix caching, a vLLM version or a request length, for "
        f"example: {EXAMPLE}.{hint}"
    )
    return ScenarioError("unknown_name", message)
