"""Find errors in an executed notebook: in its cells, streams and widget state."""

import re
from collections.abc import Iterable, Iterator

from workbench.notebooks import document
from workbench.notebooks.document import Cell, Notebook, code_cells, excerpt, plain, source_of
from workbench.notebooks.problems import MEANINGS, NotebookProblem, ProblemKind

ERROR_MARKER = "data-workbench-error"
"""The attribute of a panel's HTML that marks an error."""
_RECORDS = ("_workbench_errors", "error_count")
_TRACEBACK = "Traceback (most recent call last)"
_NEVER_AWAITED = re.compile(r"coroutine .*' was never awaited")
_STREAM_SIGNS: tuple[tuple[str, ProblemKind], ...] = (
    ("Exception in thread", "background_thread"),
    ("exception was never retrieved", "asyncio_task"),
    ("' was never awaited", "never_awaited"),
    (_TRACEBACK, "traceback_in_stream"),
)


def scan_notebook(notebook: Notebook) -> tuple[NotebookProblem, ...]:
    """Return every error that the executed notebook shows or hides.

    Widget state must still be present. A traceback counts anywhere: a notebook that
    intends to show an error catches it and shows its message.
    """
    shown = (
        problem
        for index, cell in code_cells(notebook)
        for problem in _scan_outputs("cell_error", index, cell.get("outputs", ()), source_of(cell))
    )
    return (*shown, *_scan_widgets(notebook))


def _scan_outputs(
    kind: ProblemKind, index: int | None, outputs: Iterable[Cell], source: str
) -> Iterator[NotebookProblem]:
    """Return errors and marked panels, and at most one problem per stream: it arrives in pieces."""
    texts: dict[str, str] = {}
    for output in outputs:
        html = document.joined(output.get("data", {}).get("text/html"))
        if output.get("output_type") == "error":
            trace = "\n".join(map(str, output.get("traceback", ())))
            message = plain(f"{output.get('ename')}: {output.get('evalue')}")
            yield NotebookProblem(kind, index, message, excerpt(source, trace))
        elif output.get("output_type") == "stream":
            name = str(output.get("name"))
            texts[name] = texts.get(name, "") + document.joined(output.get("text"))
        elif ERROR_MARKER in html:
            yield _panel_problem(index, html)
    for text in texts.values():
        found = next((each for each in _STREAM_SIGNS if each[0] in text), None)
        if found:
            sign, stream_kind = found
            trace = _from_sign_to_error(plain(text), sign)
            last = trace.splitlines()[-1].strip()
            if stream_kind == "never_awaited" and (named := _NEVER_AWAITED.search(plain(text))):
                # the last line of this warning is advice about tracemalloc
                trace = last = named[0]
            message = f"{MEANINGS[stream_kind]}: {last}"
            yield NotebookProblem(stream_kind, index, message, excerpt(source, trace))


def _from_sign_to_error(text: str, sign: str) -> str:
    """Return the part of a stream from the sign to the line that names the error."""
    lines = text[text.index(sign) :].rstrip().splitlines()
    header = next((n for n, line in enumerate(lines) if line.startswith(_TRACEBACK)), 0)
    ends = (n for n, line in enumerate(lines) if n > header and line[:1].strip())
    return "\n".join(lines[: next(ends, header) + 1])


def _scan_widgets(notebook: Notebook) -> Iterator[NotebookProblem]:
    models = document.widget_models(notebook)
    shown_in = document.cells_of_models(notebook, models)
    sources = {index: source_of(cell) for index, cell in code_cells(notebook)}
    for model_id, model in models.items():
        index = shown_in.get(model_id)
        source = "" if index is None else sources.get(index, "")
        state = model.get("state", {})
        if model.get("model_name") == "OutputModel":
            yield from _scan_outputs("widget_error", index, state.get("outputs") or (), source)
        elif model.get("model_name") == "HTMLModel" and ERROR_MARKER in str(state.get("value")):
            yield _panel_problem(index, str(state["value"]))
        elif found := {name: state[name] for name in _RECORDS if state.get(name)}:
            yield _panel_problem(index, str(found))


def _panel_problem(index: int | None, shown: str) -> NotebookProblem:
    return NotebookProblem("panel_error", index, "a panel shows an error", shown[:2000])
