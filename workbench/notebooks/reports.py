"""Write a matrix run as JUnit XML, which every CI service can show, and as an HTML page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

from workbench.notebooks.matrix_run import CaseResult, MatrixReport

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: MatrixReport, path: Path) -> None:
    """Write the file: one test case per run, its problems as one failure, numbers as properties.

    An excluded combination is a skipped test with its reason. GPU cells that were skipped
    are counted in the properties `skipped_gpu_cells` of the case and of the suite, kernels that
    were started again in `failed_kernel_starts`.
    """
    _write("junit.xml.j2", report, path)


def write_index(report: MatrixReport, path: Path) -> None:
    """Write the page: one row per run with link, numbers and problems; failures come first.

    It has no scripts, and is placed next to the executed notebooks.
    """
    _write("index.html.j2", report, path)


def _write(template: str, report: MatrixReport, path: Path) -> None:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )

    def link(result: CaseResult) -> str:
        """Return the address of the executed notebook, empty if the case was not run."""
        target = result.run.output_path
        executed = target.name.endswith(".executed.ipynb")
        return quote(Path(os.path.relpath(target, path.parent)).as_posix()) if executed else ""

    text = environment.get_template(template).render(report=report, link=link)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", text), encoding="utf-8")
