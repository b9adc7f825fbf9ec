"""Find the catalog model of a checkpoint by its name: quantized, fine-tuned, or released later."""

import re
from collections import Counter
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from workbench.core.errors import NEAREST
from workbench.models.catalog import catalog_hub_id, catalog_hub_ids, catalog_name, catalog_names

HUB_PAGE = re.compile(
    r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)(?:[/?#]\S*)?"
)
HUB_CACHE = re.compile(r"models--([^/\\]+?)--([^/\\]+)")
WORDS = re.compile(r"[-_\s]+")
OF_ANY_MODEL = re.compile(
    r"(?:hf[-_])?models?|weights|checkpoints?(?:[-_]\d+)?|snapshots?|final|latest|main|merged|hf"
    r"|v?\d+|[0-9a-f]{32,64}",
    re.IGNORECASE,
)
"""Folders inside of the one that is named after the model."""
QUANTIZED = re.compile(
    r"(?:nv|mx)?fp\d+|b?f(?:loat)?16|u?int\d+|\d+bits?|w\d+a\d+(?:fp\d)?|gs?\d{2,3}|b\d{3}"
    r"|awq|gptq|bnb|autoround|hqq|marlin|modelopt|quark|ptpc|rtn|smoothquant|quantized|quant"
    r"|auto|round|dynamic|static|block|tensor|tensors|channel|per|compressed|mixed|sym|asym|ct|hf"
)
TUNED = re.compile(
    r"instruct|thinking|it|chat|sft|dpo|grpo|fine-?tuned?|abliterated|heretic|uncensored"
    r"|nvidia|meta|redhatai|unsloth"
)
"""Words of a name that say how a checkpoint was trained or packed: config.json keeps its sizes."""
SIZE = re.compile(r"\d+(?:\.\d+)?b")
"""Billions of parameters."""


NAME_IN_TEXT = re.compile(r"(?<![\w.])\.*+(\w[\w.]*+(?:[-/][\w.]*\w)+)")
"""Begins where a word does, so a text without names is read once."""
MOST_NAMES = 1_000
"""Words of a text that are looked up."""


class SameModel(NamedTuple):
    """A catalog model with the sizes of a checkpoint, and how that is known."""

    name: str
    why: str


def checkpoint_in(folder: str) -> str | None:
    """Return the catalog model of a folder, by its name; None for a hub id, and where none fits.

    The Hub's cache names a folder after owner and repository; other folders have the name of the
    repository alone.
    """
    if cached := HUB_CACHE.search(folder):
        return catalog_name(f"{cached[1]}/{cached[2]}")
    *outer, last = _parts(folder)
    if len(outer) == 1 and outer[0].strip("~."):
        return None  # another owner's checkpoint can be quantized in another way
    known = {hub_id.partition("/")[2].casefold(): hub_id for hub_id in catalog_hub_ids()}
    found = known.get(last.casefold())
    return None if found is None else catalog_name(found)


def same_model(reference: str) -> SameModel | None:
    """Return the catalog model whose sizes a checkpoint has; None where that is not certain.

    It is certain where the names differ in words about quantization and fine-tuning only. The
    repository or folder counts by its last part, and what the Hub's cache calls one.
    """
    found = _checkpoints()
    return found.get(_core(reference, QUANTIZED)) or found.get(_core(reference))


def same_layers(reference: str) -> tuple[str, dict[str, Any]]:
    """Return what to use for a checkpoint that cannot be read, and the operands of its error.

    Nothing where no model of the catalog is certain to have its sizes.
    """
    same = same_model(reference)
    if same is None:
        return "", {}
    words = f"use {same.name}, which by its name has the same layers; its KV dtype can differ"
    return words, {NEAREST: (same.name,)}


def similar_model(reference: str) -> str | None:
    """Return the catalog model whose name a checkpoint's has in it; it can have other sizes.

    Fine-tuned ones have words in front as well: DeepSeek-R1-0528-Qwen3-8B is a qwen3-8b,
    and not the deepseek-r1 of another size that it begins with.
    """
    core = _core(reference)
    sized = {*filter(SIZE.fullmatch, core.split("-"))}
    names = {name: name for name in catalog_names()}
    names |= {known: one.name for known, one in _checkpoints().items()}
    inside = [known for known in names if core.startswith(known) or f"-{known}-" in f"-{core}-"]
    found = [known for known in inside if sized <= {*known.split("-")}]
    return names[max(found, key=len)] if found else None


def models_named_in(text: str) -> tuple[str, ...]:
    """Return the catalog models that a text names, and those whose names checkpoints in it have.

    >>> models_named_in("OOM with Qwen3.5-9B-FP8, and not with gpt-oss-20b")
    ('qwen3.5-9b', 'gpt-oss-20b')
    """
    words = dict.fromkeys(islice((found[1] for found in NAME_IN_TEXT.finditer(text)), MOST_NAMES))
    names = (catalog_name(word) or similar_model(word) for word in words)
    return tuple(dict.fromkeys(filter(None, names)))


@cache
def _checkpoints() -> dict[str, SameModel]:
    """Return every model of the catalog by the name of its checkpoint, and by the core of that.

    Two models can share a core, with other sizes: then neither has it.
    """
    models = [SameModel(name, catalog_hub_id(name) or name) for name in catalog_names()]
    cores = Counter(_core(one.why) for one in models)
    alone = {_core(one.why): one for one in models if cores[_core(one.why)] == 1}
    return alone | {_core(one.why, QUANTIZED): one for one in models}


def _core(reference: str, *omitted: re.Pattern[str]) -> str:
    """Return the last part of a name without the words that leave the sizes as they are."""
    cached = HUB_CACHE.search(reference)
    # ModelScope writes "___" for a dot.
    last = (cached[2] if cached else _parts(reference)[-1]).casefold().replace("___", ".")
    words = WORDS.split(last)
    patterns = omitted or (QUANTIZED, TUNED)
    # A word can be several with dots between them: "quantized.w4a16".
    said = [w for w in words if not all(_is_any(patterns, part) for part in w.split("."))]
    return "-".join(said)


def _parts(path: str) -> list[str]:
    """Return the parts of a name up to the one that can be a model's; a hub id has two."""
    parts = path.replace("\\", "/").rstrip("/").split("/")
    while len(parts) > 2 and OF_ANY_MODEL.fullmatch(parts[-1]):
        parts.pop()
    return parts


def _is_any(patterns: tuple[re.Pattern[str], ...], word: str) -> bool:
    return any(pattern.fullmatch(word) for pattern in patterns)


def named_by_page(text: str) -> str:
    """Return the hub id in the address of a model's page; any other text unchanged."""
    found = HUB_PAGE.fullmatch(text)
    return found[1] if found else text
