"""What a text said of a scenario, and what stays as it was: the new scenario, and in words."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from workbench.core.errors import cut, shown
from workbench.core.ranks import SHORT
from workbench.core.versions import RULE_SETS
from workbench.interop.description import Description, Load
from workbench.scenario import FIELDS, Scenario
from workbench.views.settings import changes_text
from workbench.views.units import tokens_text

MODEL_FIELD = "model"
"""A config.json does not have it, a scenario always does."""
OF_THE_MACHINE = (
    *("platform", "device", "compute_capability", "rules", "device_memory_bytes"),
    *("torch_version", "entry_point"),
)
"""Fields of the present scenario that a command line does not contain."""


def rest_text(scenario: Scenario, said: Collection[str]) -> str:
    """Return a sentence on the fields that a text did not say; nothing where none is set."""
    kept = {one: value for one, value in set_fields(scenario).items() if one not in said}
    return f" As before: {changes_text(kept)}." if kept else ""


def said_words(
    scenario: Scenario, said: Collection[str], also: Description | None = None, name: str = ""
) -> str:
    """Return the model and what a text said of it.

    said: the fields of the text. also: what it says that is not a field. name: of an inline model.
    """
    new = {one: getattr(scenario, one) for one in FIELDS if one in said and one != MODEL_FIELD}
    if len(said) == len(FIELDS):  # a scenario has all of them; most are the default
        new = set_fields(scenario)
    load = _load_text(also.load) if also else ""
    model = scenario.model if isinstance(scenario.model, str) else "the inline config"
    return ", ".join((name or model, *filter(None, [changes_text(new), load])))


def _load_text(load: Load) -> str:
    """Return how many requests of which length, as far as a text says it."""
    requests, tokens = load
    count = f"{requests:,} request{'s' if requests > 1 else ''}" if requests else "requests"
    length = f" of {tokens_text(tokens)}" if tokens is not None else ""
    return f"{count}{length}{' at a time' if requests else ''}" if requests or length else ""


def set_fields(scenario: Scenario) -> dict[str, Any]:
    """Return the fields that differ from their default, without the model.

    A device says which platform it is of.
    """
    omitted = {MODEL_FIELD} if scenario.device is None else {MODEL_FIELD, "platform"}
    return {one: value for one, value in scenario.stated().items() if one not in omitted}


def notes_of(text: str, said: Description) -> tuple[str, ...]:
    """Return how a checkpoint or a dtype was read: fp8 without its place may be the weights'."""
    method, model = (said.fields.get(name) for name in ("quantization", MODEL_FIELD))
    if method and (named := re.search(rf"[\w./-]+-{method}(?![a-z])[\w-]*", text, re.IGNORECASE)):
        return (f"{cut(named[0])} is not in the catalog: {model} with {method} weights is shown.",)
    if (dtype := _of_cache_or_weights(text, said)) is None:
        return ()
    weights = f", or write: {dtype} weights" if dtype in _methods() else ""
    return (f"{dtype} is read as the KV cache's. For weights, name their checkpoint{weights}.",)


def with_weights(text: str, said: Description) -> dict[str, Any]:
    """Return the fields that are meant where a dtype is that of the weights; else none."""
    dtype = _of_cache_or_weights(text, said)
    if dtype not in _methods():
        return {}
    return {"kv_cache_dtype": FIELDS["kv_cache_dtype"].default, "quantization": dtype}


def _of_cache_or_weights(text: str, said: Description) -> str | None:
    """Return a dtype that was read as the KV cache's although the text does not say so."""
    says = re.search(r"kv|cache", text, re.IGNORECASE)
    return None if says else said.fields.get("kv_cache_dtype")


def _methods() -> Collection[str]:
    return FIELDS["quantization"].kind.candidates(RULE_SETS.newest)


def notes_on_unused(words: Collection[str]) -> tuple[str, ...]:
    """Return a note on the numbers of a question that no part of the answer depends on."""
    verb = "is" if len(words) == 1 else "are"
    text = f"{', '.join(map(shown, words))} {verb} not understood, and not used here."
    return (text,) if words else ()


def one_rank(present: Scenario) -> Scenario:
    """Return the present scenario on one rank: those of its machine are not of another one."""
    return present.replace(**{name: FIELDS[name].default for name in SHORT})


def with_said(present: Scenario, said: Description) -> Scenario:
    """Return the present scenario with what is said."""
    return Scenario(**said.instead_of(present, FIELDS))


def with_model(present: Scenario, said: Description) -> Scenario:
    """Return what is said, of the present scenario or, for another model, of its machine."""
    if said.fields.get(MODEL_FIELD, present.model) == present.model:
        return with_said(present, said)
    return Scenario(**machine_of(present, said))


def machine_of(present: Scenario, said: Description) -> dict[str, Any]:
    """Return the model and the machine of the present scenario, and what is said instead."""
    return said.instead_of(present, ("model", *OF_THE_MACHINE))
