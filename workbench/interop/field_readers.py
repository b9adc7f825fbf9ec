"""How the words of a description are read: devices, dtypes, lengths, models, what drafts."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.core.backends import UNQUANTIZED
from workbench.core.devices import DEVICES, device_named
from workbench.core.ranks import SHORT
from workbench.core.sizes import integer_value
from workbench.core.versions import RULE_SETS
from workbench.interop.unknown_words import bits_alone
from workbench.models.catalog import catalog_hub_id, catalog_name
from workbench.models.spoken import models_called
from workbench.scenario import FIELDS

Fields = Mapping[str, Any]
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
DRAFTED, SEQUENCES = "num_speculative_tokens", "max_num_seqs"
GRAPH_MODE, ADAPTERS = "cudagraph_mode", "enable_lora"
NO_HYBRID_MANAGER = "disable_hybrid_kv_cache_manager"
NUMBERS = {"one": 1, "single": 1, "two": 2, "dual": 2, "four": 4, "eight": 8, "sixteen": 16}
PLATFORMS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}
DTYPE_LIKE = re.compile(r"(?:u?int|nf|q|fp)\d\w*")
SMALL_DTYPES = {*FIELDS["kv_cache_dtype"].kind.candidates(RULE_SETS.newest)} - {*UNQUANTIZED}
ONLY_BITS = re.compile(r"u?int\d|w\d{1,2}a\d{1,2}|q\d\w*|fp[46]|\d[ -]?bits?", re.IGNORECASE)
SHORT_WORDS = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "bnb": "bitsandbytes"}
RELEASE = re.compile(r"\d+\.\d+(?:\.\d+)?")
SHORTEST_LENGTH = 256
"""Tokens of a request that may be a number alone: a smaller one counts something else."""


def backend_forms(names: Iterable[str]) -> dict[str, str]:
    """Return pattern of the ways to write a backend -> its name, the longest first."""
    return {
        re.sub("_ATTN|_ATTENTION", "_ATT(?:ENTIO)?N", name.replace("HINFER", "H_INFER")).replace(
            "_", "[ _-]?"
        ): name
        for name in sorted(names, key=len, reverse=True)
    }


BACKENDS = backend_forms(FIELDS["backend"].kind.all_words())


def devices(count: str | None, name: str) -> Fields | None:
    """Read one or more devices: a plural, a memory without its unit, or a name without it."""
    names = (name.strip(), name.strip().removesuffix("s"), f"{name.strip()}GB")
    found = next((one for one in names if device_named(one) is not None), None)
    found = found or next((one for name in names for one in DEVICES if _is_of(name, one)), None)
    return None if found is None else {"device": found, **devices_of(count)}


def _is_of(name: str, device: str) -> bool:
    """Return whether a name omits the memory of a device: the A100 is then that of 80 GB."""
    return device.casefold().startswith(f"{name.casefold()}-")


def devices_of(*counts: str | None) -> Fields:
    """Read how many devices there are; nothing where no number is said."""
    text = next(filter(None, counts), "")
    return {COUNT: number_of(text)} if text else {}


def on_nodes(nodes: str, count: str, name: str) -> Fields | None:
    """Read devices of several nodes."""
    return devices(f"{number_of(nodes) * number_of(count)}", name)


def experts_parallel(ranks: str | None = None) -> Fields:
    """Read expert parallelism; its ranks are all ranks of the engines."""
    return {"enable_expert_parallel": True, **devices_of(ranks)}


def dtype(name: str, field: str = "kv_cache_dtype") -> Fields | None:
    """Read a dtype. Errors: ScenarioError for what looks like one and is none of the field's."""
    found = SHORT_WORDS.get(name.casefold(), name.casefold())
    if found in FIELDS[field].kind.all_words():
        return {field: found}
    if field == "quantization" and ONLY_BITS.fullmatch(found):
        raise bits_alone(found)
    if DTYPE_LIKE.fullmatch(found) and field == "kv_cache_dtype":
        FIELDS[field].kind.check(field, found, RULE_SETS.newest)
    return None


def weights(name: str) -> Fields | None:
    """Read the method of weights: a dtype that only a cache has does not name one."""
    found = dtype(name, "quantization")
    if found is None and (dtype(name) or {}).get("kv_cache_dtype") in SMALL_DTYPES:
        raise bits_alone(name)
    return found


def dtype_alone(name: str) -> Fields | None:
    """Read a dtype of nothing: it is that of the cache."""
    return {BITS: name} if ONLY_BITS.fullmatch(name) else dtype(name)


def quantized(name: str, method: str) -> Fields | None:
    """Read a checkpoint that the catalog does not have: its model, with weights of a method."""
    found, how = model(name), dtype(method, "quantization")
    return {**found, **how} if found and how else None


def platform(name: str) -> Fields:
    """Read a platform, also by its vendor."""
    return {"platform": PLATFORMS.get(name.casefold(), name.casefold())}


def drafts(method: str, count: str | None) -> Fields:
    """Read a method, which drafts one token where no number is said."""
    return {DRAFTED: int(count or 1), "speculative_method": method.casefold()}


def draft_model(name: str, count: str | None = None) -> Fields | None:
    """Read a model that drafts."""
    found = (model(name) or {}).get("model")
    return {"draft_model": found, **drafts("draft_model", count)} if found else None


def no_drafter() -> Fields:
    """Return that nothing drafts."""
    return {DRAFTED: 0, "speculative_method": None, "draft_model": None}


def of_field(field: str) -> Callable[..., Fields]:
    """Return what reads the first of some texts as the value of a field."""

    def read(*texts: str | None) -> Fields:
        return {field: FIELDS[field].kind.parse(field, next(filter(None, texts)))}

    return read


def backend(written: str) -> Fields:
    """Read a backend, however its words are joined."""
    forms = (name for form, name in BACKENDS.items() if re.fullmatch(form, written, re.IGNORECASE))
    return {"backend": next(forms)}


def share(*numbers: str | None) -> Fields:
    """Read a share of a device's memory, also in percent."""
    number = float(next(filter(None, numbers)).rstrip("% "))
    return {SHARE: number if number <= 1 else number / 100}


def length(text: str) -> Fields | None:
    """Read the tokens of a request."""
    tokens = integer_value(text.replace(",", ""))
    return {LENGTH: tokens} if isinstance(tokens, int) else None


def length_alone(text: str) -> Fields | None:
    """Read a number with neither unit nor K; a small one says nothing."""
    found = length(text)
    return found if found and found[LENGTH] >= SHORTEST_LENGTH else None


def requests(text: str) -> Fields:
    """Read how many requests there are at a time."""
    return {REQUESTS: number_of(text)}


def requests_of(count: str, tokens: str) -> Fields | None:
    """Read requests of a length."""
    found = length(tokens)
    return {**found, **requests(count)} if found else None


def number_of(text: str) -> int:
    """Return the number that digits or a word say."""
    return NUMBERS.get(text.casefold()) or int(text)


def version(name: str) -> Fields | None:
    """Read a release of vLLM; None for one that is not here."""
    release = ".".join(name.split(".")[:2])
    return {"rules": release} if release in RULE_SETS else None


def version_of_vllm(name: str) -> Fields | None:
    """Read what follows "vLLM". Errors: ScenarioError for a release that is not here."""
    if RELEASE.fullmatch(name) and version(name) is None:
        FIELDS["rules"].kind.check("rules", ".".join(name.split(".")[:2]), RULE_SETS.newest)
    return version(name)


def model(text: str) -> Fields | None:
    """Read a model: a file, an id, or words of its name, which several models may have."""
    if PATH.fullmatch(text):
        return {"model": text}
    if "/" in text:
        return {"model": text} if catalog_hub_id(text) or HUB_ID.fullmatch(text) else None
    found = models_called(text) or tuple(filter(None, [catalog_name(text)]))
    if len(found) > 1:
        return {FAMILY: text}
    return {"model": found[0]} if found else None
