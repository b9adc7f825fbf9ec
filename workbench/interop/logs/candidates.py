"""Find scenarios that give the numbers of a log: without a model, or where the rules differ."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, starmap

from workbench.core.capacity.memory_answer import BY_MEMORY
from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.registry import Registry
from workbench.core.trace import show
from workbench.core.watch import POOL_SETTINGS
from workbench.interop.logs.scenario import LogReading
from workbench.interop.logs.steps import OF_SIZES, OPEN, STEPS, UNLIKELY
from workbench.interop.logs.tries import (
    Changes,
    Outcome,
    Start,
    Step,
    Target,
    Tries,
    choices,
    settings_of,
    start_of,
    together,
)
from workbench.models import catalog_names, load_model
from workbench.models.drafter import with_drafter
from workbench.scenario import FIELDS, MODEL

MOST = 12
FEW = 5
MOST_ALIKE = 40
"""Hits among which the few that differ are looked for: many values have the same sizes."""
MOST_TRIED = 40_000
"""Combinations: of the whole catalog all that `STEPS` names."""
MOST_CHANGES = 6_000
"""The same for the changes of one scenario."""
KEPT = 4
"""Sets of fields whose combinations stay known, in 10 MB each."""
ANSWERED = 64
"""Searches whose answers stay known: a log is often explained more than once."""
TOKENS = "tokens"
LIKELY = (
    *OPEN,
    "gdn_flashinfer_prefill",
    "rules",
    "mamba_ssm_cache_dtype",
    "block_size",
    "enable_prefix_caching",
    "mamba_cache_mode",
    "mamba_cache_dtype",
)
"""Fields that explain most differences, the likeliest first; any two of them are tried together."""
CUT = (*OPEN, "enable_prefix_caching")
"""The same for a log whose arguments are cut off."""
OF_THE_MACHINE = frozenset(
    {"kv_cache_memory_bytes", "num_gpu_blocks_override", "max_num_batched_tokens", "max_num_seqs"}
)
"""Fields whose value the machine decides if no argument does."""


@dataclass(frozen=True, slots=True)
class CandidateScenario:
    """Fields that give the numbers of a log; what is special about them, and a sentence."""

    fields: Changes
    words: str
    text: str
    lacks: tuple[str, ...] = ()
    """Numbers of the log that they do not give: capacity, while the block sizes fit."""


@dataclass(frozen=True, slots=True)
class ModelSearch:
    """The catalog models that were looked for: those that fit, simplest first, and how far."""

    scenes: tuple[CandidateScenario, ...] = ()
    tried: int = 0
    is_whole: bool = True
    """Whether every combination was tried, and every one that fits is a scene."""

    @property
    def stop(self) -> str:
        """Return what may be missing after these scenes; empty where the search is whole."""
        if self.is_whole:
            return ""
        return (
            f". The search stopped after {self.tried:,} combinations, so others may fit as "
            "well; every further field in the log narrows the search"
        )

    @property
    def words(self) -> str:
        """Return where the numbers were looked for, and whether that is everywhere."""
        if self.is_whole:
            return (
                "at a tensor parallelism of 1 to 8, with or without an fp8 cache, with 0 to 16 "
                "drafts, and for hybrid models with prefix caching and with other KV and state "
                f"dtypes: all {self.tried:,} combinations were tried."
            )
        return (
            f"in the {self.tried:,} likeliest combinations of tensor parallelism, dtypes and "
            "drafts. The others were not tried; every further field in the log narrows the search."
        )


def candidates(
    known: Changes,
    architecture: str | None,
    targets: tuple[Target, ...],
    mentioned: tuple[str, ...] = (),
) -> ModelSearch:
    """Return catalog models and changes that have every number of the log; simplest first.

    `known` are fields that the log reports; they stay unchanged. Block sizes alone come from
    aligning attention with states, so without a number of tokens only hybrid models are tried.
    The likeliest changes are tried first, of all models, and `MOST_TRIED` of them at most.
    mentioned: catalog models that the text names somewhere; others are tried if none of these fits.
    """
    if not any(target.compare.is_size or target.compare.value == TOKENS for target in targets):
        return ModelSearch()  # too few digits to tell models apart
    find = partial(_candidates, json.dumps(known), architecture, targets)
    named = find(mentioned, Registry.changes)
    if any(not scene.lacks for scene in named.scenes):
        return replace(named, is_whole=False)
    search = find(catalog_names(), Registry.changes)
    is_near = all(scene.lacks for scene in search.scenes)
    return replace(search, scenes=named.scenes) if named.scenes and is_near else search


@lru_cache(maxsize=ANSWERED)
def _candidates(
    known: str,
    architecture: str | None,
    targets: tuple[Target, ...],
    names: tuple[str, ...],
    _registered: int,
) -> ModelSearch:
    models = [load_model(name) for name in names]
    if all(target.compare.is_size for target in targets):
        models = [model for model in models if model.is_hybrid]
    same_class = [model for model in models if model.architecture == architecture]
    fixed = {name: value for name, value in json.loads(known).items() if name != MODEL.name}
    starts = _starts(same_class or models, fixed)
    found: list[tuple[int, CandidateScenario]] = []
    tries = Tries(targets, MOST_TRIED)
    has_size = any(target.compare.is_size for target in targets)
    for step in STEPS:
        is_stopped = len(found) >= MOST or (step in UNLIKELY and bool(found))
        is_stopped |= step in OF_SIZES and not has_size
        if is_stopped:
            break
        for start in starts:
            for change, fields, plan in tries.hits(start, start.outcomes(step, fixed)):
                found.append((len(change), _scene(start.model.name, change, fields, plan)))
    found.sort(key=lambda one: one[0])
    scenes = tuple(scene for _count, scene in found[:MOST]) or _near(tries)
    is_whole = tries.left > 0 and len(found) <= MOST and not is_stopped
    return ModelSearch(scenes, MOST_TRIED - tries.left, is_whole)


def _near(tries: Tries) -> tuple[CandidateScenario, ...]:
    """Return the scenes that have the block sizes of a log but not its capacity, simplest first."""
    near = sorted(tries.near.items(), key=lambda item: item[1][0].count)
    return tuple(
        replace(_scene(name, one.change, fields, plan), lacks=tries.lacks(plan))
        for name, (one, fields, plan) in near[:FEW]
    )


def _scene(name: str, change: Changes, fields: Changes, plan: Plan) -> CandidateScenario:
    words = ", ".join([name, *_words(change)])
    return CandidateScenario(fields, words, f"{words}: {_sizes(plan)}")


def _starts(models: Iterable[Model], fixed: Changes) -> list[Start]:
    """Return a start for every model; all have the same settings, which are checked once."""
    found: list[Start] = []
    same = {name: value for name, value in fixed.items() if name not in POOL_SETTINGS}
    known = _known(repr(sorted(same.items())), Registry.changes)
    try:
        settings = settings_of({MODEL.name: MODEL.default, **fixed})
    except WorkbenchError:
        return found
    for model in models:
        with suppress(WorkbenchError):  # a drafter that this model cannot have
            target = with_drafter(model, settings.draft_model)
            fields = {MODEL.name: model.name, **fixed}
            start = Start(model=target, settings=settings, fields=fields, known=known[model.name])
            found.append(start)
    return found


@lru_cache(maxsize=KEPT)
def _known(*_of: object) -> defaultdict[str, dict[Step, tuple[Outcome, ...]]]:
    """Return where searches keep what they find out, by the name of a model."""
    return defaultdict(dict)


def other_scenes(reading: LogReading, targets: tuple[Target, ...]) -> tuple[CandidateScenario, ...]:
    """Return changes of a scenario that give every number of the log, fewest first.

    Fields that the log reports stay, except rule sets: a log can be of a version between two.
    """
    start = start_of({name: value for name, value in reading.compared.items() if value is not None})
    if start is None:
        return ()
    known = {name: None for name in sorted(reading.from_lines) if name != "rules"}
    of_model = (start.model, start.model.unread_weights)
    same = _known(*of_model, repr(sorted(start.fields.items())), *known, Registry.changes)
    start.known, start.keeps_plans = same[start.model.name], True
    hits = Tries(targets, MOST_CHANGES).hits(start, start.outcomes(_all, known))
    own = {one.code for one in reading.plan.errors} if reading.plan is not None else set()
    found: dict[tuple[str, ...], list[tuple[Changes, Changes]]] = {}
    for change, fields, plan in islice(hits, MOST_ALIKE):
        # a server that something else stops has printed no sizes
        if {one.code for one in plan.errors} <= own | BY_MEMORY:
            found.setdefault((*change, _sizes(plan)), []).append((change, fields))
    return tuple(starmap(_scene_of_values, islice(found.items(), FEW)))


def _scene_of_values(
    what: tuple[str, ...], changes: list[tuple[Changes, Changes]]
) -> CandidateScenario:
    """Return the scene of the first of several changes of the same fields to the same sizes."""
    (change, fields), *others = changes
    words = " and ".join(_words(change))
    values = [", ".join(map(show, other.values())) for other, _fields in others[:FEW]]
    more = f" (or {', '.join(values)})" if values and len(change) == 1 else ""
    return CandidateScenario(fields, words, f"With {words}{more} the rules give {what[-1]}.")


def _all(start: Start, known: Changes) -> Iterator[Changes]:
    """Yield the changes of one field, of two likely ones, and of those that a log leaves open."""
    others = {MODEL.name, "draft_model", *LIKELY, *OF_THE_MACHINE}
    rest = (name for name in FIELDS if name not in others)
    for name in (*LIKELY, *rest):
        yield from choices(name, known, start)
    yield from together(LIKELY, known, start, (2, 2))
    yield from together(CUT, known, start, (len(OPEN), len(CUT)))


def _words(changes: Changes) -> list[str]:
    return [f"{field} = {show(value)}" for field, value in changes.items()]


def _sizes(plan: Plan) -> str:
    padding, cache = plan.padding_percent, plan.cache
    size = f"{plan.block_size:,} tokens"
    size = size if padding is None else f"{size}, padding {padding:.2f} %"
    if cache is None or cache.printed_tokens is None:
        return size
    return f"{size}, {cache.printed_tokens:,} tokens in {cache.max_concurrency:.2f} requests"
