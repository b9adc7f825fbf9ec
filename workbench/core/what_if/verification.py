"""A plan compared with the answers of a real vLLM, field by field."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import Refused
from workbench.core.plan import Plan
from workbench.core.runner import is_async, model_runner

COMPARED = (
    *("is_hybrid", "use_mla", "model_dtype", "kv_cache_dtype"),
    *("max_model_len", "max_num_batched_tokens", "max_num_seqs"),
    *("enable_prefix_caching", "mamba_cache_mode", "mamba_cache_dtype", "mamba_ssm_cache_dtype"),
    *("num_kv_heads_per_rank", "head_size", "backend"),
    *("mamba_backend", "mamba_state_shapes", "mamba_state_dtypes", "mamba_page_size_bytes"),
    *("layer_state_shapes", "layer_state_bytes"),
    *("attention_bytes_per_token", "block_size", "mamba_block_size", "mamba_page_size_padded"),
    *("attention_page_size_bytes", "supported_kernel_block_sizes", "kernel_block_size"),
    *("validate_block_size_error", "log_lines", "groups", "layers", "stages", "cache_layout"),
    *("scheduler_block_size", "hash_block_size", "num_blocks", "max_concurrency"),
    *("tensors", "tensor_bytes", "async_scheduling", "model_runner"),
)
"""The fields that are compared, in the order of vLLM's start; names of the published plan."""

HOOK_LINES = ("Setting ", "Padding ", "[XPU]")
"""How the lines begin that the block-size hook logs; the plan has lines of other places too."""
BUDGET_PROBLEM = "block_exceeds_token_budget"
SHOWN_MESSAGE = 300
NOT_NATIVE = "architecture_not_served"
"""The refusal where vLLM can answer with another library's model: nothing to compare."""


@dataclass(frozen=True, slots=True)
class Row:
    """One field, the workbench's value and vLLM's."""

    field: str
    ours: Any
    theirs: Any
    same: bool


@dataclass(frozen=True)
class Check:
    """One scenario. Exactly one of three: rows, or a failure (vLLM could not be queried).

    functions: what was called in vLLM. unanswered: field -> why it was not.
    """

    scenario: Mapping[str, Any]
    rows: tuple[Row, ...] = ()
    functions: tuple[str, ...] = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None

    @property
    def differences(self) -> tuple[Row, ...]:
        """Return the rows that are not the same."""
        return tuple(row for row in self.rows if not row.same)


@dataclass(frozen=True)
class Report:
    """Every scenario that one vLLM was queried about.

    version: of the vLLM; rules: of the workbench that it was compared with; stand_ins: what stood
    in for what that machine lacks; environment: versions alongside it.
    """

    version: str
    rules: str
    environment: Mapping[str, str]
    stand_ins: Mapping[str, str]
    checks: tuple[Check, ...]

    def _repr_html_(self) -> str:
        from workbench.views.verify import verification_html

        return verification_html(self)

    @property
    def exact(self) -> bool:
        """Return whether the rules are those of this very version, and not the nearest ones."""
        return _number(self.version) == _number(self.rules)

    @property
    def differing(self) -> tuple[Check, ...]:
        """Return the scenarios with a difference."""
        return tuple(check for check in self.checks if check.differences)

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the scenarios that could not be checked."""
        return tuple(check for check in self.checks if check.failure is not None)

    @property
    def functions(self) -> tuple[str, ...]:
        """Return every vLLM function that was called, once, in order."""
        return tuple(dict.fromkeys(name for check in self.checks for name in check.functions))

    @property
    def agreement(self) -> dict[str, tuple[int, int]]:
        """Return field -> in how many scenarios it is the same, and in how many it was compared."""
        rows = [row for check in self.checks for row in check.rows]
        same = Counter(row.field for row in rows if row.same)
        return {
            field: (same[field], count)
            for field, count in Counter(row.field for row in rows).items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values, with rows only of scenarios that differ."""
        return {
            "vllm": self.version,
            "rules": self.rules,
            "exact_rules": self.exact,
            "environment": dict(self.environment),
            "asked": list(self.functions),  # words: ok
            "stand_ins": dict(self.stand_ins),
            "scenarios": len(self.checks),
            "compared_fields": sum(len(check.rows) for check in self.checks),
            "agreement": {field: list(counts) for field, counts in self.agreement.items()},
            "unanswered": [
                {"scenario": dict(check.scenario), "why": dict(check.unanswered)}
                for check in self.checks
                if check.unanswered
            ],
            "not_asked": [
                {"scenario": dict(check.scenario), "why": check.failure} for check in self.failed
            ],
            "differences": [
                {
                    "scenario": dict(check.scenario),
                    "fields": [
                        {"field": row.field, "workbench": row.ours, "vllm": row.theirs}
                        for row in check.differences
                    ],
                }
                for check in self.differing
            ],
        }


def nearest_rules(version: str, names: Iterable[str]) -> str:
    """Return the rule set for a vLLM version: its own, else the one of the nearest version."""
    # Only names that are versions count; of two equally near ones the older. "dev" builds without a
    # number get the newest.
    known = {number: name for name in names if (number := _number(name)) is not None}
    given = _number(version)
    if given is None:
        return known[max(known)]
    return known[min(sorted(known), key=lambda number: abs(number - given))]


def _number(version: str) -> int | None:
    """Return a number that orders versions; a major release is further than any minor one."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return None if found is None else 10_000 * int(found[1]) + int(found[2])


def compare(
    outcome: Plan | Refused, answers: Mapping[str, Any], refusal: Mapping[str, str] | None
) -> tuple[Row, ...]:
    """Return the rows of one scenario; `answers` and `refusal` are vLLM's, sizes per rank.

    Fields that vLLM was not queried for have no row.
    """
    ours, answers = {} if isinstance(outcome, Refused) else _ours(outcome), _theirs(answers)
    both = [name for name in COMPARED if name in answers and name in ours]
    rows = [_row(name, ours[name], answers[name]) for name in both]
    if not isinstance(outcome, Refused) and refusal is None:
        return tuple(rows)
    return (_refusal_row(outcome, refusal), *rows)


def _row(name: str, ours: Any, theirs: Any) -> Row:
    if name == "log_lines":
        # The plan has the lines of other places, too.
        theirs = [line for line in theirs if line.startswith(HOOK_LINES)]
    if name == "stages":
        # Without a memory size vLLM has no tensors.
        known = theirs[0]
        ours = [{key: stage[key] for key in known} for stage in ours]
    same = ours == theirs
    if isinstance(ours, float) and isinstance(theirs, float):
        same = isclose(ours, theirs)  # vLLM divides in another order
    if name == "validate_block_size_error" and ours and theirs:
        same = ours in theirs
    return Row(name, ours, theirs, same)


def _ours(plan: Plan) -> dict[str, Any]:
    """Return the plan in the words of the comparison."""
    codes = {problem.code: problem for problem in plan.problems}
    budget = codes.get(BUDGET_PROBLEM)
    return {
        **Plan.to_dict(plan),
        **({} if plan.cache is None else _ours_of_cache(plan.cache)),
        "async_scheduling": is_async(plan),
        "model_runner": model_runner(plan),
        "validate_block_size_error": budget.vllm_text if budget else None,
        "log_lines": [line for line in plan.log_lines if line.startswith(HOOK_LINES)],
    }


def _ours_of_cache(cache: CachePlan) -> dict[str, Any]:
    """Return groups, layers and allocations in the words of the comparison: of the first stage."""
    stages = cache.stages or (cache,)
    return {**_ours_of_stage(stages[0]), "stages": [_ours_of_stage(one) for one in stages]}


def _ours_of_stage(cache: CachePlan) -> dict[str, Any]:
    layers = [spec for group in cache.groups for spec in group.layer_specs]
    tensors = cache.tensors or ()
    return {
        "groups": sorted(
            [group.kind, group.spec.block_size, group.page_size_bytes, len(group.layers)]
            for group in cache.groups
        ),
        "layers": _counted((one.kind, one.block_size, one.page_size_bytes, 1) for one in layers),
        "tensors": None if cache.cache_layout else len(tensors) or None,
        "tensor_bytes": sum(tensor.size_bytes for tensor in tensors),
    }


def _theirs(answers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return vLLM's answers with its groups in the words of the comparison, in no order."""
    if "groups" not in answers:
        return answers
    stages = [_theirs_of_stage(one) for one in answers.get("stages", (answers,))]
    found = {**answers, **stages[0], "stages": stages}
    if len(stages) == 1:
        del found["stages"]
    return found


def _theirs_of_stage(answers: Mapping[str, Any]) -> dict[str, Any]:
    groups = answers["groups"]
    size = ("kind", "block_size", "page_size_bytes")
    layers = [layer for group in groups for layer in group["layers"]]
    return {
        "groups": sorted(
            [*(group[name] for name in size), sum(count for *_, count in group["layers"])]
            for group in groups
        ),
        "layers": _counted((kind, block, page, count) for kind, block, page, _, count in layers),
        **{name: answers[name] for name in ("tensors", "tensor_bytes") if name in answers},
    }


def _counted(layers: Iterable[tuple[str, int, int, int]]) -> list[list[Any]]:
    """Return (class, block, page, how many) with equal layers counted together."""
    found: Counter[tuple[str, int, int]] = Counter()
    for kind, block, page, count in layers:
        found[kind, block, page] += count
    return sorted([*layer, count] for layer, count in found.items())


def _refusal_row(outcome: Plan | Refused, refusal: Mapping[str, str] | None) -> Row:
    theirs = None if refusal is None else refusal["message"]
    if isinstance(outcome, Refused) and outcome.code == NOT_NATIVE and outcome.vllm_text is None:
        how = "runs through another library, as a model without states"
        return Row("refusal", "no native implementation", theirs or how, same=True)
    if isinstance(outcome, Refused):
        said: tuple[str | None, ...] = (outcome.vllm_text,)
        shown: Any = outcome.vllm_text or outcome.message
    else:
        texts = [problem.vllm_text for problem in outcome.problems if problem.vllm_text]
        said = (*texts, *(None for error in outcome.errors if error.vllm_text is None))
        shown = texts or [error.message for error in outcome.errors] or None
    # A refusal is the same when vLLM's message holds the beginning that the workbench reports; a
    # bare assertion has no message, and none is reported of it.
    bare = theirs == "" and any(text is None for text in said)
    same = bare or any(text is not None and text in (theirs or "") for text in said)
    return Row("refusal", shown, theirs and theirs[:SHOWN_MESSAGE], same)
