"""Checks of what a run recorded and took: form, values, golden, skipped cells, and budgets."""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from workbench.core.errors import nearest_names
from workbench.notebooks.evidence import Evidence
from workbench.notebooks.expectations import Golden
from workbench.notebooks.problems import NotebookProblem

Check = Callable[[Evidence], Iterator[NotebookProblem]]
MIB = 2**20
RAISE = "or raise the budget in the matrix file"


def recorded_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check that a finished run recorded results, in a valid form."""
    for problem in evidence.recorded.problems:
        if problem.kind != "no_results" or not evidence.stopped:
            yield problem


def result_schema(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the results of a finished run against the schema that its notebook declares."""
    from jsonschema import Draft202012Validator

    schema, results = evidence.expectations.schema, evidence.finished_results
    if schema is not None and results is not None:
        errors = Draft202012Validator(schema).iter_errors(results)
        for error in sorted(errors, key=lambda each: list(map(str, each.absolute_path))):
            where = ".".join(map(str, error.absolute_path)) or "the top"
            message = f"the results break their schema at {where}: {error.message:.300}"
            yield NotebookProblem("results_schema", None, message)


def expected_values(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the values that the caller knows from other sources."""
    yield from check_expected(
        evidence.recorded.results or {},
        evidence.expectations.values,
        complete=evidence.finished_results is not None,
    )


def check_expected(
    results: Mapping[str, Any], expected: Mapping[str, Any], *, complete: bool = True
) -> Iterator[NotebookProblem]:
    """Yield one problem per expected value that differs, or (if `complete`) is missing."""
    for name, wanted in expected.items():
        if name in results and not same_value(results[name], wanted):
            message = f"result {name!r} is {results[name]!r:.200}, expected {wanted!r:.200}"
            yield NotebookProblem("unexpected_result", None, message)
        elif name not in results and complete:
            near = nearest_names(name, results)
            hint = f"; nearest: {', '.join(near)}" if near else ""
            recorded = ", ".join(sorted(results)) or "nothing"
            message = f"result {name!r} was expected but not recorded{hint}; recorded: {recorded}"
            yield NotebookProblem("unexpected_result", None, message)


def same_value(new: object, old: object) -> bool:
    """Compare as JSON holds values: (1,) equals [1], 1 equals 1.0, True does not equal 1."""
    if isinstance(new, bool) or isinstance(old, bool):
        return new is old
    if isinstance(new, int | float) and isinstance(old, int | float):
        return math.isclose(new, old, rel_tol=1e-9)
    if isinstance(new, list) and isinstance(old, list | tuple):
        return len(new) == len(old) and all(map(same_value, new, old))
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(same_value(new[name], old[name]) for name in new)
    return new == old


def comparable(results: Mapping[str, Any], volatile: Collection[str]) -> dict[str, Any]:
    """Return the results that a golden keeps."""
    return {name: value for name, value in results.items() if name not in volatile}


def golden_results(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Compare the results of a finished run with the golden of its case."""
    golden, results = evidence.expectations.golden, evidence.finished_results
    if golden is None or results is None:
        return
    found = comparable(results, evidence.expectations.volatile)
    if golden.results is None:
        message = f"no golden in {golden.file}; record it: {golden.update}"
        yield NotebookProblem("no_golden", None, message)
    elif stale := _why_stale(evidence, golden, found):
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


def _why_stale(evidence: Evidence, golden: Golden, found: Mapping[str, Any]) -> str:
    given, before = evidence.execution.parameters, dict(golden.parameters or {})
    if before != given:
        return f"it was recorded with {before}, this case gives {given}"
    stored = golden.results or {}
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


def over_time(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the seconds of all cells together, without the start of the kernel, and of each."""
    budgets = evidence.expectations.budgets
    fix = f"{evidence.smaller}, {RAISE}"
    taken = sum(cell.duration_s for cell in evidence.cells)
    if budgets.time_s is not None and taken > budgets.time_s:
        slow = max(evidence.cells, key=lambda cell: cell.duration_s)
        message = (
            f"the cells took {taken:.1f} s together, the budget is {budgets.time_s:g} s; the "
            f"slowest is cell {slow.cell_index} with {slow.duration_s:.1f} s: {fix}"
        )
        yield NotebookProblem("over_time", None, message, slow.first_line)
    most = budgets.cell_time_s
    for cell in evidence.cells:
        if most is not None and cell.duration_s > most:
            message = f"took {cell.duration_s:.1f} s, the budget of a cell is {most:g} s: {fix}"
            yield NotebookProblem("over_time", cell.cell_index, message, cell.first_line)


def over_memory(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the kernel's highest memory, and what each cell adds to the memory at its start."""
    budgets = evidence.expectations.budgets
    fix = f"{evidence.smaller}, {RAISE}"
    if evidence.execution.outcome.kind == "over_memory":
        return  # the run was ended for it
    most, taken = budgets.memory_mib, evidence.record.get("peak_bytes", 0) / MIB
    if most is not None and taken > most:
        large = max(evidence.cells, key=lambda cell: cell.added_bytes, default=None)
        added = f"{large.added_bytes / MIB:,.1f} MiB" if large else ""
        where = f"; cell {large.cell_index} added most, {added}" if large else ""
        message = f"the kernel took {taken:,.1f} MiB, the budget is {most:,.1f} MiB{where}: {fix}"
        yield NotebookProblem("over_memory", None, message)
    most = budgets.cell_memory_mib
    for cell in evidence.cells:
        if most is not None and (added_mib := cell.added_bytes / MIB) > most:
            limit = f"the budget of a cell is {most:,.1f} MiB: {fix}"
            message = f"added {added_mib:,.1f} MiB of memory, {limit}"
            yield NotebookProblem("over_memory", cell.cell_index, message, cell.first_line)


def artifact_size(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the size of the executed notebook without widget state."""
    most = evidence.expectations.budgets.size_kib
    if most is not None and evidence.size_bytes > most * 1024:
        message = (
            f"the executed notebook has {evidence.size_bytes / MIB:,.1f} MiB without widget "
            f"state, the budget is {most / 1024:,.1f} MiB: show fewer points, or a picture of them"
        )
        yield NotebookProblem("too_large", None, message)


RESULT_CHECKS: tuple[Check, ...] = (
    *(recorded_results, result_schema, expected_values, golden_results, skipped_cells),
    *(over_time, over_memory, artifact_size),
)
