"""Which devices a model starts on, and which models fit a device: answers with a button each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from workbench.core.capacity.memory_estimate import weights_of
from workbench.core.devices import DEVICES, devices_with
from workbench.core.plan import Plan
from workbench.core.ranks import gpus_of
from workbench.core.what_if.answers import Answers, answers
from workbench.core.what_if.next_steps import MOST_DEVICES
from workbench.core.what_if.outcomes import outcome_of
from workbench.core.what_if.reach import Machine, machines
from workbench.door.changes import DRAFTS, needed_by
from workbench.interop.question import Question
from workbench.models import catalog_names, load_model
from workbench.models.load import hybrids_first
from workbench.scenario import FIELDS
from workbench.scenario.fields import Settings
from workbench.views.door.buttons import data_button
from workbench.views.door.tiles import STARTS, answer_to
from workbench.views.html import Html, bullets, fold, join, tag
from workbench.views.settings import changes_text
from workbench.views.units import short_bytes_text, tokens_text

LISTED = 7
"""Candidates that are shown without unfolding."""
STARTING = ("yes", "perhaps")


class Fitting(NamedTuple):
    """A model of the catalog that starts on a machine."""

    weights_bytes: int
    """On each GPU."""
    changes: Mapping[str, Any]
    """The model, and the length of its requests where all that it allows do not fit."""
    answers: Answers


def reach_html(question: Question, plan: Plan, length_tokens: int) -> Html:
    """Return devices or models for a question about them; nothing for another one."""
    if question.special == "models":
        return _models(question, plan, length_tokens)
    if question.special == "supporting":
        return _supporting(question, plan)
    if question.is_of_machines:
        return _machines(question, plan, length_tokens)
    return Html()


def _supporting(question: Question, plan: Plan) -> Html:
    """Return the models of the catalog that start with what is wanted, and keep to it."""
    wanted = dict(question.weighed)
    wanted |= {"backend": question.backend} if question.backend else {}
    where = {name: value for name, value in question.said.fields.items() if name != "model"}
    if not wanted and not where:
        return Html()
    changes = {**where, **needed_by(wanted, plan), **wanted}
    names = [one for one in hybrids_first() if _keeps(one, plan, changes, wanted)]
    count = f"{len(names)} of {len(catalog_names())} models of the catalog start with"
    buttons = [data_button(one, "apply", {"model": one, **changes}) for one in names]
    more = buttons[LISTED:]
    return join(
        tag("p", f"{count} {changes_text(changes)}{':' if names else '.'}"),
        *buttons[:LISTED],
        fold(f"{len(more)} more", join(*more)) if more else "",
    )


def _keeps(name: str, plan: Plan, changes: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a model starts with changes, and the wanted ones mean something to it."""
    settings = _without_model(plan.settings)
    found = outcome_of(load_model(name), settings, trace=False, **changes).plan
    if found is None or found.errors:
        return False
    of_states = any(field.startswith("mamba_") for field in wanted)
    kept = (getattr(found, field, value) == value for field, value in wanted.items())
    return all(kept) and not (of_states and found.mamba_block_size is None)


def _machines(question: Question, plan: Plan, length: int) -> Html:
    """Return the fewest devices on which it starts: of one that is named or set, else of all.

    The longest request is the one that is said; without one, the longest that the scenario allows.
    """
    said = question.said.load.length_tokens
    limit = {"max_model_len": said} if said and said < plan.max_model_len else {}
    limited = outcome_of(plan.model, plan.settings, trace=False, **limit).plan or plan
    wanted = question.said.load.requests or 0
    for_requests = f"for requests of up to {tokens_text(limited.max_model_len)}"
    held = f"{wanted:,} requests of {tokens_text(length)} at a time"
    parts: list[Html] = []
    for of, names in _devices(question, plan.settings.device):
        if found := machines(limited, names, length, wanted):
            kinds = " of other kinds" if parts else ""
            start = f"start and hold {held}" if wanted > 1 else f"start {for_requests}"
            parts.append(tag("p", f"The fewest{kinds} that {start}:"))
            parts.append(bullets(_machine(one, limit) for one in found[:LISTED]))
            break
        starts = f"starts and holds {held}" if wanted > 1 else f"starts {for_requests}"
        parts.append(tag("p", f"No number of {of} up to {MOST_DEVICES} {starts}."))
    return join(*parts)


def _machine(one: Machine, limit: Mapping[str, Any]) -> Html:
    named = f"{one.answers.devices} x {one.changes['device']}"
    starts = f" {STARTS[one.answers.starts]}: "
    button = data_button(named, "apply", {**one.changes, **limit})
    return join(button, starts, answer_to("fits", one.answers), ".")


def _devices(question: Question, present: str | None) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the devices in question with a word for them, then the others."""
    if (memory := question.memory_gb) is not None:
        yield f"a device of {memory} GB", devices_with(memory)
    elif present and (question.special != "any device" or "device" in question.said.fields):
        yield present, (present,)
    yield "any device", tuple(DEVICES)


def _models(question: Question, plan: Plan, length: int) -> Html:
    """Return the largest models of the catalog that start on the machine, the largest first."""
    settings = plan.settings
    if question.memory_gb is not None:
        named = devices_with(question.memory_gb)
        if not named:
            return tag("p", f"No known device has {question.memory_gb} GB.")
        least = min(named, key=lambda name: DEVICES[name].memory_bytes)
        settings = replace(settings, device=least, platform=DEVICES[least].platform)
    if settings.device is None:
        return tag("p", "Largest models: for which device? Name one, such as 2 x H100.")
    found = _fitting(_without_model(settings), length)
    machine = f"{gpus_of(settings)} x {settings.device}"
    if not found:
        return tag("p", f"No model of the catalog starts on {machine}.")
    many = f"{len(found)} of {len(catalog_names())} models of the catalog start on {machine} with"
    by = (
        f"{many} a request of {tokens_text(length)}; the largest first, by the weights on each GPU:"
    )
    rows = [_row(one, settings) for one in found]
    more = fold(f"{len(rows) - LISTED} more", bullets(rows[LISTED:])) if rows[LISTED:] else ""
    return join(tag("p", by), bullets(rows[:LISTED]), more)


def _row(one: Fitting, settings: Settings) -> Html:
    on = {"device": settings.device, "platform": settings.platform}
    changes = {**on, **one.changes}
    limit = {name: value for name, value in one.changes.items() if name != "model"}
    needs = f" with {changes_text(limit)}" if limit else ""
    return join(
        data_button(str(one.changes["model"]), "apply", changes),
        f" {short_bytes_text(one.weights_bytes)}{needs}, {STARTS[one.answers.starts]}: ",
        answer_to("fits", one.answers),
        ".",
    )


def _without_model(settings: Settings) -> Settings:
    """Return the settings without what was measured or named for one model, and without drafts."""
    names = {*DRAFTS, *(name for name, one in FIELDS.items() if one.of_model)}
    names |= {"max_model_len", "backend", "block_size"}
    reset = {name: FIELDS[name].default for name in names}
    return replace(settings, **reset | {"model": catalog_names()[0]})  # any name: it is a key


@lru_cache(maxsize=8)
def _fitting(settings: Settings, length: int) -> tuple[Fitting, ...]:
    found = (one for name in catalog_names() for one in _with_model(name, settings, length))
    return tuple(sorted(found, key=lambda one: -one.weights_bytes))


def _with_model(name: str, settings: Settings, length: int) -> Iterator[Fitting]:
    """Yield the model if it starts as it is, else with requests of this length at most."""
    model = load_model(name)
    for limit in ({}, {"max_model_len": length}):
        plan = outcome_of(model, settings, trace=False, **limit).plan
        weights = None if plan is None else weights_of(plan)
        if plan is None or weights is None or plan.max_model_len < length:
            return
        seen = answers(plan, length)
        if seen.starts in STARTING:
            yield Fitting(weights, {"model": name, **limit}, seen)
            return
