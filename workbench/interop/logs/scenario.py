"""Reconstruct the scenario of a log."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy
from workbench.core.trace import show
from workbench.core.what_if.releases import release_of
from workbench.interop.logs.facts import KnownModel, command_facts, entries, known_model, unfollowed
from workbench.interop.logs.find import LoggedMessage
from workbench.interop.logs.numbers import NUMBERS, PRINTED, pool_of
from workbench.interop.logs.releases import newest_rules_for, rules_for
from workbench.interop.logs.tries import backend_changes
from workbench.interop.logs.written import MEASURED

Resolve = Callable[[Mapping[str, Any]], Plan]
"""Scenario fields -> plan; WorkbenchError if there is none."""

ARGUMENTS = "typed_arguments"
COMMANDS = frozenset({"serve_command", "docker_command", "python_command"})
IMAGES = frozenset({"docker_command", "image"})
"""Messages whose version is that of a container's image."""
SETTLED = "engine_config"
NO_ARGUMENTS = (
    "The log contains neither all arguments nor the command: what it does not name is a default "
    "here."
)
BLOCKS = "num_blocks"
OMITTED = "Omitted"
"""The beginning of a note on a field that a release did not take."""
OF_THE_POOL = {*MEASURED, "num_gpu_blocks_override"}
BACKENDS = ("backend", "rocm_backend", "backend_in_words")
"""Messages whose fields are handled separately: see `_with_backend`."""


@dataclass(frozen=True, slots=True)
class LogReading:
    """The scenario fields that a log reports."""

    version: str | None
    fields: Mapping[str, Any]
    """As a scenario takes them, also if vLLM refuses them."""
    from_lines: Mapping[str, int]
    """Field -> its line number."""
    notes: tuple[str, ...]
    plan: Plan | None = None
    """Of `compared`, which are the fields without the refused ones, so that sizes can be compared
    anyway; None if the model is unknown or there is no plan."""
    refusal: WorkbenchError | None = None
    """vLLM's answer to these fields."""
    architecture: str | None = None
    """The model class, if the log names it."""
    has_arguments: bool = False
    """The log prints the user's arguments, so every other field is its default."""
    compared: Mapping[str, Any] = field(default_factory=dict)
    is_stand_in: bool = False
    """The model has the sizes of the log's checkpoint, which can be quantized in another way."""
    measured: frozenset[str] = frozenset()
    """Fields of the memory that vLLM found on the machine, which no setting makes larger."""

    @property
    def is_resolved(self) -> bool:
        """Return whether the rules have an answer to the fields: a plan or a refusal."""
        return self.plan is not None or self.refusal is not None

    def applicable(self, remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
        """Return the remedies that change settings only, and nothing that was measured."""
        return tuple(one for one in remedies if not self.measured & one.changes.keys())


def reconstruct(
    found: Iterable[LoggedMessage], resolve: Resolve, model: str | None = None
) -> LogReading:
    """Return the scenario of a log, and its plan. model: instead of the one that the log names."""
    seen = [one for one in found if not one.is_cut]
    # what ran is what the log prints, whatever image a command names
    version = _first(sorted(seen, key=lambda one: one.message.name in IMAGES), "version")
    since = next((one.message.since for one in seen if one.message.since), None)
    rules, note = rules_for(version, since)
    fields, from_lines, notes = _fields(seen)
    explicit = {name for one in seen if _is_set(one) for name in _given(one)}
    reading = LogReading(
        version=version,
        fields={**fields, "rules": rules},
        from_lines=from_lines,
        notes=(*filter(None, (note,)), *notes),
        architecture=_first(seen, "architecture"),
        has_arguments=any(map(_has_arguments, seen)),
        measured=frozenset(MEASURED) - explicit,
    )
    if model is None and "model" not in fields:
        return reading
    logged = fields.get("model", "no model")
    if model is None:
        known = known_model(str(logged))
    else:
        note = f"Compared with {model}, as requested; the log names {logged}."
        named = known_model(str(logged))
        known = KnownModel(model, note, named.is_stand_in and named.name == model)
    reading = replace(
        reading, notes=(*reading.notes, *filter(None, (known.note,))), is_stand_in=known.is_stand_in
    )
    if known.name is None:
        return reading
    if not reading.has_arguments:
        reading = replace(reading, notes=(*reading.notes, NO_ARGUMENTS))
    reading = replace(reading, fields={**reading.fields, "model": known.name})
    reading = _by_rules(reading, seen, resolve)
    return _with_pool(_with_backend(reading, seen, resolve), seen, resolve)


def _by_rules(reading: LogReading, seen: list[LoggedMessage], resolve: Resolve) -> LogReading:
    """Return the same with a plan, of the newest rules if a start needs them.

    Its release is none, or between those with rules.
    """
    found = resolved(reading, resolve)
    release, own = map(release_of, (reading.version, reading.fields["rules"]))
    is_known = release is not None and (own is None or release <= own)
    is_start = not any(one.message.is_fatal for one in seen)
    if not isinstance(found.refusal, Refused) or not is_start or is_known:
        return found
    tried = resolved(by_newest(reading), resolve)
    return found if tried.refusal is not None else tried


def by_newest(reading: LogReading) -> LogReading:
    """Return the same, to be resolved by the rules of the newest release."""
    rules, note = newest_rules_for(reading.version)
    fields = {**reading.fields, "rules": rules}
    kept = (one for one in reading.notes[1:] if not one.startswith(OMITTED))
    return replace(reading, fields=fields, notes=(note, *kept))


def _has_arguments(one: LoggedMessage) -> bool:
    """Return whether a message contains all arguments; a printed dict can be cut off."""
    if one.message.name == ARGUMENTS:
        printed = str(one.values["arguments"])
        return printed.count("{") <= printed.count("}")
    return one.message.name in COMMANDS and bool(_given(one))


def _given(one: LoggedMessage) -> Mapping[str, Any]:
    return one.message.given(one.values)


def _first(seen: list[LoggedMessage], value: str) -> str | None:
    return next((str(one.values[value]) for one in seen if value in one.values), None)


def _fields(seen: list[LoggedMessage]) -> tuple[dict[str, Any], dict[str, int], list[str]]:
    """Return fields by trust: the user's arguments, the engine's settings, then single lines."""
    fields: dict[str, Any] = {}
    from_lines: dict[str, int] = {}
    notes: list[str] = []
    for one in sorted(seen, key=_trust):
        if one.message.name in BACKENDS:
            continue
        for name, value in _given(one).items():
            if fields.get(name, "auto") == "auto":
                fields[name], from_lines[name] = value, one.line.number
        # the engine prints every setting, also those that it decided itself
        if "arguments" in one.values and not notes:
            notes += unfollowed(entries(one.values["arguments"]))
        if one.message.name in COMMANDS:
            notes += command_facts(str(one.values["command"]))[1]
    stated = [name for name in fields if name in MEASURED]
    if stated == [*MEASURED]:
        # a pool that is smaller than one block ends as one without memory: the size is trusted more
        del fields[MEASURED[1]]
    return fields, from_lines, notes


def _trust(one: LoggedMessage) -> tuple[float, float, int]:
    """Return the sort key: the user's settings, the engine's, single lines, then implied values.

    Of the memory of several ranks the smallest counts.
    """
    order: float = 1 if one.message.name == SETTLED else 2
    if _is_set(one):
        order = 0.5 if one.message.name in COMMANDS else 0
    elif one.message.is_fatal:
        order = 3
    return order, float(one.values.get("available_gib", 0)), one.line.number


def _is_set(one: LoggedMessage) -> bool:
    """Return whether the fields of a message are what the user set."""
    return one.message.name in {ARGUMENTS, *COMMANDS} or one.message.is_explicit


def resolved(reading: LogReading, resolve: Resolve) -> LogReading:
    """Return the same with what the rules make of its fields.

    A field with an invalid value is omitted, and how a checkpoint is quantized of which only the
    sizes are known. A field that vLLM refuses stays, and is omitted from `compared` only.
    """
    fields, compared = dict(reading.fields), dict(reading.fields)
    notes = list(reading.notes)
    refusal: WorkbenchError | None = None
    plan: Plan | None = None
    while plan is None:
        try:
            plan = resolve(compared)
        except WorkbenchError as error:
            is_refused = isinstance(error, Refused)
            is_other = is_refused and reading.is_stand_in and error.field == "quantization"
            if refusal is None and is_refused and not is_other:
                refusal = error
            if error.field not in compared or error.field in {"model", "rules"}:
                refusal = refusal or error
                notes.append(error.message)
                break
            value = compared.pop(error.field)
            if is_other:
                del fields[error.field]
                stand_in = f"{compared['model']} is quantized in another way, or not at all"
                notes.append(f"{OMITTED} {error.field} = {value} to compare sizes: {stand_in}.")
            elif is_refused:
                notes.append(f"{OMITTED} {error.field} = {value} to compare sizes: {error.message}")
            else:
                del fields[error.field]
                notes.append(f"{OMITTED} {error.field} = {value}: {error.message}")
    from_lines = {name: line for name, line in reading.from_lines.items() if name in fields}
    return replace(
        reading,
        fields=fields,
        from_lines=from_lines,
        notes=tuple(dict.fromkeys(notes)),
        plan=plan,
        refusal=refusal,
        compared=compared if plan is not None else {},
    )


def _with_backend(reading: LogReading, seen: list[LoggedMessage], resolve: Resolve) -> LogReading:
    """Return the same with the backend that the log names, where the rules would choose another."""
    one = next((one for one in seen if one.message.name in BACKENDS), None)
    if reading.plan is None or one is None or "backend" in reading.fields:
        return reading
    named = _given(one)
    if reading.plan.backend == named["backend"]:
        return reading
    found: LogReading | None = None
    for change in backend_changes(reading.plan, reading.fields, named):
        changed = replace(
            reading,
            fields={**reading.fields, **change},
            from_lines={**reading.from_lines, **dict.fromkeys(change, one.line.number)},
        )
        tried = resolved(changed, resolve)
        if tried.plan is None or tried.plan.backend != named["backend"]:
            continue
        if not any(problem.code == "backend_not_valid" for problem in tried.plan.errors):
            return tried
        found = found or tried
    return found or reading


def _with_pool(reading: LogReading, seen: list[LoggedMessage], resolve: Resolve) -> LogReading:
    """Return the same with the pool whose blocks, or tokens and concurrency, the log prints.

    One of these two would fit nearly any pool.
    """
    plan = reading.plan
    said = {name: one for one in seen for name in (BLOCKS, *PRINTED) if name in one.values}
    if plan is None or plan.cache is None or OF_THE_POOL & reading.fields.keys():
        return reading
    values = {name: one.values[name] for name, one in said.items()}
    blocks = values.get(BLOCKS)
    if blocks is None and values.keys() >= {*PRINTED}:
        blocks = pool_of(plan, *(values[name] for name in PRINTED))
    if not blocks:
        return reading
    memory = {MEASURED[0]: blocks * plan.cache.grouping.bytes_per_block}
    both = " and ".join(f"{show(value)} {NUMBERS[name].unit}" for name, value in values.items())
    found = "" if BLOCKS in values else f": {blocks:,} blocks"
    note = f"The log has no size of the cache, which follows from {both}{found}."
    line = next(iter(said.values())).line.number
    changed = replace(
        reading,
        fields={**reading.fields, **memory},
        from_lines={**reading.from_lines, **dict.fromkeys(memory, line)},
        notes=(*reading.notes, note),
    )
    return resolved(changed, resolve)
