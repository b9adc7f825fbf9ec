"""What a question is answered with: the answer in a sentence, choices with numbers, and a lab."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from workbench.core.capacity.memory_answer import BY_MEMORY, NO, YES
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.answers import Answers
from workbench.core.what_if.answers import answers as answers_of
from workbench.core.what_if.next_steps import NextStep, next_step, next_steps, single_changes
from workbench.core.what_if.outcomes import outcome_of
from workbench.door.changes import CACHING, needed_by
from workbench.door.chunks_answers import caching_for_chunks
from workbench.door.lab_answers import backends_to_set, lab_answer, step_of
from workbench.door.labs import LABS
from workbench.door.reach_answers import LISTED, STARTING, reach_html
from workbench.door.transfer_answers import between
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.question import Question
from workbench.interop.understood import Understood
from workbench.models import load_model
from workbench.models.load import hybrids_first, is_of_hybrids
from workbench.scenario import FIELDS
from workbench.views.door.buttons import button, data_button
from workbench.views.door.next_cards import SHOWN, gains_and_costs
from workbench.views.door.tiles import answer_to
from workbench.views.door.trial import tried_words
from workbench.views.html import Html, bullets, fold, join, prose, tag
from workbench.views.settings import changes_text, in_labels
from workbench.views.units import tokens_text

PASTE = "Paste the start-up log of a server that fails: its fatal line is explained, with a fix."


def answered(found: Understood, plan: Plan, answers: Answers) -> Html:
    """Return the answer that the words of a question lead to; nothing for what is not one."""
    question = found.question
    if question is None:
        return _with_limit(found, plan)
    topic = question.topic
    parts = list(_leading(found, question, plan))
    parts += _sentences(question, plan, answers)
    parts.append(_with_limit(found, plan))
    if question.is_wanted and question.block_tokens is not None:
        tokens = question.block_tokens
        tried = tried_words(tokens, next_step(plan, answers, {"block_size": tokens}))
        parts.append(tag("p", tried))
    if found.scenes and not _is_of_step(question, plan):
        parts.append(tag("p", f"A block of {question.block_tokens:,} tokens has:"))
        parts.append(use_buttons(found.scenes, {}))
    if topic.is_of_catalog:
        parts.append(models_html(topic.special))
    choices = list(_choices(question, plan, answers))
    if choices:
        parts.append(bullets(choices))
    elif topic.view == "what_if" and question.term is None:
        parts.append(tag("p", "One change at a time is below; Next has gain and cost of each."))
    return join(*parts)


def _leading(found: Understood, question: Question, plan: Plan) -> Iterator[Html]:
    """Yield what comes before the answer: what is too long, a meaning, a lab, another engine."""
    topic = question.topic
    if words := _too_long(question, plan):
        yield tag("p", words, class_="wb-error")
    if question.term is not None:
        yield tag("p", prose(question.term.meaning))
    if topic.lab:
        opens = button(f"Open {topic.lab} \u25b8", "show_lab", topic.lab, class_="wb-link")
        yield join(" ", LABS[topic.lab].line, " ", opens)
    if question.decode and found.scenario is not None:
        yield tag("p", in_labels(between(question, found.scenario, plan)))


def _with_limit(found: Understood, plan: Plan) -> Html:
    """Return that it starts if no request is longer than the ones of a text; else nothing."""
    length = found.load.length_tokens
    is_short = any(one.code in BY_MEMORY for one in plan.problems)
    is_offered = found.question is not None and found.question.is_of_machines
    if not length or length >= plan.max_model_len or not is_short or is_offered:
        return Html()
    limit = {"max_model_len": length}
    limited = outcome_of(plan.model, plan.settings, trace=False, **limit).plan
    seen = None if limited is None else answers_of(limited, length)
    if seen is None or seen.starts not in STARTING:
        return Html()
    verb = "starts" if seen.starts == YES else "may start"
    apply = data_button(f"Apply {changes_text(limit)}", "apply", limit)
    return tag("p", f"It {verb} if no request is longer than {tokens_text(length)}: ", apply)


def _is_of_step(question: Question, plan: Plan) -> bool:
    """Return whether the tokens in question are the result of a step, which is then the answer."""
    at = step_of(question, plan)
    return at is not None and plan.steps[at].rule.unit == "tokens"


def _sentences(question: Question, plan: Plan, answers: Answers) -> Iterator[Html]:
    """Yield the answer of its own, the devices, or the answers of the tiles that it is about."""
    own = lab_answer(question, plan, answers.length_tokens)
    on_devices = reach_html(question, plan, answers.length_tokens)
    yield on_devices
    is_answered = own or on_devices or question.topic.is_of_catalog
    views = () if is_answered else question.views
    is_of_start = question.topic.view == "start" and not question.topic.lab
    is_stopped = answers.starts == NO and bool(question.views) and not on_devices
    if is_stopped and "start" not in question.views and not question.topic.is_of_catalog:
        views = ("start", *views)
    yield from (
        tag("p", prose(text)) for text in (own, *(answer_to(one, answers) for one in views)) if text
    )
    if is_of_start and not on_devices and not plan.errors:
        yield tag("p", PASTE)


def _too_long(question: Question, plan: Plan) -> str:
    """Return that no request has the length in question; nothing where one may."""
    length, most = question.said.load.length_tokens or 0, plan.max_model_len
    if length <= most:
        return ""
    return f"{tokens_text(length)} are more than the max model length allows: {tokens_text(most)}."


def use_buttons(scenes: Sequence[CandidateScenario], known: Mapping[str, Any]) -> Html:
    """Return a button per candidate; those after the first ones can be unfolded."""
    buttons = [_use(scene, known) for scene in scenes]
    more = buttons[LISTED:]
    return join(*buttons[:LISTED], fold(f"{len(more)} more", join(*more)) if more else "")


def _use(scene: CandidateScenario, known: Mapping[str, Any]) -> Html:
    """Return the button that shows a candidate, named by what differs from the known fields."""
    before = {name: field.default for name, field in FIELDS.items()} | {"model": None} | dict(known)
    new = {name: value for name, value in scene.fields.items() if value != before[name]}
    named = filter(None, (new.pop("model", ""), changes_text(new)))
    return data_button(", ".join(named), "use", scene.fields)


def other_meaning(found: Understood) -> Html:
    """Return the button for what a description may mean as well; nothing for other texts."""
    if found.scenario is None or found.question is not None:
        return Html()
    return use_buttons(found.scenes, found.scenario.stated())


def _choices(question: Question, plan: Plan, before: Answers) -> Iterator[Html]:
    """Yield every change of the fields in question, with what it gains and what it costs."""
    if question.goal == "block":
        found = (next_step(plan, before, one) for one in single_changes(plan))
        smaller = [one for one in found if one and _block(one) < before.block_tokens]
        yield from (_with_gains(one, before) for one in sorted(smaller, key=_block))
    elif (goal := _goal(question, before)) and not question.choices:
        steps = next_steps(plan, goal, before.length_tokens)
        serving = islice((one for one in steps if one.serves(goal)), SHOWN)
        yield from map(_with_gains, serving)
    weighed = {**needed_by(question.weighed, plan), **question.weighed}
    # the answer says what speaks against one
    to_set = [*backends_to_set(question, plan), *caching_for_chunks(question, plan)]
    tried = [weighed] if weighed else [*_tried(question, plan), *to_set]
    releases = [{"rules": name} for name in question.releases]
    for changes in (*tried, *(one for one in releases if one not in tried)):
        step = next_step(plan, before, changes)
        if step is not None:
            yield _with_gains(step, before if "why" in question.views else None)
        elif changes in to_set:
            continue
        elif refused := outcome_of(plan.model, plan.settings, trace=False, **changes).refused:
            yield join(tag("b", changes_text(changes)), ": ", in_labels(refused))
        elif changes is weighed:
            yield join(tag("b", changes_text(changes)), " is what this scenario has.")


def _goal(question: Question, before: Answers) -> str:
    """Return what is to become better: where no prompt hits, that is said with what changes it."""
    nothing_hits = question.topic.view == "hits" and before.hit_tokens is None
    return question.goal or ("hits" if nothing_hits else "")


def _tried(question: Question, plan: Plan) -> list[Mapping[str, Any]]:
    """Return the changes that engineers try first, and the values of the other fields."""
    usual = [one for one in single_changes(plan) if next(iter(one)) in question.choices]
    others = [name for name in question.choices if not any(name in one for one in usual)]
    return [
        *usual,
        *(_change(name, value, plan) for name in others for value in _values(name, plan)),
    ]


def _change(name: str, value: Any, plan: Plan) -> dict[str, Any]:
    """Return the change of one field, with what it needs."""
    return {**needed_by({name}, plan), name: value}


def _values(name: str, plan: Plan) -> Sequence[Any]:
    """Return the values of a field that are worth a try; None leaves it to vLLM, as now."""
    tried = FIELDS[name].tried_values(plan.settings, plan.model)
    if name == "mamba_cache_mode":  # none is the mode without prefix caching
        tried = [one for one in tried if one != RULE_SETS[plan.settings.rules].cache_modes[0]]
    return [one for one in tried if one is not None][:LISTED]


def _block(step: NextStep) -> int:
    return step.answers.block_tokens


def _with_gains(step: NextStep, before: Answers | None = None) -> Html:
    """Return the change with gain and cost. before: where the block is in question."""
    apply = data_button(f"Apply {changes_text(step.changes)}", "apply", dict(step.changes))
    reason = step.answers.no_hit_reason if CACHING.items() <= step.changes.items() else None
    block = f" Block: {_block(step):,} tokens, {before.block_tokens:,} before." if before else ""
    errors = step.plan.errors[:1] if step.answers.starts == NO else ()
    problems = [prose(f" {one.message}") for one in errors]
    hit = f" No hit: {reason}" if reason else ""
    return join(apply, block, *gains_and_costs(step), *problems, hit)


SHORT_NAMES = {"ssm", "mla", "gdn", "kda"}
OTHERS = (
    "Any other model: enter the path of its config.json, its content, or its Hub id. "
    "`workbench coverage` lists every architecture of a vLLM release: read, compared, or refused."
)


def models_html(kind: str = "") -> Html:
    """Return the catalog, hybrids first; a click takes the model. kind: of layers that it has."""
    names = hybrids_first()
    if kind:
        found = [name for name in names if kind in _kinds_of(load_model(name))]
        word = kind.upper() if kind in SHORT_NAMES else kind.replace("_", " ")
        said = f"{len(found)} of {len(names)} models of the catalog have {word} layers:"
        return join(tag("p", tag("b", said)), _links(found), tag("p", prose(OTHERS)))
    hybrids = [name for name in names if is_of_hybrids(name)]
    others = names[len(hybrids) :]
    return join(
        tag("p", tag("b", f"{len(hybrids)} of families with hybrids:")),
        _links(hybrids),
        fold(f"{len(others)} others", _links(others)),
        tag("p", prose(OTHERS)),
    )


def _kinds_of(model: Model) -> set[str]:
    """Return the kinds of a model's layers and of its states, and whether its attention is MLA."""
    is_latent = model.attention is not None and model.attention.use_mla
    states = {model.state.kind} if model.state else set()
    return {layer.kind for layer in model.layers} | states | ({"mla"} if is_latent else set())


def _links(names: list[str] | tuple[str, ...]) -> Html:
    links = (button(one, "apply", json.dumps({"model": one}), class_="wb-link") for one in names)
    return tag("div", join(*links, between=" "), class_="wb-from")
