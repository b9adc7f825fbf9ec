"""A plan compared with the answers of a real vLLM, field by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING, Any

from workbench.core.capacity.blocks import given_bytes
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import ConfigError, Refused, WorkbenchError
from workbench.core.groups.layer_backend import layer_backend
from workbench.core.plan import Plan
from workbench.core.problems import ERROR, Problem
from workbench.core.runner import is_async, model_runner

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

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
    "group_backends",
    *("scheduler_block_size", "hash_block_size", "num_blocks", "max_concurrency"),
    *("tensors", "tensor_bytes", "async_scheduling", "model_runner"),
)
"""The fields that are compared, in the order of vLLM's start; names of the published plan."""

HOOK_LINES = ("Setting ", "Padding ", "[XPU]")
"""How the lines begin that the block-size hook logs; the plan has lines of other places too."""
REFUSAL, MODEL = "refusal", "model"
OF_MEMORY = frozenset({"no_memory_for_blocks", "cannot_auto_fit", "not_enough_memory"})
"""Without a memory size vLLM gets plenty: these are of our own estimate."""
LATER = frozenset(
    {
        *("max_num_seqs_above_blocks", "draft_model_over_stages"),
        *("flex_tile_exceeds_cache_block", "flex_block_not_power_of_2", "flex_tile_is_zero"),
        *("flex_block_not_divisible", "nvfp4_needs_sm100", "prefix_caching_of_encoder"),
        *("layers_without_weights", "packed_block_not_split", "graph_sizes_differ"),
    }
)
"""What VllmConfig raises of graphs, which no question has, and a worker when it loads weights,
makes the views of a cache, builds metadata, runs the
model or captures graphs, and what the scheduler raises at the first request: no question goes so
far."""
BLOCK_PROBLEMS = ("block_exceeds_token_budget", "items_not_cut")
OF_FIELDS = {
    **dict.fromkeys(BLOCK_PROBLEMS, "validate_block_size_error"),
    "no_common_block_size": "kernel_block_size",
}
"""What a field of its own compares."""
UNDECIDED = frozenset(
    {
        *("block_exceeds_token_budget", "cpu_prefix_caching_off", "experts_need_amx"),
        "target_embedding_not_found",
    }
)
"""Warnings where the scenario does not say which device it is, or which tensors the checkpoint has:
with some of them vLLM stops."""
SHOWN_MESSAGE = 300


@dataclass(frozen=True, slots=True)
class Row:
    """One field, the workbench's value and vLLM's."""

    field: str
    ours: Any
    theirs: Any
    same: bool


def compare(
    outcome: Plan | ConfigError | Refused,
    answers: Mapping[str, Any],
    refusal: Mapping[str, str] | None,
) -> tuple[Row, ...]:
    """Return the rows of one scenario; `answers` and `refusal` are vLLM's, sizes per rank.

    Fields that vLLM was not queried for have no row, nor has a refusal of neither side.
    """
    reasons: Sequence[Problem | WorkbenchError]
    if isinstance(outcome, WorkbenchError):
        rows, reasons = [], (*_before(outcome), outcome)
    else:
        answers = _decided(outcome, answers, refusal)
        ours, theirs = _ours(outcome), _theirs(outcome, answers)
        both = [name for name in COMPARED if name in theirs and name in ours]
        rows = [_row(name, ours[name], theirs[name]) for name in both]
        reasons = _errors(outcome, answers, None if refusal is None else refusal["message"])
    if not reasons and refusal is None:
        return tuple(rows)
    return (_refusal_row(reasons, refusal), *rows)


def _before(refusal: WorkbenchError) -> tuple[Problem, ...]:
    """Return what stops vLLM before it comes to a refusal, as far as the questions go."""
    found = refusal.problems if isinstance(refusal, Refused) else ()
    return tuple(one for one in found if one.severity == ERROR and one.code not in LATER)


def _decided(
    plan: Plan, answers: Mapping[str, Any], refusal: Mapping[str, str] | None
) -> Mapping[str, Any]:
    """Return the answers without those that are made anew with the groups, where vLLM stops before.

    They are the kernel block, of one backend so far, and a length that is fitted to the memory.
    """
    if refusal is None or "groups" in answers:
        return answers
    fitted = {"max_model_len"} if plan.settings.max_model_len == -1 else set()
    early = {"kernel_block_size", *fitted}
    if "backend" not in answers:  # no layer was built, and one of MLA may change the dtype
        early.add("kv_cache_dtype")
    return {name: value for name, value in answers.items() if name not in early}


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


def _has_memory(settings: Settings) -> bool:
    return bool(given_bytes(settings)) or settings.num_gpu_blocks_override is not None


def _errors(plan: Plan, answers: Mapping[str, Any], said: str | None) -> tuple[Problem, ...]:
    """Return why vLLM would not start, as far as the questions go, or as it says itself.

    What depends on a device that the scenario does not name counts where vLLM stops for it.
    """
    without = {*LATER, *(code for code, name in OF_FIELDS.items() if name in answers)}
    if not _has_memory(plan.settings):
        without |= OF_MEMORY
    return tuple(
        one
        for one in plan.problems
        if (one.severity == ERROR and one.code not in without)
        or ((one.severity == ERROR or one.code in UNDECIDED) and _is_said(one.vllm_text, said))
    )


def _ours(plan: Plan) -> dict[str, Any]:
    """Return the plan in the words of the comparison."""
    codes = {problem.code: problem for problem in plan.problems}
    block = next((codes[code] for code in BLOCK_PROBLEMS if code in codes), None)
    own = {"max_model_len"} if plan.settings.max_model_len == -1 else set()
    fields = Plan.to_dict(plan)
    return {
        **{name: fields[name] for name in fields if name not in own or _has_memory(plan.settings)},
        **({} if plan.cache is None else _ours_of_cache(plan, plan.cache)),
        "async_scheduling": is_async(plan),
        "model_runner": model_runner(plan),
        "validate_block_size_error": block.vllm_text if block else None,
        "log_lines": [line for line in plan.log_lines if line.startswith(HOOK_LINES)],
    }


def _ours_of_cache(plan: Plan, cache: CachePlan) -> dict[str, Any]:
    """Return groups, layers and allocations in the words of the comparison: of the first stage."""
    stages = [_ours_of_stage(plan, one) for one in cache.every_stage]
    return {**stages[0], "stages": stages}


def _ours_of_stage(plan: Plan, cache: CachePlan) -> dict[str, Any]:
    layers = [spec for group in cache.groups for spec in group.layer_specs]
    tensors = cache.tensors or ()
    groups = [
        [group.kind, group.spec.block_size, group.page_size_bytes, len(group.layers)]
        for group in cache.groups
    ]
    readers = (
        {
            layer_backend(plan, spec, name)
            for name, spec in zip(one.layers, one.layer_specs, strict=True)
        }
        for one in cache.groups
    )
    return {
        "groups": sorted(groups),
        "group_backends": _read(plan, groups, readers),
        "layers": _counted((one.kind, one.block_size, one.page_size_bytes, 1) for one in layers),
        "tensors": None if cache.cache_layout else len(tensors) or None,
        "tensor_bytes": sum(tensor.size_bytes for tensor in tensors),
    }


def _read(
    plan: Plan, groups: Iterable[list[Any]], readers: Iterable[Collection[str | None]]
) -> list[list[Any]]:
    """Return groups, each with the backends that read it, of those that a person can choose."""
    known = plan.rules.backends
    return sorted(
        [*group, sorted(one for one in names if one and one in known and known[one].is_selectable)]
        for group, names in zip(groups, readers, strict=True)
    )


def _theirs(plan: Plan, answers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return vLLM's answers with its groups in the words of the comparison, in no order."""
    if "groups" not in answers:
        return answers
    stages = [_theirs_of_stage(plan, one) for one in answers.get("stages", (answers,))]
    found = {**answers, **stages[0], "stages": stages}
    if len(stages) == 1:
        del found["stages"]
    return found


def _theirs_of_stage(plan: Plan, answers: Mapping[str, Any]) -> dict[str, Any]:
    size = ("kind", "block_size", "page_size_bytes")
    layers = [layer for group in answers["groups"] for layer in group["layers"]]
    groups = [
        [*(group[name] for name in size), sum(count for *_, count in group["layers"])]
        for group in answers["groups"]
    ]
    readers = answers.get("group_backends")
    return {
        "groups": sorted(groups),
        **({} if readers is None else {"group_backends": _read(plan, groups, readers)}),
        "layers": _counted((kind, block, page, count) for kind, block, page, _, count in layers),
        **{name: answers[name] for name in ("tensors", "tensor_bytes") if name in answers},
    }


def _counted(layers: Iterable[tuple[str, int, int, int]]) -> list[list[Any]]:
    """Return (class, block, page, how many) with equal layers counted together."""
    found: Counter[tuple[str, int, int]] = Counter()
    for kind, block, page, count in layers:
        found[kind, block, page] += count
    return sorted([*layer, count] for layer, count in found.items())


def _refusal_row(
    reasons: Sequence[Problem | WorkbenchError], refusal: Mapping[str, str] | None
) -> Row:
    """Return why each side refuses, None where it does not.

    Reasons are the same when vLLM's message holds the beginning that the workbench reports; of an
    assertion without a message it reports an empty one.
    """
    theirs = None if refusal is None else refusal["message"]
    ours = [one.vllm_text or one.message for one in reasons] or None
    same = theirs is not None and any(_is_said(one.vllm_text, theirs) for one in reasons)
    shown = theirs and theirs[:SHOWN_MESSAGE]
    return Row(REFUSAL, ours, refusal["type"] if shown == "" and refusal else shown, same)


def _is_said(text: str | None, message: str | None) -> bool:
    if message is None:
        return False
    return text == message if text == "" else text is not None and text in message
