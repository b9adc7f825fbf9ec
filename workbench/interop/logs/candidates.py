"""Find scenarios that give the sizes of a log: without a model, or where the rules differ."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.trace import show
from workbench.core.versions import RULE_SETS
from workbench.interop.logs.message import Compare
from workbench.interop.logs.scenario import LogReading, Resolve
from workbench.models import catalog_names, load_model
from workbench.scenario import Settings

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
        return self.compare.agrees(self.said, self.compare.expected(plan))


@dataclass(frozen=True, slots=True)
class CandidateScenario:
    """Fields that give the sizes of the log. words: what is special about it; text: a sentence."""

    fields: Mapping[str, Any]
    words: str
    text: str


def candidates(
    known: Mapping[str, Any],
    architecture: str | None,
    targets: tuple[Target, ...],
    resolve: Resolve,
) -> tuple[CandidateScenario, ...]:
    """Return catalog models and changes that have every size of the log; simplest first.

    `known` are fields that the log reports; they stay unchanged. Only hybrid models: the sizes
    come from aligning attention with states.
    """
    kept = (*SIZES, "dtype", "block_size", "mamba_ssm_cache_dtype", "rules")
    fixed = {name: known[name] for name in kept if name in known}
    defaults = Settings()
    free = {name: values for name, values in SIZES.items() if name not in fixed}
    picked = [dict(zip(free, values, strict=True)) for values in product(*free.values())]
    changes = [
        {name: value for name, value in pick.items() if value != getattr(defaults, name)}
        for pick in picked
    ]
    few = sorted((one for one in changes if len(one) <= MOST_TOGETHER), key=len)
    models = [load_model(name) for name in catalog_names()]
    hybrids = [model for model in models if model.is_hybrid]
    same_class = [model for model in hybrids if model.architecture == architecture]
    found: list[tuple[int, CandidateScenario]] = []
    for model in same_class or hybrids:
        for change, fields, plan in _hits({"model": model.name, **fixed}, few, targets, resolve):
            words = ", ".join([model.name, *_words(change)])
            scene = CandidateScenario(fields, words, f"{words}: {_sizes(plan)}")
            found.append((len(change), scene))
    found.sort(key=lambda one: one[0])
    return tuple(scene for _count, scene in found[:MOST])


def other_scenes(
    reading: LogReading, targets: tuple[Target, ...], resolve: Resolve
) -> tuple[CandidateScenario, ...]:
    """Return changes of a scenario that give every size of the log, fewest first.

    Fields that the log reports stay, except rule sets: a log can be of a version between two.
    """
    values = {name: tried for name, tried in CHANGES.items() if name not in reading.from_lines}
    free = {
        name: [value for value in tried if reading.compared.get(name) != value]
        for name, tried in {**values, "rules": tuple(RULE_SETS)}.items()
    }
    singles = [{name: value} for name, tried in free.items() for value in tried]
    pairs = [
        {one: first, two: second}
        for one, two in combinations(free, 2)
        if (one, two) in CLOSE or (two, one) in CLOSE
        for first, second in product(free[one], free[two])
    ]
    found = []
    for change, fields, plan in _hits(reading.compared, (*singles, *pairs), targets, resolve):
        words = " and ".join(_words(change))
        text = f"With {words} the rules give {_sizes(plan)}."
        found.append(CandidateScenario(fields, words, text))
    return tuple(found[:FEW])


def _hits(
    base: Mapping[str, Any],
    changes: Iterable[Mapping[str, Any]],
    targets: tuple[Target, ...],
    resolve: Resolve,
) -> Iterator[tuple[Mapping[str, Any], dict[str, Any], Plan]]:
    """Yield the changes that hit every target, with all fields and the plan; only the shortest."""
    fewest: int | None = None
    for change in changes:
        if fewest is not None and len(change) > fewest:
            return
        fields = {**base, **change}
        try:
            plan = resolve(fields)
        except WorkbenchError:
            continue
        if all(target.hit(plan) for target in targets):
            fewest = len(change)
            yield change, fields, plan


def _words(changes: Mapping[str, Any]) -> list[str]:
    return [f"{field} = {show(value)}" for field, value in changes.items()]


def _sizes(plan: Plan) -> str:
    padding = plan.padding_percent
    size = f"{plan.block_size:,} tokens"
    return size if padding is None else f"{size}, padding {padding:.2f} %"
