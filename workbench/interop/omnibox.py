"""Read whatever is pasted: a model, a question, two scenarios, a command, a config.json, a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from workbench.access.json_text import json_or_word
from workbench.core.errors import NEAREST, PHRASE, ConfigError, ScenarioError, shown
from workbench.interop.commands.command_line import read_command
from workbench.interop.comparison import compared, read_comparison, with_or
from workbench.interop.description import Description, Load, one_line, read_description
from workbench.interop.design import SCHEMA, read_design
from workbench.interop.exchange import explain_text, from_vllm_command, scenes_with_block
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.explain import has_messages
from workbench.interop.model_and_flags import (
    command_and_machine,
    described_in,
    is_command,
    model_and_flags,
)
from workbench.interop.orders import read_order
from workbench.interop.question import Question
from workbench.interop.questions import ANSWERED, is_question, read_question, topics_of
from workbench.interop.said import (
    MODEL_FIELD,
    machine_of,
    notes_of,
    notes_on_unused,
    one_rank,
    said_words,
    with_model,
    with_said,
    with_weights,
)
from workbench.interop.settings import read_settings
from workbench.interop.understood import Side, Understood
from workbench.interop.unknown_words import is_misspelled, not_understood
from workbench.models import load_model
from workbench.models.json_file import parse_config
from workbench.models.load import needs_hub
from workbench.models.names import named_by_page, similar_model
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.links import LINK, read_whole_link
from workbench.scenario.resolution import resolve

LONGEST_NAME = 4096
LINKED = "link"
"""Kind of a text that says everything that the answers depend on."""
BLOCK_UNIT, LARGEST_BLOCK = 8, 2**16
"""Tokens. Another number in a question is not a block that is worth a search for its models."""
PASTED_CONFIG = "The pasted config.json"
HELP = ("", "help", "?")
WANTED = (
    "Paste a `vllm serve` command, a start-up log or a config.json, or enter a model, for example "
    f"qwen3-next-80b-a3b. {ANSWERED}"
)


def understand(text: str, present: Scenario, model: str | None = None) -> Understood:
    """Return the scenario of a text, and what the text was taken for.

    present: whose machine and version stay where the text does not say. model: for a log, the model
    to compare with. Errors: ScenarioError and ConfigError with the nearest valid value.
    """
    given = with_or(named_by_page(text.strip()))
    if given.casefold() in HELP:
        raise ScenarioError("nothing_given", WANTED)
    said = (_comparison, _setting, _order, _question, _word, _description)
    found = (read(given, present) for read in (_link, _json, _command, *said))
    return next(filter(None, found), None) or _of_text(given, present, model)


def hub_ids(text: str) -> tuple[str, ...]:
    """Return the models of a name, a command or a description that only the hub describes."""
    given = named_by_page(text.strip())
    named: Iterable[Any] = (given,)
    if len(given.split()) > 1:
        fields: Mapping[str, Any] = {}
        with suppress(ScenarioError):  # it is shown when the text is read
            question = read_question(given)
            read = read_command if is_command(given) else described_in
            fields = getattr(question.said if question else read(given), "fields", {})
        named = (fields.get(MODEL_FIELD), fields.get("draft_model"))
    return tuple(filter(needs_hub, named))


def _link(text: str, _present: Scenario) -> Understood | None:
    if LINK not in text or len(text.split()) > 1:
        return None
    linked = read_whole_link(text)
    load = Load(length_tokens=linked.length)
    found = replace(_of_fields(linked.fields, "A link to", load), kind=LINKED)
    if linked.pinned is None:
        return found
    pinned = Scenario.from_dict(linked.pinned)
    return replace(found, compared=(Side(pinned, load), Side(Scenario(**linked.fields), load)))


def _json(text: str, present: Scenario) -> Understood | None:
    found = json_or_word(text) if text.startswith("{") else None
    if not isinstance(found, dict):
        return None  # a log may begin with a brace, too
    if found.get("schema") == SCHEMA:
        return _of_fields(read_design(text).scenario, "A design of")
    if MODEL_FIELD in found and FIELDS.keys() >= found.keys():
        return _of_fields(found, "A scenario of")
    return _of_model(found, present, "config")


def _command(text: str, present: Scenario) -> Understood | None:
    """Read a command, and the comment after it: "vllm serve ... # 4 x H100"."""
    lines = [line.lstrip() for line in text.splitlines()]
    if all(line.startswith("#") for line in lines):  # out of a script or a notebook
        text = "\n".join(line.lstrip("#") for line in lines)
    command, comment = command_and_machine(text)
    if is_question(text):
        return None
    if is_command(command):
        said = read_description(comment) or Description()
        said.fields.pop("tensor_parallel", None)  # flags say it, however many devices there are
        return _of_command(command, present, said)
    found = model_and_flags(f"{command} on {comment}" if comment else command)
    return None if found is None else _of_command(found[1], present, found[0])


def _setting(text: str, present: Scenario) -> Understood | None:
    said = Description(read_settings(text))
    return _described(with_said(present, said), said, "Settings of") if said.fields else None


def _order(text: str, present: Scenario) -> Understood | None:
    said = read_order(text)
    return None if said is None else _described(with_model(present, said), said, "Set:")


def _comparison(text: str, present: Scenario) -> Understood | None:
    found = read_comparison(text)
    return compared(found, present) if found else None


def _question(text: str, present: Scenario, *, loosely: bool = False) -> Understood | None:
    found = read_question(text, loosely=loosely)
    if found is None:
        return None
    if found.others:
        return compared((found.said, *found.others), present)
    said = found.said.fields
    if said.keys() >= {MODEL_FIELD, "device"}:
        present = one_rank(present)
    scenario = with_said(present, found.said)
    return Understood(
        kind="question",
        scenario=scenario,
        words=found.title or f"A question about {said_words(scenario, said, found.said)}.",
        names_rest=bool(said) and not found.title,
        said=found.said.fields,
        notes=(*notes_of(text, found.said), *notes_on_unused(found.unused)),
        load=found.said.load,
        question=found,
        scenes=_with_block(found, scenario),
    )


def _with_block(found: Question, present: Scenario) -> tuple[CandidateScenario, ...]:
    """Return scenarios with the block size that a question names; none where it is the present.

    They are of the model that the question names, else of any.
    """
    tokens = found.block_tokens
    if tokens is None or tokens % BLOCK_UNIT or tokens > LARGEST_BLOCK or found.is_wanted:
        return ()
    if resolve(present).block_size == tokens:
        return ()
    return scenes_with_block(tokens, found.padding, found.said.fields.get(MODEL_FIELD))


def _word(text: str, present: Scenario) -> Understood | None:
    if len(text.split()) > 1 or "," in text or len(text) > LONGEST_NAME:
        return None
    try:
        return _of_model(text, present, "model")
    except ConfigError as error:
        described = read_description(text)
        if described is None or described.fields == {MODEL_FIELD: text}:
            if question := _question(text, present, loosely=True):
                return question
            near = map(str, error.operands.get(NEAREST, ()))
            if error.code != "unknown_model" or any(is_misspelled(text, one) for one in near):
                raise
            unknown = f"{shown(text)} is not a model that is known."
            raise ScenarioError("nothing_given", f"{unknown} {WANTED}") from None
    return _described(with_said(present, described), described, "Taken for", text)


def _description(text: str, present: Scenario) -> Understood | None:
    try:
        described = read_description(one_line(text))
    except ScenarioError as error:
        if has_messages(text) or "\n" in text:
            return None
        question = None if "," in text else _question(text, present, loosely=True)
        about = question.question if question else None
        if question and (not error.field or (about and about.memory_gb is not None)):
            of_two = about is not None and about.special == "transfer"  # prefill, decode
            omitted = not (of_two or topics_of(str(error.operands.get(PHRASE, ""))))
            return replace(question, notes=(error.message,) * omitted)
        raise
    if described is None or described.fields.keys() == {"block_size"}:  # it is one to explain
        return None
    return _described(with_model(present, described), described, "A description of", text)


def _described(scenario: Scenario, said: Description, lead: str, text: str = "") -> Understood:
    """Return what a text describes, with what it means where a dtype is that of the weights."""
    other = with_weights(text, said)
    fields = {**scenario.stated(), **other}
    return Understood(
        kind="description",
        scenario=scenario,
        words=f"{lead} {said_words(scenario, said.fields, said)}.",
        names_rest=True,
        said=said.fields,
        notes=notes_of(text, said) if text else (),
        load=said.load,
        scenes=(CandidateScenario(fields, "", ""),) if other else (),
    )


def _of_fields(fields: Mapping[str, Any], lead: str, load: Load = Load()) -> Understood:  # noqa: B008
    scenario = Scenario.from_dict(fields)
    words = f"{lead} {said_words(scenario, FIELDS, Description(load=load))}."
    return Understood(kind="scenario", scenario=scenario, words=words, said=FIELDS, load=load)


def _of_model(model: str | Mapping[str, Any], present: Scenario, kind: str) -> Understood:
    try:
        found = load_model(model)
    except ConfigError as error:
        near = similar_model(model) if isinstance(model, str) else None
        if near is None or error.code != "unknown_model":
            raise
        message = f"{error.message} Nearest in the catalog: {near}."
        operands = {NEAREST: (near,)}
        raise ConfigError(error.code, message, field="model", operands=operands) from None
    scenario = present.replace(model=model)
    words = f"A {kind}: {said_words(scenario, (), name=found.name)}."
    return Understood(kind=kind, scenario=scenario, words=words, names_rest=True, notes=found.notes)


def _of_command(text: str, present: Scenario, said: Description) -> Understood:
    found = from_vllm_command(text, **machine_of(present, said))
    fields = found.fields | said.fields.keys()
    lead = "" if MODEL_FIELD in fields else " without a model, so of"
    words = said_words(found.scenario, fields, said)
    return Understood(
        kind="command",
        scenario=found.scenario,
        words=f"A command{lead or ':'} {words}.",
        names_rest=True,
        said=fields,
        notes=found.notes,
        problems=found.problems,
        load=said.load,
    )


def _of_text(text: str, present: Scenario, model: str | None) -> Understood:
    """Read a log; a single line that is none is a sentence, and gets the answer for one."""
    try:
        return _of_log(text, model)
    except ScenarioError as error:
        if error.code == "log_not_recognised" and text.startswith("{"):
            parse_config(text, PASTED_CONFIG)  # says which character is wrong
        if error.code != "log_not_recognised" or "\n" in text:
            raise
        if answered := _question(text, present, loosely=True):
            return answered
        code, problem = error.code, not_understood(text)
    hint = "Or paste a `vllm serve` command, a start-up log or a config.json."
    raise ScenarioError(code, f"{problem.message} {hint} {ANSWERED}")


def _of_log(text: str, model: str | None) -> Understood:
    report = explain_text(text, model)
    fields = report.scenario
    scenario = None if fields is None else Scenario.from_dict(fields)
    version = report.reading.version
    message = f"A start-up log of vLLM {version}." if version else "A start-up log of vLLM."
    return Understood(
        kind="log",
        scenario=scenario,
        words=message,
        said=FIELDS,
        notes=report.missing,
        log=report,
    )
