"""All that a plan answers, as plain values: what `test_same_answers.py` compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from itertools import islice

from workbench.core.architectures import (
    is_encoder,
    language_models,
    module_of,
    versions_running,
    versions_with,
)
from workbench.core.capacity.graph_sizes import capture_sizes
from workbench.core.chunks.connectors import CONNECTORS
from workbench.core.groups.graph_support import attention_groups, graph_support
from workbench.core.model import Model
from workbench.core.offload.pool import layer_bytes, worker_bytes
from workbench.core.plan import Plan
from workbench.core.prefix.hits import shortest_prompt_with_hit
from workbench.core.prefix.workload import Workload, workload_hits
from workbench.core.rule_set import RuleSet
from workbench.core.tables.rows import null_entries, row_blocks, row_length
from workbench.core.what_if.alternatives import capacity_on, fp8_gain
from workbench.core.what_if.answers import answers as short_answers
from workbench.core.what_if.next_steps import next_steps
from workbench.core.what_if.reach import longest_fit, machines
from workbench.core.what_if.workload_steps import workload_steps
from workbench.scenario import Settings
from workbench.scenario.resolution import resolve

WORKLOAD = Workload(5, 3000, 200, 2)
"""Longer than the longest request of a few scenarios, whose answer is a refusal then."""
DIGITS = 9
"""Of fractions: the last ones depend on the machine's library."""
SHARED_MEMORY = (None, 64 * 2**10, 101376, 232448)
"""Bytes of one program: not known, of ROCm, of an RTX 4090 and of an H100."""


def plain(one):
    """Texts, numbers, lists and dictionaries; records without what asks for them."""
    match one:
        case float():
            found = f"{one:.{DIGITS}g}"
        case Plan() | RuleSet() | Model() | Settings():
            found = type(one).__name__
        case Mapping():
            found = {str(key): plain(value) for key, value in one.items()}
        case list() | tuple():
            found = [plain(value) for value in one]
        case set() | frozenset():
            found = sorted(map(str, one))
        case _ if is_dataclass(one):
            found = {field.name: plain(getattr(one, field.name)) for field in fields(one)}
        case None | int() | str():
            found = one
        case _:
            found = type(one).__name__
    return found


def with_properties(one):
    """A record, and what its class computes from it."""
    names = [
        name
        for name in dir(type(one))
        if not name.startswith("_")
        and isinstance(getattr(type(one), name), property | cached_property)
    ]
    return plain(one), {name: tried(lambda name=name: getattr(one, name)) for name in names}


def tried(question):
    """The answer, or what is said instead of one."""
    try:
        return plain(question())
    except ValueError as error:
        return ["no answer", str(error)]


def _hits(plan):
    found, longest = plan.hits(), plan.max_model_len - 1
    lengths = ((4000, 3000), (longest, longest - 1), (longest // 2, longest // 3))
    return [
        repr(found),
        found.caching,
        tried(found.smallest_prefix),
        tried(lambda: shortest_prompt_with_hit(found.caching)),
        *(tried(lambda pair=pair: found.hit(*pair)) for pair in lengths),
        *(tried(lambda pair=pair: found.prefill(*pair)) for pair in lengths),
        tried(lambda: with_properties(workload_hits(found.caching, WORKLOAD))),
    ]


def _offload(plan):
    requests = (
        {"cpu_bytes_to_use": 2**34},
        {"cpu_bytes_to_use": 2**36, "block_size": 2 * plan.block_size},
        {"cpu_bytes_to_use": 2**33, "hash_block_size": 16},
        {"cpu_bytes_to_use": 2**33, "blocks_per_chunk": 3},
    )
    return [
        tried(lambda request=request: with_properties(plan.offload(**request)))
        for request in requests
    ]


def _layout(plan):
    options = ({}, {"layout": "HND", "runner": "v2"})
    return [
        tried(lambda more=more: with_properties(plan.layout(num_blocks=3, **more)))
        for more in options
    ]


def _capacity(plan):
    return [
        with_properties(plan.memory()),
        tried(plan.drafter_cost),
        *(tried(lambda size=size: plan.waste(size)) for size in (1000, plan.max_model_len - 1)),
        tried(lambda: plan.requests_that_fit(1000)),
    ]


def _flex(found):
    limits = (one or SHARED_MEMORY[-1] for one in SHARED_MEMORY)
    return [with_properties(found), tried(found.tiles_step), *map(found.too_large, limits)]


def _group_bytes(group):
    return [
        with_properties(group),
        tried(lambda: group.padding(1)),
        *(tried(lambda byte=byte: with_properties(group.meaning(byte))) for byte in (0, 1, 12345)),
    ]


def _chunks(plan):
    other = _on_more_ranks(plan)
    return [
        with_properties(plan.chunks(chunk_tokens=256)),
        *(
            tried(lambda name=name: plan.chunks(other, connector=name).problems)
            for name in CONNECTORS
        ),
    ]


def _transfer(plan):
    larger = {"block_size": 4 * plan.block_size}
    return [
        with_properties(plan.transfer(_on_more_ranks(plan))),
        tried(lambda: plan.transfer(resolve(plan.scenario, **larger)).problems),
    ]


def _of_outcome(one):
    return [one.starts, one.plan.fingerprint if one.plan else plain(one)]


def _on_more_ranks(plan):
    return resolve(plan.scenario, tensor_parallel=2 * plan.settings.tensor_parallel)


QUESTIONS = {
    "plan": lambda plan: [plan.to_dict(), list(map(str, plan.trace)), plan.attention_backends],
    "capacity": _capacity,
    "graphs": lambda plan: [
        graph_support(plan, plan.kept_cache),
        capture_sizes(plan),
        *attention_groups(plan, plan.kept_cache),
    ],
    "hits": _hits,
    "offload": _offload,
    "layout": _layout,
    "bytes": lambda plan: [
        (with_properties(one), [_group_bytes(group) for group in one.groups])
        for one in islice(plan.byte_map(num_blocks=3).tensors, 2)
    ],
    "chunks": _chunks,
    "rows": lambda plan: [
        (row_blocks(plan, one), length, null_entries(plan, one, length, 2900))
        for one in plan.built_cache().groups
        for length in (row_length(plan, one, 3000),)
    ],
    "flex": lambda plan: [_flex(plan.flex(limit)) for limit in SHARED_MEMORY if plan.flex()],
    "transfer": _transfer,
    "remedies": lambda plan: [
        [one.to_dict() for one in plan.remedies(problem)] for problem in plan.problems
    ],
}
"""Name -> a question to a plan."""


# Each is tried by itself: one that is refused hides no other.
WHAT_IF = (
    lambda plan: [plain((step, step.gains, step.costs)) for step in next_steps(plan)],
    lambda plan: workload_steps(plan, WORKLOAD),
    lambda plan: plan.sensitivity(),
    short_answers,
    longest_fit,
    lambda plan: machines(plan, ("H100", "L4")),
    lambda plan: fp8_gain(plan, (1000, 3000)),
    lambda plan: capacity_on(plan, 2, "fp8", 1000),
    lambda plan: [_of_outcome(one) for one in plan.across().cells.values()],
)
SLOW_QUESTIONS = {
    "what if": lambda plan: [
        tried(lambda question=question: question(plan)) for question in WHAT_IF
    ],
    "alone": lambda plan: with_properties(plan)[1],
    "worker": lambda plan: [
        with_properties(worker_bytes(plan)),
        [with_properties(one) for one in layer_bytes(plan)],
    ],
    "architecture": lambda plan: [
        question(plan.model.architecture)
        for question in (versions_with, versions_running, is_encoder, module_of, language_models)
    ],
}
"""The same, which every `SELDOM`-th scenario has to answer."""
SELDOM = 8


def answers(scenario, number):
    """Yield the name of every question with its answer; of a scenario without a plan, why."""
    try:
        plan = resolve(**scenario)
    except ValueError as error:
        yield "plan", ["no plan", str(error)]
        return
    questions = QUESTIONS if number % SELDOM else QUESTIONS | SLOW_QUESTIONS
    for name, question in questions.items():
        yield name, tried(lambda question=question: question(plan))
