"""Logs as people have them: wrapped, coloured, and with what containers put before each line."""

from __future__ import annotations

import html
import json
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from tests.interop.test_log_messages import LINES
from workbench.interop.exchange import explain_log
from workbench.interop.logs.find import find_messages
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.logs.text import lines_of

HEAD = "(EngineCore_DP0 pid=1937911) ERROR 10-11 10:42:14 [core.py:708] "
NOISE = HEAD.replace("ERROR", "INFO") + "Using cache directory: /root/.cache/vllm/rank_0_0/backbone"
TIME = "2026-06-12T11:02:50.020540539Z"
LOGS = Path(__file__).parents[1] / "data" / "logs"


def hard(width, *, lost=False):
    """Cut at a column; lost: a mail program or an editor took the spaces at the ends."""

    def wrap(line):
        pieces = [line[at : at + width] for at in range(0, len(line), width)]
        return [piece.rstrip() for piece in pieces] if lost else pieces

    return wrap


def soft(width, indent=""):
    return lambda line: textwrap.wrap(line, width, subsequent_indent=indent) or [line]


def split_at(size):
    """A container's log is cut into pieces, and the last is marked as such."""

    def cut(line):
        return [line[at : at + size] for at in range(0, len(line), size)]

    return cut


def containerd(line):
    pieces = split_at(50)(line)
    marks = ["P"] * (len(pieces) - 1) + ["F"]
    return [f"{TIME} stdout {mark} {piece}" for mark, piece in zip(marks, pieces, strict=True)]


def docker_json(line):
    pieces = split_at(70)(line)
    pieces[-1] += "\n"
    return [json.dumps({"log": one, "stream": "stderr", "time": TIME}) for one in pieces]


DISGUISES = {
    "plain": lambda line: [line],
    "80 columns": hard(80),
    "80 columns, spaces lost": hard(80, lost=True),
    "120 columns": hard(120),
    "120 columns, spaces lost": hard(120, lost=True),
    "132 columns": hard(132),
    "words at 80": soft(80),
    "words at 100, indented": soft(100, "    "),
    "padded to the window": lambda line: [piece.ljust(120) for piece in hard(120)(line)],
    "colours": lambda line: ["\x1b[36m" + line.replace("INFO", "\x1b[32mINFO\x1b[0m") + "\x1b[0m"],
    "compose": lambda line: [f"qwen3-next-1  | {line}"],
    "swarm": lambda line: [f"vllm_api.1.k2x9@node-3    | {line}"],
    "kubectl timestamps": lambda line: [f"{TIME} {line}"],
    "kubectl prefix": lambda line: [f"[pod/vllm-7f9-abc/vllm] {line}"],
    "containerd": containerd,
    "docker json": docker_json,
    "journald": lambda line: [f"Aug 18 14:15:02 llm python3[28147]: {line}"],
    "journald, no pid": lambda line: [f"авг 18 14:15:02 llm vllm: {line}"],
    "journald, iso": lambda line: [f"2026-08-18T14:15:02+0300 llm vllm[281]: {line}"],
    "source of a page": lambda line: [html.escape(line)],
    "json in the source of a page": lambda line: [html.escape(json.dumps({"line": line}))],
    "loki": lambda line: [json.dumps({"ts": TIME, "line": line})],
    "json logger": lambda line: [json.dumps({"levelname": "INFO", "message": line, "pid": 7})],
    "cloud logging": lambda line: [json.dumps({"jsonPayload": {"message": line}})],
    "quoted": lambda line: [f"> {piece}" for piece in soft(80)(line)],
    "in a box": lambda line: [f"▎ {piece}" for piece in soft(80)(line)],
    "ranks": lambda line: [f"[rank0]: {line}"],
    "progress before": lambda line: [f"\rLoading: 10%|█ | 1/10\rLoading: 100%|██| 10/10{line}"],
    "progress between": lambda line: [f"{line}\rCapturing:  3%|▎ | 1/35 [00:03<01:51]"],
}
"""Name -> what becomes of one line of a log."""


def values(text):
    return {
        found.message.name: found.values
        for found in find_messages(lines_of(text))
        if not found.is_cut
    }


@pytest.mark.sampled(20)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_every_message_is_read_in_every_disguise(disguise, end):
    change = DISGUISES[disguise]
    wrong = {}
    for name, line in LINES.items():
        if MESSAGES[name].is_command:  # a shell's line, which no log wraps
            continue
        plain = values("\n".join([NOISE, HEAD + line, NOISE]))
        lines = [*change(NOISE), *change(HEAD + line), *change(NOISE)]
        read = values(end.join(lines))
        if read.keys() != plain.keys() or any(
            str(read[name][key]).replace(" ", "") != str(value).replace(" ", "")
            for key, value in plain[name].items()
            if key not in {"arguments", "config", "command"}
        ):
            wrong[name] = (plain, read)
    assert not wrong


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("wrap", [hard, lambda width: hard(width, lost=True), soft])
def test_a_whole_start_is_the_same_scenario_however_it_is_wrapped(width, wrap):
    text = (LOGS / "whole_start_0_23.log").read_text(encoding="utf-8")
    plain = explain_log(text)
    bare = [line.text for line in lines_of(text)]
    report = explain_log("\n".join(piece for line in bare for piece in wrap(width)(line)))
    assert report.scenario == plain.scenario
    found = [(line.message, line.verdict, line.said, line.times) for line in report.lines]
    assert found == [(line.message, line.verdict, line.said, line.times) for line in plain.lines]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_the_text_that_is_shown_has_all_values_without_head_and_colour(disguise):
    line = LINES["padding_layers"]
    [found] = find_messages(lines_of("\n".join(DISGUISES[disguise](HEAD + line))))
    shown = found.text[found.text.index("Add ") :]
    assert line.startswith(shown)
    assert "at most 4.35%" in shown
    assert found.text == shown or disguise == "progress before"


def test_lines_are_counted_as_they_were_pasted():
    lines = [json.dumps({"log": f"{NOISE}\n", "stream": "stderr"})] * 3
    lines.append(json.dumps({"log": HEAD + LINES["tokens"] + "\n", "stream": "stderr"}))
    [found] = find_messages(lines_of("\n".join(lines)))
    assert found.line.number == 4
    numbers = [line.number for line in lines_of("\n".join(lines))]
    assert all(one < other for one, other in pairwise(numbers))


def test_a_message_that_is_whole_in_the_next_line_does_not_begin_a_line_before():
    text = f"{HEAD}Using Triton/FLA GDN prefill kernel.\n{HEAD}Using FLASHINFER attention backend."
    found = [(one.line.number, one.text) for one in find_messages(lines_of(text))]
    assert found == [
        (1, "Using Triton/FLA GDN prefill kernel."),
        (2, "Using FLASHINFER attention backend."),
    ]
