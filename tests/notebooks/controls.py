"""Negative controls: notebooks broken on purpose, and the one check that has to catch each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from workbench.notebooks.expectations import Budgets, Expectations, Golden
from workbench.notebooks.matrix_file import results_schema

UPDATE = "workbench notebook run --matrix m.toml --only good::a --update-goldens"
GOOD_PARAMETERS = {"count": 3}
GOOD_RESULTS = {
    "total": 3,
    "label": None,
    "folder": "fixtures",
    "strict": "1",
    "offline": "1",
}
GOOD_FIELDS = {"total": "integer", "label": "string|null", "folder": "string", "strict": "string"}


@dataclass(frozen=True)
class Control:
    """A notebook of `fixtures/`, how it is run, and what has to be found, by which check."""

    notebook: str
    check: str
    kind: str
    words: str
    cell_index: int | None = None
    expectations: Expectations = field(default_factory=Expectations)
    arguments: dict[str, Any] = field(default_factory=dict)


def golden(**changes: Any) -> Expectations:
    parts = {"parameters": GOOD_PARAMETERS, "results": GOOD_RESULTS, **changes}
    return Expectations(golden=Golden(**parts, file="goldens/good.json", update=UPDATE))


def budget(**most: float) -> Expectations:
    return Expectations(budgets=Budgets(**most))


WITH_SCHEMA = Expectations(schema=results_schema({**GOOD_FIELDS, "offline": "integer"}))

CONTROLS = {
    # the run
    "slow cell": Control(
        "slow_cell",
        "run_ended",
        "timeout",
        "still running after 10 s",
        3,
        arguments={"timeout_s": 10},
    ),
    "dead kernel": Control("dead_kernel", "run_ended", "kernel_died", "the kernel died", 3),
    "too much memory": Control(
        "hog",
        "run_ended",
        "over_memory",
        "the limit is 400 MiB",
        3,
        expectations=budget(memory_limit_mib=400, memory_mib=300),
    ),
    "failing command": Control(
        "failed_command", "cell_errors", "cell_error", "Command 'exit 3' returned non-zero", 3
    ),
    "failing cell": Control("cell_error", "cell_errors", "cell_error", "ZeroDivisionError", 3),
    "early exit": Control("early_exit", "cell_errors", "cell_error", "SystemExit", 3),
    "guard removed": Control("guard_removed", "guarded", "unguarded", "could not watch"),
    # errors that papermill passes
    "printed traceback": Control(
        "printed_traceback", "shown_errors", "traceback_in_stream", "pop from empty list", 3
    ),
    "coroutine not awaited": Control(
        "never_awaited", "shown_errors", "never_awaited", "never awaited", 3
    ),
    "output widget": Control(
        "output_widget_error", "shown_errors", "widget_error", "hidden in an output widget", 3
    ),
    "interact": Control("interact_error", "shown_errors", "widget_error", "hidden by interact", 3),
    "panel": Control("panel_error", "shown_errors", "panel_error", "a panel shows an error", 3),
    "late thread": Control(
        "late_thread_error",
        "hidden_errors",
        "background_thread",
        "after its cell, hidden in a thread",
    ),
    "task": Control("task_error", "hidden_errors", "asyncio_task", "hidden in a task"),
    "collected task": Control(
        "collected_task_error", "hidden_errors", "asyncio_task", "hidden in a task"
    ),
    "task without end": Control("pending_task", "hidden_errors", "pending_task", "wait_for_ever"),
    "coroutine that ends a cell": Control(
        "held_coroutine",
        "hidden_errors",
        "never_awaited",
        "coroutine 'forgotten' was never awaited",
    ),
    "unread future": Control(
        "unread_future", "hidden_errors", "unread_future", "ValueError: hidden in a future"
    ),
    "flood": Control(
        "swallowed_flood",
        "hidden_errors",
        "output_flood",
        "more than 1 MiB of output",
        expectations=budget(output_limit_mib=1),
    ),
    "network of a child": Control(
        "child_network", "hidden_errors", "network_use", "tried to reach 192.0.2.7 port 80"
    ),
    "network of a shell": Control(
        "shell_network", "hidden_errors", "network_use", "tried to reach 192.0.2.8 port 80"
    ),
    "network": Control("network_use", "hidden_errors", "network_use", "'example.com'"),
    # results
    "no results": Control("no_results", "recorded_results", "no_results", "recorded no results"),
    "malformed results": Control(
        "malformed_results", "recorded_results", "bad_results", "schema_version is missing"
    ),
    "broken schema": Control(
        "good",
        "result_schema",
        "results_schema",
        "at offline: '1' is not of type 'integer'",
        expectations=WITH_SCHEMA,
    ),
    "wrong result": Control(
        "good",
        "expected_values",
        "unexpected_result",
        "'total' is 3, expected 4",
        expectations=Expectations(values={"total": 4}),
    ),
    "no golden": Control(
        "good",
        "golden_results",
        "no_golden",
        f"record it: {UPDATE}",
        expectations=golden(parameters=None, results=None),
    ),
    "golden of other parameters": Control(
        "good",
        "golden_results",
        "stale_golden",
        f"is stale: it was recorded with {{'count': 4}}, this case gives {GOOD_PARAMETERS}; "
        f"record it anew: {UPDATE}",
        expectations=golden(parameters={"count": 4}),
    ),
    "golden without a result": Control(
        "good",
        "golden_results",
        "stale_golden",
        "label, offline is not in it",
        expectations=golden(results={"total": 3, "folder": "fixtures", "strict": "1"}),
    ),
    "golden that differs": Control(
        "good",
        "golden_results",
        "golden_differs",
        "'total' is 3, the golden in goldens/good.json says 4",
        expectations=golden(results={**GOOD_RESULTS, "total": 4}),
    ),
    "silent skip": Control(
        "silent_skip",
        "skipped_cells",
        "silent_skip",
        "1 GPU cells are declared",
        expectations=Expectations(gpu_cells=1),
    ),
    "undeclared skip": Control(
        "good",
        "skipped_cells",
        "undeclared_skip",
        "no GPU: nothing was timed",
        expectations=Expectations(gpu_cells=0),
    ),
    # budgets
    "slow notebook": Control(
        "sleepy", "over_time", "over_time", "s together", expectations=budget(time_s=1)
    ),
    "slow cell of many": Control(
        "sleepy", "over_time", "over_time", "the budget of a cell", 3, budget(cell_time_s=4)
    ),
    "large kernel": Control(
        "large_memory",
        "over_memory",
        "over_memory",
        "the kernel took",
        expectations=budget(memory_mib=250),
    ),
    "large cell": Control(
        "large_memory",
        "over_memory",
        "over_memory",
        "the budget of a cell is 200.0 MiB",
        3,
        budget(cell_memory_mib=200),
    ),
    "large artifact": Control(
        "large_output", "artifact_size", "too_large", "2.9 MiB without widget state"
    ),
    # parameters
    "unused parameter": Control(
        "unused_parameter", "parameters_read", "unused_parameter", "'seed'", 1
    ),
}
