"""Checks of what a run recorded: its form, its values, and the skipped cells."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.run.notebooks.evidence import Evidence
from workbench.run.notebooks.problems import NotebookProblem
from workbench.run.notebooks.results_check import check_expected
from workbench.run.notebooks.schema import schema_errors


def recorded_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check that a finished run recorded results, in a valid form."""
    for problem in evidence.recorded.problems:
        if problem.kind != "no_results" or not evidence.stopped:
            yield problem


def result_schema(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the results of a finished run against the schema that its notebook declares."""
    schema, results = evidence.expectations.schema, evidence.recorded.results
    if schema is None or results is None or evidence.stopped:
        return
    for where, why in schema_errors(results, schema):
        message = f"the results break their schema at {where}: {why}"
        yield NotebookProblem("results_schema", None, message)


def expected_values(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the values that the caller knows from other sources."""
    complete = not evidence.stopped and evidence.recorded.results is not None
    yield from check_expected(
        evidence.recorded.results or {}, evidence.expectations.values, complete=complete
    )


def skipped_cells(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check that skipped GPU cells are reported, and not more than declared."""
    declared, reasons = evidence.expectations.gpu_cells, evidence.recorded.skipped
    if declared is None or evidence.stopped:
        return
    if len(reasons) > declared:
        message = (
            f"{len(reasons)} cells were skipped, but {declared} GPU cells are declared: declare "
            f"them with `gpu_cells`, or run them; skipped: {'; '.join(reasons)}"
        )
        yield NotebookProblem("undeclared_skip", None, message)
    elif len(reasons) < declared and not evidence.has_gpu:
        message = (
            f"{declared} GPU cells are declared and there is no GPU, but {len(reasons)} state that "
            "they were skipped: give each its own reason in `record_results(skipped=[...])`"
        )
        yield NotebookProblem("silent_skip", None, message)
