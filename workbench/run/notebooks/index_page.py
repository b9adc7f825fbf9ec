"""Write a matrix run as one HTML page next to the executed notebooks, without scripts."""

from __future__ import annotations

import os
from html import escape
from pathlib import Path
from urllib.parse import quote

from workbench.run.notebooks.expectations import MIB
from workbench.run.notebooks.matrix_run import CaseResult, MatrixReport

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 78rem; }
body { padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8886; padding: .3rem .6rem; text-align: left; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tr.failed td:first-child { font-weight: 700; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid #8886; }
"""


def write_index(report: MatrixReport, path: Path) -> None:
    """Write the page: one row per run with link, numbers and problems; failures come first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(index_html(report, path.parent), encoding="utf-8")


def index_html(report: MatrixReport, folder: Path) -> str:
    """Return the page as text; links are relative to the folder."""
    failed = [each for each in report.results if not each.ok]
    passed = [each for each in report.results if each.ok]
    rows = "\n".join(_row(each, folder) for each in (*failed, *passed))
    details = "\n".join(_details(each) for each in failed)
    head = "".join(
        f'<th scope="col"{extra}>{name}</th>'
        for name, extra in (
            ("Result", ""),
            ("Run", ""),
            ("Seconds", ' class="n"'),
            ("Peak MiB", ' class="n"'),
            ("KiB", ' class="n"'),
            ("Slowest cell", ""),
            ("Largest cell", ""),
            ("GPU cells skipped", ""),
        )
    )
    verdict = "every run passed" if report.ok else f"{len(failed)} of {len(report.results)} failed"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>Notebooks: {verdict}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>Notebooks: {verdict}</h1>\n<pre>{escape(report.summary())}</pre>\n{details}\n"
        f"<table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></body></html>\n"
    )


def _row(result: CaseResult, folder: Path) -> str:
    run = result.run
    slow = max(run.cells, key=lambda cell: cell.duration_s, default=None)
    large = max(run.cells, key=lambda cell: cell.added_bytes, default=None)
    name = escape(result.case.case_id)
    if run.output_path.name.endswith(".executed.ipynb"):
        target = Path(os.path.relpath(run.output_path, folder)).as_posix()
        name = f'<a href="{quote(target)}">{name}</a>'
    cells = (
        ("", _verdict(result)),
        ("", name),
        ("n", f"{run.duration_s:.1f}"),
        ("n", f"{run.peak_bytes / MIB:.0f}"),
        ("n", f"{run.size_after_bytes / 1024:.0f}"),
        ("", f"{slow.cell_index}: {slow.duration_s:.1f} s" if slow else ""),
        ("", f"{large.cell_index}: {large.added_bytes / MIB:.0f} MiB" if large else ""),
        ("", f"{len(run.skipped)}: {escape('; '.join(run.skipped))}" if run.skipped else "0"),
    )
    columns = "".join(
        f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>" for kind, text in cells
    )
    return f'<tr class="{"ok" if result.ok else "failed"}">{columns}</tr>'


def _verdict(result: CaseResult) -> str:
    run = result.run
    word = "✓ ok" if result.ok else f"✗ {escape(run.problems[0].kind)}"
    return f"{word}, kernel started again" if run.failed_starts else word


def _details(result: CaseResult) -> str:
    name = escape(result.case.case_id)
    return (
        f"<details open><summary>✗ {name}</summary><pre>{escape(result.report())}</pre></details>"
    )
