"""The catalog: published models by their hub ids, as data.

`catalog.json` has one line per hub id with a `name` in the catalog, `checkpoints.json` one per hub
id without: the `origin` (where its config.json was read), a `note`, and `config`. A line that is
`like` another one, of either file, states only what differs, as a JSON Merge Patch (RFC 7396).
`tools/catalog_entry.py` writes a line from a config.json.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

from workbench.core.errors import NEAREST, ConfigError, nearest_names, unknown_name_message
from workbench.models.shell_variables import not_set

NAMED, UNNAMED = "catalog.json", "checkpoints.json"
OF_WORDS = " A command is read by `wb.from_vllm_command`, any other text by `wb.explore`."


@lru_cache(maxsize=1)
def catalog_entries() -> dict[str, dict[str, Any]]:
    """Return the lines of the catalog by hub id."""
    entries: dict[str, dict[str, Any]] = {}
    for file in (NAMED, UNNAMED):
        text = (resources.files("workbench.models") / file).read_text(encoding="utf-8")
        entries |= json.loads(text)
    return dict(sorted(entries.items(), key=lambda one: one[0].casefold()))


@lru_cache(maxsize=1)
def _hub_ids() -> dict[str, str]:
    """Return the hub id of every name and of every hub id, all in lower case.

    Also of a hub id without its owner, where only one is called so.
    """
    entries = catalog_entries()
    named = {entry["name"]: hub_id for hub_id, entry in entries.items() if "name" in entry}
    last = {hub_id: hub_id.casefold().rpartition("/")[2] for hub_id in entries}
    counts = Counter(last.values())
    alone = {name: hub_id for hub_id, name in last.items() if counts[name] == 1}
    return alone | {hub_id.casefold(): hub_id for hub_id in entries} | named


@lru_cache(maxsize=1)
def catalog_names() -> tuple[str, ...]:
    """Return the names of the catalog, sorted.

    >>> "bamba-9b" in wb.catalog_names()
    True
    """
    return tuple(sorted(entry["name"] for entry in catalog_entries().values() if "name" in entry))


def catalog_hub_ids() -> tuple[str, ...]:
    """Return the hub ids of the catalog, also of checkpoints without a name of their own."""
    return tuple(catalog_entries())


def search_catalog(words: Iterable[str]) -> tuple[str, ...]:
    """Return what the catalog calls the models whose name and hub id have every word, sorted.

    Without words these are the names; with words also hub ids of checkpoints without one.
    """
    wanted = [word.casefold() for word in words]
    found = {
        entry.get("name", hub_id)
        for hub_id, entry in catalog_entries().items()
        if all(word in f"{entry.get('name', '')} {hub_id}".casefold() for word in wanted)
    }
    return tuple(sorted(found, key=str.casefold)) if wanted else catalog_names()


def catalog_name(reference: str) -> str | None:
    """Return what the catalog calls a name or a hub id, in any case; None for other models.

    The owner of a hub id may be omitted.

    That is the name, and the hub id of a checkpoint without one.
    """
    hub_id = catalog_hub_id(reference)
    return None if hub_id is None else catalog_entries()[hub_id].get("name", hub_id)


def catalog_hub_id(reference: str) -> str | None:
    """Return the hub id of a name or a hub id of the catalog, in any case; None for others."""
    return _hub_ids().get(reference.rstrip("/").casefold())


def catalog_config(reference: str) -> dict[str, Any]:
    """Return the config.json of a name or a hub id, with `_source`; ConfigError for others.

    `_source`: repo (the hub id), origin, and note where there is one.
    """
    hub_id = catalog_hub_id(reference)
    if hub_id is None:
        if (advice := not_set(reference)) is not None:
            raise ConfigError("variable_not_set", advice, field="model")
        raise ConfigError(
            "unknown_model",
            unknown_name_message("Model", reference, catalog_names())
            + " `workbench models` lists the catalog; a path of a config.json or a hub id "
            "(owner/name) is accepted too." + OF_WORDS * (len(reference.split()) > 1),
            field="model",
            operands={NEAREST: nearest_names(reference, catalog_names())},
        )
    entry = catalog_entries()[hub_id]
    source = {key: entry[key] for key in ("origin", "note") if key in entry}
    return {"_source": {"repo": hub_id, **source}, **whole_config(catalog_entries(), hub_id)}


def whole_config(entries: Mapping[str, Mapping[str, Any]], hub_id: str) -> dict[str, Any]:
    """Return the fields of a line together with those of the line that it is like, as a copy."""
    entry = entries[hub_id]
    base = whole_config(entries, entry["like"]) if "like" in entry else {}
    return merged(base, entry.get("config", {}))


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with a JSON Merge Patch (RFC 7396): a null removes, objects merge.

    Without a base, a null is a value, as in a file that is stated whole.
    """
    if not base:
        return json.loads(json.dumps(patch))  # type: ignore[no-any-return]
    result = dict(base)
    for key, value in patch.items():
        old = result.pop(key, None)
        if isinstance(value, Mapping):
            result[key] = merged(old if isinstance(old, Mapping) else {}, value)
        elif value is not None:
            result[key] = value
    return result
