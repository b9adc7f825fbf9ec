"""Find scenarios that give the sizes of a log: without a model, or where the rules differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.resolve import resolve as core_resolve
from workbench.core.trace import show
from workbench.core.versions import RULE_SETS
from workbench.interop.logs.message import Compare
from workbench.models import catalog_names, load_model
from workbench.scenario.fields import Settings

if TYPE_CHECKING:
    from workbench.interop.logs.scenario import LogReading

MOST = 12
FEW = 5
MOST_TOGETHER = 2
SIZES: Mapping[str, tuple[Any, ...]] = {
    "tensor_parallel": (1, 2, 4, 8),
    "kv_cache_dtype": ("auto", "fp8"),
    "platform": ("cuda", "rocm", "xpu", "cpu"),
    "num_speculative_tokens": (0, 1, 2, 3),
}
"""Fields varied for a log without a model, simplest first."""

CHANGES: Mapping[str, tuple[Any, ...]] = {
    "tensor_parallel": (1, 2, 4, 8, 16),
    "kv_cache_dtype": ("auto", "fp8", "turboquant_k8v4", "int8_per_token_head"),
    "mamba_ssm_cache_dtype": ("float32", "bfloat16"),
    "mamba_cache_dtype": ("float32", "bfloat16"),
    "num_speculative_tokens": (0, 1, 2, 3, 4, 5, 6, 7, 8, 15),
    "block_size": (32, 64, 128, 256),
    "enable_prefix_caching": (True, False),
    "mamba_cache_mode": ("align", "all"),
    "platform": ("cuda", "rocm", "xpu", "cpu"),
    "compute_capability": ("8.0", "9.0", "10.0"),
    "dtype": ("float16", "float32"),
    "gdn_flashinfer_prefill": (True, False),
}
"""Fields varied if the log's size and the rules' differ."""

CLOSE = (
    ("tensor_parallel", "num_speculative_tokens"),
    ("tensor_parallel", "kv_cache_dtype"),
    ("kv_cache_dtype", "num_speculative_tokens"),
    ("kv_cache_dtype", "block_size"),
    ("num_speculative_tokens", "mamba_ssm_cache_dtype"),
    ("mamba_cache_dtype", "mamba_ssm_cache_dtype"),
    ("kv_cache_dtype", "mamba_ssm_cache_dtype"),
    ("enable_prefix_caching", "mamba_cache_mode"),
)
"""Pairs of fields that are often changed together."""


@dataclass(frozen=True, slots=True)
class Target:
    """A size that the log names."""

    compare: Compare
    said: Any

    def hit(self, plan: Plan) -> bool:
        """Return whether the plan has it."""
        return self.compare.agrees(self.said, self.compare.of(plan))


@dataclass(frozen=True, slots=True)
class CandidateScenario:
    """Fields that give the sizes of the log. words: what is special about it; text: a sentence."""

    fields: Mapping[str, Any]
    words: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"fields": dict(self.fields), "words": self.words, "text": self.text}


def candidates(
    known: Mapping[str, Any], architecture: str | None, targets: tuple[Target, ...]
) -> tuple[CandidateScenario, ...]:
    """Return catalog models and changes that have every size of the log; simplest first.

    `known` are fields that the log reports; they stay unchanged. Only hybrid models: the sizes
    come from aligning attention with states.
    """
    fixed = {
        name: known[name]
        for name in (*SIZES, "dtype", "block_size", "mamba_ssm_cache_dtype", "rules")
        if name in known
    }
    names = tuple(name for name in catalog_names() if load_model(name).is_hybrid)
    if architecture is not None:
        same_class = [name for name in names if load_model(name).architecture == architecture]
        names = tuple(same_class) or names
    found: list[tuple[int, CandidateScenario]] = []
    for name in names:
        for changes, plan in _plans(name, fixed):
            if all(target.hit(plan) for target in targets):
                fields = {"model": name, **fixed, **changes}
                words = ", ".join([name, *_words(changes)])
                found.append(
                    (len(changes), CandidateScenario(fields, words, f"{words}: {_sizes(plan)}"))
                )
    found.sort(key=lambda one: one[0])
    least: dict[str, int] = {}
    for cost, scene in found:
        least.setdefault(str(scene.fields["model"]), cost)
    plain = [scene for cost, scene in found if cost <= least[str(scene.fields["model"])]]
    return tuple(plain[:MOST])


def _plans(name: str, fixed: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Plan]]:
    """Yield plans of one model, at most two fields away from the defaults."""
    model = load_model(name)
    defaults = Settings(**fixed)
    free = {field: values for field, values in SIZES.items() if field not in fixed}
    for values in product(*free.values()):
        picked = dict(zip(free, values, strict=True))
        changes = {
            field: value for field, value in picked.items() if value != getattr(defaults, field)
        }
        if len(changes) > MOST_TOGETHER:
            continue
        plan = _tried(partial(core_resolve, model, Settings(**{**fixed, **changes})))
        if plan is not None:
            yield changes, plan


def other_scenes(
    reading: LogReading, targets: tuple[Target, ...], resolve: Callable[[Mapping[str, Any]], Plan]
) -> tuple[CandidateScenario, ...]:
    """Return changes of a scenario that give every size of the log, fewest first.

    Fields that the log reports stay, except rule sets: a log can be of a version between two.
    """
    free = {field: values for field, values in CHANGES.items() if field not in reading.from_lines}
    free["rules"] = tuple(RULE_SETS)
    singles = [{field: value} for field, values in free.items() for value in values]
    pairs = [
        {one: first, two: second}
        for one, two in combinations(free, 2)
        if (one, two) in CLOSE or (two, one) in CLOSE
        for first, second in product(free[one], free[two])
    ]
    found: list[CandidateScenario] = []
    fewest = 0
    for changes in (*singles, *pairs):
        if any(reading.compared.get(name) == value for name, value in changes.items()):
            continue
        if found and len(changes) > fewest:
            break
        plan = _tried(partial(resolve, {**reading.compared, **changes}))
        if plan is not None and all(target.hit(plan) for target in targets):
            words = " and ".join(_words(changes))
            fewest = len(changes)
            text = f"With {words} the rules give {_sizes(plan)}."
            found.append(CandidateScenario({**reading.compared, **changes}, words, text))
    return tuple(found[:FEW])


def _tried(make: Callable[[], Plan]) -> Plan | None:
    try:
        return make()
    except WorkbenchError:
        return None


def _words(changes: Mapping[str, Any]) -> list[str]:
    return [f"{field} = {show(value)}" for field, value in changes.items()]


def _sizes(plan: Plan) -> str:
    padding = plan.padding_percent
    return f"{plan.block_size:,} tokens" + (
        f", padding {padding:.2f} %" if padding is not None else ""
    )
