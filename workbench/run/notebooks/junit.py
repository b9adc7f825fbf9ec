"""Write a matrix run as JUnit XML, which every CI service can show."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from workbench.run.notebooks.matrix_run import CaseResult, MatrixReport

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: MatrixReport, path: Path) -> None:
    """Write the file: one test case per run, its problems as one failure, numbers as properties.

    An excluded combination is a skipped test with its reason. GPU cells that were skipped
    are counted in the properties `skipped_gpu_cells` of the case and of the suite, kernels that
    were started again in `failed_kernel_starts`.
    """
    suite = ET.Element(
        "testsuite",
        name="notebooks",
        tests=str(len(report.results) + len(report.excluded) + len(report.problems)),
        failures=str(sum(not each.ok for each in report.results) + len(report.problems)),
        errors="0",
        skipped=str(len(report.excluded)),
        time=f"{report.duration_s:.3f}",
    )
    skipped = sum(len(each.run.skipped) for each in report.results)
    failed_starts = sum(len(each.run.failed_starts) for each in report.results)
    numbers = {"skipped_gpu_cells": skipped, "failed_kernel_starts": failed_starts}
    _properties(suite, {name: str(number) for name, number in numbers.items()})
    for result in report.results:
        _add_case(suite, result)
    for number, problem in enumerate(report.problems):
        case = ET.SubElement(suite, "testcase", classname="matrix", name=f"goldens-{number}")
        ET.SubElement(case, "failure", message=_clean(problem))
    for each in report.excluded:
        notebook, _, name = each.case_id.partition("::")
        case = ET.SubElement(suite, "testcase", classname=notebook, name=name)
        ET.SubElement(case, "skipped", message=_clean(each.reason))
    path.parent.mkdir(parents=True, exist_ok=True)
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _add_case(suite: ET.Element, result: CaseResult) -> None:
    run = result.run
    notebook, _, name = result.case.case_id.partition("::")
    taken = f"{run.duration_s:.3f}"
    case = ET.SubElement(suite, "testcase", classname=notebook, name=name, time=taken)
    numbers = {
        "peak_bytes": str(run.peak_bytes),
        "executed_bytes": str(run.size_after_bytes),
        "hash_seed": str(run.hash_seed),
        "skipped_gpu_cells": str(len(run.skipped)),
        "failed_kernel_starts": str(len(run.failed_starts)),
    }
    for cell in run.cells:
        numbers[f"cell_{cell.cell_index}"] = f"{cell.duration_s:.3f} s, {cell.added_bytes} bytes"
    _properties(case, numbers)
    if not result.ok:
        first = run.problems[0]
        message = _clean(f"{first.kind}: {first.message}")
        failure = ET.SubElement(case, "failure", type=first.kind, message=message)
        failure.text = _clean(result.report())
    notes = [f"skipped: {reason}" for reason in run.skipped]
    notes += [f"kernel started again after: {reason}" for reason in run.failed_starts]
    if notes:
        ET.SubElement(case, "system-out").text = _clean("\n".join(notes))


def _properties(parent: ET.Element, values: dict[str, str]) -> None:
    holder = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(holder, "property", name=name, value=value)


def _clean(text: str) -> str:
    """Return text without the characters that XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
