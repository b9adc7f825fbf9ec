"""Values of command-line arguments as scenario fields: numbers, methods, models."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

from workbench.access.app_mode import app_mode
from workbench.core.speculation import MTP, MTP_ALIASES, NGRAM
from workbench.models import catalog_names, repository

MULTIPLIERS = {
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "T": 2**40,
}
SHORT_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
DRAFT_NAMES = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
"""Part of a draft model's name -> the method that vLLM takes for it, in its order."""
DTYPES = {"half": "float16", "float": "float32"}
"""Other names of a model dtype."""


@dataclass(frozen=True, slots=True)
class CommandFields:
    """Fields of a scenario that a command line sets.

    sources: field -> the words that set it. notes: everything else as notes, one sentence each.
    """

    fields: Mapping[str, Any]
    sources: Mapping[str, str] = dataclass_field(default_factory=dict)
    notes: tuple[str, ...] = ()


def integer_value(text: str) -> int | str:
    """Return the integer in "4096", "16k" (16,000) or "16K" (16,384), as vLLM reads it.

    Any other text is returned unchanged; the scenario then refuses it.
    """
    if found := SHORT_NUMBER.fullmatch(text.strip()):
        return int(float(found.group(1)) * MULTIPLIERS[found.group(2)])
    try:
        return int(text)
    except ValueError:
        return text


def speculative_method(method: object, model: object) -> str | None:
    """Return the method that `--speculative-config` requests; None if vLLM derives none.

    A deprecated name means mtp; without a method the draft model's name decides. Source:
    `SpeculativeConfig.__post_init__`, 0.23 and 0.33.
    """
    if isinstance(method, str):
        return MTP if method in MTP_ALIASES else method.strip("[]")
    if not isinstance(model, str):
        return None
    name = model.casefold()
    if name in {NGRAM, f"[{NGRAM}]"}:
        return NGRAM
    return next((found for part, found in DRAFT_NAMES.items() if part in name), "draft_model")


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object in `text`; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def local_config(reference: str) -> str | None:
    """Return the config.json of a folder on this machine; None if there is none."""
    if app_mode() is not None:  # a log must not reveal which folders exist
        return None
    try:
        inside = Path(reference).expanduser() / "config.json"
        return str(inside) if inside.is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name too long, no home folder, a zero byte
        return None


def catalog_name(reference: str) -> str | None:
    """Return the catalog's name for a hub id or a catalog name, None for any other model."""
    wanted = reference.rstrip("/").casefold()
    for name in catalog_names():
        if wanted in {name, (repository(name) or "").casefold()}:
            return name
    return None
