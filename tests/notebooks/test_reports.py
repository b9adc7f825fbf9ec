"""The reports of a matrix run, of results made by hand: whole, escaped, and readable as XML."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from workbench.notebooks import CellTime, Expectations, NotebookProblem, NotebookResult
from workbench.notebooks.matrix import Case
from workbench.notebooks.matrix_run import CaseResult, MatrixReport

ODD = 'a < b & "c"\x00\nsecond line'


@pytest.fixture
def report(tmp_path):
    def result(name, problems=(), cells=(), skipped=(), failed_starts=()):
        run = NotebookResult(
            path=tmp_path / "n.ipynb",
            output_path=tmp_path / "out" / f"n--{name}.executed.ipynb",
            results={},
            skipped=skipped,
            duration_s=1.25,
            cells=cells,
            problems=problems,
            failed_starts=failed_starts,
        )
        case = Case(
            notebook=run.path,
            case_id=f"part/n::{name}",
            name=name,
            parameters={},
            expectations=Expectations(),
            quick=True,
            timeout_s=1,
            golden_path=None,
        )
        return CaseResult(case, run, "again")

    cells = (CellTime(1, 0.5, "x", 10, 2**21), CellTime(4, 0.75, "y", 10, 5))
    results = (
        result("good", cells=cells, skipped=("no GPU", "no GPU")),
        result("bad", problems=(NotebookProblem("cell_error", 1, ODD),), failed_starts=("died",)),
    )
    excluded = {"part/n::other": "not together"}
    return MatrixReport(results, 2.5, problems=("stale",), excluded=excluded)


def test_junit_has_every_run_and_every_number(report, tmp_path):
    path = tmp_path / "new" / "junit.xml"
    report.write("junit.xml", path)
    suite = ET.parse(path).getroot().find("testsuite")
    counts = {name: suite.get(name) for name in ("tests", "failures", "skipped", "time")}
    assert counts == {"tests": "4", "failures": "2", "skipped": "1", "time": "2.500"}
    good, bad, goldens, other = suite.iter("testcase")
    assert [each.get("classname") for each in (good, bad, goldens, other)] == [
        *("part/n", "part/n"),
        *("matrix", "part/n"),
    ]
    assert [each.get("name") for each in (good, bad, goldens, other)] == [
        *("good", "bad"),
        *("goldens-0", "other"),
    ]
    properties = {each.get("name"): each.get("value") for each in good.find("properties")}
    assert properties == {
        "peak_bytes": "0",
        "executed_bytes": "0",
        "hash_seed": "0",
        "skipped_gpu_cells": "2",
        "failed_kernel_starts": "0",
        "network_not_watched": "0",
        "cell_1": "0.500 s, 2097152 bytes",
        "cell_4": "0.750 s, 5 bytes",
    }
    assert [each.get("value") for each in suite.find("properties")] == ["2", "1"]
    assert good.find("system-out").text == "skipped: no GPU\nskipped: no GPU"
    assert bad.find("system-out").text == "kernel started again after: died"
    failure = bad.find("failure")
    assert (failure.get("type"), failure.text) == ("cell_error", bad_text(report))
    assert failure.get("message").startswith('cell_error: a < b & "c"\N{REPLACEMENT CHARACTER}')
    assert other.find("skipped").get("message") == "not together"


def bad_text(report):
    return report.results[1].report().replace("\x00", "\N{REPLACEMENT CHARACTER}")


def test_the_page_shows_failures_first_and_escapes_texts(report, tmp_path):
    path = tmp_path / "out" / "index.html"
    report.write("index.html", path)
    page = path.read_text(encoding="utf-8")
    assert "<title>Notebooks: 1 of 2 failed</title>" in page
    assert page.index("✗ cell_error, kernel started again") < page.index("✓ ok")
    assert '<a href="n--good.html">part/n::good</a>' in page
    assert '(<a href="n--good.executed.ipynb">notebook</a>)' in page
    assert "4: 0.8 s" in page
    assert "1: 2 MiB" in page
    assert "2: no GPU; no GPU" in page
    assert "a &lt; b &amp; " in page
    assert "a < b" not in page
    assert Path(path).parent == tmp_path / "out"
