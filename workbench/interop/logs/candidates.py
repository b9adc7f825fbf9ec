"""Find scenarios that give the numbers of a log: without a model, or where the rules differ."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve as decide
from workbench.core.speculation import NGRAM
from workbench.core.trace import show
from workbench.interop.logs.message import Compare
from workbench.interop.logs.scenario import LogReading, Resolve
from workbench.models import catalog_names, load_model
from workbench.models.drafter import with_drafter
from workbench.scenario import FIELDS, MODEL, Scenario, Settings

MOST = 12
FEW = 5
DRAFTS, METHOD = "num_speculative_tokens", "speculative_method"
TOKENS = "tokens"
LIKELY = (
    "tensor_parallel",
    DRAFTS,
    "kv_cache_dtype",
    "gdn_flashinfer_prefill",
    "rules",
    "mamba_ssm_cache_dtype",
    "block_size",
    "enable_prefix_caching",
    "mamba_cache_mode",
    "mamba_cache_dtype",
)
"""Fields that explain most differences, the likeliest first; any two of them are tried together."""
OPEN = LIKELY[:3]
"""Fields that a log without arguments leaves open; all of them are tried together."""
CUT = (*OPEN, "enable_prefix_caching")
"""The same for a log whose arguments are cut off."""
OF_THE_MACHINE = frozenset(
    {"kv_cache_memory_bytes", "num_gpu_blocks_override", "max_num_batched_tokens", "max_num_seqs"}
)
"""Fields whose value the machine decides if no argument does."""
Changes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A number that the log names."""

    compare: Compare
    said: Any

    def hit(self, plan: Plan) -> bool:
        """Return whether the plan has it."""
        return self.compare.has(plan, self.said)


@dataclass(frozen=True, slots=True)
class CandidateScenario:
    """Fields that give the numbers of a log; what is special about them, and a sentence."""

    fields: Changes
    words: str
    text: str


def candidates(
    known: Changes, architecture: str | None, targets: tuple[Target, ...], resolve: Resolve
) -> tuple[CandidateScenario, ...]:
    """Return catalog models and changes that have every number of the log; simplest first.

    `known` are fields that the log reports; they stay unchanged. Block sizes alone come from
    aligning attention with states, so without a number of tokens only hybrid models are tried.
    """
    if not any(target.compare.is_size or target.compare.value == TOKENS for target in targets):
        return ()  # too few digits to tell models apart
    models = [load_model(name) for name in catalog_names()]
    if all(target.compare.is_size for target in targets):
        models = [model for model in models if model.is_hybrid]
    same_class = [model for model in models if model.architecture == architecture]
    fixed = {name: value for name, value in known.items() if name != MODEL.name}
    for most in (2, len(OPEN)):
        found = [
            (len(change), CandidateScenario(fields, words, f"{words}: {_sizes(plan)}"))
            for model in same_class or models
            for change, fields, plan in _hits(
                {MODEL.name: model.name, **fixed}, targets, resolve, partial(_open, fixed, most)
            )
            for words in (", ".join([model.name, *_words(change)]),)
        ]
        if found:
            break
    found.sort(key=lambda one: one[0])
    return tuple(scene for _count, scene in found[:MOST])


def _open(fixed: Changes, most: int, settings: Settings, model: Model) -> Iterator[Changes]:
    """Yield the changes of up to `most` fields that a log without arguments leaves open."""
    yield {}
    names = OPEN if model.is_hybrid else [name for name in OPEN if name != DRAFTS]
    yield from _together(names, fixed, settings, model, (1, most))
    yield from choices("platform", fixed, settings, model)


def other_scenes(
    reading: LogReading, targets: tuple[Target, ...], resolve: Resolve
) -> tuple[CandidateScenario, ...]:
    """Return changes of a scenario that give every number of the log, fewest first.

    Fields that the log reports stay, except rule sets: a log can be of a version between two.
    """
    base = {name: value for name, value in reading.compared.items() if value is not None}
    known = {name for name in reading.from_lines if name != "rules"}
    found = []
    for change, fields, plan in _hits(base, targets, resolve, partial(_all, known)):
        words = " and ".join(_words(change))
        text = f"With {words} the rules give {_sizes(plan)}."
        found.append(CandidateScenario(fields, words, text))
    return tuple(found[:FEW])


def _all(known: Iterable[str], settings: Settings, model: Model) -> Iterator[Changes]:
    """Yield the changes of one field, of two likely ones, and of those that a log leaves open."""
    others = {MODEL.name, "draft_model", *LIKELY, *OF_THE_MACHINE}
    rest = (name for name in FIELDS if name not in others)
    for name in (*LIKELY, *rest):
        yield from choices(name, known, settings, model)
    yield from _together(LIKELY, known, settings, model, (2, 2))
    yield from _together(CUT, known, settings, model, (len(OPEN), len(CUT)))


def choices(
    name: str, known: Iterable[str], settings: Settings, model: Model, *, few: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the changes of one field; drafts with the method that the rules choose, and ngram.

    few: the values of the default sweep, where there is one, and one method only.
    """
    if name in known:
        return
    field = FIELDS[name]
    is_short = few and name != DRAFTS and field.sweep
    for value in field.sweep if is_short else field.tried_values(settings, model):
        if value != getattr(settings, name):
            yield {name: value}
            if name == DRAFTS and value and not few and METHOD not in known:
                yield {name: value, METHOD: NGRAM}


def _together(
    names: Iterable[str],
    known: Iterable[str],
    settings: Settings,
    model: Model,
    counts: tuple[int, int],
) -> Iterator[dict[str, Any]]:
    """Yield the changes of several fields at once, fewest first. counts: of fields, from and to."""
    options = [list(choices(name, known, settings, model, few=True)) for name in names]
    for count in range(counts[0], counts[1] + 1):
        for several in combinations(filter(None, options), count):
            for picked in product(*several):
                yield {name: value for change in picked for name, value in change.items()}


def settings_of(fields: Changes) -> Settings:
    """Return the settings of fields that were checked once; changed copies are not checked."""
    scenario = Scenario.from_dict(dict(fields))
    return Settings(**{name: getattr(scenario, name) for name in FIELDS if name != MODEL.name})


def _hits(
    base: Changes,
    targets: tuple[Target, ...],
    resolve: Resolve,
    changes_of: Callable[[Settings, Model], Iterable[Changes]],
) -> Iterator[tuple[Changes, dict[str, Any], Plan]]:
    """Yield the changes that hit every target, with all fields and the plan; only the shortest."""
    try:
        settings = settings_of(base)
        model = with_drafter(load_model(base[MODEL.name]), settings.draft_model)
    except WorkbenchError:
        return
    fewest: int | None = None
    for change in changes_of(settings, model):
        if fewest is not None and len(change.keys() - {METHOD}) > fewest:
            return
        try:
            plan = decide(model, replace(settings, **change), trace=False)
            if not all(target.hit(plan) for target in targets):
                continue
            fields = {**base, **change}
            plan = resolve(fields)  # as a checked scenario
        except WorkbenchError:
            continue
        fewest = len(change.keys() - {METHOD})
        yield change, fields, plan


def _words(changes: Changes) -> list[str]:
    return [f"{field} = {show(value)}" for field, value in changes.items()]


def _sizes(plan: Plan) -> str:
    padding, cache = plan.padding_percent, plan.cache
    size = f"{plan.block_size:,} tokens"
    size = size if padding is None else f"{size}, padding {padding:.2f} %"
    if cache is None or cache.printed_tokens is None:
        return size
    return f"{size}, {cache.printed_tokens:,} tokens in {cache.max_concurrency:.2f} requests"
