"""Checks of what a run recorded: its form, its values, its golden, and the skipped cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.notebooks.evidence import Evidence
from workbench.notebooks.expectations import Golden
from workbench.notebooks.problems import NotebookProblem
from workbench.notebooks.results_check import check_expected, comparable, same_value
from workbench.notebooks.schema import schema_errors


def recorded_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check that a finished run recorded results, in a valid form."""
    for problem in evidence.recorded.problems:
        if problem.kind != "no_results" or not evidence.stopped:
            yield problem


def result_schema(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the results of a finished run against the schema that its notebook declares."""
    schema, results = evidence.expectations.schema, evidence.finished_results
    if schema is not None and results is not None:
        for where, why in schema_errors(results, schema):
            message = f"the results break their schema at {where}: {why}"
            yield NotebookProblem("results_schema", None, message)


def expected_values(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the values that the caller knows from other sources."""
    yield from check_expected(
        evidence.recorded.results or {},
        evidence.expectations.values,
        complete=evidence.finished_results is not None,
    )


def golden_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Compare the results of a finished run with the golden of its case."""
    golden, results = evidence.expectations.golden, evidence.finished_results
    if golden is None or results is None:
        return
    found = comparable(results, evidence.expectations.volatile)
    if golden.results is None:
        message = f"no golden in {golden.file}; record it: {golden.update}"
        yield NotebookProblem("no_golden", None, message)
    elif stale := _why_stale(evidence, golden, found, golden.results):
        message = f"the golden in {golden.file} is stale: {stale}; record it anew: {golden.update}"
        yield NotebookProblem("stale_golden", None, message)
    else:
        for name, value in found.items():
            if not same_value(value, golden.results[name]):
                message = (
                    f"result {name!r} is {value!r:.200}, the golden in {golden.file} says "
                    f"{golden.results[name]!r:.200}; if the new value is right: {golden.update}"
                )
                yield NotebookProblem("golden_differs", None, message)


def _why_stale(
    evidence: Evidence, golden: Golden, found: Mapping[str, Any], stored: Mapping[str, Any]
) -> str:
    given, before = evidence.execution.parameters, dict(golden.parameters or {})
    if before != given:
        return f"it was recorded with {before}, this case gives {given}"
    added, gone = sorted(found.keys() - stored), sorted(stored.keys() - found)
    parts = [f"{', '.join(added)} is not in it"] if added else []
    parts += [f"{', '.join(gone)} is no longer recorded"] if gone else []
    return " and ".join(parts)


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
